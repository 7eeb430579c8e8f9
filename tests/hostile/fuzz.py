"""Wrong inputs through every door, thousands of them: no traceback, no hang, no crash, no growth of memory.

``python tests/hostile/fuzz.py --inputs 50000`` tries as many, spread over the doors of ``doors.py``; what a number of a
door and a seed stand for is always the same. Inputs that fail are written into ``tests/hostile/kept``, and
``tests/hostile/test_fuzz.py`` tries all that lie there ever after.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

KEPT = Path(__file__).parent / "kept"
HANGS = 10.0
"""Seconds of the processor after which an input hangs, whatever else the machine does; of sleep, six times as many."""
GROWS = 512 << 20
"""Bytes by which a process may grow; what is read may take half of it."""
LOADED = (
    "holdfast.adapters.sklearn", "holdfast.audit", "holdfast.contrastive.pretrain", "holdfast.diagnosis.page",
    "holdfast.engine", "holdfast.nets.trees", "holdfast.plots", "holdfast.report", "holdfast.review.app",
    "datasets", "lightning_fabric", "numba", "openpyxl", "pyarrow.parquet", "pyarrow.feather", "sklearn.ensemble",
    "sklearn.linear_model", "sklearn.neighbors", "torch.utils.data",
)  # fmt: skip
EACH = 2000
"""Inputs that one process tries."""


class Failure(NamedTuple):
    """An input that did not end in a sentence."""

    door: str
    what: str
    content: bytes
    trace: str


def content_of(door: Any, name: str, seed: int, number: int) -> bytes:
    """The input that a number stands for."""
    draw = Random(f"{seed} {name} {number}")
    return door.spoil(draw.choice(door.samples), draw)


def _try(folder: Path, name: str, inputs: Sequence[bytes], seen: mmap.mmap, out: Path) -> None:
    """In a process of its own: let every input in, and say which one is at the door."""
    from hostile.doors import doors, well

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    warnings.simplefilter("ignore")
    own = Path(tempfile.mkdtemp(dir=folder))
    for item in ("data.csv", "run", "points.npy"):
        (shutil.copytree if (folder / item).is_dir() else shutil.copy)(folder / item, own / item)
    door = doors(own)[name]
    for sample in door.samples[:4]:  # what is loaded at the first use is not growth
        with contextlib.suppress(Exception, SystemExit):
            door.knock(sample)
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    here = Path("/proc/self/statm")
    claimed = int(here.read_text().split()[0]) * resource.getpagesize() if here.exists() else 0
    if claimed:
        resource.setrlimit(resource.RLIMIT_AS, (claimed + (4 << 30), claimed + (4 << 30)))
    longest = 0.0
    with out.open("a") as file:
        for number, content in enumerate(inputs):
            began, what = time.process_time(), ""
            seen[:16] = struct.pack("qd", number, began)
            try:
                door.knock(content)
            except (Exception, SystemExit) as error:
                if not well(error):
                    what = traceback.format_exc()[-2500:]
            longest = max(longest, time.process_time() - began)
            seen[16:] = struct.pack("d", longest)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - usage
            if not what and grown > GROWS:
                what = f"grown by {grown >> 20} MB"
            if what:
                file.write(json.dumps([number, what]) + "\n")
                file.flush()
            if grown > GROWS:
                break
    seen[:16] = struct.pack("qd", -1, 0.0)
    shutil.rmtree(own, ignore_errors=True)
    os._exit(0)


def _spent() -> float:
    """Seconds of the processor that this process and those that it has waited for have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + time.process_time()


def _cpu(process: int) -> float:
    """Seconds of the processor that a process has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def _stood_in_line(process: int) -> float:
    """Seconds that a process could have worked and had no processor."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _watch(process: int, seen: mmap.mmap) -> int | None:
    """Wait for a process; the number of the input that it hangs at, where it does."""
    at, since = -2, 0.0
    while os.waitpid(process, os.WNOHANG)[0] == 0:
        number, began = struct.unpack("qd", seen[:16])
        clock = time.monotonic() - _stood_in_line(process)
        if number != at:
            at, since = number, clock
        if number >= 0 and (_cpu(process) - began > HANGS or clock - since > 6 * HANGS):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return int(number)
        time.sleep(0.02)
    return None


def tried(folder: Path, name: str, inputs: Sequence[bytes]) -> tuple[list[Failure], float]:
    """Try inputs at a door, and tell the seconds of the processor that the longest took; a process that ends at one is
    followed by another that goes on behind it."""
    failures, done, longest = [], 0, 0.0
    while done < len(inputs):
        rest = inputs[done:]
        seen = mmap.mmap(-1, 24)
        seen[:] = struct.pack("qdd", -2, 0.0, 0.0)
        out = folder / f"failures-{os.getpid()}.jsonl"
        out.unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            try:
                _try(folder, name, rest, seen, out)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        hung = _watch(process, seen)
        number, _, most = struct.unpack("qdd", seen[:])
        longest = max(longest, most)
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        failures += [Failure(name, what.strip().splitlines()[-1][:200], rest[k], what) for k, what in lines]
        if number == -1:
            grown = any(what.startswith("grown") for _, what in lines)
            done += lines[-1][0] + 1 if grown else len(rest)
        elif number == -2:
            raise RuntimeError(f"the door {name!r} cannot be opened at all")
        else:
            failures.append(
                Failure(name, f"hangs for {HANGS:.0f} s" if hung is not None else "crash", rest[number], "")
            )
            done += number + 1
    return failures, longest


def prepared(folder: Path) -> None:
    """What the doors start from, made in another process, so that this one has no threads when it forks."""
    words = [
        sys.executable,
        "-c",
        f"from hostile.doors import prepare; from pathlib import Path; prepare(Path({str(folder)!r}))",
    ]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": path})


def shares(folder: Path) -> dict[str, Any]:
    """The doors, opened once here, and all that they need loaded, so that no process loads it again."""
    from hostile.doors import doors

    for module in LOADED:
        importlib.import_module(module)

    own = Path(tempfile.mkdtemp(dir=folder))
    for item in ("data.csv", "run", "points.npy"):
        (shutil.copytree if (folder / item).is_dir() else shutil.copy)(folder / item, own / item)
    return doors(own)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--door", help="this one alone")
    parser.add_argument("--replay", type=Path, help="a folder of kept inputs, one folder a door, instead")
    parser.add_argument("--keep", action="store_true", help="write inputs that fail into tests/hostile/kept")
    asked = parser.parse_args()
    os.environ |= {"HOLDFAST_MAX_MEMORY": str(GROWS // 2), "ARROW_DEFAULT_MEMORY_POOL": "system", "HF_HUB_OFFLINE": "1",
                   "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip
    sys.path.insert(0, str(Path(__file__).parents[1]))
    began, count, spent = time.monotonic(), 0, Counter[str]()
    failures: list[Failure] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as temporary:
        folder = Path(temporary)
        os.environ["HOLDFAST_CACHE"] = str(folder / "cache")
        prepared(folder)
        known = shares(folder)
        whole = sum(door.share for door in known.values())
        for name, door in known.items():
            if asked.door not in (None, name):
                continue
            if asked.replay is not None:
                kept = sorted((asked.replay / name.replace("/", "_").replace(" ", "_")).glob("*"))
                inputs = [path.read_bytes() for path in kept]
            else:
                wanted = asked.inputs if asked.door else -(-asked.inputs * door.share // whole)
                inputs = [content_of(door, name, asked.seed, number) for number in range(wanted)]
            start, longest = _spent(), 0.0
            for at in range(0, len(inputs), EACH):
                found, most = tried(folder, name, inputs[at : at + EACH])
                failures, longest = failures + found, max(longest, most)
            count += len(inputs)
            spent[name] += _spent() - start
            print(
                f"{name}: {len(inputs):,} inputs, {spent[name]:.1f} s of the processor, the longest {longest:.1f} s",
                flush=True,
            )
    told: set[tuple[str, str]] = set()
    for failure in failures:
        if (failure.door, failure.what) not in told:
            told.add((failure.door, failure.what))
            print(f"\n{failure.door}: {failure.what}\n{failure.content[:300]!r}\n{failure.trace}")
            if asked.keep:
                place = KEPT / failure.door.replace("/", "_").replace(" ", "_")
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{zlib.crc32(failure.what.encode()):08x}").write_bytes(failure.content)
    passed = f"{time.monotonic() - began:.0f} s, {_spent():.0f} s of the processor"
    print(f"\n{count:,} inputs, {len(failures)} failures of {len(told)} kinds, {passed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
