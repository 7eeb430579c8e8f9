"""``holdfast.clean``: the data of a run with its labels corrected, in the very form that it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from holdfast.clean import files, frame
from holdfast.clean.edit import Edit
from holdfast.clean.rule import Judged, Rule, judged
from holdfast.data import tables
from holdfast.data.coco import parts_of
from holdfast.data.kinds import kind_of
from holdfast.data.rows import Rows
from holdfast.data.scale import lost_in_scaling, scaled_targets, unscaled
from holdfast.data.source import Source
from holdfast.errors import HoldfastError
from holdfast.run import Run


@dataclass(frozen=True)
class Cleaned:
    """What a cleaning has done.

    Attributes
    ----------
    rule: what was asked for.
    edit: what became of each row that the run has judged.
    reviewed: how many of them a person has decided about.
    out: where it was written.
    data: the cleaned table, where it was given in memory.
    """

    rule: Rule
    edit: Edit
    reviewed: int
    out: Path | None = None
    data: pd.DataFrame | None = None

    @property
    def changed(self) -> int:
        return int(self.edit.changed.sum())

    @property
    def dropped(self) -> int:
        return int(self.edit.dropped.sum())

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """One line a pair of classes: from, to, rows; the commonest first. Empty for numbers."""
        names, changed = self.edit.classes, self.edit.changed
        if names is None:
            return pd.DataFrame({"from": [], "to": [], "rows": []})
        called = np.asarray(names, dtype=object)
        moved = pd.DataFrame({"from": called[self.edit.given[changed]], "to": called[self.edit.wanted[changed]]})
        return moved.value_counts().rename("rows").reset_index()

    @property
    def sentences(self) -> list[str]:
        """What was done, in words."""
        rows = len(self.edit.rows)
        what = "labels" if self.edit.classes is not None else "numbers"
        done = [f"{self.changed:,} of {rows:,} {what} changed"]
        done += [f"{self.dropped:,} rows dropped"] if self.rule.drop else []
        done += [f"{self.reviewed:,} reviewed and as decided"] if self.reviewed else []
        if self.edit.classes is None and self.changed:
            changed = self.edit.changed
            size = np.abs(self.edit.wanted[changed] - self.edit.given[changed]).mean()
            done.append(f"by {size:.4g} on average")
        return [str(self.rule), ", ".join(done)]


def clean(
    run: Run | str | Path,
    out: str | Path | None = None,
    *,
    data: pd.DataFrame | None = None,
    correct: float | None = None,
    drop: float | None = None,
    mark: bool = False,
    force: bool = False,
) -> Cleaned:
    """The data that a run was trained on, in its own format, with wrong labels corrected, dropped or marked.

    All rows and columns stay in their order and as they are but for labels that change, rows that go and columns that
    are added. Labels that a person has reviewed are as decided; rows held out to test on are part of it. Nothing is
    written in place. Without any of ``correct``, ``drop`` and ``mark``, labels below a trust of one half are corrected.

    Parameters
    ----------
    run: a finished run, or its folder.
    out: the file to write, or the folder where the data is one.
    data: the table, where the run was trained on one in memory; the cleaned one is in ``Cleaned.data``.
    correct: labels of less trust become what is suggested, at most one half.
    drop: other rows of less trust go.
    mark: columns with trust and suggestion are added.
    force: write over what is there.
    """
    made = run if isinstance(run, Run) else Run.records(run)
    rule = Rule.asked(correct, drop, mark)
    found = judged(made, rule)
    if data is not None:
        edit = _edit(made, found, _rows_of(data, made), rule)
        return Cleaned(rule, edit, int(found.reviewed.sum()), data=frame.edited(data, edit))
    if not made.config.source:
        raise HoldfastError("the run was given its rows in memory; pass the table as data=..., and take Cleaned.data")
    if out is None:
        raise HoldfastError("name the file to write, such as out='people_clean.csv'")
    source, place = Source(**made.config.source), Path(out)
    path = Path(source.path)
    if path.exists():
        # Of a folder with COCO annotations one file is written, which may lie beside them.
        path, *others = parts_of(path).every if kind_of(path) == "coco" else [path]
        for file in (path, *others):
            files.check_apart(file, place, force)
    edit = _edit(made, found, _rows_as_filed(made, source), rule)
    _write(path, place, source, edit, force)
    return Cleaned(rule, edit, int(found.reviewed.sum()), out=place)


def _write(path: Path, out: Path, source: Source, edit: Edit, force: bool) -> None:
    kind = kind_of(path)
    if kind == "table":
        files.write_table(path, out, source.reading, edit, force)
    elif kind == "npz":
        files.write_arrays(path, out, edit)
    elif kind == "coco":
        files.write_coco(path, out, edit)
    elif kind == "images":
        files.write_images(path, out, edit, force, bool(source.reading.get("follow_links")))
    else:
        raise HoldfastError(
            f"{path} is of a kind that is not written back ({kind}); holdfast issues and export have its labels as CSV"
        )


def _rows_as_filed(run: Run, source: Source) -> Rows:
    """The rows that the run has judged, with the labels that the file gives them, in the order of the file."""
    rows = run.read_again()
    order = torch.arange(len(rows)) if rows.source_index is None else rows.source_index.argsort()
    rows = rows.take(order)
    if source.labels is None:
        return rows
    plain, _ = replace(source, labels=None, test="0").load()
    assert rows.source_index is not None
    return replace(rows, y=_same_scale(plain, rows).take(rows.source_index).y)


def _same_scale(plain: Rows, rows: Rows) -> Rows:
    """Rows whose targets are scaled as those of others; corrected ones may have another middle."""
    if rows.classes is not None:
        return plain
    return scaled_targets(replace(plain, y=unscaled(plain.y, plain.recipe)), rows)


def _rows_of(data: pd.DataFrame, run: Run) -> Rows:
    """The rows of a table in memory that a run was trained on; an error where it is another."""
    recipe = run.config.recipe
    if recipe.get("kind") != "table":
        raise HoldfastError("the run was not trained on a table; there is no column of labels to clean")
    held = tables.checked(data.reset_index(drop=data.index.name is None), "the table")
    rows = tables.build(held, "the table", recipe=recipe, missing="drop")
    rows = scaled_targets(replace(rows, source_index=torch.arange(len(rows))), rows)
    judged_rows = run.issue_table().query("~held_out")["row"]
    index = torch.tensor(judged_rows.to_numpy(dtype=np.int64))
    if len(index) and int(index.max()) >= len(rows):
        raise HoldfastError(f"the table has {len(rows):,} rows with labels, fewer than the run has judged; train again")
    if rows.take(index).fingerprint != run.config.fingerprint:
        raise HoldfastError("the table has changed since the run; train again")
    return rows


def _edit(run: Run, found: Judged, rows: Rows, rule: Rule) -> Edit:
    """What becomes of the file: judged rows by their place in it, in its order."""
    order = found.row.argsort(kind="stable")
    read = _places(rows, found.row[order])
    given: NDArray[Any] = unscaled(rows.y, rows.recipe).numpy()[read]
    base = found.given[order]
    if run.classes is None:
        given = given.astype(np.float64)
        given = np.where(np.abs(given - base) <= lost_in_scaling(given), base, given)
    place = found.row[order] if rows.place is None else rows.place.numpy()[read]
    marked: dict[str, Any] = {}
    if rule.mark:
        marked = {"trust": found.trust[order], "suggested": found.suggested[order], "doubted": found.doubted[order]}
    label = str(run.config.recipe.get("label") or "")
    return Edit(label, place, given, found.wanted[order], found.dropped[order], run.classes, **marked)


def _places(rows: Rows, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where among rows those of some numbers stand."""
    if rows.source_index is None:
        return numbers
    return np.searchsorted(rows.source_index.numpy(), numbers)
