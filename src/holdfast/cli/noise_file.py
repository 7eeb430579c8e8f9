"""Data with wrong labels planted in it, written in the format that it was read from."""

from __future__ import annotations

import io
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from holdfast.clean.files import PACKED, folder_aside, packed
from holdfast.data.folders import SUFFIXES
from holdfast.data.formats import Compression, FileFormat, Kind, detect, opened
from holdfast.data.kinds import kind_of
from holdfast.data.load import load
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.files import written_aside
from holdfast.noise import realised_transition

TRUTH = "_true"
"""The column of the true labels is called as that of the labels, with this after it."""


def check_out(data: Path, out: Path) -> None:
    """The file or folder to write must not exist, and be of the kind that was read, or an .npz file of arrays."""
    kind = kind_of(data)
    if out.exists():
        raise HoldfastError(f"{out} exists; choose another name")
    if out.suffix == ".npz":
        return
    if kind == "table" and data.is_file():
        if detect(data).kind is Kind.SQLITE:
            raise HoldfastError(f"{data.name} is a database, which is not written; let {out} end in .npz")
        ending = _ending(data)
        if _ending(out) != ending:
            raise HoldfastError(
                f"{data.name} is a table and stays one; let {out} end in {ending}, or in .npz for arrays"
            )
    elif kind != "images":
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
    elif data.is_file():
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
    """All rows and columns in their order; cells of a CSV file as they stand there."""
    label, found = rows.recipe["label"], detect(data)
    frame = _as_it_stands(data, found)
    if label + TRUTH in frame.columns:
        raise HoldfastError(f"{data} has a column {label + TRUTH!r} already; rename it")
    given = frame[label]
    cells = given.astype(object).to_numpy(copy=True)
    place = np.arange(len(rows)) if rows.place is None else rows.place.numpy()
    changed = (rows.y != noisy.y).reshape(len(rows), -1).any(1).numpy()
    if rows.classes is None:
        values = noisy.y[:, 0].numpy()[changed].tolist()
        cells[place[changed]] = values if pd.api.types.is_numeric_dtype(given) else list(map(str, values))
    else:
        # Each class as it is spelt in the first row that has it.
        spelt = dict(zip(rows.y.tolist()[::-1], cells[place].tolist()[::-1], strict=True))
        cells[place[changed]] = [spelt.get(k, rows.classes[k]) for k in noisy.y[changed].tolist()]
    made = frame.assign(**{label: pd.Series(cells, index=frame.index).astype(given.dtype), label + TRUTH: given})
    packing = PACKED.get(out.suffix.lower(), Compression.NONE)
    with written_aside(out) as aside:
        aside.write_bytes(packed(_bytes(made, found), packing, out.stem))


def _as_it_stands(data: Path, found: FileFormat) -> pd.DataFrame:
    if found.kind is Kind.CSV:
        with opened(data, found) as file:
            text = {"dtype": str, "keep_default_na": False, "index_col": False}
            return pd.read_csv(file, sep=found.delimiter, encoding=found.encoding, **text)  # type: ignore[call-overload, no-any-return]
    return load(data)


def _bytes(frame: pd.DataFrame, found: FileFormat) -> bytes:
    """A table in the format that another file has."""
    if found.kind in (Kind.CSV, Kind.JSON, Kind.JSON_LINES):
        encoding = found.encoding or "utf-8"
        if found.kind is Kind.CSV:
            text = frame.to_csv(index=False, sep=found.delimiter or ",", lineterminator=found.line_end or "\n")
        else:
            text = frame.to_json(orient="records", lines=found.kind is Kind.JSON_LINES, force_ascii=False)
        return text.encode(encoding)
    out = io.BytesIO()
    if found.kind is Kind.EXCEL:
        frame.to_excel(out, index=False)
    elif found.kind is Kind.FEATHER:
        frame.to_feather(out)
    else:
        frame.to_parquet(out)
    return out.getvalue()


def _write_folder(data: Path, out: Path, rows: Rows, noisy: Rows) -> None:
    """Each image under its wrong class; ``truth.csv`` says which one it had."""
    assert rows.names is not None
    assert rows.classes is not None
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
    with folder_aside(out, force=False) as aside:
        for source in sorted(file for file in data.rglob("*") if file.suffix.lower() in SUFFIXES):
            name = source.relative_to(data).as_posix()
            target = aside / moved.get(name, PurePosixPath(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        pd.DataFrame(lines, columns=["name", "truth"]).to_csv(aside / "truth.csv", index=False)


def _ending(path: Path) -> str:
    """The ending of a file, with the one before it where the file is packed."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last in PACKED else last


def _array(x: Any) -> np.ndarray[Any, Any]:
    if not hasattr(x, "numpy"):
        raise HoldfastError("these rows do not fit in memory as one array")
    found: np.ndarray[Any, Any] = x.numpy()
    return found
