"""The one place where an error becomes a sentence."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from holdfast.errors import HoldfastError

DEBUG = "--debug"
"""Anywhere on the command line: tracebacks are shown."""
RESUMED = ("fit", "pretrain", "compare")
"""Commands that go on with --resume."""
IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR)
FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)
STOPPED = 130
"""What a command ends with that was stopped by Ctrl-C."""


def sentence(error: BaseException) -> str:
    """What went wrong, and what to do about it, for whoever typed the command."""
    if isinstance(error, HoldfastError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        if error.errno in FULL:
            return f"{where}the disk is full; make room, and what is written so far stays as it is"
        if error.errno in CLOSED:
            return f"{where}this place cannot be written or read ({error.strerror}); choose another one"
        if error.errno in IN_THE_WAY:
            return f"{where}there is a file where a folder is needed; choose another place"
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "there is not enough memory for this; take fewer rows, smaller images, or a smaller --batch-size"
    first = (str(error).strip().splitlines() or ["no word"])[0]
    return (
        f"this is a mistake in Holdfast, not yours ({type(error).__name__}: {first}); with {DEBUG} it shows where, "
        "which is worth a report"
    )


def stopped(command: Sequence[str]) -> str:
    """What is said when somebody presses Ctrl-C.

    >>> stopped(["--max-memory", "8GB", "fit", "people.csv"])
    'stopped; the same command with --resume goes on from the last epoch'
    """
    resumed = any(word in RESUMED for word in command)
    return "stopped" + ("; the same command with --resume goes on from the last epoch" if resumed else "")


def say(text: str) -> None:
    """To the error stream, as it is: a name in square brackets is no markup."""
    Console(stderr=True).print(f"[bold red]holdfast:[/bold red] {escape(text)}", highlight=False, soft_wrap=True)


def show_where(error: BaseException) -> None:
    print("".join(traceback.format_exception(error)), file=sys.stderr)
