"""Sources: where rows were read from and how, so that a run can find its data again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from holdfast.data.corrected import with_corrected
from holdfast.data.encode import code_of, encoder_in
from holdfast.data.on_disk import OnDisk
from holdfast.data.read import read
from holdfast.data.rows import Rows
from holdfast.data.scale import scaled_targets
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, silent


@dataclass(frozen=True)
class Source:
    """A path with the options it is read by, and which rows are held out.

    Parameters
    ----------
    path: the data.
    reading: options of ``read``, as plain JSON values.
    test: a file of test rows, or the share to hold out where the data ships no test rows (0: none). A run judges that
        share like the training rows.
    seed: of the draw of that share.
    labels: a file of corrected labels, as ``holdfast export`` writes it.
    """

    path: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    test: str = "0"
    seed: int = 0
    labels: str | None = None

    @classmethod
    def at(cls, path: Path, test: str, seed: int, labels: Path | None = None, **reading: Any) -> Source:
        """A source that can be found from any working folder."""
        share = str(Path(test).absolute()) if is_file(test) else test
        if reading.get("features") is not None:
            reading["features"] = str(Path(reading["features"]).absolute())
        options = {name: value for name, value in reading.items() if value is not None}
        return cls(str(path.absolute()), options, share, seed, None if labels is None else str(labels.absolute()))

    def load(self, progress: MakeProgress = silent) -> tuple[Rows, Rows | None]:
        """Training and test rows: of a file, of the data's own test set, or of a share held out."""
        read_rows, own = read(Path(self.path), **self.reading, progress=progress)
        source = asdict(self)
        if "encoder" in self.reading:
            # What was chosen, and not that it was left to this machine to choose.
            source["reading"] = {**source["reading"], "encoder": encoder_in(read_rows.recipe)}
        if isinstance(read_rows.x, OnDisk) and "on_disk" not in self.reading:
            source["reading"] = {**source["reading"], "on_disk": True}
        rows = replace(read_rows, source_index=torch.arange(len(read_rows)), source=source)
        if self.labels is not None:
            rows = with_corrected(rows, Path(self.labels))
        rows = scaled_targets(rows)
        if is_file(self.test):
            held_out, _ = read(Path(self.test), **{**self.reading, "recipe": dict(rows.recipe)}, progress=progress)
            return rows, scaled_targets(held_out, rows)
        if own is not None:
            return rows, scaled_targets(own, rows)
        return (rows, None) if float(self.test) == 0 else rows.split(float(self.test), self.seed)


def read_again(
    source: Mapping[str, Any], fingerprint: str, held_out: str | None = None, follow_links: bool = False
) -> Rows:
    """The training rows of a run, found again, and after them those held out if their fingerprint is given too.

    An error where they have moved or changed. Links out of a folder are followed if whoever asks says so, whatever the
    run says.
    """
    if not source:
        raise HoldfastError("the run was given its rows in memory, so they cannot be read again")
    found = with_links(source_of(source), follow_links)
    if not Path(found.path).exists():
        raise HoldfastError(f"the data of the run is no longer at {found.path}; put it back there")
    rows, test = found.load()
    apart = None if held_out is None or test is None else test.fingerprint
    if (rows.fingerprint, apart) != (fingerprint, held_out):
        raise HoldfastError(f"the data at {found.path} has changed since the run; train again")
    return rows if held_out is None or test is None else rows.followed_by(test)


def source_of(values: Mapping[str, Any]) -> Source:
    """A source as a run has written it down, which may be anybody's."""
    kinds = {"path": str, "reading": Mapping, "test": str, "seed": int, "labels": str | None}
    if values.keys() != kinds.keys() or not all(isinstance(values[name], kind) for name, kind in kinds.items()):
        raise HoldfastError("does not say where its rows were read from; train again")
    strange = values["reading"].keys() - inspect.signature(read).parameters.keys()
    if strange:
        raise HoldfastError(f"has read its rows with an unknown option, {min(strange)}; train again")
    return Source(**values)


def with_links(source: Source, follow: bool) -> Source:
    """A source that a run names, whose links are followed only where both it and the one who asks want that."""
    if follow:
        return source
    return replace(source, reading={name: value for name, value in source.reading.items() if name != "follow_links"})


def code_in(source: Source) -> list[str]:
    """Names of code, and pickles, that reading the rows again would run."""
    encoder = source.reading.get("encoder")
    files = [source.path, *([source.test] if is_file(source.test) else [])]
    named = [] if encoder is None else code_of({}, str(encoder))
    return [*named, *(files if source.reading.get("trust_pickle") else [])]


def is_file(test: str) -> bool:
    """Whether the test rows of a source lie in a file of their own, and are no share of the data.

    >>> is_file("/data/test.csv"), is_file("0.2")
    (True, False)
    """
    try:
        float(test)
    except ValueError:
        return True
    return False
