"""Past a million rows and a thousand classes: what Holdfast takes of time and memory there.

- Finding wrong labels from probabilities beside cleanlab's ``find_label_issues`` as it comes, in turn, on the same
  planted noise: CPU seconds, the least of three times, and megabytes beyond the probabilities, each in a process of its
  own, which has done the same on a few rows before (so that neither counts its imports or what it compiles). Without
  cleanlab its figures stay empty.
- 1,000,000 x 1,000 probabilities of 16 bits that lie in a file.
- A training on 1,000,000 rows of 30 columns and 10 classes, and ``holdfast issues`` on its run; how many times the
  features are in memory at once, by what a column more takes of memory in the default training.
- A run of 1,000 classes: the bytes a row that it keeps, the part of an epoch that a checkpoint takes, and what the
  default training holds at most beside its data.

What ``scale_start.py`` and ``scale_data.py`` say joins the last line, which is one JSON object; they run once and leave
it in the folder of results.

    python benchmarks/scale.py              all of it
    python benchmarks/scale.py --quick      fewer rows where a million take long
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import protocol
import psutil
import torch

from holdfast import Method, Rows, Run, find_label_issues, fit
from holdfast import checkpoint as checkpoints
from holdfast.files import write_text

Array = np.ndarray[Any, Any]
RATE = 0.2
PIECE = 10_000
SIZES = {
    "issues_1m_10": (1_000_000, 10, "float32"),
    "issues_100k_1000": (100_000, 1_000, "float32"),
    "issues_1m_1000": (1_000_000, 1_000, "float16"),
}
QUICK = {"issues_1m_1000": 100_000, "fit_1m": 200_000, "run_1000": 20_000}
ROWS = {"fit_1m": 1_000_000, "run_1000": 200_000}
TIMES, LONG = 3, 5.0
"""How often wrong labels are sought, unless it takes so many seconds."""
SOME = 200_000
WIDTHS = {"copies": (10, 100, 400), "copies_with_trees": (2, 150, 250)}
"""Classes, and two numbers of columns with which so many rows are trained on. Boosted trees are asked where columns
times classes are few."""
BESIDE = ("scale_start", "scale_data")


def planted(rows: int, classes: int, seed: int) -> tuple[Array, Array]:
    """True and given labels, one in five wrong."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=rows)
    wrong = rng.random(rows) < RATE
    return truth, np.where(wrong, (truth + rng.integers(1, classes, size=rows)) % classes, truth)


def expected(truth: Array, classes: int, seed: int) -> Array:
    """(M, C) what a network that has taken over the noise expects of rows, right in 97 of a hundred."""
    logits = np.random.default_rng([seed, classes]).standard_normal((len(truth), classes), dtype=np.float32)
    logits[np.arange(len(truth)), truth] += 1.2 * np.log(classes) + 1
    sharp = np.exp(logits)
    result: Array = (1 - RATE) * sharp / sharp.sum(1, keepdims=True) + RATE / classes
    return result


def write_probabilities(path: Path, truth: Array, classes: int, kind: str) -> None:
    whole = np.lib.format.open_memmap(path, "w+", np.dtype(kind), (len(truth), classes))
    for start in range(0, len(truth), PIECE):
        whole[start : start + PIECE] = expected(truth[start : start + PIECE], classes, start)
    whole.flush()


class Peak:
    """The most memory that this process and its children hold at once, beyond what it held before; pages of files that
    are mapped do not count, since the system takes them back."""

    def __enter__(self) -> Peak:
        self._own, self._over = psutil.Process(), threading.Event()
        self._before = self.megabytes = self._held()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()
        self.megabytes -= self._before

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.megabytes = max(self.megabytes, self._held())

    def _held(self) -> float:
        total = 0
        for each in (self._own, *self._own.children(recursive=True)):
            try:
                held = each.memory_info()
            except psutil.NoSuchProcess:
                continue
            total += held.rss - held.shared
        return total / 2**20


def cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def find(way: str, folder: Path) -> dict[str, float]:
    """One of both on probabilities in a folder, in this process."""
    torch.set_num_threads(1)
    truth, given = (np.load(folder / f"{name}.npy") for name in ("truth", "given"))
    mapped = np.load(folder / "probabilities.npy", mmap_mode="r")
    probabilities = mapped if mapped.dtype == np.float16 else np.array(mapped)
    some = slice(2_000)

    def flagged(labels: Array, probs: Array) -> Array:
        if way == "cleanlab":
            from cleanlab.filter import find_label_issues as theirs

            found: Array = theirs(labels, probs)
            return found
        table = find_label_issues(labels, probs)
        flags = np.zeros(len(labels), dtype=bool)
        flags[table["row"][table["flag"]]] = True
        return flags

    # Labels that occur in the first rows alone, as cleanlab wants each class to have some.
    flagged(np.arange(2_000) % mapped.shape[1], np.array(probabilities[some]))
    spent: list[float] = []
    with Peak() as peak:
        while len(spent) < TIMES and (not spent or spent[0] < LONG):
            start = cpu()
            flags = flagged(given, probabilities)
            spent.append(cpu() - start)
    wrong = given != truth
    f1 = 2 * (flags & wrong).sum() / (flags.sum() + wrong.sum())
    return {"cpu": round(min(spent), 2), "mb": round(peak.megabytes), "f1": round(float(f1), 4)}


def issues(name: str, rows: int) -> dict[str, Any]:
    """Holdfast and cleanlab on the same probabilities; cleanlab not where they fill more than a gigabyte."""
    _, classes, kind = SIZES[name]
    truth, given = planted(rows, classes, 0)
    line: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if rows * classes * np.dtype(kind).itemsize > 0.8 * psutil.disk_usage(made).free:
            raise SystemExit(f"{made} has no room for {rows} x {classes} probabilities; set TMPDIR")
        np.save(folder / "truth.npy", truth)
        np.save(folder / "given.npy", given)
        write_probabilities(folder / "probabilities.npy", truth, classes, kind)
        for way, before in (("holdfast", ""), ("cleanlab", "cleanlab_")):
            if way == "cleanlab" and (rows * classes > 2**28 or find_spec("cleanlab") is None):
                line |= {f"{before}{key}": None for key in ("cpu", "mb", "f1")}
                continue
            done = in_process("find", way, str(folder))
            line |= {f"{before}{key}": value for key, value in done.items()}
    return line


def blobs(rows: int, classes: int, columns: int = 30) -> Rows:
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(rows) % classes
    x = torch.randn(rows, columns, generator=source).mul_(0.6)
    for part in torch.arange(rows).split(PIECE):
        x[part] += torch.randn(classes, columns, generator=torch.Generator().manual_seed(1))[truth[part]]
    wrong = torch.rand(rows, generator=source) < RATE
    given = torch.where(wrong, torch.randint(classes, (rows,), generator=source), truth)
    return Rows(x, given, tuple(map(str, range(classes))), truth=truth)


def train(rows: int) -> dict[str, float]:
    """A training, and the issues of its run; beside features, memory holds what a run keeps of each row."""
    torch.set_num_threads(1)
    fit(blobs(1_000, 10), epochs=1, device="cpu").issues()
    data = blobs(rows, 10)
    with tempfile.TemporaryDirectory() as made:
        start = cpu()
        fit(data, Method(), "mlp", device="cpu", out=Path(made) / "run", evidence=False)
        trained = cpu() - start
        start = cpu()
        run = Run.records(Path(made) / "run")
        run.issues()
        run.wrong_labels()
        share = (cpu() - start) / trained
    return {
        "rows": rows,
        "us_per_row": round(1e6 * trained / rows, 1),
        **{name: copies(*widths) for name, widths in WIDTHS.items()},
        "issues_share": round(share, 3),
    }


def held(classes: int, columns: int) -> dict[str, float]:
    """Megabytes of the data and its default training."""
    torch.set_num_threads(1)
    fit(blobs(1_000, classes, columns), net="mlp", epochs=1, device="cpu")
    with Peak() as peak:
        fit(blobs(SOME, classes, columns), net="mlp", epochs=1, device="cpu")
    return {"mb": peak.megabytes}


def copies(classes: int, *columns: int) -> float:
    """How many times the default training has features in memory: what it takes more of with more columns.

    Each width has a process of its own, as one would find free what another has left behind.
    """
    narrow, wide = (in_process("held", str(classes), str(each))["mb"] for each in columns)
    return round((wide - narrow) / (SOME * (columns[1] - columns[0]) * 4 / 2**20), 2)


def many_classes(rows: int) -> dict[str, float]:
    """What a run of a thousand classes keeps of each row, and what its checkpoints take."""
    torch.set_num_threads(1)
    spent: list[float] = []

    class Timed(checkpoints.Pace):
        def due(self) -> bool:
            return True

    write = checkpoints.save

    def timed(path: Path, state: dict[str, Any]) -> None:
        start = time.process_time()
        write(path, state)
        spent.append(time.process_time() - start)

    data = blobs(rows, 1_000)
    fit(blobs(2_000, 1_000), net="mlp", epochs=1, device="cpu")
    with Peak() as peak:
        fit(data, net="mlp", epochs=2, device="cpu")
    checkpoints.Pace, checkpoints.save = Timed, timed  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as made:
        run = fit(data, Method(), "mlp", epochs=3, device="cpu", out=Path(made) / "run", evidence=False)
        size = (Path(made) / "run" / "checkpoint" / "last.safetensors").stat().st_size / 2**20
        kept = sum(each.nbytes for each in run._ledger.values())
        trust = run._label_trust
        kept += sum(each.value.nbytes + each.number.nbytes for each in (trust.posterior, trust.evidence))  # type: ignore[union-attr]
        kept += int(run.issues().memory_usage(deep=True).sum())
    epoch = float(run.history["cpu_seconds"].iloc[1:].mean())
    return {
        "rows": rows,
        "mb": round(kept / 2**20),
        "bytes_per_row": round(kept / rows),
        "default_mb": round(peak.megabytes),
        "checkpoint_mb": round(size),
        "checkpoint_share": round(float(np.mean(spent)) / epoch, 3),
    }


def in_process(*words: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--trial", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


TRIALS = {
    "find": lambda way, folder: find(way, Path(folder)),
    "train": lambda rows: train(int(rows)),
    "held": lambda classes, columns: held(int(classes), int(columns)),
    "many": lambda rows: many_classes(int(rows)),
}


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--trial", nargs="+", help="one measurement alone, as the others are started")
    options = parser.parse_args()
    if options.trial:
        protocol.close(TRIALS[options.trial[0]](*options.trial[1:]))
        return
    results = protocol.Results(options.results / "scale.csv", options.fresh)
    closing: dict[str, Any] = {}
    for name, (rows, _, _) in SIZES.items():
        rows = QUICK.get(name, rows) if options.quick else rows
        closing[name] = results.get({"what": name, "rows": rows}, lambda n=name, r=rows: issues(n, r))  # type: ignore[misc]
        print(closing[name], flush=True)
    for name, trial in (("fit_1m", "train"), ("run_1000", "many")):
        rows = QUICK[name] if options.quick else ROWS[name]
        asked = {"what": name, "rows": rows}
        closing[name] = results.get(asked, lambda t=trial, r=rows: in_process(t, str(r)))  # type: ignore[misc]
        print(closing[name], flush=True)
    for script in BESIDE:
        closing |= beside(script, options)
    closing = {name: _present(line) if isinstance(line, dict) else line for name, line in closing.items()}
    protocol.close(closing)


def beside(script: str, options: Namespace) -> dict[str, Any]:
    """The last line of another benchmark, run where there is none yet."""
    words = ["--no-ray"]
    if script == "scale_data":
        words = ["--results", str(options.results), *["--quick"] * options.quick, *["--fresh"] * options.fresh]
    path = options.results / f"{script}{'_quick' if options.quick else ''}.json"
    if options.fresh or not path.exists():
        command = [sys.executable, str(Path(__file__).with_name(f"{script}.py")), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        write_text(path, done.stdout.splitlines()[-1] + "\n")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _present(line: dict[str, Any]) -> dict[str, Any]:
    """What was measured, as JSON has it; cells of other rows of the table are empty."""
    kept = {key: value for key, value in line.items() if value is None or value == value}
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in kept.items()}


if __name__ == "__main__":
    main()
