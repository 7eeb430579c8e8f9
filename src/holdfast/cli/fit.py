"""``holdfast fit``: train a network on labels that may be wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import names
from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.cli.config_file import take_options
from holdfast.cli.settings import owned
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.config import RunConfig
    from holdfast.data.rows import Rows
    from holdfast.data.source import Source
    from holdfast.run import Run

BESIDE = {"config", "out", "resume", "device", "devices", "strategy", "threads", "quiet", "tensorboard", "net", "data",
          "labels", "track", "jobs", "on", "follow_links", "workers"}  # fmt: skip
"""Options that go together with --config."""
LONG = 20_000
"""Rows from which on it is said what training will take."""


def fit(
    ctx: typer.Context,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A table in any common format, .npz, or a folder of images, MNIST or CIFAR.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the run.")] = Path("run"),
    label: o.Label = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Corrected labels from holdfast export; reviewed ones are fully trusted.", show_default=False
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="How to train; holdfast methods lists the names.")] = names.METHOD,
    options: o.Settings = [],  # noqa: B006
    stop: Annotated[
        str | None,
        typer.Option(
            help=f"Stop before wrong labels are memorised: {', '.join(names.STOPS)}; for example with --set "
            "stop.patience=5."
        ),
    ] = None,
    pretrained: Annotated[
        Path | None, typer.Option("--from", help="Start from the network of this run (see holdfast pretrain).")
    ] = None,
    evidence: Annotated[
        bool,
        typer.Option(help="Ask networks that have not seen a label whether it is right. Finds more, but takes longer."),
    ] = True,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file with options by name, or a run.json to repeat that run; then leave out DATA.",
            show_default=False,
            is_eager=True,
            callback=take_options,
        ),
    ] = None,
    task: o.TaskName = None,
    test: o.Test = "0.2",
    net: o.Net = "auto",
    tune: o.Tune = False,
    features: o.Features = None,
    epochs: o.EpochsOrUsual = None,
    batch_size: o.BatchSize = None,
    optimizer: o.OptimizerOption = o.OptimizerName.adam,
    lr: o.LearningRate = None,
    momentum: o.Momentum = None,
    nesterov: o.Nesterov = None,
    weight_decay: o.WeightDecay = None,
    schedule: o.ScheduleOrUsual = None,
    augment: o.Crop = None,
    seed: o.Seed = 0,
    device: o.Device = "auto",
    devices: Annotated[
        int, typer.Option(help="How many devices train together, with one process each; on cpu, how many processes.")
    ] = 1,
    strategy: Annotated[str, typer.Option(help="How several devices share the work: auto or ddp.")] = "auto",
    precision: o.Precision = "32-true",
    threads: o.Threads = 0,
    jobs: Annotated[int, typer.Option(help="How many processes encode texts or photographs.")] = 1,
    on: o.On = "local",
    resume: o.Resume = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")] = False,
    track: Annotated[
        list[str],
        typer.Option(
            help="Where else to log each epoch: csv[:FILE], tensorboard[:FOLDER], mlflow[:EXPERIMENT], "
            "wandb[:PROJECT]; may be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    missing: o.Drop = o.Missing.error,
    truth: Annotated[str | None, typer.Option(help="A column of true labels, used only to measure.")] = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    table: o.TableName = None,
    ignore: o.Ignore = [],  # noqa: B006
    merge: o.Merge = [],  # noqa: B006
    keep_spelling: o.KeepSpelling = False,
    image_size: o.ImageSize = None,
    skip_broken: o.SkipBroken = False,
    follow_links: d.FollowLinks = False,
    workers: d.Workers = None,
    trust_pickle: o.TrustPickle = False,
    quiet: o.Quiet = False,
) -> None:
    """Train a network on labels that may be wrong.

    Example: [bold]holdfast fit people.csv --label income --out run/[/bold]
    """
    from holdfast.cluster import from_first, join
    from holdfast.data.source import Source, with_links
    from holdfast.evidence import caveats
    from holdfast.executors import executor_named, using
    from holdfast.fit import fit as train
    from holdfast.methods.sample_selection import WithNoiseRate
    from holdfast.plots import curves
    from holdfast.rebuild import optimizer_of, remake
    from holdfast.registry import lookup
    from holdfast.run_folder import RunFolder
    from holdfast.stop import STOPS
    from holdfast.usual import usual_for

    o.set_threads(threads)
    place = join()
    if place is not None:
        resume, quiet = resume or place.restarts > 0, quiet or not place.first
        o.console.quiet = not place.first
    bar = partial(o.encoding_bar, quiet)
    where = {
        "out": out, "resume": resume, "device": device, "devices": devices, "strategy": strategy,
        "tensorboard": tensorboard, "trackers": track,
    }  # fmt: skip
    if config is not None:
        _check_beside(ctx)
        made = _config_at(config)
        source = with_links(_source_of(made, data, net, labels), follow_links)
        with using(executor_named(on, jobs, max(1, threads))):
            rows, held_out = source.load(bar)
        how: dict[str, Any] = {
            "stop": remake(made.stop), "net": _net_of(made, net), "pretrained": made.pretrained, "epochs": made.epochs,
            "batch_size": made.batch_size, "optimizer": optimizer_of(made), "schedule": remake(made.schedule),
            "augment": remake(made.augment), "evidence": made.evidence, "seed": made.seed, "precision": made.precision,
        }  # fmt: skip
        trainer, title = remake(made.method), made.method["name"]
    else:
        if data is None:
            raise HoldfastError("name the data to train on, such as: holdfast fit people.csv --label income")
        settings = owned(options, ("stop",), method)
        if stop is None and "stop" in settings:
            raise HoldfastError(f"--set stop.{settings['stop'][0]}: there is no stop rule; pass --stop with one")
        make = o.method_named(method, settings[method])
        net, encoder = o.net_and_encoder(net, plain=pretrained is not None or augment is True, tune=tune)
        on_disk = from_first(lambda: _reading_before(out).get("on_disk")) if resume else None
        if resume and encoder == "auto":
            encoder = from_first(lambda: _encoder_before(out))
        source = Source.at(
            data, test, seed, labels, label=label, task=task, missing_labels=missing.value, truth=truth,
            image_size=image_size, skip_broken=skip_broken, follow_links=follow_links or None,
            trust_pickle=trust_pickle, encoder=encoder, features=features, tune=tune or None,
            delimiter=delimiter, encoding=encoding, table=table, on_disk=on_disk,
            **o.of_labels(ignore, merge, keep_spelling),
        )  # fmt: skip
        with using(executor_named(on, jobs, max(1, threads))):
            rows, held_out = source.load(bar)
        how = {
            "stop": None if stop is None else lookup("stop rule", stop, STOPS, settings.get("stop", ()))(), "net": net,
            "pretrained": pretrained, "epochs": epochs, "batch_size": batch_size,
            "optimizer": o.optimizer_named(
                optimizer, lr, usual_for(rows), momentum=momentum, nesterov=nesterov, decay=weight_decay
            ),
            "schedule": None if schedule is None else o.schedule_named(schedule),
            "augment": o.augmentation(augment, rows), "evidence": evidence, "seed": seed, "precision": precision,
        }  # fmt: skip
        trainer, title = make(), method
    o.say_read(rows)
    o.say_encoder(rows)
    where["workers"] = d.workers_for(rows, workers)
    _say_forecast(rows, how, device)
    run = train(rows, trainer, test=held_out, progress=o.progress_bar(title, quiet), **how, **where)  # type: ignore[arg-type]
    if place is not None and not place.first:
        return
    metric = "accuracy" if rows.classes is not None else "R2"
    curves({title: [run.history]}, out / "curves.png", title=f"{Path(source.path).name}, {title}", metric=metric)
    _summary(run, rows, out, metric)
    if isinstance(trainer, WithNoiseRate) and trainer.rate == "auto":
        o.console.print(f"the rate it trained with: {trainer.estimate.rate:.1%}", highlight=False)
    if not rows.unlabelled:
        o.say_wrong_labels(run.wrong_labels(), f"holdfast issues {out}")
    found = RunFolder(out).evidence()
    for line in () if found is None else caveats(found, rows.y):
        o.console.print(f"note: {line}", highlight=False, soft_wrap=True)
    if rows.classes is None:
        shown, which = (rows, "training") if held_out is None else (held_out, "test")
        _residual_summary(run, shown, out, which)


def _check_beside(ctx: typer.Context) -> None:
    """A configuration says how to train; options that would say otherwise are refused."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    other = [name for name in given if name not in BESIDE]
    if other:
        raise HoldfastError(f"--config already says how to train; leave out --{other[0].replace('_', '-')}")


def _config_at(path: Path) -> RunConfig:
    from holdfast.config import RunConfig

    file = path / "run.json" if path.is_dir() else path
    try:
        return RunConfig.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{file} cannot be read: {error}") from None
    except HoldfastError as error:
        raise HoldfastError(f"{file} {error}") from None


def _reading_before(out: Path) -> dict[str, Any]:
    """How a run that goes on has read its data; empty where there is no run."""
    from holdfast.run_folder import RunFolder

    if not (out / "run.json").exists():
        return {}
    reading: dict[str, Any] = RunFolder(out).config().source.get("reading", {})
    return reading


def _say_forecast(rows: Rows, how: Mapping[str, Any], device: str) -> None:
    """What a long training will take, before it begins."""
    import torch

    from holdfast.data.tune import tuned_in
    from holdfast.forecast import forecast
    from holdfast.networks import networks
    from holdfast.usual import usual_for

    if len(rows) < LONG or rows.unlabelled or tuned_in(rows.recipe) is not None:
        return
    usual = usual_for(rows)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.random.fork_rng(devices=[]):
        net = networks(how["net"], 1, rows, how["pretrained"])[1][0]
    found = forecast(
        rows, net, epochs=how["epochs"] or usual.epochs_of(len(rows)), evidence=how["evidence"], device=device,
        batch_size=how["batch_size"] or usual.batch_size(len(rows)),
    )  # fmt: skip
    if found.sentence:
        o.console.print(found.sentence, highlight=False, soft_wrap=True)


def _encoder_before(out: Path) -> str | None:
    """What a run that goes on has read its data with, whatever is installed by now; "auto" where there is no run."""
    from holdfast.encoders.named import runs_code

    if not (out / "run.json").exists():
        return "auto"
    encoder: str | None = _reading_before(out).get("encoder")
    if encoder is not None and runs_code(encoder):
        raise HoldfastError(
            f"the run in {out} has read its data by code ({encoder}); pass --net {encoder} if you trust it"
        )
    return encoder


def _source_of(config: RunConfig, data: Path | None, named: str, labels: Path | None) -> Source:
    from holdfast.data.source import Source
    from holdfast.encoders.named import runs_code

    if not config.source:
        raise HoldfastError("the run was given its rows in memory; --config needs a run of holdfast fit")
    source = {**config.source} if data is None else {**config.source, "path": str(data.absolute())}
    if labels is not None:
        source["labels"] = str(labels.absolute())
    if source["reading"].get("trust_pickle"):
        raise HoldfastError("the run read a pickle, which can run any code; train on it with --trust-pickle instead")
    encoder = source["reading"].get("encoder")
    if encoder is not None and runs_code(encoder) and named != encoder:
        raise HoldfastError(f"the run's encoder is code ({encoder}); pass --net {encoder} if you trust it")
    return Source(**source)


def _net_of(config: RunConfig, named: str) -> str:
    from holdfast.encoders.tuned import is_tuned

    if is_tuned(config.net):
        return "auto"  # the rows say so themselves, and whether its encoder is code was asked before
    if config.net is None:
        raise HoldfastError(f"the run trained a network of your own ({config.network}); start it from your own code")
    if ":" in config.net and named != config.net:
        raise HoldfastError(f"the run's network is code ({config.net}); pass --net {config.net} if you trust it")
    return config.net


def _summary(run: Run, rows: Rows, out: Path, metric: str) -> None:
    end = run.history.iloc[run.best_epoch]
    if run.stopped:
        o.console.print(f"stopped after epoch {len(run.history)}: {run.stopped}")
    if run.joined:
        o.console.print(run.joined, highlight=False)
    if "test" in run.history:
        beside = f"epoch {run.best_epoch + 1}; mean of the last ten {run.last:.4f}, best {run.best:.4f}"
        o.console.print(f"test {metric}: {run.scored} ({beside})")
    if end["coverage"] < 1:
        trusted = f"{end['coverage']:.1%} of the given labels trusted in epoch {run.best_epoch + 1}"
        right = f", {end['purity']:.1%} of those right" if "purity" in end else ""
        o.console.print(trusted + right)
    o.console.print(
        f"{len(rows)} rows trained on, {len(run.history)} epochs, {run.history['seconds'].sum():.1f} s: {out}"
    )


def _residual_summary(run: Run, rows: Rows, out: Path, which: str) -> None:
    """Mean absolute error in the units of the file, and the picture of what is missed."""
    from holdfast.data.scale import unscaled
    from holdfast.plots import residuals

    given = unscaled(rows.y, rows.recipe).numpy()
    predicted = run.predict(rows)
    error = abs(given - predicted).mean()
    residuals(predicted, given, out / "residuals.png", title=f"{which} rows, mean absolute error {error:.4g}")
    o.console.print(f"{which} MAE: {error:.4g}   picture: {out / 'residuals.png'}")
