"""How long it takes to begin, and what workers of Ray give, in CPU seconds of the processes that are started.

Help and a mistyped option are timed as a user has them, the shortest of five; ``import holdfast`` beside torch, each
without what Python alone takes, and with what ``holdfast.fit`` needs. ``ray`` runs the same jobs here, in two processes
and on two workers of a Ray of this machine: wall seconds, and whether all made the same. The last line is one JSON
object.

    python benchmarks/scale_start.py [--no-ray]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from typing import Any

import torch

from holdfast.executors import Executor, Local, OnRay

TIMES = 5
JOBS = 8


def cpu(*command: str) -> float:
    """CPU seconds of a command, the least of five."""
    seconds = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(seconds)


def work(rows: torch.Tensor, seed: int) -> float:
    """A few seconds of work on data that all jobs share."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(60):
        weights = torch.randn(rows.shape[1], rows.shape[1], generator=generator)
        rows = (rows @ weights).tanh()
    return float(rows.double().sum())


def timed(executor: Executor, jobs: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    wall = time.perf_counter()
    found = executor.run(jobs.items())
    return time.perf_counter() - wall, found


def on_ray() -> dict[str, Any]:
    """The same jobs by one worker and by two; Ray is up before the clock runs."""
    import ray

    # Ray's workers step behind every other process unless told not to.
    os.environ.setdefault("RAY_worker_niceness", "0")
    rows = torch.randn(2000, 500, generator=torch.Generator().manual_seed(0))
    jobs = {str(seed): partial(work, rows, seed) for seed in range(JOBS)}
    here, expected = timed(Local(), jobs)
    processes, in_processes = timed(Local(2), jobs)
    figures: dict[str, Any] = {"here_s": here, "two_processes_s": processes, "same": in_processes == expected}
    for workers in (1, 2):
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        timed(OnRay(workers=workers), {str(k): partial(work, rows[:2], k) for k in range(2 * workers)})  # imports
        figures[f"workers_{workers}_s"], found = timed(OnRay(workers=workers), jobs)
        figures["same"] = figures["same"] and found == expected
        ray.shutdown()
    figures["speed_up"] = figures["workers_1_s"] / figures["workers_2_s"]
    figures["load"] = os.getloadavg()[0]
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-ray", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    python, module = sys.executable, (sys.executable, "-m", "holdfast")
    alone = cpu(python, "-c", "pass")
    figures: dict[str, Any] = {
        "help_s": cpu(*module, "--help"),
        "command_help_s": cpu(*module, "fit", "--help"),
        "wrong_option_s": cpu(*module, "fit", "--epoch", "3"),
        "import_s": cpu(python, "-c", "import holdfast") - alone,
        "torch_s": cpu(python, "-c", "import torch") - alone,
        "import_fit_s": cpu(python, "-c", "import holdfast; holdfast.fit") - alone,
    }
    figures = {name: round(value, 3) for name, value in figures.items()}
    if not options.no_ray:
        figures["ray"] = on_ray()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
