"""``holdfast pretrain``: learn features of data without its labels."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import names
from holdfast.cli import options as o


def pretrain(
    data: o.Data,
    out: Annotated[Path, typer.Option(help="The folder for the run.")] = Path("pretrained"),
    label: Annotated[str | None, typer.Option(help="The column with the labels, which is left out.")] = None,
    method: Annotated[str, typer.Option(help=f"How to learn: {', '.join(names.CONTRASTIVE)}.")] = "sane",
    options: o.Settings = [],  # noqa: B006
    net: o.Net = "auto",
    tune: o.Tune = False,
    features: o.Features = None,
    epochs: o.Epochs = 100,
    batch_size: Annotated[int, typer.Option(help="Rows per batch.")] = 256,
    lr: Annotated[float, typer.Option(help="Learning rate, with a cosine schedule.")] = 0.03,
    lars: Annotated[
        bool, typer.Option("--lars", help="LARS in place of SGD, for batches of thousands; --lr 0.3 for each 256 rows.")
    ] = False,
    watch: Annotated[
        int,
        typer.Option(help="Every how many epochs to report the k-NN accuracy on the labels; 0: never."),
    ] = 0,
    seed: o.Seed = 0,
    device: o.Device = "auto",
    devices: Annotated[
        int, typer.Option(help="How many devices train together, with one process each; on cpu, how many processes.")
    ] = 1,
    strategy: Annotated[str, typer.Option(help="How several devices share the work: auto or ddp.")] = "auto",
    precision: o.Precision = "32-true",
    threads: o.Threads = 0,
    resume: o.Resume = False,
    ignore: o.Ignore = [],  # noqa: B006
    image_size: o.ImageSize = None,
    trust_pickle: o.TrustPickle = False,
    quiet: o.Quiet = False,
) -> None:
    """Learn features without labels, as a start for training on labels that may be wrong.

    Example: [bold]holdfast pretrain photos/ --out pre/[/bold], then
    [bold]holdfast fit photos/ --from pre/ [/bold]
    """
    from holdfast.contrastive import CONTRASTIVE, LARS
    from holdfast.contrastive.evaluation import Probe
    from holdfast.contrastive.pretrain import pretrain as train
    from holdfast.contrastive.pretrain import sgd
    from holdfast.data import read
    from holdfast.registry import lookup

    o.set_threads(threads)
    o.check_rate(lr)
    make = lookup("method of pre-training", method, CONTRASTIVE, options)
    named = net
    net, encoder = o.net_and_encoder(net, plain=True, tune=tune)
    rows, held_out = read(
        data, label=label, image_size=image_size, trust_pickle=trust_pickle, encoder=encoder, tune=tune,
        features=features, ignore=ignore, progress=partial(o.encoding_bar, quiet),
    )  # fmt: skip
    o.say_encoder(rows)
    probe = None
    if watch:
        known, queries = (rows, held_out) if held_out is not None else rows.split(0.2, seed)
        probe = Probe(known, queries, every=watch)
    run = train(
        rows, make(), net, epochs=epochs, batch_size=min(batch_size, len(rows)),
        optimizer=partial(LARS, lr=lr) if lars else partial(sgd, rate=lr), watch=probe, seed=seed, device=device,
        devices=devices, strategy=strategy, precision=precision, out=out, resume=resume,
        progress=o.progress_bar(method, quiet),
    )  # fmt: skip
    if "knn" in run.history and run.history["knn"].notna().any():
        seen = run.history["knn"].dropna()
        o.console.print(f"k-NN accuracy: {seen.iloc[-1]:.4f} after epoch {int(seen.index[-1]) + 1}")
    o.console.print(f"{len(rows)} rows, {len(run.history)} epochs, {run.history['seconds'].sum():.1f} s: {out}")
    reading = f" --net {named}" if encoder not in (None, "auto") else ""
    reading += (" --tune" if tune else "") + (f" --features {features}" if features is not None else "")
    o.console.print(f"go on with: holdfast fit {data} --from {out}{reading}", soft_wrap=True)
