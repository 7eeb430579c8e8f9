"""Facility location beside its peers: time, memory, loss and growth, on gradient proxies of a real network.

Half of n points is chosen, on one thread, by Holdfast, apricot, submodlib, FasterPAM (for the k-medoids loss) and a
literal lazy greedy with a heap over a distance matrix; distances are part of the time. The points are loss gradients
of a 784-128-10 network after two epochs on Fashion-MNIST with 40 % wrong labels, at the logits (10 dimensions) and at
the penultimate features (128). Each measurement has a process of its own; peers that are not installed are left out
and named. The last line is one JSON object.

    python benchmarks/selection.py --data FOLDER             n = 1,000 to 50,000, all peers up to 20,000
    python benchmarks/selection.py --data FOLDER --quick     without the peers that take minutes
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import protocol
import torch

from holdfast import Method, fit
from holdfast.compare import corrupted
from holdfast.feed import Feed
from holdfast.functional import output_layer
from holdfast.nets import MLP, ResNet
from holdfast.select import facility_location, k_medoids

Array = np.ndarray[Any, Any]
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
EXACT = ("apricot", "submodlib", "heap")
LARGEST = {"apricot": 20_000, "submodlib": 20_000, "heap": 20_000, "fasterpam": 20_000}
QUICK = {"apricot": 20_000, "submodlib": 5_000, "heap": 20_000, "fasterpam": 5_000}


def distances(points: Array) -> Array:
    """All pairs in float64, as each peer that takes a matrix needs them."""
    from sklearn.metrics import pairwise_distances

    return np.asarray(pairwise_distances(points.astype(np.float64)))


def by_heap(points: Array, k: int) -> Array:
    """Lazy greedy as it is usually written: a heap of gains over a matrix of distances."""
    d = distances(points)
    best = np.full(len(d), d.max())
    heap = [(-float(np.maximum(best - row, 0).sum()), j, 0) for j, row in enumerate(d)]
    heapq.heapify(heap)
    chosen: list[int] = []
    while len(chosen) < k:
        _, j, seen = heapq.heappop(heap)
        if seen == len(chosen):
            chosen.append(j)
            best = np.minimum(best, d[j])
        else:
            heapq.heappush(heap, (-float(np.maximum(best - d[j], 0).sum()), j, len(chosen)))
    return np.array(chosen)


def by_apricot(points: Array, k: int) -> Array:
    from apricot import FacilityLocationSelection

    d = distances(points)
    chooser = FacilityLocationSelection(k, metric="precomputed", optimizer="lazy")
    return np.asarray(chooser.fit(d.max() - d).ranking)


def by_submodlib(points: Array, k: int) -> Array:
    from submodlib import FacilityLocationFunction

    d = distances(points)
    function = FacilityLocationFunction(
        n=len(d), mode="dense", sijs=(d.max() - d).astype(np.float32), separate_rep=False
    )
    picks = function.maximize(budget=k, optimizer="LazyGreedy", stopIfZeroGain=False, stopIfNegativeGain=False)
    return np.array([pick for pick, _ in picks])


def by_fasterpam(points: Array, k: int) -> Array:
    import kmedoids

    return np.asarray(kmedoids.fasterpam(distances(points), k, random_state=0, n_cpu=1).medoids)


ENGINES: dict[str, Callable[[Array, int], Array]] = {
    "holdfast": lambda points, k: np.asarray(facility_location(points, k, threads=1).index),
    "holdfast_swaps": lambda points, k: np.asarray(k_medoids(points, k).index),
    "heap": by_heap,
    "apricot": by_apricot,
    "submodlib": by_submodlib,
    "fasterpam": by_fasterpam,
}


def loss_of(points: Array, chosen: Array) -> float:
    """Summed distance to the nearest chosen point, recomputed in float64."""
    exact = torch.from_numpy(points).double()
    near = [torch.cdist(part, exact[chosen]).amin(1) for part in exact.split(256)]
    return float(torch.cat(near).sum())


def resident(name: str) -> int:
    """Bytes of this process: VmRSS now, or VmHWM at its height."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def measure(engine: str, points: Array, k: int) -> dict[str, float]:
    """CPU and wall seconds, peak megabytes beyond the points, and the loss; compiled before."""
    torch.set_num_threads(1)
    select = ENGINES[engine]
    select(points[:800], 40)
    times = []
    for _ in range(3 if engine.startswith("holdfast") and len(points) <= 20_000 else 1):
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # forgets the height of the warm-up
        cpu, wall = time.process_time(), time.perf_counter()
        chosen = select(points, k)
        times.append((time.process_time() - cpu, time.perf_counter() - wall, resident("VmHWM") - before))
    cpu, wall = (statistics.median(t[i] for t in times) for i in (0, 1))
    return {
        "cpu": round(cpu, 4),
        "wall": round(wall, 4),
        "mb": round(max(t[2] for t in times) / 1e6, 1),
        "loss": round(loss_of(points, chosen), 5),
    }


def shortfall(points: Array, chosen: Array) -> float:
    """Replay in float64: by how much of the best gain a pick ever falls short of it."""
    exact = torch.from_numpy(points).double()
    d = torch.cdist(exact, exact, compute_mode="donot_use_mm_for_euclid_dist")
    best, worst = d.max().expand(len(d)).clone(), 0.0
    for step, pick in enumerate(chosen.tolist()):
        if step < 50 or step % 50 == 0:
            gain = (best - d).clamp_min_(0).sum(1)
            worst = max(worst, float(1 - gain[pick] / gain.max()))
        best = torch.minimum(best, d[pick])
    return worst


def proxies(options: argparse.Namespace, folder: Path) -> dict[int, Path]:
    """Loss gradients of a half-trained network, at the logits and at the features, in files."""
    train, _ = protocol.load(options, "fashion_mnist")
    noisy = corrupted(train, "symmetric", 0.4, 0)
    torch.manual_seed(0)
    net = MLP(784, 10, hidden=(128,))
    fit(noisy, Method(), net, epochs=2, batch_size=128, seed=0, device="cpu")
    output = Feed(noisy, batch_size=128).outputs(net)
    gradient = output.softmax(1) - torch.nn.functional.one_hot(noisy.y, 10)
    files = {}
    for dims, proxy in ((10, gradient), (128, gradient @ output_layer(net).weight.detach())):
        files[dims] = folder / f"{dims}.npy"
        np.save(files[dims], proxy.numpy())
    np.save(folder / "label.npy", noisy.y.numpy())
    return files


def in_process(engine: str, file: Path, n: int, k: int) -> dict[str, float]:
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", engine, "--points", str(file), "--n", str(n), "--k", str(k)]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{engine} at n = {n} failed: {done.stderr.strip().splitlines()[-1]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def installed() -> list[str]:
    modules = {"apricot": "apricot", "submodlib": "submodlib", "fasterpam": "kmedoids"}
    there = ["holdfast", "holdfast_swaps", "heap"]
    for engine, module in modules.items():
        asked = [sys.executable, "-W", "ignore", "-c", f"import {module}"]
        if subprocess.run(asked, capture_output=True).returncode == 0:
            there.append(engine)
        else:
            print(f"{engine} is not installed and left out")
    return there


def classes_cost(folder: Path) -> dict[str, float]:
    """CPU seconds to choose half of ten classes, and what share of an epoch of ResNet-20 on 60,000 images that is."""
    label = np.load(folder / "label.npy")
    out = {}
    for dims in (10, 128):
        points = np.load(folder / f"{dims}.npy")
        facility_location(points[:800], 40)
        start = time.process_time()
        facility_location(points, 0.5, groups=label, threads=1)
        out[f"classes_6000_{dims}"] = time.process_time() - start
    rows = np.sort(np.concatenate([np.flatnonzero(label == c)[:5_000] for c in range(10)]))
    start = time.process_time()
    facility_location(np.load(folder / "10.npy")[rows], 0.5, groups=label[rows], threads=1)
    out["classes_5000_10"] = time.process_time() - start
    net, x, y = ResNet(20, channels=1, outputs=10), torch.randn(128, 1, 28, 28), torch.randint(0, 10, (128,))
    taken = []
    for _ in range(12):
        start = time.process_time()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        taken.append(time.process_time() - start)
    out["resnet20_epoch"] = statistics.median(taken) * 60_000 / 128
    out["share_of_epoch"] = out["classes_6000_10"] / out["resnet20_epoch"]
    return {name: round(value, 4) for name, value in out.items()}


def picture(table: pd.DataFrame, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    names = {
        "holdfast": "Holdfast, exact",
        "holdfast_swaps": "Holdfast, with swaps",
        "heap": "heap over a matrix",
        "apricot": "apricot",
        "submodlib": "submodlib",
        "fasterpam": "FasterPAM",
    }
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    here = table[(table.dims == 10) & (table.k == table.n // 2)]
    for axis, column, what in ((axes[0], "cpu", "CPU seconds"), (axes[1], "mb", "peak megabytes beyond the points")):
        for engine, name in names.items():
            line = here[here.engine == engine].sort_values("n")
            if len(line):
                own = engine.startswith("holdfast")
                axis.loglog(line.n, line[column].clip(lower=0.1 if column == "mb" else None), "o-",
                            label=name, lw=2.4 if own else 1.2, ls="-" if own else "--")  # fmt: skip
        axis.set(xlabel="points n, half of them chosen", ylabel=what)
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(fontsize=8)
    figure.suptitle("Facility location on gradient proxies in 10 dimensions, one thread")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    for name, kind in (("--one", str), ("--points", Path), ("--n", int), ("--k", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        subset = np.ascontiguousarray(np.load(options.points)[: options.n])
        print(json.dumps(measure(options.one, subset, options.k)))
        return
    protocol.prepare(options)
    limits = QUICK if options.quick else LARGEST
    results = protocol.Results(options.results / "selection.csv", options.fresh)
    there = installed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = proxies(options, folder)
        rows = []
        for dims, file in files.items():
            for n in SIZES:
                for engine in there:
                    if n > limits.get(engine, 50_000) or (n == 50_000 and engine == "holdfast_swaps"):
                        continue
                    for k in sorted({n // 2, *((n // 128, n // 16) if (engine, n) == ("holdfast", 10_000) else ())}):
                        asked = {"engine": engine, "dims": dims, "n": n, "k": k}
                        row = results.get(asked, lambda: in_process(engine, file, n, k))  # noqa: B023  (called at once)
                        rows.append(row)
                        print({**asked, **{c: row[c] for c in ("cpu", "wall", "mb", "loss")}}, flush=True)
        table = pd.DataFrame(rows)
        picture(table, options.results / "selection.png")
        points = np.load(files[10])[:5_000]
        chosen = np.asarray(facility_location(points, 2_500).index)
        cost = classes_cost(folder)
    protocol.close({**summary(table), "shortfall": shortfall(points, chosen), **cost})


def summary(table: pd.DataFrame) -> dict[str, Any]:
    """How many times less CPU time than the fastest exact peer, what 50,000 points take, and how fast that grows."""

    def cell(engine: str, n: int, column: str, k: int | None = None) -> float:
        at = table[(table.engine == engine) & (table.dims == 10) & (table.n == n) & (table.k == (k or n // 2))]
        return float(at[column].iloc[0]) if len(at) else math.nan

    speedup = {
        str(n): round(min(c for c in (cell(e, n, "cpu") for e in EXACT) if c == c) / cell("holdfast", n, "cpu"), 2)
        for n in (5_000, 20_000)
    }
    big = [5_000, 10_000, 20_000, 50_000]
    slope = np.polyfit(np.log(big), np.log([cell("holdfast", n, "cpu") for n in big]), 1)[0]
    ks = [10_000 // 128, 10_000 // 16, 5_000]
    in_k = np.polyfit(np.log(ks), np.log([cell("holdfast", 10_000, "cpu", k) for k in ks]), 1)[0]
    return {
        "speedup": speedup,
        "cpu_50000": cell("holdfast", 50_000, "cpu"),
        "mb_50000": cell("holdfast", 50_000, "mb"),
        "exponent": round(float(slope), 3),
        "exponent_in_k": round(float(in_k), 3),
        "loss_ratio_to_heap": round(cell("holdfast", 20_000, "loss") / cell("heap", 20_000, "loss"), 6),
        "swaps_loss_ratio_to_fasterpam": round(
            cell("holdfast_swaps", 5_000, "loss") / cell("fasterpam", 5_000, "loss"), 6
        ),
    }


if __name__ == "__main__":
    main()
