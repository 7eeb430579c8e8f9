"""Data larger than memory: how soon training starts, what it holds in memory, and how much longer an epoch takes.

    python benchmarks/scale_data.py --quick
    python benchmarks/scale_data.py --folder /a/large/disk

A folder of 100,000 JPEGs of 32 x 32 pixels and a folder of Parquet files are made outside of the project. Each trains
in a process of its own, which is watched four times a second: ``mb`` is the most memory that it and its workers held
at one time which the system could not take back (RssAnon and RssShmem of /proc/PID/status: pages of mapped files are
not counted). ``start_s`` is the processor time, workers included, from importing holdfast to the first step;
``wall_s`` the same by the clock. ``epoch_ratio`` is the processor time of an epoch over that of the same rows read into
memory by a second process: both train by turns, a hundred batches each, so that whatever else the machine does slows
both alike. The ratio of the first epoch, which decodes images, stands beside it. With --quick an epoch trains on 10,000
of the images. The features of the Parquet folder are made once: ``once_s``.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from protocol import Results, arguments, close

IMAGES, SIDE, CLASSES = 100_000, 32, 10
QUICK = 10_000
"""Images of an epoch with --quick."""
COLUMNS, A_FILE = 250, 50_000
"""Columns of the Parquet folder, of random doubles that hardly pack, and rows in a file."""
A_ROW = 8 * COLUMNS
LIMIT_GB = 2.0
TURN = 100
"""Batches after which it is the other training's turn."""


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the data is made")
    parser.add_argument("--gb", type=float, help="size of the Parquet folder")
    parser.add_argument("--trial", nargs=6, metavar=("KIND", "DATA", "ON_DISK", "ROWS", "READ", "WRITE"),
                        help="one training; for this script")  # fmt: skip
    options = parser.parse_args()
    if options.trial:
        print(json.dumps(trial(*options.trial)))
        return
    gb = options.gb or (0.5 if options.quick else 5.0)
    results = Results(options.results / "scale_data.csv", options.fresh)
    shared = options.folder / "holdfast_scale_data"
    figures: dict[str, Any] = {}
    for kind, size in (("images", IMAGES / 1e6), ("parquet", gb)):
        data = shared / f"{kind}_{size:g}"
        rows = QUICK if options.quick and kind == "images" else 0
        asked = {"kind": kind, "size": size, "rows": rows}
        line = results.get(asked, partial(measured, kind, data, size, rows))
        print(json.dumps(line, default=str), flush=True)
        figures[kind] = {
            "start_s": line["start_s"], "wall_s": line["wall_s"], "mb": line["mb"],
            "epoch_ratio": round(float(line["epoch_s"] / line["memory_epoch_s"]), 3),
            "first_epoch_ratio": round(float(line["first_epoch_s"] / line["memory_epoch_s"]), 3),
        }  # fmt: skip
    figures["parquet"] |= {"gb": gb, "once_s": line["once_s"], "limit_mb": limit_mb(gb)}
    shutil.rmtree(shared, ignore_errors=True)
    close(figures)


def limit_mb(gb: float) -> int:
    """What the tables may take: in proportion where they are smaller."""
    return round(1024 * LIMIT_GB * min(1.0, gb / 5))


def measured(kind: str, data: Path, size: float, rows: int) -> dict[str, Any]:
    """Two trainings by turns, each in a process of its own: from disk, and from memory, which begins after the first
    turn of the other. What they took, and the memory that they held."""
    if not data.with_suffix(".done").exists():
        shutil.rmtree(data, ignore_errors=True)
        {"images": make_images, "parquet": make_parquet}[kind](data, size)
        data.with_suffix(".done").touch()
    (own, to_own), (other, to_other) = os.pipe(), os.pipe()
    os.write(to_own, b"t")
    trainings = [
        started(kind, data, size, rows, "1", own, to_other),
        started(kind, data, size, rows, "0", other, to_own),
    ]
    for end in (own, to_own, other, to_other):  # who has ended must not hold the other's open
        os.close(end)
    peaks = [Peak(process.pid) for process in trainings]
    found = []
    for process, peak in zip(trainings, peaks, strict=True):
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"the training on {kind} has failed")
        found.append({**json.loads(out.splitlines()[-1]), "mb": peak.end()})
    return found[0] | {f"memory_{key}": found[1][key] for key in ("start_s", "epoch_s", "mb")}


def started(
    kind: str, data: Path, size: float, rows: int, on_disk: str, read: int, write: int
) -> subprocess.Popen[str]:
    """A training whose turn it is when a byte can be read, and which writes one when its turn is over."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOLDFAST_CACHE": str(data.with_suffix(".cache"))}
    if kind == "parquet":
        # In memory, what Holdfast expects to need at most, doubles and all, may be more than half of the machine.
        allowed = limit_mb(size) if on_disk == "1" else psutil.virtual_memory().available * 9 // 10 // 2**20
        environment["HOLDFAST_MAX_MEMORY"] = f"{allowed}M"
    command = [sys.executable, __file__, "--trial", kind, str(data), on_disk, str(rows), str(read), str(write)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, pass_fds=(read, write))


class Peak:
    """The most memory that a process and those it has started held at one time."""

    def __init__(self, pid: int) -> None:
        self._most, self._over = 0, threading.Event()
        self._watch = threading.Thread(target=self._look, args=(psutil.Process(pid),))
        self._watch.start()

    def _look(self, process: psutil.Process) -> None:
        while not self._over.wait(0.25):
            try:
                every = [process, *process.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            self._most = max(self._most, sum(held_kb(one.pid) for one in every))

    def end(self) -> int:
        self._over.set()
        self._watch.join()
        return round(self._most / 1024)


def held_kb(pid: int) -> int:
    """Kilobytes of a process that lie in no file."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))


def trial(kind: str, data: str, on_disk: str, a_plan: str, read: str, write: str) -> dict[str, Any]:
    """Read, then train for three epochs, where it is this process's turn; times of both."""
    os.read(int(read), 1)
    import torch

    from holdfast import Method, fit
    from holdfast.data.source import Source
    from holdfast.types import Plan

    torch.set_num_threads(1)
    lying = on_disk == "1"
    once = 0.0
    if kind == "parquet" and lying:
        began = spent()
        Source.at(Path(data), "0", 0, label="label").load()
        once = spent() - began
    began, wall = spent(), time.perf_counter()
    options = {"label": "label"} if kind == "parquet" else {}
    rows, test = Source.at(Path(data), "0.1", 0, on_disk=None if lying else False, **options).load()
    if lying and isinstance(rows.x, torch.Tensor):
        raise SystemExit(f"{data} was read into memory")
    first: list[float] = []
    steps = itertools.count(1)

    class First(Method):
        def plan(self, nets: Any, feed: Any) -> Plan | None:
            return Plan(torch.arange(0, len(feed), len(feed) // int(a_plan))) if int(a_plan) else None

        def loss(self, nets: Any, batch: Any) -> Any:
            step = super().loss(nets, batch)
            if not first:
                first.extend((spent() - began, time.perf_counter() - wall))
            if next(steps) % TURN == 0:
                with suppress(BrokenPipeError):  # the other has ended
                    os.write(int(write), b"t")
                os.read(int(read), 1)
            return step

    workers = 1 if kind == "images" and lying else 0
    ends: list[float] = []
    net = "cnn4" if kind == "images" else "mlp"
    fit(rows, First(), net, epochs=3, batch_size=128, workers=workers, watch=lambda *_: ends.append(spent()) or {})
    return {
        "start_s": round(first[0], 2), "wall_s": round(first[1], 2), "once_s": round(once, 1),
        "first_epoch_s": round(ends[0] - began - first[0], 1), "epoch_s": round((ends[2] - ends[0]) / 2, 1),
        "epoch_rows": len(rows) if not int(a_plan) else int(a_plan), "test_rows": 0 if test is None else len(test),
    }  # fmt: skip


def spent() -> float:
    """Processor time of this process and of workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def make_images(folder: Path, _: float) -> None:
    """JPEGs of noise around a colour, in a folder for each class."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for label in range(CLASSES):
        (folder / f"class_{label}").mkdir(parents=True)
    colours = draw.integers(60, 200, (CLASSES, 1, 1, 3))[:, 0]
    for k in range(IMAGES):
        label = k % CLASSES
        pixels = np.clip(colours[label] + draw.integers(-60, 60, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"class_{label}" / f"{k:06}.jpg", quality=75)


def make_parquet(folder: Path, gb: float) -> None:
    """Files of random numbers, of which the first ten tell the label."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    weights = np.random.default_rng(1).normal(size=10)
    for number in range(max(1, round(gb * 1e9 / A_ROW / A_FILE))):
        draw = np.random.default_rng([2, number])
        x = draw.normal(size=(A_FILE, COLUMNS))
        label = np.where(x[:, :10] @ weights + draw.normal(size=A_FILE) > 0, "yes", "no")
        columns = {f"c{k:03}": x[:, k] for k in range(COLUMNS)} | {"label": label}
        pq.write_table(pa.table(columns), folder / f"part-{number:04}.parquet", row_group_size=10_000)


if __name__ == "__main__":
    main()
