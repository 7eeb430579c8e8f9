"""Ordinary training beside the default on digits of which 40 % have a wrong label. Needs no other data."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from rich.console import Console
from sklearn.datasets import load_digits

import holdfast
from holdfast.cli.compare import table_of
from holdfast.functional import Constant
from holdfast.methods import DEFAULT, METHODS
from holdfast.progress import Bar


def main() -> None:
    torch.set_num_threads(1)
    digits = load_digits()
    rows = holdfast.Rows(
        torch.tensor(digits.images[:, None] / 16, dtype=torch.float32),
        torch.tensor(digits.target),
        tuple(map(str, digits.target_names)),
    )
    train, test = rows.split(0.3, seed=0)
    out = Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    summary = holdfast.compare(
        train,
        {name: METHODS[name] for name in ("standard", DEFAULT)},
        "mlp",
        test=test,
        noise="symmetric",
        rate=0.4,
        seeds=2,
        epochs=120,
        batch_size=32,
        schedule=Constant(),
        device="cpu",
        out=out,
        progress=Bar,
    )
    console = Console()
    console.print(f"{len(train)} digits, 40 % of their labels wrong; {len(test)} digits with right labels to test on")
    console.print(table_of(summary, percent=True))
    console.print(f"picture: {out / 'curves.png'}   table: {out / 'summary.csv'}   runs: {out}")


if __name__ == "__main__":
    main()
