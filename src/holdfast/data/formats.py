"""What a table on disk is: kind, compression, encoding and delimiter, told by its content and not by its name alone.

``detect(path)`` gives a ``FileFormat``; ``describe()`` says it in plain words; ``opened(path, found)`` are the bytes of
the table, decompressed. Whoever writes a table back in the form it had reads that form off the same ``FileFormat``.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder, lookup
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import IO, Any, cast

from holdfast.data.parquet_folder import parquet_files
from holdfast.errors import HoldfastError, check_plain


class Kind(Enum):
    """What holds the table; the value is what people call it."""

    CSV = "CSV"
    EXCEL = "Excel"
    JSON_LINES = "JSON Lines"
    JSON = "JSON"
    PARQUET = "Parquet"
    PARQUET_FOLDER = "folder of Parquet files"
    FEATHER = "Feather"
    SQLITE = "SQLite"
    HUGGING_FACE = "Hugging Face dataset"


class Compression(Enum):
    """What the whole file is packed by."""

    NONE = "none"
    GZIP = "gzip"
    BZ2 = "bz2"
    ZIP = "zip"


TEXTS = (Kind.CSV, Kind.JSON_LINES, Kind.JSON)
"""Kinds that are text, and so have an encoding and line ends."""
SEVERAL = (Kind.EXCEL, Kind.SQLITE)
"""Kinds that may hold more tables than one, of which one is named."""
FILE_OPTIONS = ("delimiter", "encoding", "table")
"""Options of a reading that say what a file is, where that cannot be told by itself."""
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
"""Delimiters that are looked for, and what they are called."""
SAMPLE = 256 * 1024
"""Characters of a text that its kind, delimiter and line ends are read off; its encoding is read off all of it."""

_BY_DELIMITER = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".psv": "|", ".txt": "\t", ".data": ",", ".dat": "\t"}
_BY_JSON = {".jsonl": Kind.JSON_LINES, ".ndjson": Kind.JSON_LINES, ".json": Kind.JSON}
_BY_HEAD = {
    ".xlsx": Kind.EXCEL, ".parquet": Kind.PARQUET, ".pq": Kind.PARQUET, ".feather": Kind.FEATHER,
    ".db": Kind.SQLITE, ".sqlite": Kind.SQLITE, ".sqlite3": Kind.SQLITE,
}  # fmt: skip
"""Names of files that are known by how they begin."""
_TYPED = {"\\t": "\t", "tab": "\t"}
"""What people type in a shell for characters that it makes hard to type."""
_BARE = (
    *_BY_DELIMITER,
    *_BY_JSON,
    ".xlsx",
    ".xlsm",
    ".xls",
    ".parquet",
    ".pq",
    ".feather",
    ".db",
    ".sqlite",
    ".sqlite3",
)
SUFFIXES = (*(f"{name}{packed}" for name in _BARE for packed in ("", ".gz", ".bz2", ".zip")), ".zip")
"""How the names of tables end."""
_CHUNK = 1 << 20
_CONTROLS = set(range(0x80, 0xA0))
"""Bytes that are letters and signs in cp1252 and unprintable in latin-1."""
_UNDEFINED_IN_CP1252 = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
_OTHER_FILES = {
    b"\xd0\xcf\x11\xe0": "an Excel file of the kind before 2007; save it as .xlsx",
    b"%PDF": "a PDF document; export its table as CSV",
    b"\x89PNG": "an image; pass the folder whose subfolders are the classes",
    b"\xff\xd8\xff": "an image; pass the folder whose subfolders are the classes",
    b"version https://git-lfs": "a pointer of Git LFS and not the data; fetch it with git lfs pull",
    b"\x80\x04": "a pickle; save it as CSV or Parquet",
    b"\x93NUMPY": "a single array; save inputs and labels with numpy.savez",
}


class NoTable(HoldfastError):
    """A file whose name says nothing and that does not look like a table."""


@dataclass(frozen=True)
class FileFormat:
    """What a table on disk is.

    Parameters
    ----------
    kind: what holds the table.
    compression: what the file is packed by.
    encoding: a text's codec by the name Python gives it: utf-8, utf-8-sig (with a BOM), utf-16 (with a BOM), utf-16-le,
        utf-16-be, cp1252, latin-1, or the one asked for; None where the kind is no text.
    delimiter: between the fields of a CSV file; None for any other.
    line_end: of a text: newline, carriage return and newline, or carriage return; None where the kind is no text.
    member: the file inside of a zip archive; None where there is no archive.
    table: the table of a database, or the sheet of a workbook, that was asked for; None: none was.
    """

    kind: Kind
    compression: Compression = Compression.NONE
    encoding: str | None = None
    delimiter: str | None = None
    line_end: str | None = None
    member: str | None = None
    table: str | None = None

    def describe(self) -> str:
        """The format in plain words.

        >>> FileFormat(Kind.CSV, Compression.GZIP, "latin-1", ";").describe()
        'CSV, semicolons, latin-1, gzip'
        """
        words = [self.kind.value]
        if self.delimiter is not None:
            words.append(DELIMITERS.get(self.delimiter, f"delimiter {self.delimiter!r}"))
        if self.encoding is not None:
            words.append("utf-8 with BOM" if self.encoding == "utf-8-sig" else self.encoding)
        if self.compression is not Compression.NONE:
            words.append(self.compression.value)
        return ", ".join(words)


def file_options(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of a reading that ``detect`` takes.

    >>> file_options({"label": "income", "delimiter": ";", "encoding": None})
    {'delimiter': ';'}
    """
    return {name: reading[name] for name in FILE_OPTIONS if reading.get(name) is not None}


def detect(
    path: Path, delimiter: str | None = None, encoding: str | None = None, table: str | None = None
) -> FileFormat:
    """What the table at a path is; an error in one sentence where it is none that can be read.

    Parameters
    ----------
    path: a file, or the folder of a Hugging Face dataset.
    delimiter: a character that is known to part the fields of a CSV file, instead of the one found.
    encoding: a codec that a text is known to be in, instead of the one found.
    table: the table of a database, or the sheet of a workbook, that is meant; other kinds hold one.
    """
    delimiter = _TYPED.get(delimiter or "", delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise HoldfastError(f"a delimiter is one character such as , ; | or a tab, not {delimiter!r}")
    if encoding is not None:
        encoding = _known_codec(encoding)
    if is_hugging_face(path):
        return FileFormat(Kind.HUGGING_FACE)
    if parquet_files(path):
        return FileFormat(Kind.PARQUET_FOLDER)
    compression, member = _compression(path)
    packed = FileFormat(Kind.CSV, compression, member=member)
    suffix = _suffix(path, packed)
    with opened(path, packed) as file:
        head = file.read(1024)
    binary = _binary_kind(head, path, suffix)
    if binary is not None:
        return FileFormat(binary, compression, member=member, table=table if binary in SEVERAL else None)
    encoding = encoding or _encoding(path, packed, head, suffix)
    sample, is_all = _sample(path, packed, encoding)
    kind = Kind.CSV if delimiter is not None else _text_kind(sample, suffix)
    if kind is Kind.CSV:
        delimiter = delimiter or _delimiter(sample, is_all, path, suffix)
    return FileFormat(kind, compression, encoding, delimiter, _line_end(sample), member)


def is_hugging_face(path: Path) -> bool:
    """Whether a folder is what ``save_to_disk`` of a Hugging Face dataset, or of several by name, leaves behind."""
    one = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
    return one or (path / "dataset_dict.json").is_file()


@contextmanager
def opened(path: Path, found: FileFormat) -> Iterator[IO[bytes]]:
    """The bytes of a table, decompressed; damage that shows while they are read is an error in one sentence."""
    try:
        check_plain(path)
        if found.compression is Compression.GZIP:
            with gzip.open(path) as file:
                yield cast("IO[bytes]", file)
        elif found.compression is Compression.BZ2:
            with bz2.open(path) as packed:
                yield packed
        elif found.compression is Compression.ZIP and found.member is not None:
            with zipfile.ZipFile(path) as archive, archive.open(found.member) as inner:
                yield inner
        else:
            with path.open("rb") as plain:
                yield plain
    except FileNotFoundError:
        raise HoldfastError(f"{path} does not exist") from None
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        raise HoldfastError(f"{path} is cut short or damaged: {error}") from None
    except (NotImplementedError, RuntimeError):
        raise HoldfastError(f"{path} is locked or packed in a way that cannot be read; unpack it") from None
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror or error}") from None


def _known_codec(encoding: str) -> str:
    try:
        name = lookup(encoding).name
    except LookupError:
        raise HoldfastError(f"{encoding!r} is no known encoding; try utf-8, latin-1, cp1252 or utf-16") from None
    return {"iso8859-1": "latin-1"}.get(name, name)


def _compression(path: Path) -> tuple[Compression, str | None]:
    """By the first bytes; of a zip archive also the one file that is in it."""
    with opened(path, FileFormat(Kind.CSV)) as file:
        first = file.read(4)
    if first.startswith(b"\x1f\x8b"):
        return Compression.GZIP, None
    if first.startswith(b"BZh"):
        return Compression.BZ2, None
    if not first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return Compression.NONE, None
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not _is_by_the_way(name)]
    except zipfile.BadZipFile as error:
        raise HoldfastError(f"{path} is cut short or damaged: {error}") from None
    if "xl/workbook.xml" in names or "[Content_Types].xml" in names:
        return Compression.NONE, None
    if len(names) == 1:
        return Compression.ZIP, names[0]
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    raise HoldfastError(f"{path} packs {len(names)} files ({listed}); unpack it and pass the one that is meant")


def _is_by_the_way(name: str) -> bool:
    """Whether a member of an archive is one that file managers add."""
    return name.startswith("__MACOSX/") or Path(name).name in (".DS_Store", "Thumbs.db", "desktop.ini")


def _suffix(path: Path, found: FileFormat) -> str:
    """The ending that speaks of the table and not of its compression."""
    name = Path(found.member or path.name)
    if found.compression in (Compression.GZIP, Compression.BZ2) and name.suffix.lower() in (".gz", ".gzip", ".bz2"):
        name = name.with_suffix("")
    return name.suffix.lower()


def _binary_kind(head: bytes, path: Path, suffix: str) -> Kind | None:
    """The kind of a file that is no text, by its first bytes; None: perhaps a text."""
    if not head:
        raise HoldfastError(f"{path} is empty")
    if head.startswith(b"PK"):
        return Kind.EXCEL
    if head.startswith(b"PAR1"):
        return Kind.PARQUET
    if head.startswith((b"ARROW1", b"FEA1")):
        return Kind.FEATHER
    if head.startswith(b"SQLite format 3\0"):
        return Kind.SQLITE
    if head[257:262] == b"ustar":
        raise HoldfastError(f"{path} is a tar archive; unpack it and pass the file or folder that is meant")
    other = next((what for start, what in _OTHER_FILES.items() if head.startswith(start)), None)
    if other is not None:
        raise HoldfastError(f"{path} is {other}")
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        raise HoldfastError(f"{path} is a web page and not the data; download the file itself")
    named = _BY_HEAD.get(suffix)
    if named is not None:
        raise HoldfastError(f"{path} cannot be read: it does not begin as a file of {named.value} does")
    return None


def _encoding(path: Path, packed: FileFormat, head: bytes, suffix: str) -> str:
    """The codec of a text: by its BOM, else UTF-8 if all of it is, else cp1252 or latin-1."""
    if head.startswith(BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head:
        return _wide_encoding(head, path, suffix)
    valid, broken = 0, 0
    letters: set[int] = set()
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    with opened(path, packed) as file:
        while chunk := file.read(_CHUNK):
            text = decoder.decode(chunk)
            wrong = text.count("\ufffd")
            broken += wrong
            valid += len(text) - len(text.encode("ascii", "ignore")) - wrong
            letters |= set(chunk) if wrong else set()
    if not broken:
        return "utf-8"
    if valid > broken:
        count = f"{broken} byte{'s' * (broken > 1)}"
        raise HoldfastError(f"{path} is UTF-8 text but for {count}; mend it, or pass --encoding")
    controls = letters & _CONTROLS
    return "cp1252" if controls and not controls & _UNDEFINED_IN_CP1252 else "latin-1"


def _wide_encoding(head: bytes, path: Path, suffix: str) -> str:
    """UTF-16 without a BOM shows by zeros in every second byte."""
    even, odd = head[::2].count(0) / len(head[::2]), head[1::2].count(0) / max(len(head[1::2]), 1)
    if odd > 0.5 and even < 0.1:
        return "utf-16-le"
    if even > 0.5 and odd < 0.1:
        return "utf-16-be"
    error = HoldfastError if suffix in _BARE else NoTable
    raise error(f"{path} is no text and of no kind of table that is known; save it as CSV or Parquet")


def _sample(path: Path, packed: FileFormat, encoding: str) -> tuple[str, bool]:
    """The beginning of a text, and whether that is all of it."""
    decoder = getincrementaldecoder(encoding)()
    with opened(path, packed) as file:
        raw = file.read(SAMPLE)
        is_all = not file.read(1)
    try:
        return decoder.decode(raw, final=is_all), is_all
    except UnicodeDecodeError as error:
        raise HoldfastError(
            f"{path} is not text in {encoding} (byte {error.start}); leave --encoding out or name another"
        ) from None


def _text_kind(sample: str, suffix: str) -> Kind:
    """JSON where the text says so; a name says so only of a text that begins as JSON does."""
    start = sample.lstrip()
    if not start.startswith(("{", "[")):
        return Kind.CSV
    first, _, rest = start.partition("\n")
    if start.startswith("{") and (_BY_JSON.get(suffix) is Kind.JSON_LINES or (_is_object(first) and rest.strip())):
        return Kind.JSON_LINES
    if suffix in _BY_JSON or start[1:].lstrip().startswith(("{", '"')):
        return Kind.JSON
    return Kind.CSV


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _delimiter(sample: str, is_all: bool, path: Path, suffix: str) -> str:
    """The delimiter by which most lines have as many fields as the first; of several, not commas in fields."""
    usual = _BY_DELIMITER.get(suffix)
    fits = {delimiter: _fit(sample, is_all, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: (fits[delimiter][0], delimiter != ",", delimiter == usual))
    share, fields = fits[best]
    if fields < 2:
        best = usual or ","
    if usual is None and (fields < 2 or share < 1):
        raise NoTable(
            f"{path} is of no kind that can be read: its name says nothing and its lines are no table; "
            "pass --delimiter if it is one"
        )
    return best


def _fit(sample: str, is_all: bool, delimiter: str) -> tuple[float, int]:
    """The share of lines that have as many fields as the first, and how many those are; (0, 1) where it parts none."""
    try:
        rows = csv.reader(StringIO(sample, newline=""), delimiter=delimiter, strict=False)
        widths = [len(row) for row in rows if row]
    except csv.Error:
        return 0.0, 1
    if not is_all and len(widths) > 1:
        widths.pop()  # cut short
    if not widths or widths[0] < 2:
        return 0.0, 1
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]


def _line_end(sample: str) -> str:
    if "\r\n" in sample:
        return "\r\n"
    return "\r" if "\r" in sample and "\n" not in sample else "\n"
