"""Arrays: labels change in the array of the labels; rows go from every array of the training rows."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names
from holdfast.data.formats import FileFormat

Array = NDArray[Any]


def edited(data: bytes, found: FileFormat | None, edit: Edit) -> bytes:
    """The bytes of an npz file after an edit; arrays of test rows and all others stay."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    with zipfile.ZipFile(io.BytesIO(data)) as members:
        packed = any(member.compress_type != zipfile.ZIP_STORED for member in members.infolist())
    check_free_names(edit, list(arrays))
    ending = "_train" if "y_train" in arrays else ""
    arrays = _changed(arrays, f"y{ending}", edit)
    if edit.dropped.any():
        arrays = _shorter(arrays, ending, edit.kept(len(arrays[f"y{ending}"])))
    out = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _changed(arrays: dict[str, Array], key: str, edit: Edit) -> dict[str, Array]:
    labels, arrays = arrays[key], dict(arrays)
    if edit.classes is None:
        changed = edit.changed
        arrays[key] = labels.copy()
        values = edit.wanted[changed].reshape(-1, *labels.shape[1:])
        arrays[key][edit.rows[changed]] = values if labels.dtype.kind == "f" else values.round()
        if edit.marks:
            assert edit.suggested is not None
            beside = labels.astype(np.float64)
            beside[edit.rows] = edit.suggested.reshape(-1, *labels.shape[1:])
            arrays |= {TRUST: _trusts(edit, len(labels)), SUGGESTED: beside}
        return arrays
    flat = labels.reshape(-1)
    named = "class_names" in arrays
    cells: list[Any] = flat.tolist()
    spelling: Spelling[Any] = Spelling(edit, cells, lambda name: _value(name, flat, edit, named), float)
    arrays[key] = _placed(flat, spelling.new()).reshape(labels.shape)
    if edit.marks:
        found = {row: cell for row, cell in enumerate(spelling.suggested()) if cell is not None}
        arrays |= {TRUST: _trusts(edit, len(labels)), SUGGESTED: _placed(flat, found)}
    return arrays


def _placed(labels: Array, new: dict[int, Any]) -> Array:
    """Labels with others in their places; text that is too long for the array makes it wider."""
    values = np.array(list(new.values())) if new else labels[:0]
    changed = labels.astype(np.result_type(labels, values)) if labels.dtype.kind in "US" else labels.copy()
    changed[list(new)] = values
    return changed


def _value(name: str, labels: Array, edit: Edit, named: bool) -> Any:
    """A class that no row has, as the array would hold it: by number where classes are named apart."""
    if labels.dtype.kind not in "iufb":
        return name
    assert edit.classes is not None
    return edit.classes.index(name) if named or not name.lstrip("-").isdecimal() else int(name)


def _trusts(edit: Edit, count: int) -> Array:
    return np.array([np.nan if trust is None else trust for trust in edit.trusts(count)])


def _shorter(arrays: dict[str, Array], ending: str, kept: NDArray[np.bool_]) -> dict[str, Array]:
    """The arrays without the rows that go."""
    of_rows = [f"x{ending}", f"y{ending}", "y_true", TRUST, SUGGESTED]
    shorter = {name: values[kept] if name in of_rows else values for name, values in arrays.items()}
    pictures, offsets = f"jpeg{ending}", f"offsets{ending}"
    if pictures in arrays:
        starts = arrays[offsets].astype(np.int64)
        ends = np.split(arrays[pictures][: starts[-1]], starts[1:-1])
        stay = [part for part, stays in zip([ends[0][starts[0] :], *ends[1:]], kept, strict=True) if stays]
        shorter[pictures] = np.concatenate([arrays[pictures][:0], *stay])
        shorter[offsets] = np.cumsum([0, *map(len, stay)]).astype(arrays[offsets].dtype)
    return shorter
