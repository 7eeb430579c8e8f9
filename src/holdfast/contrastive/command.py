"""``holdfast pretrain``: learn features of data without its labels."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from holdfast.chosen import chosen
from holdfast.contrastive.evaluation import Probe
from holdfast.contrastive.pretrain import CONTRASTIVE, pretrain, sgd
from holdfast.data import read
from holdfast.errors import HoldfastError
from holdfast.nets import NETS
from holdfast.progress import Bar, Silent


def pretrain_command(
    data: Annotated[Path, typer.Argument(help="Table, .npz, image folder, MNIST or CIFAR folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("pretrained"),
    label: Annotated[str | None, typer.Option(help="Label column of a table: left out of training.")] = None,
    method: Annotated[str, typer.Option(help=f"How to learn: {', '.join(CONTRASTIVE)}.")] = "sane",
    options: Annotated[
        list[str], typer.Option("--set", help="A setting of the method, such as weight=0.5; may be repeated.")
    ] = [],  # noqa: B006
    net: Annotated[str, typer.Option(help=f"{', '.join(NETS)}, or module.path:factory.")] = "auto",
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Rows in a batch.")] = 256,
    lr: Annotated[float, typer.Option(help="Learning rate of SGD, falling along a cosine.")] = 0.03,
    watch: Annotated[
        int,
        typer.Option(help="Report how well nearest neighbours tell the labels every so many epochs; 0: never."),
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="32-true, bf16-mixed, 16-mixed, 64-true.")] = "32-true",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 leaves the choice to torch.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    image_size: Annotated[int | None, typer.Option(help="Side of images in pixels.")] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Load a pickle, which can run any code.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Learn features without looking at a label, to start a training on labels that may be wrong.

    Example: [bold]holdfast pretrain photos/ --out pre/[/bold], then
    [bold]holdfast fit photos/ --from pre/ --method crust[/bold]
    """
    if threads > 0:
        torch.set_num_threads(threads)
    if not lr > 0:
        raise HoldfastError(f"a learning rate must be positive, not {lr:g}")
    make = chosen("method of pre-training", method, CONTRASTIVE, options)
    rows, held_out = read(data, label=label, image_size=image_size, trust_pickle=trust_pickle)
    probe = None
    if watch:
        known, asked = (rows, held_out) if held_out is not None else rows.split(0.2, seed)
        probe = Probe(known, asked, every=watch)
    run = pretrain(
        rows, make(), net, epochs=epochs, batch_size=min(batch_size, len(rows)),
        optimizer=partial(sgd, rate=lr), watch=probe, seed=seed, device=device, precision=precision, out=out,
        resume=resume, progress=Silent() if quiet else Bar(method),
    )  # fmt: skip
    tell = Console().print
    if "knn" in run.history and run.history["knn"].notna().any():
        seen = run.history["knn"].dropna()
        tell(f"accuracy of nearest neighbours: {seen.iloc[-1]:.4f} after epoch {int(seen.index[-1]) + 1}")
    tell(f"{len(rows)} rows, {len(run.history)} epochs, {run.history['seconds'].sum():.1f} s: {out}")
    tell(f"go on with: holdfast fit {data} --from {out}", soft_wrap=True)
