"""A folder of Parquet files as one table: its files, its schema, and what it would take in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from holdfast.errors import HoldfastError

SUFFIXES = (".parquet", ".pq")


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder of such, in order; none where it is something else.

    Folders in it are gone into where they are called as a value of a column is, ``year=2024``; links are left alone.
    """
    if not path.is_dir():
        return []
    found: list[Path] = []
    for entry in sorted(path.iterdir()):
        if entry.name.startswith((".", "_")) or entry.is_symlink():
            continue
        if entry.is_dir() and "=" in entry.name:
            found += parquet_files(entry)
        elif entry.suffix.lower() in SUFFIXES and entry.is_file():
            found.append(entry)
    return found


def dataset(path: Path) -> Any:
    """The folder as pyarrow reads it: with all columns of all files, and one for each that its folders name."""
    options = ds.FileSystemFactoryOptions(
        partition_base_dir=str(path.absolute()), partitioning=ds.HivePartitioning.discover()
    )
    try:
        names = [str(file.absolute()) for file in parquet_files(path)]
        factory = ds.FileSystemDatasetFactory(LocalFileSystem(), names, ds.ParquetFileFormat(), options)
        found = factory.finish()
        schemas = [found.schema, *(part.physical_schema for part in found.get_fragments())]
        return factory.finish(pa.unify_schemas(schemas, promote_options="permissive"))
    except (pa.ArrowException, OSError) as error:
        raise HoldfastError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def unpacked(data: Any) -> int:
    """Bytes of its columns before compression."""
    return sum(max(0, group.total_byte_size) for part in data.get_fragments() for group in part.row_groups)
