"""PASCAL VOC as a set of images that may show several classes each: its lists of what each image shows."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.data import images
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError

LISTS = "ImageSets/Main"
IMAGES = "JPEGImages"
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


class Marked(NamedTuple):
    """Images, and which classes each shows."""

    rows: Rows
    """Without labels: no image has one alone."""
    marks: Tensor
    """(N, C) 1: it is there, -1: it is not, 0: hard to tell."""


def read(folder: Path, part: str, *, classes: tuple[str, ...] = CLASSES, image_size: images.Size = 224) -> Marked:
    """The images of a part of VOC, such as trainval or test of ``VOCdevkit/VOC2007``.

    The lists ``ImageSets/Main/<class>_<part>.txt`` have a line for each image, its name and its mark. Images are
    decoded when they are asked for, the middle of each in a square.
    """
    found: dict[str, dict[str, int]] = {}
    for each in classes:
        for name, mark in _lines(folder / LISTS / f"{each}_{part}.txt"):
            found.setdefault(name, {})[each] = mark
    lacking = sorted(name for name, marks in found.items() if len(marks) < len(classes))
    if lacking:
        raise HoldfastError(
            f"{folder / LISTS} marks {lacking[0]} for {len(found[lacking[0]])} of {len(classes)} classes"
        )
    paths = [folder / IMAGES / f"{name}.jpg" for name in found]
    gone = [path for path in paths if not path.is_file()]
    if gone:
        raise HoldfastError(f"{folder} lacks {len(gone)} of the {len(paths)} images of its lists ({gone[0].name}, ...)")
    recipe = {"kind": "image", "size": images.sides(image_size), "channels": 3, "crop": True}
    marks = torch.tensor([[own[each] for each in classes] for own in found.values()])
    return Marked(Rows(images.Pictures(paths, recipe), torch.zeros(len(paths), 0), names=tuple(found)), marks)


def _lines(path: Path) -> list[tuple[str, int]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror}") from None
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        name, _, mark = line.strip().partition(" ")
        if not name:
            continue
        # A name becomes part of a path.
        if mark.strip() not in ("1", "-1", "0") or Path(name).name != name or name.startswith("."):
            raise HoldfastError(f"{path} line {number} is no name of an image and 1, -1 or 0: {line[:60]!r}")
        found.append((name, int(mark)))
    if not found:
        raise HoldfastError(f"{path} lists no image")
    return found
