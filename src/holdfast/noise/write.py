"""Data with wrong labels planted in it, written in the format that it was read from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from holdfast.data import tables
from holdfast.data.images import SUFFIXES
from holdfast.data.labels import name_of
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.files import written_aside
from holdfast.noise.labels import realised_transition

TRUTH = "_true"
"""The column of the true labels is called as that of the labels, with this after it."""
PARQUET = (".parquet", ".pq")


def check_out(data: Path, out: Path, kind: object) -> None:
    """The file or folder to write must not exist, and be of the kind that was read, or an .npz file of arrays."""
    if out.exists():
        raise HoldfastError(f"{out} exists; choose another name")
    if out.suffix == ".npz":
        return
    if kind == "table":
        ending = _ending(data)
        if _ending(out) != ending:
            raise HoldfastError(
                f"{data.name} is a table and stays one; let {out} end in {ending}, or in .npz for arrays"
            )
    elif kind != "image" or not data.is_dir():
        raise HoldfastError(f"{data.name} becomes arrays; let {out} end in .npz")
    elif out.suffix:
        raise HoldfastError(f"{data.name} is a folder of images and stays one; let {out} be a folder, or end in .npz")


def write_noisy(data: Path, out: Path, rows: Rows, noisy: Rows, held_out: Rows | None) -> None:
    """Write rows whose labels were made wrong, the true ones beside them.

    Parameters
    ----------
    data: where the rows were read from.
    rows, noisy: before and after.
    held_out: test rows that came with them, which stay as they are.
    """
    if out.suffix == ".npz":
        _write_arrays(out, rows, noisy, held_out)
    elif rows.recipe["kind"] == "table":
        _write_table(data, out, rows, noisy)
    else:
        _write_folder(data, out, rows, noisy)


def _write_arrays(out: Path, rows: Rows, noisy: Rows, held_out: Rows | None) -> None:
    arrays: dict[str, Any] = {"x_train": _array(noisy.x), "y_train": noisy.y.numpy(), "y_true": rows.y.numpy()}
    if held_out is not None:
        arrays |= {"x_test": _array(held_out.x), "y_test": held_out.y.numpy()}
    if rows.classes is not None:
        matrix = realised_transition(rows.y, noisy.y, len(rows.classes))
        arrays |= {"class_names": np.asarray(rows.classes), "transition": matrix.numpy()}
    with written_aside(out) as aside, open(aside, "wb") as file:
        np.savez_compressed(file, **arrays)


def _write_table(data: Path, out: Path, rows: Rows, noisy: Rows) -> None:
    """All rows and columns in their order; cells of a text file as they stand there."""
    label = rows.recipe["label"]
    known = tables.load(data)[label].notna().to_numpy(dtype=bool)
    frame = pd.read_parquet(data) if _ending(data) in PARQUET else pd.read_csv(data, **_dialect(data), dtype=str,
        keep_default_na=False, index_col=False)  # fmt: skip
    if label + TRUTH in frame.columns:
        raise HoldfastError(f"{data} has a column {label + TRUTH!r} already; rename it")
    given = frame[label]
    cells = given.astype(object).to_numpy(copy=True)
    place = np.flatnonzero(known)
    changed = (rows.y != noisy.y).reshape(len(rows), -1).any(1).numpy()
    if rows.classes is None:
        cells[place[changed]] = [_like(given, value) for value in noisy.y[:, 0].numpy()[changed].tolist()]
    else:
        # Each class as it is spelt in the first row that has it.
        spelt = {name_of(cell): cell for cell in cells[place][::-1]}
        names = [rows.classes[k] for k in noisy.y[changed].tolist()]
        cells[place[changed]] = [spelt.get(name, name) for name in names]
    made = frame.assign(**{label: pd.Series(cells, index=frame.index).astype(given.dtype), label + TRUTH: given})
    with written_aside(out) as aside:
        if _ending(out) in PARQUET:
            made.to_parquet(aside)
        else:
            made.to_csv(aside, index=False, **_dialect(out))


def _write_folder(data: Path, out: Path, rows: Rows, noisy: Rows) -> None:
    """Each image under its wrong class; ``truth.csv`` says which one it had."""
    assert rows.names is not None
    assert rows.classes is not None
    aside = out.with_name(f".{out.name}.{os.getpid()}.part")
    lines, moved = [], {}
    for name, was, now in zip(rows.names, rows.y.tolist(), noisy.y.tolist(), strict=True):
        path = PurePosixPath(name)
        at = max(k for k, part in enumerate(path.parts[:-1]) if part == rows.classes[was])
        rest = "_".join(path.parts[at + 1 :])
        file = rest if was == now else f"{rows.classes[was]}_{rest}"
        moved[name] = PurePosixPath(
            *path.parts[:at], rows.classes[now], *([file] if was != now else path.parts[at + 1 :])
        )
        lines.append((str(moved[name]), rows.classes[was]))
    try:
        for source in sorted(file for file in data.rglob("*") if file.suffix.lower() in SUFFIXES):
            name = source.relative_to(data).as_posix()
            target = aside / moved.get(name, PurePosixPath(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        pd.DataFrame(lines, columns=["name", "truth"]).to_csv(aside / "truth.csv", index=False)
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _ending(path: Path) -> str:
    return next((end for end in sorted(tables.SUFFIXES, key=len, reverse=True) if path.name.lower().endswith(end)), "")


def _dialect(path: Path) -> dict[str, Any]:
    ending = _ending(path)
    return {"sep": "\t" if ".tsv" in ending else ",", "compression": "gzip" if ending.endswith(".gz") else None}


def _like(column: pd.Series[Any], value: float) -> Any:
    return str(value) if not pd.api.types.is_numeric_dtype(column) else value


def _array(x: Any) -> np.ndarray[Any, Any]:
    if not hasattr(x, "numpy"):
        raise HoldfastError("these rows do not fit in memory as one array")
    found: np.ndarray[Any, Any] = x.numpy()
    return found
