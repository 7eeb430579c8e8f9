"""How each kind of data on disk is edited and written: files from bytes to bytes, folders from one to another."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.clean import (
    arrow_file,
    coco_file,
    csv_file,
    database_file,
    excel_file,
    hugging_face,
    image_folder,
    json_file,
    npz_file,
)
from holdfast.clean.edit import Edit
from holdfast.data.formats import Compression, FileFormat, Kind, detect, file_options, opened
from holdfast.errors import HoldfastError
from holdfast.files import left_beside, written_aside

Editor = Callable[[bytes, FileFormat, Edit], bytes]
EDITORS: dict[Kind, Editor] = {
    Kind.CSV: csv_file.edited,
    Kind.EXCEL: excel_file.edited,
    Kind.JSON_LINES: json_file.edited,
    Kind.JSON: json_file.edited,
    Kind.PARQUET: arrow_file.edited_parquet,
    Kind.FEATHER: arrow_file.edited_feather,
}
ENDINGS: dict[Kind, tuple[str, ...]] = {
    Kind.CSV: (".csv", ".tsv", ".tab", ".psv", ".txt", ".data", ".dat"),
    Kind.EXCEL: (".xlsx",),
    Kind.JSON_LINES: (".jsonl", ".ndjson", ".json"),
    Kind.JSON: (".json",),
    Kind.PARQUET: (".parquet", ".pq"),
    Kind.FEATHER: (".feather", ".arrow"),
    Kind.SQLITE: (".db", ".sqlite", ".sqlite3"),
}
"""What a file of each kind may be called, after its compression."""
PACKED = {".gz": Compression.GZIP, ".bz2": Compression.BZ2, ".zip": Compression.ZIP}


def write_table(path: Path, out: Path, reading: Mapping[str, Any], edit: Edit, force: bool) -> None:
    """Write a table on disk, or a Hugging Face dataset, after an edit, in the format that it has."""
    found = detect(path, **file_options(reading))
    if found.kind is Kind.PARQUET_FOLDER:
        raise HoldfastError(
            f"{path} is a folder of Parquet files, which is not written back; holdfast export has its labels as CSV"
        )
    if found.kind is Kind.HUGGING_FACE:
        with folder_aside(out, force) as aside:
            hugging_face.write(path, aside, edit)
        return
    if found.kind is Kind.SQLITE:
        _, packing = _named_as(path, out, found)
        if packing is not Compression.NONE:
            raise HoldfastError(f"{path.name} is a database, which is not packed; let {out.name} end in .db")
        with written_aside(out) as aside:
            database_file.write(path, aside, found, edit)
        return
    _write_edited(path, out, found, EDITORS[found.kind], edit)


def write_coco(path: Path, out: Path, edit: Edit) -> None:
    """Write a COCO annotation file after an edit."""
    _write_edited(path, out, detect(path), coco_file.edited, edit)


def _write_edited(path: Path, out: Path, found: FileFormat, edited: Editor, edit: Edit) -> None:
    inner, packing = _named_as(path, out, found)
    with opened(path, found) as file:
        data = file.read()
    _write(out, packed(edited(data, found, edit), packing, found.member or inner.name))


def _named_as(path: Path, out: Path, found: FileFormat) -> tuple[Path, Compression]:
    """The name of a new file without its compression, and that; an error where it is not a name of its kind."""
    packing = PACKED.get(out.suffix.lower(), Compression.NONE)
    inner = out if packing is Compression.NONE else out.with_suffix("")
    allowed = (path.suffix.lower(), *ENDINGS[found.kind])
    if inner.suffix.lower() not in allowed and not (packing is Compression.ZIP and not inner.suffix):
        raise HoldfastError(f"{path.name} is {found.kind.value} and stays so; let {out.name} end in {allowed[1]}")
    return inner, packing


def write_arrays(path: Path, out: Path, edit: Edit) -> None:
    """Write an npz file after an edit."""
    if out.suffix.lower() != ".npz":
        raise HoldfastError(f"{path.name} is an npz file and stays so; let {out.name} end in .npz")
    _write(out, npz_file.edited(path.read_bytes(), None, edit))


def write_images(path: Path, out: Path, edit: Edit, force: bool, follow_links: bool = False) -> None:
    """Write a folder of images after an edit."""
    with folder_aside(out, force) as aside:
        image_folder.write(path, aside, edit, follow_links)


def packed(data: bytes, packing: Compression, member: str) -> bytes:
    """Bytes as a file holds them; the same bytes give the same file."""
    if packing is Compression.GZIP:
        return gzip.compress(data, mtime=0)
    if packing is Compression.BZ2:
        return bz2.compress(data)
    if packing is Compression.ZIP:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED)
        return out.getvalue()
    return data


def check_apart(path: Path, out: Path, force: bool) -> None:
    """The data itself is never written to, and nothing else unless that is asked for."""
    here, there = path.resolve(), out.resolve()
    if here == there or (path.is_dir() and (here in there.parents or there in here.parents)):
        raise HoldfastError(f"{out} is where the data lies, which is never changed; choose another place")
    if out.exists() and not force:
        raise HoldfastError(f"{out} exists; choose another name, or pass --force to write over it")
    if out.exists() and out.is_dir() != path.is_dir():
        raise HoldfastError(f"{out} is a {'folder' if out.is_dir() else 'file'}; choose another name")


@contextmanager
def folder_aside(path: Path, force: bool) -> Iterator[Path]:
    """A temporary folder beside ``path``, renamed to it once the block has ended well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in left_beside(path, "before"):
        if path.exists():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.rename(path)  # killed between the two renames
    for left in left_beside(path, "part"):
        shutil.rmtree(left, ignore_errors=True)
    aside, before = (path.with_name(f".{path.name}.{os.getpid()}.{end}") for end in ("part", "before"))
    try:
        yield aside
        if path.exists() and force:
            path.rename(before)
        aside.rename(path)
    finally:
        for left in (aside, before):
            shutil.rmtree(left, ignore_errors=True)


def _write(out: Path, data: bytes) -> None:
    with written_aside(out) as aside:
        aside.write_bytes(data)
