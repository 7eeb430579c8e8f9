"""CelebA as published: aligned images, a list of five landmarks each, and the partition into three sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data import images
from holdfast.data.rows import Rows
from holdfast.data.summary import summary_of
from holdfast.errors import HoldfastError

IMAGES = "img_align_celeba"
LANDMARKS = "list_landmarks_align_celeba.txt"
PARTITION = "list_eval_partition.txt"
PARTS = ("train", "validation", "test")
"""What the numbers 0, 1 and 2 of the partition mean."""
POINTS = 5


def is_celeba(folder: Path) -> bool:
    """Whether a folder holds the images and the list of landmarks."""
    return (folder / LANDMARKS).is_file() and (folder / IMAGES).is_dir()


def read(
    folder: Path,
    *,
    recipe: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    image_size: images.Size | None = None,
) -> tuple[Rows, Rows | None]:
    """The training faces of a CelebA folder, and its test faces if the partition names some."""
    parts = read_parts(folder, recipe=recipe, skip_broken=skip_broken, image_size=image_size)
    if "train" not in parts:
        raise HoldfastError(f"{folder / PARTITION} puts no image that is there into the training set (0)")
    return parts["train"], parts.get("test")


def read_parts(
    folder: Path,
    *,
    recipe: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    image_size: images.Size | None = None,
) -> dict[str, Rows]:
    """The sets of a CelebA folder that hold images: train, validation, test; all train without a partition.

    Targets are the x of the five points (left eye, right eye, nose, left and right mouth corner), then their y, as
    shares of the width and height of the image, so that they fit any size it is read in.

    Parameters
    ----------
    recipe: size and channels of an earlier reading, to be used again.
    skip_broken: leave out images that cannot be decoded instead of giving up.
    image_size: a side or (height, width); the usual one, at most 64 on its long side, if not given.
    """
    names, points = _landmarks(folder / LANDMARKS)
    part = _partition(folder / PARTITION, names)
    there = [os.path.isfile(folder / IMAGES / name) for name in names]
    if not any(there):
        raise HoldfastError(f"{folder / IMAGES} holds none of the {len(names)} images that {LANDMARKS} lists")
    gone = [name for name, found in zip(names, there, strict=True) if not found]
    if gone and not skip_broken:
        raise HoldfastError(
            f"{folder / IMAGES} lacks {len(gone)} listed image{'s' if len(gone) > 1 else ''} ({gone[0]}, ...); "
            "fetch them, or pass --skip-broken to leave them out"
        )
    made: dict[str, Rows] = {}
    for number, title in enumerate(PARTS):
        chosen = [i for i in range(len(names)) if part[i] == number and there[i]]
        if not chosen:
            continue
        paths = [folder / IMAGES / names[i] for i in chosen]
        files = [str(path) for path in paths]
        recipe = recipe or images.measure(paths[:100], files[:100], image_size, skip_broken)
        x, kept = images.decode(paths, files, recipe, skip_broken)
        rows = [chosen[k] for k in kept]
        sizes = np.array([images.size_of(folder / IMAGES / names[i]) for i in rows], dtype=np.float32)
        scale = np.repeat(sizes[:, ::-1], POINTS, axis=1)
        y = torch.from_numpy(points[rows] / scale)
        belong = [name for name, its in zip(names, part, strict=True) if its == number]
        skipped = images.skipped_text(belong, [names[i] for i in rows])
        summary = summary_of("CelebA", y, None, skipped)
        made[title] = Rows(x, y, names=tuple(names[i] for i in rows), recipe=recipe, summary=summary)
    return made


def read_inputs(folder: Path, recipe: Mapping[str, Any], skip_broken: bool = False) -> tuple[Tensor, tuple[str, ...]]:
    """The test faces of a folder, or the training faces if there are none."""
    train, test = read(folder, recipe=recipe, skip_broken=skip_broken)
    rows = test or train
    assert isinstance(rows.x, Tensor)
    assert rows.names is not None
    return rows.x, rows.names


def _landmarks(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """File names and (N, 10) pixels: all x, then all y."""
    lines = _lines(path)
    # A count, a line of column names, then one line an image.
    body = lines[2:] if len(lines) > 2 and len(lines[0].split()) == 1 else lines
    names, values = [], []
    for number, line in enumerate(body, start=len(lines) - len(body) + 1):
        fields = line.replace(",", " ").split()
        try:
            numbers = [float(field) for field in fields[1:]]
        except ValueError:
            numbers = []
        if len(numbers) != 2 * POINTS:
            raise HoldfastError(f"{path} line {number} holds no file name and {2 * POINTS} coordinates: {line[:60]!r}")
        names.append(fields[0])
        values.append(numbers)
    if not names:
        raise HoldfastError(f"{path} lists no images")
    pairs = np.asarray(values, dtype=np.float32).reshape(-1, POINTS, 2)
    return names, np.concatenate([pairs[:, :, 0], pairs[:, :, 1]], axis=1)


def _partition(path: Path, names: list[str]) -> list[int]:
    if not path.is_file():
        return [0] * len(names)
    part: dict[str, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        fields = line.replace(",", " ").split()
        if len(fields) != 2 or fields[1] not in ("0", "1", "2"):
            raise HoldfastError(f"{path} line {number} is no file name and 0, 1 or 2: {line[:60]!r}")
        part[fields[0]] = int(fields[1])
    unknown = [name for name in names if name not in part]
    if unknown:
        raise HoldfastError(f"{path} does not tell the set of {len(unknown)} images ({unknown[0]}, ...)")
    return [part[name] for name in names]


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror}") from None
    return [line for line in text.splitlines() if line.strip()]
