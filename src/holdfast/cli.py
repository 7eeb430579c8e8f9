"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from holdfast import __version__
from holdfast.checkpoint import written_aside
from holdfast.chosen import chosen
from holdfast.compare import compare as compare_methods
from holdfast.compare import corrupted
from holdfast.contrastive.command import pretrain_command
from holdfast.data import Rows, read, read_inputs
from holdfast.data.scale import unscaled
from holdfast.data.source import Source
from holdfast.errors import HoldfastError
from holdfast.feed import Augment, PadCropFlip
from holdfast.fit import fit as fit_rows
from holdfast.functional.schedules import Constant, Cosine, HoldThenLinear, OneCycle, Schedule, Steps
from holdfast.issues.command import issues, report
from holdfast.method import Method, Stack
from holdfast.methods import METHODS
from holdfast.methods.rated import Rated
from holdfast.nets import NETS
from holdfast.noise import KINDS, TARGET_KINDS, realised_transition
from holdfast.plots import curves, residuals
from holdfast.progress import Bar, Progress, Silent
from holdfast.review.command import export, review
from holdfast.run import Run
from holdfast.select.command import select
from holdfast.stop import STOPS
from holdfast.theory.command import diagnose

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train neural networks on data whose labels are partly wrong.",
    epilog="DATA is a table (CSV, TSV, Parquet; plain or gzipped), an .npz file (x_train, y_train), a folder of "
    "images (one subfolder a class), or a folder with the published files of MNIST, CIFAR or CelebA.",
)
out_console = Console()

SCHEDULES: dict[str, Schedule] = {
    "cosine": Cosine(),
    "constant": Constant(),
    "onecycle": OneCycle(),
    "steps": Steps(),
    "hold": HoldThenLinear(),
}


class OptimizerName(StrEnum):
    adam = "adam"
    sgd = "sgd"


class Missing(StrEnum):
    error = "error"
    drop = "drop"


Data = Annotated[Path, typer.Argument(help="Table, .npz, image folder, MNIST or CIFAR folder.", show_default=False)]
Label = Annotated[str | None, typer.Option(help="Label column of a table.", show_default=False)]
TaskName = Annotated[str | None, typer.Option(help="classification or regression; found from the labels if not given.")]
Test = Annotated[
    str,
    typer.Option(help="Held-out file, or share of the rows to hold out (0: none); unused where DATA ships a test set."),
]
Net = Annotated[str, typer.Option(help=f"{', '.join(NETS)}, or module.path:factory.")]
Epochs = Annotated[int, typer.Option(help="Passes over the data.")]
BatchSize = Annotated[int, typer.Option(help="Rows in a batch.")]
OptimizerOption = Annotated[OptimizerName, typer.Option(help="Which optimizer.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate; 0.001 for adam and 0.1 for sgd if not given.")]
ScheduleName = Annotated[str, typer.Option(help=f"Learning rate by share of training: {', '.join(SCHEDULES)}.")]
Crop = Annotated[
    bool | None,
    typer.Option("--augment/--no-augment", help="Random crops and flips; by default for colour images only."),
]
Seed = Annotated[int, typer.Option(help="Of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")]
Devices = Annotated[int, typer.Option(help="Devices that train together, a process each; cpu counts processes.")]
Strategy = Annotated[str, typer.Option(help="How several devices share the work: auto or ddp.")]
Precision = Annotated[str, typer.Option(help="32-true, bf16-mixed, 16-mixed, 64-true.")]
Threads = Annotated[int, typer.Option(help="Processor threads; 0 leaves the choice to torch.")]
Drop = Annotated[Missing, typer.Option("--missing", help="Rows without a label: error, or drop them.")]
ImageSize = Annotated[
    int | None, typer.Option(help="Side of images in pixels; the usual one, at most 64, if not given.")
]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave out images that do not decode.")]
TrustPickle = Annotated[bool, typer.Option("--trust-pickle", help="Load a pickle, which can run any code.")]
Truth = Annotated[str | None, typer.Option(help="Column of true labels, only to measure with.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Options = Annotated[
    list[str],
    typer.Option("--set", help="A setting of the method, such as fraction=0.5; may be repeated.", show_default=False),
]


def _version(show: bool) -> None:
    if show:
        out_console.print(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None: ...


@app.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("run"),
    label: Label = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Corrected labels from holdfast export; those reviewed are fully trusted.", show_default=False
        ),
    ] = None,
    method: Annotated[str, typer.Option(help=f"How to train: {', '.join(METHODS)}.")] = "crust",
    options: Options = [],  # noqa: B006
    stop: Annotated[
        str | None, typer.Option(help=f"When to stop before wrong labels are learnt: {', '.join(STOPS)}.")
    ] = None,
    pretrained: Annotated[
        Path | None, typer.Option("--from", help="Start from the network of this run (holdfast pretrain).")
    ] = None,
    task: TaskName = None,
    test: Test = "0.2",
    net: Net = "auto",
    epochs: Epochs = 30,
    batch_size: BatchSize = 128,
    optimizer: OptimizerOption = OptimizerName.adam,
    lr: Rate = None,
    schedule: ScheduleName = "cosine",
    augment: Crop = None,
    seed: Seed = 0,
    device: Device = "auto",
    devices: Devices = 1,
    strategy: Strategy = "auto",
    precision: Precision = "32-true",
    threads: Threads = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard logs too.")] = False,
    missing: Drop = Missing.error,
    truth: Truth = None,
    image_size: ImageSize = None,
    skip_broken: SkipBroken = False,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on labels that may be wrong.

    Example: [bold]holdfast fit people.csv --label income --out run/[/bold]
    """
    _set_threads(threads)
    rows, held_out = Source.at(
        data, test, seed, labels, label=label, task=task, missing_labels=missing.value, truth=truth,
        image_size=image_size, skip_broken=skip_broken, trust_pickle=trust_pickle,
    ).load()  # fmt: skip
    made = _method(method, options)()
    whole = made if stop is None else Stack(made, _stop(stop))
    run = fit_rows(
        rows, whole, net, pretrained=pretrained, test=held_out, epochs=epochs, batch_size=batch_size,
        optimizer=_optimizer(optimizer, lr), schedule=_schedule(schedule), augment=_augment(augment, rows),
        seed=seed, device=device, devices=devices, strategy=strategy, precision=precision, out=out, resume=resume,
        tensorboard=tensorboard, progress=_bar(method, quiet),
    )  # fmt: skip
    metric = "accuracy" if rows.classes is not None else "R2"
    curves({method: [run.history]}, out / "curves.png", title=f"{data.name}, {method}", metric=metric)
    _tell(run, rows, out, metric)
    if isinstance(made, Rated) and made.rate == "auto":
        rate, low, high = made.estimate
        out_console.print(f"share of wrong labels, estimated: {rate:.1%} (between {low:.1%} and {high:.1%})")
    if rows.classes is None:
        _tell_residuals(run, rows if held_out is None else held_out, out, "training" if held_out is None else "test")


@app.command()
def compare(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the runs, the table and the picture.")] = Path("comparison"),
    label: Label = None,
    methods: Annotated[
        str, typer.Option(help=f"Names with commas between them, of {', '.join(METHODS)}.")
    ] = "standard,crust",
    noise: Annotated[
        str | None,
        typer.Option(
            help=f"Wrong labels to plant: {', '.join(KINDS)}; targets: {', '.join(TARGET_KINDS)}. None: as given."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="Share of labels to plant wrong ones in.")] = 0.4,
    seeds: Annotated[int, typer.Option(help="Repetitions.")] = 3,
    jobs: Annotated[int, typer.Option(help="Runs at a time, a process each with --threads threads (1 if 0).")] = 1,
    task: TaskName = None,
    test: Test = "0.2",
    net: Net = "auto",
    epochs: Epochs = 30,
    batch_size: BatchSize = 128,
    optimizer: OptimizerOption = OptimizerName.adam,
    lr: Rate = None,
    schedule: ScheduleName = "cosine",
    augment: Crop = None,
    device: Device = "auto",
    precision: Precision = "32-true",
    threads: Threads = 0,
    missing: Drop = Missing.error,
    image_size: ImageSize = None,
    skip_broken: SkipBroken = False,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
) -> None:
    """Train several methods alike and put them side by side.

    Example: [bold]holdfast compare digits.npz --methods standard,crust --noise symmetric --rate 0.4[/bold]
    """
    _set_threads(threads)
    if seeds < 1:
        raise HoldfastError(f"a comparison needs at least one seed, not {seeds}")
    names = [name.strip() for name in methods.split(",") if name.strip()]
    rows, held_out = Source.at(
        data, test, 0, label=label, task=task, missing_labels=missing.value, image_size=image_size,
        skip_broken=skip_broken, trust_pickle=trust_pickle,
    ).load()  # fmt: skip
    if held_out is None:
        raise HoldfastError("a comparison needs test rows; pass --test with a file or a share")
    summary = compare_methods(
        rows, {name: _method(name, []) for name in names}, net, test=held_out, noise=noise, rate=rate, seeds=seeds,
        out=out, epochs=epochs, batch_size=batch_size, optimizer=_optimizer(optimizer, lr),
        schedule=_schedule(schedule), augment=_augment(augment, rows), device=device, precision=precision,
        jobs=jobs, threads=max(1, threads), progress=lambda title, unit: _bar(title, quiet, unit),
    )  # fmt: skip
    for run, why in summary.attrs["failed"].items():
        out_console.print(f"[red]{run} failed:[/red] {escape(why)}")
    out_console.print(table_of(summary, percent=rows.classes is not None))
    out_console.print(f"table: {out / 'summary.csv'}   runs: {out / 'runs.csv'}   picture: {out / 'curves.png'}")


@app.command()
def noise(
    data: Data,
    out: Annotated[Path, typer.Option(help="The .npz file to write.", show_default=False)],
    kind: Annotated[
        str | None,
        typer.Option(help=f"Of labels: {', '.join(KINDS)}; of targets: {', '.join(TARGET_KINDS)}.", show_default=False),
    ] = None,
    rate: Annotated[float, typer.Option(help="Share of labels to plant wrong ones in.")] = 0.4,
    label: Label = None,
    seed: Seed = 0,
    missing: Drop = Missing.error,
    image_size: ImageSize = None,
    skip_broken: SkipBroken = False,
    trust_pickle: TrustPickle = False,
) -> None:
    """Plant wrong labels or targets, the true ones kept beside them (y_true)."""
    if out.suffix != ".npz":
        raise HoldfastError(f"{out} must end in .npz")
    if out.exists():
        raise HoldfastError(f"{out} exists; choose another name")
    rows, held_out = read(
        data, label=label, missing_labels=missing.value, image_size=image_size, skip_broken=skip_broken,
        trust_pickle=trust_pickle,
    )  # fmt: skip
    noisy = corrupted(rows, kind or ("uninoise" if rows.classes is None else "symmetric"), rate, seed)
    arrays = {"x_train": _array(noisy.x), "y_train": noisy.y.numpy(), "y_true": rows.y.numpy()}
    if held_out is not None:
        arrays |= {"x_test": _array(held_out.x), "y_test": held_out.y.numpy()}
    if rows.classes is not None:
        matrix = realised_transition(rows.y, noisy.y, len(rows.classes))
        arrays |= {"class_names": np.asarray(rows.classes), "transition": matrix.numpy()}
    with written_aside(out) as aside, open(aside, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    wrong = float((noisy.y != rows.y).reshape(len(rows), -1).any(1).double().mean())
    what = "targets" if rows.classes is None else "labels"
    out_console.print(f"{len(rows)} rows, {wrong:.1%} of the {what} wrong: {out}")


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run.", show_default=False)],
    data: Data,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if not given.")] = None,
) -> None:
    """Predict rows with a trained run; the label column may be missing."""
    trained = Run.load(run)
    x, names = read_inputs(data, trained.asked["recipe"])
    found, trained_on = tuple(x.shape[1:]), tuple(trained.asked["shape"])
    if found != trained_on:
        raise HoldfastError(f"{data} has inputs of shape {found}, but the run was trained on {trained_on}")
    table = pd.DataFrame({"row": range(len(x)), **({} if names is None else {"name": names})})
    if trained.classes is None:
        values = trained.predict(x)
        for k in range(values.shape[1]):
            table["prediction" if values.shape[1] == 1 else f"prediction_{k}"] = values[:, k]
    else:
        probability, number = trained.probabilities(x).max(1)
        table["prediction"] = [trained.classes[k] for k in number.tolist()]
        table["probability"] = probability.numpy().round(6)
    if out is None:
        table.to_csv(sys.stdout, index=False)
    else:
        with written_aside(out) as aside:
            table.to_csv(aside, index=False)
        out_console.print(f"{len(table)} predictions: {out}")


for command in (select, issues, report, review, export, diagnose):
    app.command()(command)
app.command("pretrain")(pretrain_command)


def table_of(summary: pd.DataFrame, *, percent: bool) -> Table:
    """A comparison as people read it: mean ± sd, scores in per cent."""
    table = Table(header_style="bold")
    score = "test accuracy (%)" if percent else "test R2"
    table.add_column("method")
    for title in (f"{score}, last 10", "best epoch", "purity", "labels trusted", "seconds"):
        table.add_column(title, justify="right")
    scale = 100 if percent else 1
    for name, line in summary.iterrows():
        cells = [
            _pm(line[column], scale if k < 2 else 1, 2 if k < 2 and percent else 3)
            for k, column in enumerate(("last10", "best", "purity"))
        ]
        cells += [f"{line[('coverage', 'mean')]:.0%}", f"{line[('seconds', 'mean')]:.1f}"]
        table.add_row(str(name), *cells)
    return table


def _pm(value: Any, scale: float, digits: int) -> str:
    if np.isnan(value["mean"]):
        return "-"
    spread = "" if np.isnan(value["std"]) else f" ± {scale * value['std']:.{digits}f}"
    return f"{scale * value['mean']:.{digits}f}{spread}"


def _method(name: str, options: Iterable[str]) -> Callable[[], Method]:
    return chosen("method", name, METHODS, options)


def _stop(name: str) -> Method:
    if name not in STOPS:
        raise HoldfastError(f"no stop rule is called {name!r}; there are {', '.join(STOPS)}")
    return STOPS[name]()


def _optimizer(name: OptimizerName, rate: float | None) -> Callable[[Iterable[nn.Parameter]], Optimizer]:
    if rate is not None and not rate > 0:
        raise HoldfastError(f"a learning rate must be positive, not {rate:g}")
    if name is OptimizerName.adam:
        return partial(Adam, lr=rate or 1e-3, fused=True)
    return partial(SGD, lr=rate or 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)


def _schedule(name: str) -> Schedule:
    if name not in SCHEDULES:
        raise HoldfastError(f"no schedule is called {name!r}; there are {', '.join(SCHEDULES)}")
    return SCHEDULES[name]


def _augment(wanted: bool | None, rows: Rows) -> Augment | None:
    image = len(rows.shape) == 3
    if wanted and not image:
        raise HoldfastError(f"--augment crops images, and these inputs have the shape {rows.shape}")
    colour = image and rows.shape[0] == 3
    return PadCropFlip() if wanted or (wanted is None and colour) else None


def _bar(title: str, quiet: bool, unit: str = "epochs") -> Progress:
    return Silent() if quiet else Bar(title, unit=unit)


def _array(x: Any) -> np.ndarray[Any, Any]:
    if not isinstance(x, Tensor):
        raise HoldfastError("these rows do not fit in memory as one array")
    array: np.ndarray[Any, Any] = x.numpy()
    return array


def _set_threads(threads: int) -> None:
    if threads > 0:
        torch.set_num_threads(threads)


def _tell(run: Run, rows: Rows, out: Path, metric: str) -> None:
    end = run.history.iloc[run.kept]
    if run.stopped:
        out_console.print(f"stopped after epoch {len(run.history)}: {run.stopped}")
    if "kept" in run.history and "test" in run.history:
        out_console.print(f"test {metric}: {run.score:.4f} (epoch {run.kept + 1}), {run.best:.4f} (best epoch)")
    elif "test" in run.history:
        out_console.print(f"test {metric}: {run.last:.4f} (mean of the last ten epochs), {run.best:.4f} (best epoch)")
    if end["coverage"] < 1:
        kept = f"{end['coverage']:.1%} of the given labels trusted in epoch {run.kept + 1}"
        sure = f", {end['purity']:.1%} of those right" if "purity" in end else ""
        out_console.print(kept + sure)
    out_console.print(f"{len(rows)} rows, {len(run.history)} epochs, {run.history['seconds'].sum():.1f} s: {out}")


def _tell_residuals(run: Run, rows: Rows, out: Path, which: str) -> None:
    """Mean absolute error in the units of the file, and the picture of what is missed."""
    given, predicted = unscaled(rows.y, rows.recipe).numpy(), run.predict(_array(rows.x))
    error = np.abs(given - predicted).mean()
    residuals(predicted, given, out / "residuals.png", title=f"{which} rows, mean absolute error {error:.4g}")
    out_console.print(f"{which} MAE: {error:.4g}   picture: {out / 'residuals.png'}")


def main() -> None:
    """Run the command line; a user's mistake is one sentence, not a traceback."""
    try:
        app()
    except HoldfastError as error:
        Console(stderr=True).print(f"[bold red]holdfast:[/bold red] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped; --resume goes on from the last epoch")
        sys.exit(130)
