"""Table 6 of the PRL paper: what an epoch of PRL(L) and PRL(G) costs beside ordinary training.

The 9-layer network with GroupNorm on random 32x32 images, batches of 128, a rate of 45 %, one thread; steps of all
methods alternate, and the ratio of the medians of CPU time is printed (wall time beside it). Peak memory is that of one
process for each method, above what it used before the first step. The paper: 1.48 for PRL(L) and 3.93 for PRL(G) with
opacus, which is timed too where it is installed. The last line is one JSON object.

    python benchmarks/prl_cost.py            five rounds
    python benchmarks/prl_cost.py --quick    two rounds
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import protocol
import torch
from torch import nn
from torch.optim import SGD

from holdfast import Method, Rows
from holdfast.feed import Feed
from holdfast.files import write_text, written_aside
from holdfast.methods import PRLG, PRLL
from holdfast.nets import CNN9
from holdfast.plots import COLOURS, save

RATE = 0.45
PAPER = {"standard": 1.0, "prl_l": 54.80 / 37.03, "prl_g": 145.55 / 37.03}
MAKERS: dict[str, Callable[[], Method]] = {
    "standard": Method,
    "prl_l": lambda: PRLL(RATE, ramp=0),
    "prl_g": lambda: PRLG(RATE, ramp=0),
}


def stepper(name: str) -> Callable[[], None]:
    """A function that takes one training step, on the same batch again and again."""
    torch.manual_seed(0)
    rows = Rows(torch.rand(128, 3, 32, 32), torch.arange(128) % 10, tuple(map(str, range(10))))
    feed, net = Feed(rows), CNN9(3, 10, norm="group").train()
    batch = next(iter(feed.batches()))
    if name == "prl_g_opacus":
        return _opacus(net, batch.x, batch.y)
    method = MAKERS[name]()
    method.begin([net], feed)
    method.before_epoch([net], feed, 0, 1)
    optimizer = SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        made = method.loss([net], batch)
        optimizer.zero_grad()
        made.loss.backward()
        optimizer.step()

    return step


def _opacus(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    """PRL(G) as the paper has it: all per-sample gradients in memory, then Algorithm 1."""
    from opacus import GradSampleModule  # type: ignore[import-not-found]

    for layer in net.modules():
        if hasattr(layer, "inplace"):
            layer.inplace = False  # its hooks forbid changes in place
    wrapped = GradSampleModule(net, loss_reduction="sum")
    parameters = list(wrapped.parameters())

    def step() -> None:
        nn.functional.cross_entropy(wrapped(x), y, reduction="sum").backward()
        norms = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in parameters]).norm(dim=0)
        kept = norms.argsort(stable=True)[: int((1 - RATE) * len(x))]
        with torch.no_grad():
            for p in parameters:
                p -= 1e-3 * p.grad_sample[kept].mean(0)
                p.grad_sample, p.grad = None, None

    return step


def memory(name: str) -> float:
    """Megabytes that two steps need at most, measured in a process of their own."""
    script = f"import prl_cost; print(prl_cost.own_memory({name!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    return float(done.stdout.split()[-1])


def own_memory(name: str) -> float:
    torch.set_num_threads(1)
    step = stepper(name)
    before = _peak()
    step()
    step()
    return (_peak() - before) / 1024


def _peak() -> int:
    """Kilobytes that this process used at most; getrusage would count the parent's before it became this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    options = parser.parse_args()
    protocol.prepare(options)
    rounds = options.epochs or (2 if options.quick else 5)
    names = [*MAKERS, *(["prl_g_opacus"] if importlib.util.find_spec("opacus") else [])]
    megabytes = {name: memory(name) for name in names}
    steps = {name: stepper(name) for name in names}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name, step in steps.items():
            cpu, wall = time.process_time(), time.perf_counter()
            step()
            if number:  # the first step also allocates
                times[name].append((time.process_time() - cpu, time.perf_counter() - wall))
                print(f"{name}: {times[name][-1][0]:.2f} s CPU", flush=True)
    middle = {name: [statistics.median(t[k] for t in taken) for k in (0, 1)] for name, taken in times.items()}
    lines = [
        {
            "method": name,
            "cpu_seconds": round(cpu, 3),
            "cpu_ratio": round(cpu / middle["standard"][0], 3),
            "wall_ratio": round(wall / middle["standard"][1], 3),
            "memory_mb": round(megabytes[name], 1),
            "memory_ratio": round(megabytes[name] / megabytes["standard"], 3),
            "paper_ratio": round(PAPER.get(name, PAPER["prl_g"]), 2),
        }
        for name, (cpu, wall) in middle.items()
    ]
    found = pd.DataFrame(lines)
    with written_aside(options.results / "prl_cost.csv") as aside:
        found.to_csv(aside, index=False)
    columns = list(found.columns)
    text = "| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|\n"
    text += "".join("| " + " | ".join(str(line[c]) for c in columns) + " |\n" for line in lines)
    write_text(options.results / "prl_cost.md", text)
    picture(found, options.results / "prl_cost.png")
    print(text)
    ratio = found.set_index("method")
    figures = {name: float(ratio.loc[name, "cpu_ratio"]) for name in names if name != "standard"}
    print(json.dumps({**figures, "prl_g_memory": float(ratio.loc["prl_g", "memory_ratio"])}))


def picture(found: pd.DataFrame, path: Path) -> None:
    """Bars of time and memory, the paper's time beside them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axis = figure.subplots()
    columns = (("cpu_ratio", "time here"), ("paper_ratio", "time in the paper"), ("memory_ratio", "peak memory here"))
    for place, (column, label) in enumerate(columns):
        at = [k + 0.27 * (place - 1) for k in range(len(found))]
        bars = axis.bar(at, found[column], 0.25, color=COLOURS[place], label=label)
        axis.bar_label(bars, fmt="%.2f", fontsize=8)
    axis.set_xticks(range(len(found)), found["method"])
    axis.set_ylabel("ratio to ordinary training")
    axis.axhline(1, color="grey", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
