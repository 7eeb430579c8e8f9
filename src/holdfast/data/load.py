"""Tables as their files hold them, whatever the format: a line for each row, a column for each column."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import pandas as pd
import pyarrow as pa

from holdfast.data import database, parquet_folder
from holdfast.data.formats import Compression, FileFormat, Kind, detect, opened
from holdfast.errors import HoldfastError, unreadable
from holdfast.memory import check_fits, check_unpacked

TEST_PARTS = ("test", "validation", "valid", "val", "dev")
"""What the test rows of a dataset of several parts are called."""
GROWS = 4
"""Times the size of its text that a table takes in memory."""
WORD = 56
"""Bytes that a word of a table takes in memory at least, beside its place."""
INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name."""
MISSING = ["?"]
"""What counts as missing in a CSV file besides what pandas takes for missing."""


class Table(NamedTuple):
    """A table, the test rows that came with it, and what its file is."""

    frame: pd.DataFrame
    test: pd.DataFrame | None
    found: str
    """The format in plain words."""


def load(
    path: Path, delimiter: str | None = None, encoding: str | None = None, table: str | None = None
) -> pd.DataFrame:
    """The table at a path, without the test rows that may come with it."""
    return load_table(path, delimiter, encoding, table).frame


def load_table(
    path: Path, delimiter: str | None = None, encoding: str | None = None, table: str | None = None
) -> Table:
    """The table at a path.

    Parameters
    ----------
    delimiter, encoding: of a CSV file and of a text, where what is found by itself is wrong.
    table: the table of a database, or the sheet of a workbook; whatever holds one table has no use for it.
    """
    found = detect(path, delimiter, encoding, table)
    with unreadable(path):
        if found.kind is Kind.HUGGING_FACE:
            return _hugging_face(path)
        if found.kind is Kind.PARQUET_FOLDER:
            return _parquet_folder(path)
        try:
            frame, aside = _frame(path, found)
        except pd.errors.EmptyDataError:
            raise HoldfastError(f"{path} is empty") from None
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            read = f" (read as {found.describe()})" if found.kind is Kind.CSV else ""
            raise HoldfastError(f"{path} is not a well-formed table{read}: {str(error).strip()}") from None
        except UnicodeDecodeError as error:
            if found.encoding is None:
                raise
            raise HoldfastError(
                f"{path} is not text in {found.encoding} (byte {error.start}); name its encoding with --encoding"
            ) from None
    return Table(checked(frame, str(path)), None, ", ".join(filter(None, (found.describe(), aside))))


def checked(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """A table with rows, and columns that differ by name."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise HoldfastError(f"{source} has two columns named {twice!r}")
    if frame.empty:
        raise HoldfastError(f"{source} holds no rows")
    return frame


def _frame(path: Path, found: FileFormat) -> tuple[pd.DataFrame, str]:
    """The table of a file, and what else there is to say of it."""
    readers: dict[Kind, Callable[[IO[bytes], FileFormat], pd.DataFrame]] = {
        Kind.CSV: _csv,
        Kind.JSON_LINES: _json_lines,
        Kind.JSON: _json,
        Kind.PARQUET: lambda file, _: _parquet(file, path),
        Kind.FEATHER: lambda file, _: _feather(file),
    }
    if found.kind is Kind.SQLITE:
        if found.compression is not Compression.NONE:
            raise HoldfastError(f"{path} is a database in {found.compression.value}; unpack it")
        return database.load(path, found.table)
    check_size(path, found)
    with opened(path, found) as file:
        if found.kind is Kind.EXCEL:
            return _excel(_seekable(file), found.table)
        return readers[found.kind](file, found), ""


def check_size(path: Path, found: FileFormat) -> None:
    """Go through what is packed once, so that nothing is read that would not fit into memory."""
    if found.compression is not Compression.NONE:
        with opened(path, found) as file:
            check_unpacked(file, path.stat().st_size, path, GROWS)


def _parquet(file: IO[bytes], path: Path) -> pd.DataFrame:
    from pyarrow.parquet import ParquetFile

    held = _seekable(file)
    told = ParquetFile(held)
    words = sum(str(field.type) in ("string", "large_string", "binary") for field in told.schema_arrow)
    width = 8 * len(told.schema_arrow) + WORD * words
    check_fits(told.metadata.num_rows * width, held.getbuffer().nbytes, path)
    held.seek(0)
    return _with_index(_whole_texts(pd.read_parquet(held)))


def _feather(file: IO[bytes]) -> pd.DataFrame:
    from pyarrow.feather import read_table

    frame: pd.DataFrame = whole(read_table(_seekable(file))).to_pandas()
    return _with_index(frame)


def whole(table: pa.Table) -> pa.Table:
    """A table that is used as it lies in its file, once every place that it tells of texts and lists is in it; an error
    otherwise."""
    table.validate(full=True)
    return table


def _whole_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts of a columnar file are bytes that nobody has looked at yet; an error where they are no UTF-8."""
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.StringDtype):
            pa.array(frame[name].array).validate(full=True)
    return frame


def _seekable(file: IO[bytes]) -> io.BytesIO:
    return io.BytesIO(file.read())


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """An index that was saved under a name is a column like any other."""
    return frame.reset_index(drop=frame.index.name is None)


def _csv(file: IO[bytes], found: FileFormat) -> pd.DataFrame:
    with warnings.catch_warnings():
        # Rows longer than the header would otherwise lose their last fields.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            file,
            sep=found.delimiter,
            encoding=found.encoding,
            index_col=False,
            low_memory=False,
            na_values=MISSING,
        )


def _excel(file: io.BytesIO, asked: str | None) -> tuple[pd.DataFrame, str]:
    """The sheet asked for, or the first that holds anything; pandas leaves out empty lines at its end."""
    try:
        import openpyxl  # noqa: F401  only this format needs it
    except ImportError:
        raise HoldfastError("Excel files need openpyxl: pip install 'holdfast[excel]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # styles and charts that it does not understand
        sheets = pd.read_excel(file, sheet_name=None, engine="openpyxl")
    if asked is not None and asked not in sheets:
        raise ValueError(f"it has no sheet {asked!r}; it has {', '.join(map(str, sheets))}")
    if asked is not None:
        return sheets[asked], f"sheet {asked!r} of {len(sheets)}"
    name, frame = next(((name, frame) for name, frame in sheets.items() if len(frame)), next(iter(sheets.items())))
    return frame, f"sheet {name!r} of {len(sheets)}" if len(sheets) > 1 else ""


def _json_lines(file: IO[bytes], found: FileFormat) -> pd.DataFrame:
    rows = []
    with io.TextIOWrapper(file, encoding=found.encoding) as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} is no JSON ({error})") from None
            except RecursionError:
                raise ValueError(f"line {number} is nested too deeply") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} holds {_shown(row)} and no object of names and values")
            rows.append(row)
    return pd.DataFrame(rows)


def _json(file: IO[bytes], found: FileFormat) -> pd.DataFrame:
    try:
        rows = json.loads(file.read().decode(found.encoding or "utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(rows, dict):
        lists = [name for name, value in rows.items() if isinstance(value, list)]
        inside = f"; save what {lists[0]!r} holds as a file of its own" if lists else ""
        raise ValueError(f"it is one object ({_names(rows)}) where an array of objects is needed{inside}")
    other = next((row for row in rows if not isinstance(row, dict)), None)
    if other is not None:
        raise ValueError(f"its array holds {_shown(other)} where objects of names and values are needed")
    return pd.DataFrame(rows)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _names(row: dict[str, Any]) -> str:
    return ", ".join(list(row)[:3]) + (", ..." if len(row) > 3 else "")


def hugging_face_parts(path: Path) -> tuple[Any, Any, str]:
    """What ``save_to_disk`` wrote, mapped into memory: rows, test rows if there are any, and what it is."""
    try:
        from datasets import DatasetDict, load_from_disk  # only this format needs it
    except ImportError:
        raise HoldfastError(f"{path} is a Hugging Face dataset: pip install 'holdfast[datasets]'") from None
    with unreadable(path):
        held = load_from_disk(str(path))
    if not isinstance(held, DatasetDict):
        return held, None, Kind.HUGGING_FACE.value
    if not held:
        raise HoldfastError(f"{path} holds no rows")
    train = "train" if "train" in held else next(iter(held))
    test = next((name for name in TEST_PARTS if name in held and name != train), None)
    others = [name for name in held if name not in (train, test)]
    parts = [f"rows of {train!r}", *([f"test rows of {test!r}"] if test else [])]
    left = f", left out: {', '.join(map(repr, others))}" if others else ""
    found = f"{Kind.HUGGING_FACE.value}, {', '.join(parts)}{left}"
    return held[train], None if test is None else held[test], found


def _hugging_face(path: Path) -> Table:
    """Numbered classes by their names, pictures as the bytes of their files."""
    train, test, found = hugging_face_parts(path)
    for part in filter(None, (train, test)):
        whole(part.data.table)
    further = None if test is None else checked(plain_columns(test), f"{path}: test")
    return Table(checked(plain_columns(train), str(path)), further, found)


def _parquet_folder(path: Path) -> Table:
    data = parquet_folder.dataset(path)
    size = parquet_folder.unpacked(data) + 8 * data.count_rows() * len(data.schema)
    check_fits(size, sum(Path(file).stat().st_size for file in data.files), path)
    frame: pd.DataFrame = whole(data.to_table()).to_pandas(ignore_metadata=True)
    saved = [name for name in frame if INDEX.fullmatch(str(name))]
    return Table(checked(frame.drop(columns=saved), str(path)), None, Kind.PARQUET_FOLDER.value)


def plain_columns(held: Any) -> pd.DataFrame:
    from datasets import ClassLabel, Image

    for name, feature in held.features.items():
        if isinstance(feature, Image):
            held = held.cast_column(name, Image(decode=False))
    frame: pd.DataFrame = held.to_pandas()
    for name, feature in held.features.items():
        if isinstance(feature, ClassLabel):
            # -1 stands for a label that is not known.
            named = dict(enumerate(feature.names))
            frame[name] = frame[name].map(lambda number, named=named: named.get(number))
    return frame
