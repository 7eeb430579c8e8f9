"""What a training costs by rows, dimensions and classes: fitted to small ones, checked by predicting larger ones.

    seconds = s0 + s1 * many + epochs * rows * (s2 + s3 * many + s4 * dimensions + s5 * classes)
    bytes   = b0 + b1 * many + rows * (b2 + b3 * many + b4 * dimensions + b5 * few) + b6 * asked

Of up to 32 classes all are kept of each row, of more the 32 that matter: ``many`` is one there, else zero, and ``few``
the number of classes where all are kept, else zero. ``asked`` are the numbers that networks are asked for at once: rows
times classes, and no more than four million. The training is the default one, second opinions included. Seconds are of
one thread; bytes are the most that the process had beyond what it began with, its data among them. The terms are fitted
without negative ones, by relative error. Each size runs in a process of its own; those that are predicted are none of
those that were fitted: one has more rows, the other three times the classes. The last line is one JSON object.

    python benchmarks/scale_model.py
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import lightning_fabric  # noqa: F401  (what a training imports late is no part of what it costs)
import numpy as np
import sklearn.ensemble  # noqa: F401
import torch
import torch._dynamo
from scipy.optimize import nnls

from holdfast import fit
from holdfast.evidence import ROOM
from holdfast.kept import KEPT

EPOCHS = 2


class Size(NamedTuple):
    """A data set."""

    rows: int
    dimensions: int
    classes: int


class Cost(NamedTuple):
    """What training on it took."""

    seconds: float
    memory: float
    disk: float


SMALL = [Size(*each) for each in product((10_000, 30_000), (10, 100), (2, 20, 100, 300))]
LARGER = {"more_rows": Size(80_000, 50, 20), "more_classes": Size(20_000, 50, 1_000)}
PICTURES = Size(100_000_000, 1280, 1000)
"""A hundred million photographs as features of EfficientNet-Lite0."""


def trained(size: Size, folder: str) -> Cost:
    """In a process of its own."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = torch.Generator().manual_seed(0)
    x = torch.randn(size.rows, size.dimensions, generator=source)
    y = torch.randint(size.classes, (size.rows,), generator=source)
    seconds = time.process_time()
    fit((x, y), None, "mlp", epochs=EPOCHS, batch_size=128, device="cpu", out=folder)
    seconds = time.process_time() - seconds
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return Cost(seconds, (after - before) * 1024.0, float(disk))


def measured(size: Size) -> Cost:
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(trained, (size, folder))


def terms(size: Size, name: str) -> np.ndarray:
    rows, many = float(size.rows) * (EPOCHS if name == "seconds" else 1), float(size.classes > KEPT)
    common = [1.0, many, rows, rows * many, rows * size.dimensions]
    if name == "seconds":
        return np.array([*common, rows * size.classes])
    asked = [min(size.rows * size.classes, ROOM)] if name == "memory" else []
    return np.array([*common, rows * size.classes * (1 - many), *asked])


def fitted(sizes: list[Size], costs: list[float], name: str) -> np.ndarray:
    """Terms of least relative error, none of them negative."""
    table = np.stack([terms(size, name) / cost for size, cost in zip(sizes, costs, strict=True)])
    scale = np.abs(table).max(0)
    found: np.ndarray = nnls(table / scale, np.ones(len(sizes)))[0] / scale
    return found


def main() -> None:
    torch.set_num_threads(1)
    costs = []
    for size in SMALL:
        costs.append(measured(size))
        print(size, costs[-1], flush=True)
    checks, figures = {name: measured(size) for name, size in LARGER.items()}, {}
    print(checks, flush=True)
    for name in Cost._fields:
        model = fitted(SMALL, [getattr(cost, name) for cost in costs], name)
        figures[name] = {"terms": [float(f"{value:.3g}") for value in model]}
        for check, cost in checks.items():
            predicted = float(terms(LARGER[check], name) @ model)
            found = {"predicted": predicted, "measured": getattr(cost, name), "ratio": predicted / getattr(cost, name)}
            figures[name][check] = {key: float(f"{value:.3g}") for key, value in found.items()}
        pictures = float(terms(PICTURES, name) @ model) / (EPOCHS if name == "seconds" else 1)
        figures[name]["pictures"] = float(f"{pictures:.3g}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
