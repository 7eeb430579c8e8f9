"""A summary of one million points: stochastic and distributed greedy, beside exact greedy on a part.

A mixture of Gaussians with outliers in 64 dimensions, one point in a hundred chosen. Prints CPU and wall time and the
peak memory of all processes beyond the input, the distance loss on a sample, and the loss against that of exact greedy
on 20,000 of the points with the same share chosen. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.progress import Bar
from holdfast.select import Selection, facility_location
from holdfast.select.cover import Rows32, selection
from holdfast.select.distributed import distributed, greedi
from holdfast.select.stochastic import stochastic_greedy

RESULTS = Path(__file__).parent / "results"
TICK = os.sysconf("SC_CLK_TCK")


def mixture(n: int, dims: int = 64, parts: int = 200, seed: int = 0) -> Tensor:
    """Overlapping clusters of unequal size and width, and one point in a hundred far from all of them."""
    source = np.random.default_rng(seed)
    centres = source.normal(size=(parts, dims))
    share = source.dirichlet(np.ones(parts))
    width = np.exp(0.3 * source.normal(size=parts))
    points = np.empty((n, dims), np.float32)
    for low in range(0, n, 100_000):
        size = min(100_000, n - low)
        member = source.choice(parts, size, p=share)
        block = centres[member] + source.normal(size=(size, dims)) * width[member, None]
        astray = source.random(size) < 0.01
        block[astray] = 3 * source.normal(size=(int(astray.sum()), dims))
        points[low : low + size] = block
    return torch.from_numpy(points)


class Watch:
    """CPU time, wall time and peak memory of this process and all below it, the memory beyond that at the start."""

    def __enter__(self) -> Watch:
        self._cpu: dict[int, float] = {}
        self.megabytes = 0.0
        self._start = self._look()
        self._before = dict(self._cpu)
        self._clock = time.perf_counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self.wall = time.perf_counter() - self._clock
        self.cpu = sum(spent - self._before.get(pid, 0.0) for pid, spent in self._cpu.items())

    def _watch(self) -> None:
        while not self._over.wait(0.3):
            self.megabytes = max(self.megabytes, self._look() - self._start)

    def _look(self) -> float:
        """Megabytes in use now; pages that processes share are counted once."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                parents[int(entry.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK)
        tree, grown = {os.getpid()}, True
        while grown:
            more = {pid for pid, (parent, _) in parents.items() if parent in tree} - tree
            tree |= more
            grown = bool(more)
        total = 0
        for pid in tree & set(parents):
            self._cpu[pid] = parents[pid][1]
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024


def sampled_loss(points: Tensor, index: Tensor, sample: Tensor) -> tuple[float, float]:
    """Mean distance of a sample to the nearest chosen point, and its standard error."""
    rows = torch.cat([points[sample], points[index]])
    found = torch.cat(
        [torch.cdist(part, rows[len(sample) :]).min(1).values for part in rows[: len(sample)].split(1000)]
    )
    return float(found.mean()), float(found.std() / len(sample) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 points")
    parser.add_argument("--only", choices=["stochastic", "distributed"], help="one of the two")
    parser.add_argument("--workers", type=int, default=1, help="processes of the distributed run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the CSV")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n = 100_000 if options.quick else 1_000_000
    k = n // 100
    points = mixture(n)
    source = torch.Generator().manual_seed(1)
    sample = torch.randperm(n, generator=source)[:10_000]
    part = points[torch.randperm(n, generator=source)[:20_000].sort().values]
    few = len(part) // 100
    # Small runs first, so that compiling is not counted.
    stochastic_greedy(part[:2000], 20)
    greedi(part[:2000], 20, 2)
    chance = sampled_loss(points, torch.randperm(n, generator=source)[:k], sample)[0]
    runs: dict[str, tuple[Callable[[Bar], Selection], Callable[[], Selection]]] = {
        "stochastic": (
            lambda bar: stochastic_greedy(points, k, progress=bar),
            lambda: stochastic_greedy(part, few),
        ),
        "distributed": (
            lambda bar: distributed(points, k, each=k // 20, workers=options.workers, progress=bar),
            lambda: greedi(part, few, 2),
        ),
    }
    lines: list[dict[str, Any]] = []
    exact = 0.0
    for name, (run, small) in runs.items():
        if options.only not in (None, name):
            continue
        with Watch() as watch, Bar(name, unit="steps") as bar:
            found = run(bar)
        # Only now: what exact greedy frees would be used again by the runs and hide what they take.
        exact = exact or on_part(part, facility_location(part, few))
        loss, error = sampled_loss(points, found.index, sample)
        line = {
            "algorithm": name,
            "n": n,
            "k": k,
            "cpu_seconds": round(watch.cpu, 1),
            "wall_seconds": round(watch.wall, 1),
            "megabytes": round(watch.megabytes),
            "loss_per_point": round(loss, 4),
            "standard_error": round(error, 4),
            "loss_of_chance": round(chance, 4),
            "objective": round(found.objective, 1),
            "ratio_to_exact_on_20000": round(on_part(part, small()) / exact, 4),
        }
        print(", ".join(f"{key} {value}" for key, value in line.items()), flush=True)
        lines.append(line)
        options.results.mkdir(parents=True, exist_ok=True)
        path = options.results / "selection_million.csv"
        before = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(line))
        same = (before["algorithm"] == name) & (before["n"] == n)
        pd.concat([before[~same], pd.DataFrame([line])], ignore_index=True).to_csv(path, index=False)
    print(json.dumps({f"{line['algorithm']}_{line['n']}": line for line in lines}))


def on_part(part: Tensor, found: Selection) -> float:
    """Distance loss on the part, measured alike for every algorithm."""
    return selection(Rows32(part), found.index.numpy()).objective


if __name__ == "__main__":
    main()
