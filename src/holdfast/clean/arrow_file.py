"""Parquet and Feather: the column of the labels is made anew in its own type, all else is written as it was read."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names
from holdfast.data.formats import FileFormat


def edited_parquet(data: bytes, found: FileFormat, edit: Edit) -> bytes:
    """The bytes of a Parquet file after an edit, with the codec and the size of its row groups."""
    before = pq.ParquetFile(io.BytesIO(data))
    table = edited_table(before.read(), edit)
    groups = before.metadata.num_row_groups
    group = before.metadata.row_group(0) if groups else None
    codec = "snappy" if group is None or not group.num_columns else group.column(0).compression.lower()
    out = io.BytesIO()
    pq.write_table(
        table, out, row_group_size=group.num_rows if group and groups > 1 else None,
        compression="none" if codec == "uncompressed" else codec,
    )  # fmt: skip
    return out.getvalue()


def edited_feather(data: bytes, found: FileFormat, edit: Edit) -> bytes:
    """The bytes of a Feather file after an edit."""
    table = edited_table(pa.ipc.open_file(io.BytesIO(data)).read_all(), edit)
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(table)
    return out.getvalue()


def edited_table(table: pa.Table, edit: Edit, names: tuple[str, ...] | None = None) -> pa.Table:
    """A table in memory after an edit; its schema stays, with what others have noted there.

    Parameters
    ----------
    names: what the numbers of the labels are called, where the table does not say so itself.
    """
    check_free_names(edit, table.column_names)
    at = table.schema.get_field_index(edit.label)
    field, column = table.schema.field(at), table.column(at)
    cells = column.to_pylist()
    spelling: Spelling[Any] = Spelling(edit, cells, lambda name: _value(name, field.type, names), _number(field.type))
    new, marked = spelling.new(), list[tuple[pa.Field, pa.Array]]()
    if edit.marks:
        marked.append((pa.field(TRUST, pa.float64()), pa.array(edit.trusts(len(cells)), pa.float64())))
        marked.append((pa.field(SUGGESTED, field.type), _column(spelling.suggested(), column)))
    if new:
        table = table.set_column(at, field, _column([new.get(row, cell) for row, cell in enumerate(cells)], column))
    for added, values in marked:
        table = table.append_column(added, values)
    kept = edit.kept(len(cells))
    return table if kept.all() else table.filter(pa.array(kept))


def _column(values: list[Any], like: pa.ChunkedArray) -> pa.Array:
    """Values in the type of a column; categories keep their order."""
    kind = like.type
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    known = like.unify_dictionaries().chunk(0).dictionary if like.num_chunks else pa.array([], kind.value_type)
    plain = pa.array(values, kind.value_type)
    more = plain.filter(pc.invert(pc.is_in(plain, known))).drop_null().unique()
    every = pa.concat_arrays([known, more])
    return pa.DictionaryArray.from_arrays(pc.index_in(plain, every).cast(kind.index_type), every, ordered=kind.ordered)


def _value(name: str, kind: pa.DataType, names: tuple[str, ...] | None) -> Any:
    """A class that no row has, by its name, in the type of a column."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if names is not None and pa.types.is_integer(kind):
        return names.index(name)
    if pa.types.is_boolean(kind):
        return name == "True"
    return name if pa.types.is_string(kind) or pa.types.is_large_string(kind) else pa.scalar(name).cast(kind).as_py()


def _number(kind: pa.DataType) -> Any:
    return (lambda value: round(value)) if pa.types.is_integer(kind) else float
