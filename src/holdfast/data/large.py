"""Tables larger than memory: a folder of Parquet files, or a Hugging Face dataset, a column or a batch at a time."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from holdfast.data.formats import Kind, is_hugging_face
from holdfast.data.load import INDEX, hugging_face_parts, whole
from holdfast.data.parquet_folder import dataset, parquet_files, unpacked
from holdfast.errors import HoldfastError, unreadable
from holdfast.memory import check_fits, fits

BATCH = 16_384
"""Rows that are read at a time."""
HELD = 256 << 20
"""Bytes of a column up to which all of it says how it is encoded; of a longer one rows spread over all of it do."""
CELL = 12
"""Bytes that a cell takes in memory beside what it holds: its place in a table and in features."""
A_ROW = 256
"""Bytes that training keeps of each row, whatever its inputs are."""
ENDS = 1 << 16
"""Bytes at both ends of a file by which it is known; Parquet files have sizes and extremes of all columns there."""


class LargeTable:
    """A table on disk.

    Parameters
    ----------
    path: what errors call it.
    data: the table, as pyarrow reads it in parts.
    files: those that it lies in.
    named: names of numbered classes, by column.
    """

    def __init__(
        self, path: str, data: ds.Dataset, files: Sequence[Path], named: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.path, self._data, self.files, self._named = path, data, files, named or {}
        self.columns = [name for name in data.schema.names if not INDEX.fullmatch(name)]
        if len(set(self.columns)) < len(self.columns):
            raise HoldfastError(f"{path} has two columns of one name")
        self._parts = list(data.get_fragments())
        self._starts = np.cumsum([0, *(part.count_rows() for part in self._parts)]).tolist()
        if not len(self):
            raise HoldfastError(f"{path} holds no rows")

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def on_disk(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    @property
    def in_memory(self) -> int:
        """Bytes that it would take as a table and as features, about."""
        return self._unpacked + len(self) * len(self.columns) * CELL

    @property
    def _unpacked(self) -> int:
        if isinstance(self._data, ds.InMemoryDataset):
            return int(sum(batch.nbytes for batch in self._data.to_batches()))
        return unpacked(self._data)

    @cached_property
    def digests(self) -> tuple[bytes, bytes]:
        """Of names, sizes and both ends of the files; and of these with the times of their last change."""
        same, changed = hashlib.sha256(), hashlib.sha256()
        for file in self.files:
            known = file.stat()
            with open(file, "rb") as held:
                first = held.read(ENDS)
                held.seek(max(0, known.st_size - ENDS))
                ends = hashlib.sha256(first + held.read(ENDS)).hexdigest()
            line = f"{file.name}\0{known.st_size}\0{ends}\n".encode("utf-8", "surrogateescape")
            same.update(line)
            changed.update(line + f"{file}{known.st_mtime_ns}".encode("utf-8", "surrogateescape"))
        return same.digest(), changed.digest()

    def whole(self, names: Sequence[str]) -> pd.DataFrame:
        """All rows of a few columns."""
        return self._frame(self._read(columns=list(dict.fromkeys(names))), 0)

    def column(self, name: str) -> pd.Series[Any]:
        """A column, words once for all rows that have them; of one that is too long every so many batches, spread over
        all of it."""
        kept: list[tuple[int, Any]] = []
        size, every, start = 0, 1, 0
        for number, batch in enumerate(self._batches(columns=[name])):
            if number % every == 0:
                held = batch.column(0)
                held = held.dictionary_encode() if _is_words(held.type) else held
                kept.append((start, held))
                size += held.nbytes
            start += len(batch)
            while size > HELD and len(kept) > 1:
                every *= 2
                kept = kept[::2]
                size = sum(held.nbytes for _, held in kept)
        index = np.concatenate([np.arange(start, start + len(held)) for start, held in kept])
        values = pa.chunked_array([held for _, held in kept]).unify_dictionaries()
        found = pa.table({name: values}).to_pandas(ignore_metadata=True)[name]
        found.index = pd.RangeIndex(len(self)) if len(index) == len(self) else pd.Index(index)
        return self._by_name(name, found.astype(object) if isinstance(found.dtype, pd.CategoricalDtype) else found)

    def batches(self, names: Sequence[str], start: int = 0) -> Iterator[pd.DataFrame]:
        """Rows from one on, a batch at a time, numbered as in the whole table."""
        for number, part in enumerate(self._parts):
            first, end = self._starts[number], self._starts[number + 1]
            if end <= start:
                continue
            for batch in self._of_part(part, list(names)):
                skipped = min(max(0, start - first), len(batch))
                if skipped < len(batch):
                    yield self._frame(pa.Table.from_batches([batch.slice(skipped)]), first + skipped)
                first += len(batch)

    def line(self, row: int) -> pd.Series[Any]:
        """One row."""
        number = bisect_right(self._starts, row) - 1
        part, at = self._parts[number], row - self._starts[number]
        if isinstance(self._data, ds.InMemoryDataset):
            return self._frame(part.to_table().slice(at, 1), row).iloc[0]
        for group in part.row_groups:
            if at < group.num_rows:
                return self._group(number, group.id).iloc[at].set_axis(self.columns)  # type: ignore[no-any-return]
            at -= group.num_rows
        raise IndexError(row)

    @lru_cache(maxsize=2)  # noqa: B019  lives as long as the page that shows the rows
    def _group(self, number: int, group: int) -> pd.DataFrame:
        part = self._parts[number].subset(row_group_ids=[group])
        return self._frame(part.to_table(schema=self._data.schema, columns=self.columns), 0)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return (batch for part in self._parts for batch in self._of_part(part, columns))

    def _of_part(self, part: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            # One batch and one file ahead: by default sixteen of each wait in memory.
            for batch in part.to_batches(
                schema=self._data.schema, columns=columns, batch_size=BATCH, batch_readahead=1, fragment_readahead=1,
                use_threads=False, cache_metadata=False,
            ):  # fmt: skip
                yield whole(batch)
        except (pa.ArrowException, OSError) as error:
            raise HoldfastError(f"{self.path} cannot be read: {str(error).splitlines()[0]}") from None

    def _read(self, columns: list[str]) -> pa.Table:
        schema = pa.schema([self._data.schema.field(name) for name in columns])
        return pa.Table.from_batches(self._batches(columns), schema)

    def _frame(self, table: pa.Table, start: int) -> pd.DataFrame:
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
        frame.index = pd.RangeIndex(start, start + len(frame))
        for name in self._named:
            if name in frame:
                frame[name] = self._by_name(name, frame[name])
        return frame

    def _by_name(self, column: str, values: pd.Series[Any]) -> pd.Series[Any]:
        if column not in self._named:
            return values
        return values.map(dict(enumerate(self._named[column])).get)  # -1 stands for a label that is not known


class Parts(NamedTuple):
    """The parts of a large table."""

    rows: LargeTable
    test: LargeTable | None
    found: str
    """What it is, in plain words."""


def large_table(path: Path, on_disk: bool | None) -> Parts | None:
    """The table at a path, to be read in parts; None where it is of another kind, or fits into memory.

    Parameters
    ----------
    on_disk: read it in parts even so, or in no case; None: where it does not fit.
    """
    if on_disk is False or not path.is_dir():
        return None
    if is_hugging_face(path):
        parts = _of_hugging_face(path)
    elif parquet_files(path):
        parts = Parts(LargeTable(str(path), dataset(path), parquet_files(path)), None, Kind.PARQUET_FOLDER.value)
    else:
        return None
    if parts is None or (on_disk is None and fits(parts.rows.in_memory)):
        return None
    check_fits(len(parts.rows) * A_ROW, parts.rows.on_disk, path)
    return parts


def _of_hugging_face(path: Path) -> Parts | None:
    train, test, found = hugging_face_parts(path)
    from datasets import ClassLabel, Image

    if any(isinstance(feature, Image) for feature in train.features.values()):
        return None

    def large(held: Any, called: str) -> LargeTable:
        named = {name: kind.names for name, kind in held.features.items() if isinstance(kind, ClassLabel)}
        files = [Path(file["filename"]) for file in held.cache_files]
        table = held.with_format("arrow").data.table
        table.validate()  # where its columns begin and end; what is in them as it is read
        return LargeTable(called, ds.dataset(table), files, named)

    with unreadable(path):
        return Parts(large(train, str(path)), None if test is None else large(test, f"{path}: test"), found)


def _is_words(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def room_for(folder: Path, size: int, what: object) -> None:
    """An error where a disk has no room for what is to be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    held = os.statvfs(folder)
    if held.f_bavail * held.f_frsize < size:
        raise HoldfastError(
            f"the features of {what} take {size / 1e9:.1f} GB, and {folder} has no room for them; name another folder "
            "in HOLDFAST_CACHE"
        )
