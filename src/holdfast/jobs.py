"""Jobs: independent pieces of work, several at a time in processes of their own; a failure leaves the rest alone."""

from __future__ import annotations

import math
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from holdfast.errors import HoldfastError
from holdfast.files import temporary_folder
from holdfast.launch import end_with_parent, save_job, start_context


class Failed(NamedTuple):
    """What came of a job that did not end well."""

    why: str
    trace: str = ""
    """Where it failed, unless it was a mistake that the sentence explains."""


Done = Callable[[str, Any], None]


def run_jobs(
    jobs: Mapping[str, Callable[[], Any]],
    workers: int = 1,
    *,
    threads: int = 1,
    until: float = math.inf,
    done: Done = lambda name, outcome: None,
) -> dict[str, Any]:
    """Run every job and return what each made, or ``Failed`` with a sentence; in the order given.

    Parameters
    ----------
    jobs: functions without arguments; with several workers they, and what they return, travel to and from another
        process, so they are made of what a module holds at its top level (``functools.partial`` is).
    workers: how many run at a time. One runs them here, one after another; more start a process for each job.
    threads: of the processor for each process, so that together they do not ask for more than there are.
    until: the time (``time.monotonic()``) from which no further job begins; those that never did are missing from what
        is returned.
    done: called with the name and the outcome as each job ends.

    >>> found = run_jobs({"a": lambda: 1, "b": lambda: 1 / 0})
    >>> found["a"], found["b"].why
    (1, 'ZeroDivisionError: division by zero')
    """
    if workers < 1 or threads < 1:
        raise HoldfastError(f"jobs need at least one worker and one thread, not {workers} and {threads}")
    if workers > 1:
        return _in_processes(jobs, workers, threads, until, done)
    outcomes: dict[str, Any] = {}
    for name, job in jobs.items():
        if time.monotonic() >= until:
            break
        try:
            outcomes[name] = job()
        except Exception as error:
            outcomes[name] = _failure(error)
        done(name, outcomes[name])
    return outcomes


def _in_processes(
    jobs: Mapping[str, Callable[[], Any]], workers: int, threads: int, until: float, done: Done
) -> dict[str, Any]:
    context = start_context("cpu")
    waiting = list(enumerate(jobs))
    running: dict[int, tuple[str, BaseProcess, Path]] = {}
    outcomes: dict[str, Any] = {}
    with temporary_folder() as folder:
        try:
            while running or (waiting and time.monotonic() < until):
                while waiting and len(running) < workers and time.monotonic() < until:
                    number, name = waiting.pop(0)
                    path = folder / f"job{number}"
                    save_job(jobs[name], path)
                    process: BaseProcess = context.Process(target=_work, args=(path, threads), name=f"holdfast-{name}")
                    process.start()
                    running[process.sentinel] = (name, process, path)
                for sentinel in wait(list(running)):
                    name, process, path = running.pop(sentinel)  # type: ignore[arg-type]
                    process.join()
                    outcomes[name] = _outcome(process, path)
                    done(name, outcomes[name])
        finally:
            for _, process, _ in running.values():
                process.kill()
                process.join()
    return {name: outcomes[name] for name in jobs if name in outcomes}


def _work(path: Path, threads: int) -> None:
    """In the process of a job: read it, do it, write what it made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the calling process hears of it and ends this one
    end_with_parent()
    torch.set_num_threads(threads)
    job = torch.load(path, weights_only=False)
    path.unlink()
    try:
        made = job()
    except Exception as error:
        made = _failure(error)
    torch.save(made, path.with_suffix(".made"))


def _outcome(process: BaseProcess, path: Path) -> Any:
    made = path.with_suffix(".made")
    if process.exitcode == 0 and made.exists():
        outcome = torch.load(made, weights_only=False)
        made.unlink()
        return outcome
    for left in (path, made):
        with suppress(OSError):
            left.unlink()
    code = process.exitcode or 0
    if code < 0:
        hint = ", as a machine does that is out of memory" if -code == signal.SIGKILL else ""
        return Failed(f"its process was killed ({signal.Signals(-code).name}{hint})")
    return Failed(f"its process ended with exit code {code}")


def _failure(error: Exception) -> Failed:
    if isinstance(error, HoldfastError):
        return Failed(str(error))
    return Failed(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))
