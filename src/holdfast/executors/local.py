"""Jobs in processes of this machine, several at a time; a failure leaves the rest alone."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from holdfast.errors import HoldfastError
from holdfast.executors.base import Done, Failed, Job, attempted
from holdfast.files import temporary_folder
from holdfast.launch import end_with_parent, save_job, start_context

RETRIES = 1
"""How often a job is run again whose process was killed; a machine that is out of memory kills it once more."""
UNWRITTEN = 74
"""What a process ends with that could not write what its job made."""


@dataclass(frozen=True)
class Local:
    """Processes of this machine, one for each job; a single worker works in this process.

    Parameters
    ----------
    workers: jobs at a time.
    threads: of the processor for each process, so that together they do not ask for more than there are.
    until: the time (``time.monotonic()``) from which no further job begins; those that never did are missing from what
        ``run`` returns.

    >>> found = Local().run([("a", lambda: 1), ("b", lambda: 1 / 0)])
    >>> found["a"], found["b"].why
    (1, 'ZeroDivisionError: division by zero')
    """

    workers: int = 1
    threads: int = 1
    until: float = math.inf

    def __post_init__(self) -> None:
        if self.workers < 1 or self.threads < 1:
            raise HoldfastError(f"jobs need at least one worker and one thread, not {self.workers} and {self.threads}")

    @property
    def elsewhere(self) -> bool:
        return self.workers > 1

    def __repr__(self) -> str:
        return f"Local(workers={self.workers}, threads={self.threads})"

    def run(self, jobs: Iterable[tuple[str, Job]], done: Done = lambda name, outcome: None) -> dict[str, Any]:
        if self.elsewhere:
            return self._in_processes(jobs, done)
        outcomes: dict[str, Any] = {}
        for name, job in jobs:
            if time.monotonic() >= self.until:
                break
            outcomes[name] = attempted(job)
            done(name, outcomes[name])
        return outcomes

    def _in_processes(self, jobs: Iterable[tuple[str, Job]], done: Done) -> dict[str, Any]:
        waiting, names = iter(jobs), list[str]()
        running: dict[int, _Running] = {}
        outcomes: dict[str, Any] = {}
        with temporary_folder() as folder:
            try:
                while True:
                    while len(running) < self.workers and time.monotonic() < self.until:
                        following = next(waiting, None)
                        if following is None:
                            break
                        path = folder / f"job{len(names)}"
                        names.append(following[0])
                        save_job(following[1], path)
                        del following  # it may hold data, which other jobs need room for
                        started = _Running.started(names[-1], path, self.threads)
                        running[started.process.sentinel] = started
                    if not running:
                        break
                    for sentinel in wait(list(running)):
                        ended = running.pop(sentinel)  # type: ignore[arg-type]
                        ended.process.join()
                        if (ended.process.exitcode or 0) < 0 and ended.attempt < RETRIES:
                            again = _Running.started(ended.name, ended.path, self.threads, ended.attempt + 1)
                            running[again.process.sentinel] = again
                            continue
                        outcomes[ended.name] = ended.outcome()
                        done(ended.name, outcomes[ended.name])
            finally:
                for each in running.values():
                    each.process.kill()
                    each.process.join()
        return {name: outcomes[name] for name in names}


class _Running(NamedTuple):
    """A job at work."""

    name: str
    process: BaseProcess
    path: Path
    attempt: int

    @classmethod
    def started(cls, name: str, path: Path, threads: int, attempt: int = 0) -> _Running:
        process: BaseProcess = start_context("cpu").Process(target=_work, args=(path, threads), name=f"holdfast-{name}")
        process.start()
        return cls(name, process, path, attempt)

    def outcome(self) -> Any:
        made = self.path.with_suffix(".made")
        found: Any = None
        code = self.process.exitcode or 0
        if code == 0 and made.exists():
            found = torch.load(made, weights_only=False)
        elif code < 0:
            hint = ", as a machine does that is out of memory" if -code == signal.SIGKILL else ""
            found = Failed(f"its process was killed ({signal.Signals(-code).name}{hint})")
        elif code == UNWRITTEN:
            found = Failed(
                f"what it made could not be written to {made.parent}; make room there, or name another TMPDIR"
            )
        else:
            found = Failed(f"its process ended with exit code {code}")
        for left in (self.path, made):
            with suppress(OSError):
                left.unlink()
        return found


def _work(path: Path, threads: int) -> None:
    """In the process of a job: read it, do it, write what it made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the calling process hears of it and ends this one
    end_with_parent()
    torch.set_num_threads(threads)
    made = attempted(torch.load(path, weights_only=False))
    try:
        torch.save(made, path.with_suffix(".made"))
    except (OSError, RuntimeError):  # torch says of a full disk that its writer failed
        sys.exit(UNWRITTEN)
