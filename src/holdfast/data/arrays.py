"""Arrays: npz files of inputs and labels, the inputs plain or as JPEG bytes end to end."""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data import images
from holdfast.data.labels import Missing, Task, class_numbers, is_regression, present, rows_text, targets
from holdfast.data.rows import Rows
from holdfast.data.summary import summary_of
from holdfast.errors import HoldfastError, unreadable
from holdfast.memory import check_fits

Array = NDArray[Any]
_KEYS = "x_train, y_train (or jpeg_train, offsets_train, y_train; or x, y)"


def read(
    path: Path,
    *,
    task: Task | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    skip_broken: bool = False,
    image_size: images.Size | None = None,
) -> tuple[Rows, Rows | None]:
    """The training rows of an npz file, and its test rows if it has some; see `build` for the keys."""
    return build(
        load(path),
        str(path),
        task=task,
        recipe=recipe,
        missing=missing,
        skip_broken=skip_broken,
        image_size=image_size,
    )


def build(
    arrays: Mapping[str, Array],
    source: str,
    *,
    task: Task | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    skip_broken: bool = False,
    image_size: images.Size | None = None,
    encoder: str | None = None,
) -> tuple[Rows, Rows | None]:
    """Rows of named arrays.

    Bytes of shape (N, H, W), (N, H, W, C) or (N, C, H, W) are images; all else becomes float32 as it is,
    without any scaling. Whole numbers, words and booleans are classes, other numbers targets.

    Parameters
    ----------
    arrays: `x_train` and `y_train`, or `x` and `y`, or `jpeg_train` with `offsets_train`; perhaps the same
        for `test`, `y_true` (the true labels of the training rows) and `class_names`.
    source: what errors call the arrays.
    encoder: of a pre-trained network that is to see images, or "auto"; JPEG bytes are not decoded then.
    """
    train = _ending(arrays, "_train", source)
    has_test = "y_test" in arrays and ("x_test" in arrays or "jpeg_test" in arrays)
    parts = {f"y{train}": _label_array(arrays, f"y{train}", source)}
    if "y_true" in arrays:
        parts["y_true"] = arrays["y_true"]
    if has_test:
        parts["y_test"] = arrays["y_test"]
    kept = {key: _present(values, f"{source}: {key}", missing) for key, values in parts.items()}
    if "y_true" in parts:
        _check_truth(parts["y_true"], parts[f"y{train}"], kept["y_true"], source)
        kept["y_true"] = kept[f"y{train}"]
    classes, labels = _labels(parts, kept, f"y{train}", _class_names(arrays), source, task, recipe)

    if recipe is None:
        if encoder == "auto" and classes is None:
            encoder = None
        recipe = _recipe(arrays, train, source, classes, skip_broken, image_size, encoder)
    x, names, some = _inputs(arrays, train, source, recipe, kept[f"y{train}"], skip_broken)
    place = None if names is None else torch.from_numpy(np.flatnonzero(kept[f"y{train}"]))[some]
    truth = labels["y_true"][some] if "y_true" in labels else None
    skipped = _skipped(kept[f"y{train}"], some)
    summary = summary_of("arrays", labels[f"y{train}"][some], classes, skipped)
    rows = Rows(x, labels[f"y{train}"][some], classes, names, truth, recipe, place=place, summary=summary)
    if not has_test:
        return rows, None
    x, names, some = _inputs(arrays, "_test", source, recipe, kept["y_test"], skip_broken)
    return rows, Rows(x, labels["y_test"][some], classes, names, recipe=recipe)


def read_inputs(
    path: Path, recipe: Mapping[str, Any], skip_broken: bool = False
) -> tuple[Tensor | images.Pictures, tuple[str, ...] | None]:
    """The inputs of an npz file: those of `x`, else of its test set, else of its training set."""
    return inputs_of(load(path), str(path), recipe, skip_broken)


def inputs_of(
    arrays: Mapping[str, Array], source: str, recipe: Mapping[str, Any], skip_broken: bool = False
) -> tuple[Tensor | images.Pictures, tuple[str, ...] | None]:
    """The inputs of named arrays, prepared by a recipe, and their names where some were left out."""
    ending = "" if "x" in arrays else _ending(arrays, "_test", source)
    x, names, _ = _inputs(arrays, ending, source, recipe, None, skip_broken)
    return x, names


def load(path: Path) -> dict[str, Array]:
    """All arrays of an npz file; such as would need unpickling are refused."""
    # Opened here, since numpy leaves a file open whose archive it cannot read.
    with unreadable(path, "is empty, cut short or damaged"), path.open("rb") as file:
        check_fits(_claimed(file, path), path.stat().st_size, path)
        file.seek(0)
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise HoldfastError(f"{path} is a single array; save inputs and labels with numpy.savez")
            return {key: _whole(archive[key]) for key in archive.files}
        except ValueError as error:
            if "Object arrays" in str(error):
                raise HoldfastError(f"{path} holds arrays of Python objects; save plain arrays instead") from None
            raise


def _whole(values: Array) -> Array:
    """Texts of numpy are numbers of characters, which nobody has looked at yet."""
    if values.dtype.kind == "U" and values.size and values.view(f"{values.dtype.byteorder}u4").max() > sys.maxunicode:
        raise ValueError("it has texts with characters that do not exist")
    return values


def _claimed(file: IO[bytes], path: Path) -> int:
    """The bytes of all arrays of an archive, by their heads, none of which may be larger than what there is of it."""
    if not zipfile.is_zipfile(file):
        return 0
    total = 0
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as held:
                version = np.lib.format.read_magic(held)
                read_head = (
                    np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                )
                shape, _, kind = read_head(held)
            size = math.prod(shape) * kind.itemsize
            if size > entry.file_size:
                raise HoldfastError(f"{path} is damaged: {entry.filename} claims the shape {shape}")
            total += size
    return total


def _ending(arrays: Mapping[str, Array], first: str, source: str) -> str:
    """The ending that the keys of the wanted rows share."""
    for ending in dict.fromkeys((first, "_train")):
        if f"x{ending}" in arrays or f"jpeg{ending}" in arrays:
            return ending
    if "x" in arrays:
        return ""
    raise HoldfastError(f"{source} holds {', '.join(arrays) or 'nothing'}; needed are {_KEYS}")


def _label_array(arrays: Mapping[str, Array], key: str, source: str) -> Array:
    if key not in arrays:
        raise HoldfastError(f"{source} holds {', '.join(arrays)} but no {key}; needed are {_KEYS}")
    return arrays[key]


def _class_names(arrays: Mapping[str, Array]) -> list[str] | None:
    return [str(name) for name in arrays["class_names"]] if "class_names" in arrays else None


def _present(values: Array, where: str, missing: Missing) -> NDArray[np.bool_]:
    if values.ndim not in (1, 2):
        raise HoldfastError(f"{where} has the shape {values.shape}; labels are (N,) or (N, q)")
    if not len(values):
        raise HoldfastError(f"{where} holds no rows")
    gaps = pd.DataFrame(values.reshape(len(values), -1)).isna().any(axis=1)
    return present(gaps.astype(float).replace(1.0, np.nan), where, missing)


def _check_truth(truth: Array, given: Array, known: NDArray[np.bool_], source: str) -> None:
    if len(truth) != len(given):
        raise HoldfastError(f"{source}: {len(truth)} true labels in y_true beside {len(given)} labels")
    if not known.all():
        raise HoldfastError(f"{source}: y_true has missing values; leave it out or fill them in")


def _labels(
    parts: Mapping[str, Array],
    kept: Mapping[str, NDArray[np.bool_]],
    first: str,
    class_names: list[str] | None,
    source: str,
    task: Task | None,
    recipe: Mapping[str, Any] | None,
) -> tuple[tuple[str, ...] | None, dict[str, Tensor]]:
    present_parts = {key: values[kept[key]] for key, values in parts.items()}
    if recipe is not None:
        task = "regression" if recipe["classes"] is None else "classification"
    elif class_names is not None and task is None:
        task = "classification"
    if _is_targets(present_parts[first], task):
        return None, {key: _targets(values, f"{source}: {key}") for key, values in present_parts.items()}
    series: dict[str, pd.Series[Any]] = {}
    for key, values in present_parts.items():
        if values.ndim == 2 and values.shape[1] != 1:
            raise HoldfastError(f"{source}: {key} has the shape {parts[key].shape}; classes need one number per row")
        series[f"{source}: {key}"] = pd.Series(values.reshape(-1), index=np.flatnonzero(kept[key]))
    classes, numbers = class_numbers(series, class_names, recipe["classes"] if recipe else None)
    return classes, {key: numbers[f"{source}: {key}"] for key in parts}


def _is_targets(values: Array, task: Task | None) -> bool:
    if task is None and values.ndim == 2 and values.shape[1] > 1:
        return np.issubdtype(values.dtype, np.floating)
    return is_regression(pd.Series(values.reshape(-1)), task, count_integers=False)


def _targets(values: Array, where: str) -> Tensor:
    flat = values.reshape(len(values), -1)
    return torch.cat([targets(pd.Series(flat[:, i]), where) for i in range(flat.shape[1])], dim=1)


def _recipe(
    arrays: Mapping[str, Array],
    ending: str,
    source: str,
    classes: tuple[str, ...] | None,
    skip_broken: bool,
    image_size: images.Size | None,
    encoder: str | None,
) -> dict[str, Any]:
    listed = None if classes is None else list(classes)
    if f"jpeg{ending}" in arrays:
        blobs, names = _blobs(arrays, ending, source)
        return {**images.measure(blobs, names, image_size, skip_broken, encoder), "classes": listed}
    if image_size is not None:
        raise HoldfastError(f"{source} holds arrays, which keep their size; leave --image-size out")
    x = _prepared(arrays[f"x{ending}"], f"{source}: x{ending}")
    shape = list(x.shape[1:])
    if x.dtype == torch.uint8 and x.ndim == 4:
        return {"kind": "image", "size": shape[1:], "channels": shape[0], "classes": listed}
    return {"kind": "array", "shape": shape, "bytes": x.dtype == torch.uint8, "classes": listed}


def _inputs(
    arrays: Mapping[str, Array],
    ending: str,
    source: str,
    recipe: Mapping[str, Any],
    kept: NDArray[np.bool_] | None,
    skip_broken: bool,
) -> tuple[Tensor | images.Pictures, tuple[str, ...] | None, Tensor]:
    """Inputs of the kept rows, the rows' numbers if any row is left out, and their places among the kept."""
    if f"jpeg{ending}" in arrays:
        if recipe["kind"] != "image":
            raise HoldfastError(f"{source} holds images, but the model was fitted on something else")
        blobs, called = _blobs(arrays, ending, source)
        chosen = _chosen(len(blobs), kept, source, ending)
        x, good = images.pictures([blobs[i] for i in chosen], [called[i] for i in chosen], recipe, skip_broken)
        rows, total = chosen[good], len(blobs)
    else:
        plain = _prepared(arrays[f"x{ending}"], f"{source}: x{ending}")
        check_shape(plain, recipe, source)
        rows, total = _chosen(len(plain), kept, source, ending), len(plain)
        good = list(range(len(rows)))
        x = plain[torch.from_numpy(rows)] if len(rows) < total else plain
    names = tuple(f"row {row}" for row in rows) if len(rows) < total else None
    return x, names, torch.tensor(good, dtype=torch.int64)


def _skipped(kept: NDArray[np.bool_], decoded: Tensor) -> list[str]:
    """What is said of rows that were left out: those without a label, and images that do not decode."""
    unlabelled, labelled = np.flatnonzero(~kept), np.flatnonzero(kept)
    found = [f"{len(unlabelled):,} without a label ({rows_text(unlabelled)})"] if len(unlabelled) else []
    names = [f"image {row}" for row in labelled]
    return found + images.skipped_text(names, decoded.tolist())


def _chosen(n: int, kept: NDArray[np.bool_] | None, source: str, ending: str) -> NDArray[np.int64]:
    if kept is None:
        return np.arange(n)
    if len(kept) != n:
        raise HoldfastError(f"{source}: {n} inputs but {len(kept)} labels in y{ending}")
    return np.flatnonzero(kept)


def check_shape(x: Tensor, recipe: Mapping[str, Any], source: str) -> None:
    """Inputs of another shape than those of the recipe are an error."""
    image = recipe["kind"] == "image"
    wanted = [recipe["channels"], *recipe["size"]] if image else list(recipe["shape"])
    as_bytes = image or recipe["bytes"]
    if list(x.shape[1:]) != wanted or (x.dtype == torch.uint8) != as_bytes:
        kind = {True: "bytes", False: "numbers"}
        raise HoldfastError(
            f"{source} holds {kind[x.dtype == torch.uint8]} of shape {list(x.shape[1:])} per row, "
            f"but the model was fitted on {kind[as_bytes]} of shape {wanted}"
        )


def _prepared(values: Array, where: str) -> Tensor:
    if values.ndim < 2 or values.dtype.kind not in "biuf":
        raise HoldfastError(f"{where} is {values.dtype} of shape {values.shape}; inputs are numbers of shape (N, ...)")
    if values.dtype == np.uint8 and values.ndim == 3:
        values = values[:, None]
    if values.ndim == 4 and values.shape[3] in (1, 3, 4) and values.shape[1] not in (1, 3, 4):
        values = values.transpose(0, 3, 1, 2)
    if values.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(values))
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _blobs(arrays: Mapping[str, Array], ending: str, source: str) -> tuple[list[bytes], list[str]]:
    """The JPEG files of a split, and what errors call them."""
    key, data = f"offsets{ending}", arrays[f"jpeg{ending}"]
    if key not in arrays:
        raise HoldfastError(f"{source} holds jpeg{ending} but no {key}")
    offsets = arrays[key].astype(np.int64)
    if len(offsets) < 2 or offsets[0] < 0 or (np.diff(offsets) < 0).any() or offsets[-1] > len(data):
        raise HoldfastError(f"{source}: {key} does not rise from 0 to at most the {len(data)} bytes held")
    whole = data.tobytes()
    blobs = [whole[a:b] for a, b in pairwise(offsets.tolist())]
    return blobs, [f"{source}: image {i} of jpeg{ending}" for i in range(len(blobs))]
