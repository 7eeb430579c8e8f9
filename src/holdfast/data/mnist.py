"""MNIST and its kin: the idx files of LeCun, Cortes and Burges."""

from __future__ import annotations

import gzip
import math
import zlib
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
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.memory import check_unpacked

_BYTES = 0x08
_TRAIN, _TEST = "train", "t10k"


def is_mnist(folder: Path) -> bool:
    """Whether a folder holds idx files of training or of test images."""
    return any(_find(folder, split, "images") for split in (_TRAIN, _TEST))


def read(folder: Path, *, recipe: Mapping[str, Any] | None = None) -> tuple[Rows, Rows | None]:
    """The training rows of a folder of idx files, plain or gzipped, and the test rows if they are there."""
    pairs = {_TRAIN: _pair(folder, _TRAIN)}
    if _find(folder, _TEST, "images"):
        pairs[_TEST] = _pair(folder, _TEST)
    labels = {f"{folder} ({split})": pd.Series(y) for split, (_, y) in pairs.items()}
    classes, numbers = class_numbers(labels, classes=recipe["classes"] if recipe else None)
    if recipe is None:
        size = list(pairs[_TRAIN][0].shape[2:])
        recipe = {"kind": "image", "size": size, "channels": 1, "classes": list(classes)}
    rows = {}
    for split, (x, _) in pairs.items():
        check_shape(x, recipe, str(folder))
        rows[split] = Rows(x, numbers[f"{folder} ({split})"], classes, recipe=recipe)
    return rows[_TRAIN], rows.get(_TEST)


def read_inputs(folder: Path, recipe: Mapping[str, Any]) -> tuple[Tensor, None]:
    """The test images of a folder of idx files, or the training images if there are none."""
    split = _TEST if _find(folder, _TEST, "images") else _TRAIN
    x = _images(_require(folder, split, "images"))
    check_shape(x, recipe, str(folder))
    return x, None


def _find(folder: Path, split: str, what: str) -> Path | None:
    rank = 3 if what == "images" else 1
    stems = (f"{split}-{what}-idx{rank}-ubyte", f"{split}-{what}.idx{rank}-ubyte")
    paths = [folder / f"{stem}{packed}" for stem in stems for packed in ("", ".gz")]
    return next((path for path in paths if path.is_file()), None)


def _require(folder: Path, split: str, what: str) -> Path:
    path = _find(folder, split, what)
    if path is None:
        rank = 3 if what == "images" else 1
        raise HoldfastError(f"{folder} lacks {split}-{what}-idx{rank}-ubyte (or the same with .gz)")
    return path


def _pair(folder: Path, split: str) -> tuple[Tensor, NDArray[np.uint8]]:
    x = _images(_require(folder, split, "images"))
    path = _require(folder, split, "labels")
    y = _idx(path, 1)
    if len(x) != len(y):
        raise HoldfastError(f"{path} holds {len(y)} labels beside {len(x)} images")
    return x, y


def _images(path: Path) -> Tensor:
    return torch.from_numpy(_idx(path, 3)[:, None])


def _idx(path: Path, rank: int) -> NDArray[np.uint8]:
    """The bytes of an idx file, in the shape that its head tells."""
    raw = _content(path)
    head = 4 + 4 * rank
    if len(raw) < head:
        raise HoldfastError(f"{path} is cut short: {len(raw)} bytes are less than the head of an idx file")
    if raw[:4] != bytes([0, 0, _BYTES, rank]):
        raise HoldfastError(f"{path} is no idx file of bytes in {rank} dimensions (it begins {raw[:4].hex()})")
    shape = tuple(int(side) for side in np.frombuffer(raw, ">u4", count=rank, offset=4))
    found, expected = len(raw) - head, math.prod(shape)
    if found != expected:
        raise HoldfastError(f"{path} is cut short or damaged: {found} bytes where its head tells of {expected}")
    # A copy, since bytes cannot be written to and torch insists on memory that can.
    return np.frombuffer(raw, np.uint8, offset=head).reshape(shape).copy()


def _content(path: Path) -> bytes:
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as packed:
            check_unpacked(packed, path.stat().st_size, path)
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise HoldfastError(f"{path} is cut short or damaged: {error}") from None
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error}") from None
