"""Kills, full disks, clocks that jump and second processes, at moments of chance, over all commands.

``python tests/hostile/chaos.py --moments 200`` disturbs a command, sees that nothing it read has changed and that what
it wrote is whole, lets it end undisturbed (with ``--resume`` where there is such), and compares every file with that of
a command that nobody has disturbed. Each moment is a line of ``--record``; begun again, it goes on behind the last.

Each command is a process of its own that is forked from one which has loaded Holdfast already; a kill is a SIGKILL.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

ROWS = 200
TIMED = ("seconds", "cpu_seconds", "seconds_sd", "cpu_seconds_sd")
"""Columns that no two runs share."""
FAKE = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
DISTURBANCES = {"kill": 200, "full disk": 20, "clock": 20, "second process": 20}
"""How often each, where 200 moments are asked for."""


@dataclass(frozen=True)
class Command:
    """A command, what it writes, and how it is taken up again.

    Attributes
    ----------
    words: as typed in a folder with ``data.csv``, ``photos/``, ``points.npy``, ``back.json`` and a finished ``run/``.
    out: what it makes: a file, or a folder.
    again: words to add when it is taken up again.
    over: whether it may write over what it has made before; where not, what is there after a kill must be whole.
    """

    words: str
    out: str
    again: str = ""
    over: bool = False


TRAIN = "data.csv --label label --epochs 2 --seed 1 --quiet"
COMMANDS = {
    "fit": Command(f"fit {TRAIN} --out new", "new", "--resume"),
    "fit, crust": Command(f"fit {TRAIN} --method crust --no-evidence --out new", "new", "--resume"),
    "pretrain": Command(
        "pretrain data.csv --label label --epochs 4 --method simclr --quiet --out new", "new", "--resume"
    ),
    "compare": Command(
        "compare data.csv --label label --methods standard,co-teaching --seeds 2 --epochs 2 --noise symmetric "
        "--net mlp --quiet --out new",
        "new",
        over=True,
    ),
    "check": Command("check data.csv --label label --net mlp --quiet --out new", "new", over=True),
    "noise": Command("noise data.csv --label label --out new.csv", "new.csv"),
    "noise, images": Command("noise photos --rate 0.3 --out new", "new"),
    "predict": Command("predict run data.csv --out new.csv --probabilities", "new.csv"),
    "select": Command("select points.npy --k 0.1 --out new.csv --quiet", "new.csv"),
    "issues": Command("issues run --out new.csv", "new.csv", "--force", over=True),
    "report": Command("report run --out new.html", "new.html", "--force", over=True),
    "diagnose": Command("diagnose run --examples 20 --out new.html", "new.html", "--force", over=True),
    "clean": Command("clean run --out new.csv", "new.csv"),
    "export": Command("export run --out new.csv", "new.csv"),
    "export, label-studio": Command("export run --to label-studio --out new.json", "new.json"),
    "import": Command("import run back.json", "run/reviews.sqlite", over=True),
    "review": Command("review run", "run/reviews.sqlite", over=True),
}


def prepare(folder: Path) -> None:
    """Data and a finished, partly reviewed run, made once."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(ROWS, 5))
    given = np.where((x[:, 0] + x[:, 1] > 0) ^ (draw.random(ROWS) < 0.2), "yes", "no")
    pd.DataFrame(x.round(4), columns=list("abcde")).assign(label=given).to_csv(folder / "data.csv", index=False)
    np.save(folder / "points.npy", draw.normal(size=(600, 8)).astype(np.float32))
    for label in ("cats", "dogs"):
        (folder / "photos" / label).mkdir(parents=True)
        for i in range(20):
            Image.fromarray(draw.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(
                folder / "photos" / label / f"{i}.png"
            )
    done, said = undisturbed(
        folder, ["fit", "data.csv", "--label", "label", "--epochs", "3", "--seed", "1", "--quiet", "--out", "run"]
    )
    assert done == 0, said
    fingerprint = json.loads((folder / "run" / "run.json").read_text())["fingerprint"]
    tasks = [
        {
            "id": row,
            "data": {"holdfast_row": row, "holdfast_run": fingerprint},
            "annotations": [
                {
                    "completed_by": {"id": 1, "email": "a@x.org"},
                    "was_cancelled": False,
                    "result": [
                        {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["yes"]}}
                    ],
                }
            ],
        }
        for row in range(20)
    ]
    (folder / "back.json").write_text(json.dumps(tasks))
    from holdfast.review.store import REVIEWS, Answer, Store

    with closing(Store(folder / "run" / REVIEWS, fingerprint)) as store:
        for row in range(30, 40):
            store.decide(row, "Ada", Answer.keep, given[row])


def start(folder: Path, words: Sequence[str]) -> int:
    """A process that does what ``holdfast WORDS`` does in a folder, saying it into ``said``."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        said = os.open(said_by(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.argv = ["holdfast", *words]
        from holdfast.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:  # whatever happens, this process is not to go on as the one that it was forked from
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def said_by(process: int) -> Path:
    """Where a process writes what it says: not on the disk that is filled."""
    return Path(tempfile.gettempdir()) / f"said-{process}"


def ended(process: int) -> tuple[int, str]:
    """How a process ended, and what it said."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    file = said_by(process)
    said = file.read_text(errors="replace") if file.exists() else ""
    file.unlink(missing_ok=True)
    return code, said


def undisturbed(folder: Path, words: Sequence[str]) -> tuple[int, str]:
    return ended(start(folder, words))


def state_of(path: Path) -> dict[str, str]:
    """Every file of a result by its digest, times left out; empty where there is none."""
    files = (
        sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path] if path.exists() else []
    )
    return {
        each.name if each == path else str(each.relative_to(path)): _digest(each)
        for each in files
        if each.name not in (".lock", "report.html", "reviews.sqlite-wal", "reviews.sqlite-shm")
    }


def _digest(path: Path) -> str:
    from holdfast import checkpoint
    from holdfast.files import read_tensors

    if path.name == "last.safetensors":
        content = {name: value for name, value in checkpoint.load(path).items() if name not in ("history", "time")}
        content["random"] = content["random"]["torch"]  # the others are the process's own, and nothing draws from them
        return hashlib.sha256(_plain(content)).hexdigest()
    if path.name == "run.json":
        config = json.loads(path.read_text())
        return repr({name: value for name, value in config.items() if name not in ("source", "pretrained")})
    if path.suffix == ".safetensors":
        return hashlib.sha256(_plain(read_tensors(path)[0])).hexdigest()
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return hashlib.sha256(_plain({name: arrays[name] for name in arrays.files})).hexdigest()
    if path.name == "reviews.sqlite":
        return repr(decisions(path))
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str)
        return hashlib.sha256(table.drop(columns=[c for c in TIMED if c in table]).to_csv().encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _plain(value: Any) -> bytes:
    if isinstance(value, dict):
        return (
            b"{"
            + b",".join(repr(k).encode() + _plain(v) for k, v in sorted(value.items(), key=lambda e: str(e[0])))
            + b"}"
        )
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(_plain, value)) + b"]"
    if hasattr(value, "numpy"):
        value = value.detach().cpu().contiguous().view(-1).numpy() if value.dim() else value.numpy()
    if isinstance(value, np.ndarray):
        return str(value.dtype).encode() + np.ascontiguousarray(value).tobytes()
    return repr(value).encode()


def decisions(path: Path) -> list[tuple[Any, ...]]:
    """What stands in a file of decisions, entry by entry, without the times."""
    import sqlite3

    with closing(sqlite3.connect(path)) as found:
        return found.execute(
            "SELECT row, reviewer, verdict, label FROM entries ORDER BY row, reviewer, number"
        ).fetchall()


def leftovers(*folders: Path) -> list[str]:
    """What nobody would look for: parts of files, locks, temporary folders."""
    found = [each for folder in folders for each in folder.rglob("*")]
    return [
        str(each)
        for each in found
        if each.name.endswith((".part", ".before"))
        or each.name == ".lock"
        or (each.name.startswith("holdfast-") and each.is_dir())
    ]


class Answering:
    """Somebody who answers on the review page of a process, row after row, and knows what was confirmed."""

    def __init__(self, process: int) -> None:
        self._file = said_by(process)
        self._process = process
        self.sent: list[int] = []
        self.confirmed: list[int] = []

    def until(self, end: float, rows: Sequence[int]) -> None:
        import httpx

        link = self._link(end)
        if link is None:
            return
        home = link.partition("/?")[0]
        with httpx.Client(base_url=home, headers={"origin": home}, timeout=20) as client:
            client.get(link)
            for row in rows:
                if time.monotonic() >= end:
                    return
                self.sent.append(row)
                done = client.post("/api/decide", json={"reviewer": "Bob", "row": row, "verdict": "keep"})
                if done.status_code == 200:
                    self.confirmed.append(row)

    def _link(self, end: float) -> str | None:
        while time.monotonic() < end + 30:
            said = self._file.read_text(errors="replace") if self._file.exists() else ""
            line = next((line for line in said.splitlines() if line.startswith("http")), None)
            if line is not None:
                return line
            if os.waitpid(self._process, os.WNOHANG)[0]:
                raise AssertionError(said)
            time.sleep(0.05)
        return None


def reviewed_and_killed(folder: Path, draw: Random) -> list[str]:
    """A server is killed while somebody answers: what was confirmed stands once, and nothing else is there."""
    import threading

    process = start(folder, ["review", "run"])
    person = Answering(process)
    rows = list(range(60, 160))
    thread = threading.Thread(target=_quietly, args=(lambda: person.until(time.monotonic() + 60, rows),), daemon=True)
    thread.start()
    while not person.sent and thread.is_alive():
        time.sleep(0.01)
    time.sleep(draw.random() * 0.5)
    os.kill(process, signal.SIGKILL)
    ended(process)
    thread.join(30)
    stands = [row for row, who, *_ in decisions(folder / "run" / "reviews.sqlite") if who == "Bob"]
    wrong = []
    if len(set(stands)) != len(stands):
        wrong.append("a decision stands twice")
    if not set(person.confirmed) <= set(stands):
        wrong.append(f"{len(set(person.confirmed) - set(stands))} confirmed decisions are lost")
    if not set(stands) <= set(person.sent):
        wrong.append("a decision stands that nobody has sent")
    if len(decisions(folder / "run" / "reviews.sqlite")) != len(stands) + 10:
        wrong.append("earlier decisions are lost or doubled")
    code, said = undisturbed(folder, ["export", "run", "--out", "new.csv"])
    if code:
        wrong.append(f"the review cannot be exported: {said[-200:]}")
    return wrong


def _quietly(do: Callable[[], None]) -> None:
    import httpx

    with suppress(httpx.HTTPError, OSError):  # the server was killed
        do()


@contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """A disk whose size can be changed; None where none can be mounted."""
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", place]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)


class Chaos:
    """Everything that is disturbed, and what it should come to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clean = folder / "clean"
        self.clean.mkdir()
        prepare(self.clean)
        self.before = state_of(self.clean)
        self.expected: dict[str, dict[str, str]] = {}
        self.took: dict[str, float] = {}
        self.wrote: dict[str, int] = {}
        for name, command in COMMANDS.items():
            if name != "review":
                self._whole(name, command)

    def _whole(self, name: str, command: Command) -> None:
        """What a command comes to that nobody disturbs, how long it takes and how much it writes."""
        with self.place() as work:
            began = time.monotonic()
            code, said = undisturbed(work, command.words.split())
            assert code == 0, said
            self.took[name] = time.monotonic() - began
            out = work / command.out
            self.expected[name] = state_of(out)
            files = [out] if out.is_file() else [each for each in out.rglob("*") if each.is_file()]
            self.wrote[name] = sum(each.stat().st_size for each in files)

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A fresh copy of the data and the run, always at the same place: pages name the path of their data."""
        work = self.folder / "disk" / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.clean, work)
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def size(self, name: str) -> int:
        """Bytes that a command writes, at least some."""
        return self.wrote.get(name, 0) + (16 << 10)

    def disturbed(self, how: str, name: str, draw: Random) -> list[str]:
        """What was wrong after one disturbance; nothing where all was well."""
        command = COMMANDS[name]
        if how == "full disk":
            with small_disk(self.folder / "disk") as disk:
                if disk is None:
                    return ["skipped: no small disk can be mounted here"]
                with self.place() as work:
                    full = shutil.disk_usage(disk).used + int(draw.random() * self.size(name))
                    subprocess.run(["mount", "-o", f"remount,size={full}", disk], check=True)
                    code, said = undisturbed(work, command.words.split())
                    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
                    wrong = self._after(name, work)
                    if code not in (0, 1, 2) or "Traceback" in said or "mistake in Holdfast" in said:
                        wrong.append(f"ends with {code}: {said[-300:]}")
                    elif code and "disk is full" not in said and "No space left" not in said:
                        wrong.append(f"does not say that the disk is full: {said[-300:]}")
                    return wrong
        with self.place() as work:
            if name == "review":
                return reviewed_and_killed(work, draw)
            if how == "kill":
                process = start(work, command.words.split())
                time.sleep(draw.random() * self.took[name] * 1.05)
                os.kill(process, signal.SIGKILL)
                ended(process)
            elif how == "clock":
                clock = self.folder / "clock"
                clock.write_text("+0d")
                self._under_another_clock(work, command, clock, draw)
            elif how == "second process":
                first = start(work, command.words.split())
                time.sleep(draw.random() * self.took[name] * 0.8)
                second = start(work, command.words.split())
                for code, said in (ended(first), ended(second)):
                    if code not in (0, 1, 2) or "Traceback" in said or "mistake in Holdfast" in said:
                        return [f"ends with {code}: {said[-300:]}"]
            return self._after(name, work)

    def _under_another_clock(self, work: Path, command: Command, clock: Path, draw: Random) -> None:
        """The clock leaps by up to ten years, forwards or back, twice while the command works."""
        environment = {
            **os.environ,
            "LD_PRELOAD": str(FAKE),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        words = [sys.executable, "-m", "holdfast", *command.words.split()]
        process = subprocess.Popen(
            words, cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(2):
            time.sleep(draw.random() * (self.took[command_name(command)] + 3) / 2)
            clock.write_text(f"{draw.choice('+-')}{draw.randrange(1, 3650)}d")
        process.wait()

    def _after(self, name: str, work: Path) -> list[str]:
        """What is wrong with the data, with what was written, and with what it comes to once it is taken up again."""
        command, wrong = COMMANDS[name], []
        inside = command.out.startswith("run/")
        now = {file: digest for file, digest in state_of(work).items() if file in self.before}
        was = {file: digest for file, digest in self.before.items() if not (inside and file == command.out)}
        changed = [file for file, digest in was.items() if now.get(file) != digest]
        if changed:
            wrong.append(f"changed what it read: {changed[:3]}")
        found = state_of(work / command.out)
        if command.over or not found or command.again:
            words = command.words.split() + (command.again.split() if found else [])
            code, said = undisturbed(work, words)
            if code:
                wrong.append(f"cannot be taken up again: {said[-300:]}")
            left = leftovers(work)
            if left:
                wrong.append(f"left behind: {left[:3]}")
        found = state_of(work / command.out)
        other = [file for file in {*found, *self.expected[name]} if found.get(file) != self.expected[name].get(file)]
        if other:
            wrong.append(f"another result: {sorted(other)[:4]}")
        return wrong


def command_name(command: Command) -> str:
    return next(name for name, each in COMMANDS.items() if each is command)


def planned(moments: int, seed: int) -> list[tuple[str, str, int]]:
    """Disturbance, command and number of every moment, all of them in turn."""
    plan: list[tuple[float, str, str, int]] = []
    for how, share in DISTURBANCES.items():
        names = [name for name in COMMANDS if how == "kill" or name != "review"]
        if how == "full disk":
            names = [
                name for name in names if name != "import"
            ]  # nothing of it is written aside: SQLite keeps its own log
        count = max(1, share * moments // 200)
        plan += [(number / count, how, names[(number + seed) % len(names)], number) for number in range(count)]
    return [(how, name, number) for _, how, name, number in sorted(plan)]


def table(lines: Sequence[dict[str, str]]) -> str:
    """The record as the page on security shows it."""
    text = ["| disturbed by | moments | commands | lost | doubled | not the same | left behind |", "| --- " * 7 + "|"]
    for how in DISTURBANCES:
        mine = [line for line in lines if line["how"] == how]
        tried = [line for line in mine if not line["wrong"].startswith("skipped")]
        count = {
            "lost": ("lost", "changed what"),
            "doubled": ("twice", "doubled"),
            "same": ("another result", "taken up", "ends with", "does not say"),
            "left": ("left behind",),
        }
        found = {
            key: sum(any(word in line["wrong"] for word in words) for line in tried) for key, words in count.items()
        }
        commands = len({line["command"] for line in tried})
        text.append(f"| {how} | {len(tried)} | {commands} | " + " | ".join(map(str, found.values())) + " |")
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=200, help="kills; a tenth as many of each other disturbance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no other moment after so many")
    parser.add_argument("--only", choices=list(COMMANDS), help="one command alone")
    parser.add_argument("--record", type=Path, default=Path("runs/chaos.csv"), help="where each moment becomes a line")
    asked = parser.parse_args()
    end = time.monotonic() + asked.minutes * 60
    os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    import torch

    torch.set_num_threads(1)
    for module in (
        "holdfast.cli",
        "holdfast.audit",
        "holdfast.contrastive.pretrain",
        "holdfast.plots",
        "holdfast.report",
        "holdfast.diagnosis.page",
        "holdfast.review.app",
        "lightning_fabric",
        "sklearn.ensemble",
        "uvicorn",
        "httpx",
    ):
        __import__(module)
    known: list[dict[str, str]] = []
    if asked.record.exists():
        known = list(csv.DictReader(io.StringIO(asked.record.read_text())))
    done = {(line["seed"], line["how"], line["number"]) for line in known}
    asked.record.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary, asked.record.open("a", newline="") as file:
        os.environ.update({"TMPDIR": temporary, "HOLDFAST_CACHE": f"{temporary}/cache"})
        tempfile.tempdir = temporary
        record = csv.DictWriter(file, ["seed", "how", "number", "command", "wrong"])
        if not known:
            record.writeheader()
        chaos = Chaos(Path(temporary))
        for how, name, number in planned(asked.moments, asked.seed):
            if (str(asked.seed), how, str(number)) in done or asked.only not in (None, name):
                continue
            if time.monotonic() > end:
                break
            if how == "clock" and not FAKE.exists():
                wrong = ["skipped: libfaketime is not installed (apt-get install faketime)"]
            else:
                wrong = chaos.disturbed(how, name, Random(f"{asked.seed} {how} {number}"))
            line = {
                "seed": str(asked.seed),
                "how": how,
                "number": str(number),
                "command": name,
                "wrong": "; ".join(wrong),
            }
            record.writerow(line)
            file.flush()
            known.append(line)
            if wrong:
                print(f"{how} {number}, {name}: {'; '.join(wrong)}", flush=True)
        left = leftovers(Path(temporary))
    print(table(known))
    bad = [line for line in known if line["wrong"] and not line["wrong"].startswith("skipped")]
    print(
        f"\n{len(known)} moments, {len(bad)} of them wrong"
        + (f"; left in the temporary folder: {left}" if left else "")
    )
    return 1 if bad or left else 0


if __name__ == "__main__":
    sys.exit(main())
