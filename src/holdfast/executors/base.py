"""The contract of what runs independent jobs."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from holdfast.errors import HoldfastError

FULL = (errno.ENOSPC, errno.EDQUOT)

Job = Callable[[], Any]
Done = Callable[[str, Any], None]


class Failed(NamedTuple):
    """What came of a job that did not end well."""

    why: str
    trace: str = ""
    """Where it failed, unless it was a mistake that the sentence explains."""


class Executor(Protocol):
    """Runs jobs that know nothing of each other; what they make does not depend on where, nor on how many at a time.

    Attributes
    ----------
    elsewhere: whether jobs leave this process.
    """

    @property
    def elsewhere(self) -> bool: ...

    def run(self, jobs: Iterable[tuple[str, Job]], done: Done = lambda name, outcome: None) -> dict[str, Any]:
        """What each job made, or ``Failed`` with a sentence; in the order given.

        A job whose process or machine dies is run again. One that raises is not: it would raise again.

        Parameters
        ----------
        jobs: names and functions without arguments, taken one by one as there is room for them. Where they leave this
            process, they and what they return are made of what a module holds at its top level
            (``functools.partial`` is).
        done: called with the name and the outcome as each job ends.
        """
        ...


_CURRENT: ContextVar[Executor | None] = ContextVar("holdfast_executor", default=None)


@contextmanager
def using(executor: Executor) -> Iterator[None]:
    """Run what is many independent jobs on an executor: ``with using(OnRay(workers=2)): holdfast.fit(...)``."""
    token = _CURRENT.set(executor)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> Executor | None:
    """The executor that is used here; None where everything runs in this process."""
    return _CURRENT.get()


def attempted(job: Job) -> Any:
    """What a job makes, or why it did not."""
    try:
        return job()
    except HoldfastError as error:
        return Failed(str(error))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            return Failed(
                f"the disk is full{f' at {error.filename}' if error.filename else ''}; make room and start again"
            )
        return Failed(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))
