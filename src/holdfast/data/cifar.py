"""CIFAR-10 and CIFAR-100: the pickled batches of Krizhevsky, read without running what they say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.arrays import check_shape
from holdfast.data.labels import class_numbers
from holdfast.data.opcodes import plain_values
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError

_TEN = tuple(f"data_batch_{i}" for i in range(1, 6))


def is_cifar(folder: Path) -> bool:
    """Whether a folder holds the python batches of CIFAR-10 or CIFAR-100."""
    return any((folder / name).is_file() for name in _TEN) or _is_hundred(folder)


def read(folder: Path, *, recipe: Mapping[str, Any] | None = None) -> tuple[Rows, Rows | None]:
    """The training rows of a folder of CIFAR batches, and the test rows if they are there."""
    hundred = _is_hundred(folder)
    files = {"train": ["train"] if hundred else list(_TEN)}
    test = "test" if hundred else "test_batch"
    if (folder / test).is_file():
        files["test"] = [test]
    gone = [name for name in files["train"] if not (folder / name).is_file()]
    if gone:
        raise HoldfastError(f"{folder} lacks {', '.join(gone)}; fetch the whole archive again")
    parts = {split: [_batch(folder / name) for name in names] for split, names in files.items()}
    labels = {f"{folder} ({split})": _joined(part) for split, part in parts.items()}
    names = _class_names(folder, hundred)
    classes, numbers = class_numbers(labels, names, recipe["classes"] if recipe else None)
    recipe = recipe or {"kind": "image", "size": [32, 32], "channels": 3, "classes": list(classes)}
    rows = {}
    for split, part in parts.items():
        x = torch.from_numpy(np.concatenate([pixels for pixels, _, _ in part]))
        check_shape(x, recipe, str(folder))
        called = tuple(name for _, _, names in part for name in names)
        rows[split] = Rows(
            x,
            numbers[f"{folder} ({split})"],
            classes,
            called if len(called) == len(x) else None,
            recipe=recipe,
        )
    return rows["train"], rows.get("test")


def read_inputs(folder: Path, recipe: Mapping[str, Any]) -> tuple[Tensor, tuple[str, ...] | None]:
    """The test images of a folder of CIFAR batches, or the training images if there are none."""
    train, test = read(folder, recipe=recipe)
    rows = test or train
    if not isinstance(rows.x, Tensor):
        raise TypeError("CIFAR rows are one tensor")
    return rows.x, rows.names


def _is_hundred(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("train", "meta"))


def _joined(part: list[tuple[NDArray[np.uint8], list[int], list[str]]]) -> pd.Series[Any]:
    return pd.Series([label for _, labels, _ in part for label in labels])


def _class_names(folder: Path, hundred: bool) -> list[str] | None:
    path = folder / ("meta" if hundred else "batches.meta")
    if not path.is_file():
        return None
    names = _unpickled(path).get(b"fine_label_names" if hundred else b"label_names")
    if not isinstance(names, list):
        raise HoldfastError(f"{path} holds no list of class names")
    return [_text(name) for name in names]


def _batch(path: Path) -> tuple[NDArray[np.uint8], list[int], list[str]]:
    """Images (N, 3, 32, 32), labels and file names of one batch."""
    batch = _unpickled(path)
    pixels, labels = batch.get(b"data"), batch.get(b"labels", batch.get(b"fine_labels"))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3072,):
        raise HoldfastError(f"{path} holds no 'data' of 3072 bytes per image")
    if not isinstance(labels, list) or len(labels) != len(pixels):
        raise HoldfastError(f"{path} does not hold one label for each of its {len(pixels)} images")
    names = batch.get(b"filenames")
    return pixels.reshape(-1, 3, 32, 32), labels, [_text(name) for name in names or ()]


def _unpickled(path: Path) -> dict[bytes, Any]:
    try:
        content = plain_values(path.read_bytes())
    except HoldfastError as error:
        raise HoldfastError(f"{path} {error}") from None
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise HoldfastError(f"{path} holds a {type(content).__name__}, not a CIFAR batch")
    return {key if isinstance(key, bytes) else str(key).encode(): value for key, value in content.items()}


def _text(name: Any) -> str:
    return name.decode("utf-8", errors="replace") if isinstance(name, bytes) else str(name)
