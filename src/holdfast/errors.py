"""What Holdfast says when it cannot go on: one sentence that names what was found and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HoldfastError(ValueError):
    """A mistake that the user can mend; the command line prints it without a traceback."""


class Diverged(HoldfastError):
    """The loss stopped being a number; the last good checkpoint is kept."""


class Died(HoldfastError):
    """A process of a training in several ended before its time; the last checkpoint is kept."""


def check_plain(path: Path) -> None:
    """Refuse what is neither file nor folder: whoever opens a pipe waits for somebody, and a device may have no end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise HoldfastError(f"{path} is a pipe or a device; a file is needed here")


@contextmanager
def unreadable(source: object, why: str = "cannot be read") -> Iterator[None]:
    """Whatever the parsers of others raise over a damaged file becomes a sentence: no list of errors has been complete.

    >>> with unreadable("a.npy"):
    ...     raise KeyError("descr")
    Traceback (most recent call last):
    holdfast.errors.HoldfastError: a.npy cannot be read: 'descr'
    """
    try:
        yield
    except HoldfastError:
        raise
    except MemoryError:
        raise HoldfastError(f"{source} {why}: it asks for more memory than there is, or is damaged") from None
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HoldfastError(f"{source} {why}: {first}") from None
