"""Rows of a table larger than memory: its columns looked at one after the other, its features written to the cache."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from holdfast.data import columns, tables
from holdfast.data.hygiene import leaks
from holdfast.data.labels import Missing, Task, present
from holdfast.data.large import LargeTable, Parts, room_for
from holdfast.data.native import encoded_width
from holdfast.data.on_disk import Mapped
from holdfast.data.recipe import check_recipe
from holdfast.data.rows import Rows
from holdfast.data.summary import ColumnRead, ReadAs, columns_read
from holdfast.encoders.cache import alone, cache_folder
from holdfast.errors import HoldfastError
from holdfast.files import write_text
from holdfast.progress import MakeProgress, silent
from holdfast.version import __version__


@dataclass(frozen=True)
class Fitted:
    """What must be known of all columns before the first row can be encoded.

    Parameters
    ----------
    columns, dropped: as a recipe has them.
    names: the column that names the rows; None: there is none.
    read: what each column is taken for.
    warnings: what looks odd.
    """

    columns: list[dict[str, Any]]
    dropped: dict[str, str]
    names: str | None
    read: tuple[ColumnRead, ...]
    warnings: tuple[str, ...]


def read(parts: Parts, progress: MakeProgress = silent, **options: Any) -> tuple[Rows, Rows | None]:
    """The rows of a large table, and of the test rows that came with it."""
    rows = build(parts.rows, found=parts.found, progress=progress, **options)
    if parts.test is None:
        return rows, None
    further = {**options, "recipe": rows.recipe, "label": None, "truth": None}
    return rows, build(parts.test, progress=progress, **further)


def build(
    table: LargeTable,
    *,
    label: str | None = None,
    truth: str | None = None,
    task: Task | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    encoder: str | None = None,
    progress: MakeProgress = silent,
    ignore: Sequence[str] = (),
    merge: Mapping[str, str] | None = None,
    keep_spelling: bool = False,
    found: str = "",
) -> Rows:
    """The rows of a table, their features in a file of the cache; the parameters are those of ``tables.build``.

    A pre-trained network reads text only where it is named: millions of texts take it days.
    """
    encoder = None if encoder == "auto" else encoder
    names = pd.DataFrame(columns=table.columns)
    label = label or (recipe or {}).get("label")
    for name in (*([] if label is None else [label]), *([] if truth is None else [truth]), *ignore):
        tables.require(names, name, table.path)
    if recipe and truth is None and recipe.get("truth") in table.columns:
        truth = recipe["truth"]
    given = names if label is None else table.whole([label, *([] if truth is None else [truth])])
    label, truth = tables.label_columns(given, table.path, label, truth, recipe)
    kept = present(given[label], f"column {label!r}", missing)
    skipped = tables.without_label(kept)
    given = given[kept]
    how = recipe.get("labels", {}) if recipe else tables.labels_read(
        given, label, truth, task, merge or {}, keep_spelling
    )  # fmt: skip
    y, classes, true = tables.labels_of(given, label, truth, task, recipe, how)
    fitted = None
    if recipe is None:
        aside = [label, *([] if truth is None else [truth])]
        fitted = _fitted(
            table, [name for name in table.columns if name not in (*aside, *ignore)], label, encoder, progress
        )
        dropped = {**fitted.dropped, **{name: columns.IGNORED for name in ignore if name not in aside}}
        recipe = {
            "kind": "table", "label": label, "truth": truth, "classes": None if classes is None else list(classes),
            "labels": how, "names": fitted.names, "columns": fitted.columns, "dropped": dropped,
        }  # fmt: skip
    x = features(table, recipe, progress)
    chosen = torch.from_numpy(kept.nonzero()[0]) if skipped else None
    called = _names(table, recipe)
    if called is not None and chosen is not None:
        called = tuple(called[i] for i in chosen.tolist())
    rows = Rows(x if chosen is None else x.take(chosen), y, classes, called, true, recipe, place=chosen)
    if fitted is None:
        return rows
    summary = tables.summary_of(given, rows, label, truth, how, found, skipped)
    others = tuple(ColumnRead(name, ReadAs.DROPPED, 0, columns.IGNORED) for name in ignore)
    summary = replace(summary, columns=(*fitted.read, *others), warnings=(*fitted.warnings, *summary.warnings))
    return replace(rows, summary=summary)


def inputs(
    table: LargeTable, recipe: Mapping[str, Any], progress: MakeProgress = silent
) -> tuple[Mapped, tuple[str, ...] | None]:
    """The features of a table, which need not have a label column, and the names of its rows."""
    return features(table, recipe, progress), _names(table, recipe)


def features(table: LargeTable, recipe: Mapping[str, Any], progress: MakeProgress) -> Mapped:
    """(N, d) features by a recipe: found in the cache, or written there batch after batch.

    The file grows beside its place and is renamed into it whole; work that was stopped goes on behind the last whole
    row of it.
    """
    specs = recipe["columns"]
    names = [spec["name"] for spec in specs]
    columns.encode(
        next(table.batches([name for name in names if name in table.columns])).head(1), specs
    )  # says what lacks
    same, changed = table.digests
    told = json.dumps(specs, sort_keys=True).encode()
    path = _cache() / f"{hashlib.sha256(changed + told + __version__.encode()).hexdigest()[:32]}.npy"
    if not path.exists():
        with alone(path.with_suffix(".lock")):
            if not path.exists():
                _write(table, specs, names, path, progress)
    return Mapped(path, hashlib.sha256(same + told).digest())


def _write(
    table: LargeTable, specs: Sequence[Mapping[str, Any]], names: Sequence[str], path: Path, progress: MakeProgress
) -> None:
    width = sum(encoded_width(spec) for spec in specs)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f4", "fortran_order": False, "shape": (len(table), width)}
    )  # fmt: skip
    aside, start, a_row = path.with_suffix(".part"), len(head.getvalue()), 4 * width
    done = max(0, aside.stat().st_size - start) // a_row if aside.exists() else 0
    room_for(path.parent, (len(table) - done) * a_row, table.path)
    with open(aside, "r+b" if done else "wb") as file, progress("table", "rows") as bar:
        bar.phase("once, then kept")
        file.write(head.getvalue())
        file.seek(start + done * a_row)
        file.truncate()
        for frame in table.batches(names, done):
            block = columns.encode(frame, specs)
            if not np.isfinite(block).all():
                raise HoldfastError(f"{table.path} holds NaN or infinite features; fill them in or drop those rows")
            file.write(np.ascontiguousarray(block, dtype="<f4").data)
            done += len(frame)
            bar.at(done, len(table))
        file.flush()
        os.fsync(file.fileno())
    if done != len(table):
        raise HoldfastError(f"{table.path} has changed while it was read; start again")
    os.replace(aside, path)


def _fitted(table: LargeTable, names: Sequence[str], label: str, encoder: str | None, progress: MakeProgress) -> Fitted:
    """How columns are encoded: found in the cache, or by looking at one after the other."""
    asked = json.dumps([list(names), label, encoder, __version__]).encode()
    path = _cache() / f"{hashlib.sha256(table.digests[1] + asked).hexdigest()[:32]}.json"
    found = _kept(path)
    if found is None:
        found = _look(table, names, label, encoder, progress)
        write_text(path, json.dumps(asdict(found)))
    if not found.columns:
        why = "; ".join(f"{name!r} dropped: {reason}" for name, reason in found.dropped.items())
        raise HoldfastError(f"no column besides {label!r} can be learned from{f' ({why})' if why else ''}")
    if encoder is not None and not any("encoder" in spec for spec in found.columns):
        raise HoldfastError(f"no column holds text that {encoder} could read; leave it out (--net mlp)")
    return found


def _look(table: LargeTable, names: Sequence[str], label: str, encoder: str | None, progress: MakeProgress) -> Fitted:
    fitted: list[dict[str, Any]] = []
    dropped: dict[str, str] = {}
    read: list[ColumnRead] = []
    warnings: list[str] = []
    key = None
    given = table.column(label)
    with progress("table", "columns") as bar:
        bar.phase("looked at once, then kept")
        for number, name in enumerate(names):
            frame = pd.DataFrame({name: table.column(name)})
            some, gone = columns.fit(frame, encoder, progress)
            fitted += some
            dropped |= gone
            read += columns_read(frame, {"columns": some, "dropped": gone})
            if len(frame) == len(given) == len(table):
                warnings += leaks(frame, label, given, None)
                if gone and key is None and _names_rows(frame[name]):
                    key = name
            bar.at(number + 1, len(names))
    return Fitted(fitted, dropped, key, tuple(read), tuple(warnings))


def _names_rows(values: pd.Series[Any]) -> bool:
    try:
        return bool(values.notna().all() and values.is_unique)
    except TypeError:  # dicts and the like
        return False


def _names(table: LargeTable, recipe: Mapping[str, Any]) -> tuple[str, ...] | None:
    name = recipe["names"]
    return None if name not in table.columns else tables.row_names(table.whole([name]), name)


def _kept(path: Path) -> Fitted | None:
    """What was found before, checked like anything that lies on a disk."""
    try:
        held = json.loads(path.read_text())
        read = tuple(ColumnRead(**{**one, "read_as": ReadAs(one["read_as"])}) for one in held["read"])
        found = Fitted(held["columns"], held["dropped"], held["names"], read, tuple(held["warnings"]))
        check_recipe({
            "kind": "table", "label": "", "truth": None, "classes": None, "labels": {}, "names": found.names,
            "columns": found.columns, "dropped": found.dropped,
        })  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def _cache() -> Path:
    return cache_folder() / "tables"
