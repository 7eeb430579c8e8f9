"""Features that are computed once: kept on disk by what they were made of, in parts until all of them are there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.encoders.base import Encoder
from holdfast.errors import HoldfastError
from holdfast.executors import Executor, Failed, current
from holdfast.files import written_aside
from holdfast.progress import MakeProgress, Progress, silent

PART = 512
"""Rows in a part: what is lost at most when the process is killed."""

Features = NDArray[np.float32]


@dataclass(frozen=True)
class Items:
    """What is to be encoded, without holding it in memory.

    Parameters
    ----------
    digests: of the content of each.
    lengths: letters of a text, pixels of a picture: what the work goes by.
    load: rows -> what ``Encoder.encode`` takes.
    """

    digests: Sequence[bytes]
    lengths: Sequence[int]
    load: Callable[[Sequence[int]], Any]

    def __len__(self) -> int:
        return len(self.digests)


def texts(values: Sequence[str]) -> Items:
    """Texts in memory."""
    return Items(
        [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in values],
        [len(text) for text in values],
        lambda rows: [values[i] for i in rows],
    )


def cache_folder() -> Path:
    """Where features are kept: HOLDFAST_CACHE, or holdfast in XDG_CACHE_HOME, or ~/.cache/holdfast."""
    named = os.environ.get("HOLDFAST_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "holdfast"


def features(encoder: Encoder, items: Items, progress: MakeProgress = silent) -> Features:
    """(N, size) features, memory-mapped: found in the cache, or computed into it.

    Work that was stopped goes on where it was; parts are renamed into place whole, so that a kill at any moment leaves
    nothing that is wrong. A second process that wants the same features waits for the first.
    """
    path = cache_folder() / "features" / f"{_key(encoder, items)}.npy"
    found = _kept(path, len(items))
    if found is not None:
        return found
    try:
        with alone(path.with_suffix(".lock")):
            found = _kept(path, len(items))
            if found is None:
                _compute(encoder, items, path, progress)
                found = _kept(path, len(items))
    except OSError as error:
        raise HoldfastError(
            f"features cannot be kept in {path.parent} ({error.strerror}); name another folder in HOLDFAST_CACHE"
        ) from None
    if found is None:
        raise HoldfastError(f"{path} was removed while it was written; start again")
    return found


def _key(encoder: Encoder, items: Items) -> str:
    digest = hashlib.sha256(f"{encoder.identity} {encoder.dtype} {len(items)}".encode())
    for each in items.digests:
        digest.update(each)
    return digest.hexdigest()[:32]


def _kept(path: Path, count: int) -> Features | None:
    try:
        # Copy on write: torch warns of arrays that it may not write to.
        found: Features = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.ndim == 2 and len(found) == count else None


def _compute(encoder: Encoder, items: Items, path: Path, progress: MakeProgress) -> None:
    """All parts that are missing, then the whole of them as one file."""
    aside = path.with_suffix(".parts")
    order = sorted(range(len(items)), key=lambda i: (-items.lengths[i], i))
    parts = [order[i : i + PART] for i in range(0, len(order), PART)]
    work = np.array([sum(items.lengths[i] for i in part) + len(part) for part in parts], dtype=float)
    ended = work.cumsum() / work.sum() * len(items)
    with progress(encoder.name, encoder.unit) as bar:
        bar.phase("once, then kept")
        executor = current()
        if executor is not None and executor.elsewhere:
            _by_others(executor, encoder, items, parts, aside, bar)
        for number, part in enumerate(parts):
            file = aside / f"{number:06d}.npy"
            if _kept(file, len(part)) is None:
                before = ended[number] - work[number] / work.sum() * len(items)
                steps = partial(_between, bar, before, ended[number], len(items))
                _write(file, _encoded(encoder, items, part, steps))
            bar.at(ended[number], len(items))
        _join(aside, parts, path, len(items))
    shutil.rmtree(aside, ignore_errors=True)


def _by_others(
    executor: Executor, encoder: Encoder, items: Items, parts: Sequence[Sequence[int]], aside: Path, bar: Progress
) -> None:
    """Parts that are missing, made by the workers of an executor and written here as each of them ends.

    Each is loaded when a worker has room for it, and encoded in the batches that it would have in this process.
    """
    missing = {f"{number:06d}.npy": part for number, part in enumerate(parts)}
    missing = {name: part for name, part in missing.items() if _kept(aside / name, len(part)) is None}
    rows = len(items) - sum(map(len, missing.values()))

    def keep(name: str, outcome: Any) -> None:
        nonlocal rows
        if isinstance(outcome, Failed):
            raise HoldfastError(f"{encoder.name} could not encode some {encoder.unit}: {outcome.why}")
        _write(aside / name, outcome)
        rows += len(missing[name])
        bar.at(rows, len(items))

    def jobs() -> Iterator[tuple[str, Callable[[], Features]]]:
        for name, part in missing.items():
            lengths = [items.lengths[row] for row in part]
            yield name, partial(_encoded_elsewhere, encoder.name, loaded=items.load(part), lengths=lengths)

    executor.run(jobs(), keep)


def _encoded_elsewhere(name: str, loaded: Any, lengths: Sequence[int]) -> Features:
    """In another process: a part that was loaded before it came here."""
    from holdfast.encoders.named import encoder_named  # which imports the encoders, and they this module's neighbours

    whole = Items([b""] * len(lengths), lengths, lambda rows: loaded)
    return _encoded(encoder_named(name), whole, range(len(lengths)), lambda share: None)


def _between(bar: Progress, before: float, after: float, total: int, share: float) -> None:
    bar.at(before + share * (after - before), total)


def _encoded(encoder: Encoder, items: Items, part: Sequence[int], done: Callable[[float], None]) -> Features:
    place = {row: i for i, row in enumerate(part)}
    loaded = items.load(part)
    made: Features | None = None
    count = 0
    for batch in encoder.batches(part, items.lengths):
        at = [place[row] for row in batch]
        values = encoder.encode([loaded[i] for i in at] if isinstance(loaded, list) else loaded[at]).numpy()
        if made is None:
            made = np.empty((len(part), values.shape[1]), dtype=np.float32)
        made[at] = values
        count += len(batch)
        done(count / len(part))
    assert made is not None
    if not np.isfinite(made).all():
        raise HoldfastError(f"{encoder.name} makes features that are no numbers of some {encoder.unit}; use another")
    return made


def _write(path: Path, values: Features) -> None:
    with written_aside(path) as aside, open(aside, "wb") as file:
        np.save(file, values)


def _join(aside: Path, parts: Sequence[Sequence[int]], path: Path, count: int) -> None:
    """The parts, each of which holds rows from anywhere, as one file in the order of the rows."""
    first = np.load(aside / f"{0:06d}.npy", allow_pickle=False)
    with written_aside(path) as temporary:
        whole = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=(count, first.shape[1]))
        for number, part in enumerate(parts):
            whole[part] = np.load(aside / f"{number:06d}.npy", allow_pickle=False)
        whole.flush()
        del whole


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """A lock that the system lets go when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        # Whoever waits for it, or makes it anew, finds the features there.
        path.unlink(missing_ok=True)
