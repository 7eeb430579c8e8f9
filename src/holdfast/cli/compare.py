"""``holdfast compare``: several methods side by side."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import HEAVY_HEAD
from rich.table import Table

from holdfast.cli import names
from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.cli.config_file import OptionsFile, check_yaml
from holdfast.cli.settings import owned, values_of, with_those_of_the_file
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import pandas as pd


def compare(
    data: o.Data,
    out: Annotated[Path, typer.Option(help="The folder for the runs, the table and the picture.")] = Path("comparison"),
    label: o.Label = None,
    methods: Annotated[
        str, typer.Option(help="Names of methods, separated by commas (see holdfast methods).")
    ] = f"standard,{names.METHOD}",
    options: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="A setting of a method or of the noise: crust.fraction=0.3, noise.exact=true; may be repeated.",
            show_default=False,
            callback=with_those_of_the_file,
        ),
    ] = [],  # noqa: B006
    noise: Annotated[
        str | None,
        typer.Option(
            help=f"Wrong labels to plant: {', '.join(names.KINDS)}; targets: {', '.join(names.TARGET_KINDS)}. None: as "
            "given."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="The share of labels to make wrong.")] = 0.4,
    seeds: Annotated[int, typer.Option(help="How often to repeat each training.")] = 3,
    jobs: Annotated[
        int, typer.Option(help="How many runs at a time, each in a process with --threads threads (1 if that is 0).")
    ] = 1,
    on: o.On = "local",
    task: o.TaskName = None,
    test: o.Test = "0.2",
    net: o.Net = "auto",
    epochs: o.Epochs = 30,
    batch_size: o.BatchSize = None,
    optimizer: o.OptimizerOption = o.OptimizerName.adam,
    lr: o.LearningRate = None,
    momentum: o.Momentum = None,
    nesterov: o.Nesterov = None,
    weight_decay: o.WeightDecay = None,
    schedule: o.ScheduleName = "cosine",
    augment: o.Crop = None,
    device: o.Device = "auto",
    precision: o.Precision = "32-true",
    threads: o.Threads = 0,
    missing: o.Drop = o.Missing.error,
    image_size: o.ImageSize = None,
    skip_broken: o.SkipBroken = False,
    follow_links: d.FollowLinks = False,
    trust_pickle: o.TrustPickle = False,
    quiet: o.Quiet = False,
    config: OptionsFile = None,
) -> None:
    """Train with several methods in the same way and compare the results.

    Example: [bold]holdfast compare digits.npz --methods standard,crust --noise symmetric --rate 0.4[/bold]
    """
    from holdfast.compare import compare as compare_methods
    from holdfast.data.source import Source
    from holdfast.executors import executor_named, using

    o.set_threads(threads)
    if seeds < 1:
        raise HoldfastError(f"a comparison needs at least one seed, not {seeds}")
    check_yaml(config)
    chosen = [name.strip() for name in methods.split(",") if name.strip()]
    settings = owned(options, [*chosen, "noise"])
    makers = {name: o.method_named(name, settings.get(name, ())) for name in chosen}
    net, encoder = o.net_and_encoder(net, plain=augment is True)
    with using(executor_named(on, jobs, max(1, threads))):
        rows, held_out = Source.at(
            data, test, 0, label=label, task=task, missing_labels=missing.value, image_size=image_size,
            skip_broken=skip_broken, follow_links=follow_links or None, trust_pickle=trust_pickle, encoder=encoder,
        ).load(partial(o.encoding_bar, quiet))  # fmt: skip
    o.say_encoder(rows)
    if held_out is None:
        raise HoldfastError("a comparison needs test rows; pass --test with a file or a share")
    summary = compare_methods(
        rows, makers, net, test=held_out, noise=noise, rate=rate, noise_settings=values_of(settings.get("noise", ())),
        seeds=seeds, out=out, epochs=epochs, batch_size=batch_size,
        optimizer=o.optimizer_named(optimizer, lr, momentum=momentum, nesterov=nesterov, decay=weight_decay),
        schedule=o.schedule_named(schedule), augment=o.augmentation(augment, rows), device=device, precision=precision,
        jobs=jobs, threads=max(1, threads), on=on, progress=partial(o.bar_of, quiet),
    )  # fmt: skip
    for run, why in summary.attrs["failed"].items():
        o.console.print(f"{run} failed: {why}", style="red", highlight=False)
    o.console.print(table_of(summary, percent=rows.classes is not None, narrow=o.is_narrow()))
    o.console.print(f"table: {out / 'summary.csv'}   runs: {out / 'runs.csv'}   picture: {out / 'curves.png'}")


def table_of(summary: pd.DataFrame, *, percent: bool, narrow: bool = False) -> Table:
    """A comparison as people read it: mean ± sd, scores in per cent, that of the saved networks first; a narrow one has
    80 columns."""
    score = "test accuracy (%)" if percent else "test R2"
    titles = {"score": "saved", "true_score": "by true labels", "last10": "last 10", "best": "best epoch"}
    if narrow:
        titles["true_score"] = "true"
    there = summary.columns.get_level_values(0)
    shown = {column: title for column, title in titles.items() if column in there}
    if not narrow:
        shown[next(iter(shown))] = f"{score}, {next(iter(shown.values()))}"
    look = {"title": score, "box": None} if narrow else {"box": HEAVY_HEAD}
    table = Table(header_style="bold", **look)
    table.add_column("method", overflow="fold")
    for title in (*shown.values(), "purity", "trusted" if narrow else "labels trusted", "seconds"):
        table.add_column(title, justify="right", no_wrap=narrow)
    for name, line in summary.iterrows():
        cells = [_with_spread(line[column], 100 if percent else 1, 2 if percent else 3) for column in shown]
        cells.append(_with_spread(line["purity"], 1, 3))
        cells += [f"{line[('coverage', 'mean')]:.0%}", f"{line[('seconds', 'mean')]:.1f}"]
        table.add_row(str(name), *cells)
    return table


def _with_spread(value: Any, scale: float, digits: int) -> str:
    if math.isnan(value["mean"]):
        return "-"
    spread = "" if math.isnan(value["std"]) else f" ± {scale * value['std']:.{digits}f}"
    return f"{scale * value['mean']:.{digits}f}{spread}"
