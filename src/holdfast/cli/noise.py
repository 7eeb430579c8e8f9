"""``holdfast noise``: plant wrong labels on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.cli.config_file import OptionsFile, check_yaml
from holdfast.cli.names import KINDS, TARGET_KINDS
from holdfast.cli.settings import values_of


def noise(
    data: o.Data,
    out: Annotated[Path, typer.Option(help="The file to write, in the format of DATA or as .npz.", show_default=False)],
    kind: Annotated[
        str | None,
        typer.Option(
            help=f"For labels: {', '.join(KINDS)}; for numbers: {', '.join(TARGET_KINDS)}.", show_default=False
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="The share of labels to make wrong.")] = 0.4,
    options: o.NoiseSettings = [],  # noqa: B006
    label: o.Label = None,
    seed: o.Seed = 0,
    missing: o.Drop = o.Missing.error,
    image_size: o.ImageSize = None,
    skip_broken: o.SkipBroken = False,
    follow_links: d.FollowLinks = False,
    trust_pickle: o.TrustPickle = False,
    config: OptionsFile = None,
) -> None:
    """Make some labels or numbers wrong on purpose.

    The true ones are kept: in y_true of arrays, in LABEL_true of a table, in truth.csv of a folder.

    Example: [bold]holdfast noise people.csv --label income --kind pairflip --rate 0.3 --out noisy.csv[/bold]
    """
    from holdfast.cli.noise_file import check_out, write_noisy
    from holdfast.compare import corrupted
    from holdfast.data import read

    check_yaml(config)
    check_out(data, out)
    rows, held_out = read(
        data, label=label, missing_labels=missing.value, image_size=image_size, skip_broken=skip_broken,
        follow_links=follow_links, trust_pickle=trust_pickle,
    )  # fmt: skip
    planted = kind or ("uninoise" if rows.classes is None else "symmetric")
    noisy = corrupted(rows, planted, rate, seed, **values_of(options))
    write_noisy(data, out, rows, noisy, held_out)
    wrong = float((noisy.y != rows.y).reshape(len(rows), -1).any(1).double().mean())
    what = "targets" if rows.classes is None else "labels"
    o.console.print(f"{len(rows)} rows, {wrong:.1%} of the {what} wrong: {out}")
