"""``holdfast noise``: plant wrong labels on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from holdfast.cli import options as o
from holdfast.compare import corrupted
from holdfast.data import read
from holdfast.files import written_aside
from holdfast.noise import KINDS, TARGET_KINDS, realised_transition


def noise(
    data: o.Data,
    out: Annotated[Path, typer.Option(help="The .npz file to write.", show_default=False)],
    kind: Annotated[
        str | None,
        typer.Option(help=f"Of labels: {', '.join(KINDS)}; of targets: {', '.join(TARGET_KINDS)}.", show_default=False),
    ] = None,
    rate: Annotated[float, typer.Option(help="Share of labels to plant wrong ones in.")] = 0.4,
    label: o.Label = None,
    seed: o.Seed = 0,
    missing: o.Drop = o.Missing.error,
    image_size: o.ImageSize = None,
    skip_broken: o.SkipBroken = False,
    trust_pickle: o.TrustPickle = False,
) -> None:
    """Plant wrong labels or targets, the true ones kept beside them (y_true).

    Example: [bold]holdfast noise digits.npz --kind pairflip --rate 0.3 --out noisy.npz[/bold]
    """
    o.check_new_file(out, ".npz")
    rows, held_out = read(
        data, label=label, missing_labels=missing.value, image_size=image_size, skip_broken=skip_broken,
        trust_pickle=trust_pickle,
    )  # fmt: skip
    noisy = corrupted(rows, kind or ("uninoise" if rows.classes is None else "symmetric"), rate, seed)
    arrays = {"x_train": o.as_array(noisy.x), "y_train": noisy.y.numpy(), "y_true": rows.y.numpy()}
    if held_out is not None:
        arrays |= {"x_test": o.as_array(held_out.x), "y_test": held_out.y.numpy()}
    if rows.classes is not None:
        matrix = realised_transition(rows.y, noisy.y, len(rows.classes))
        arrays |= {"class_names": np.asarray(rows.classes), "transition": matrix.numpy()}
    with written_aside(out) as aside, open(aside, "wb") as file:
        np.savez_compressed(file, **arrays)
    wrong = float((noisy.y != rows.y).reshape(len(rows), -1).any(1).double().mean())
    what = "targets" if rows.classes is None else "labels"
    o.console.print(f"{len(rows)} rows, {wrong:.1%} of the {what} wrong: {out}")
