"""Mini WebVision as published: the first classes of the Google images, and ImageNet's images as a second test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.data import images
from holdfast.data.folders import SUFFIXES
from holdfast.data.rows import Rows
from holdfast.data.summary import listed as shortened
from holdfast.data.summary import summary_of
from holdfast.digits import number_in
from holdfast.errors import HoldfastError

TRAIN = "info/train_filelist_google.txt"
TEST = "info/val_filelist.txt"
TEST_IMAGES = "val_images_256"
SYNSETS = "info/synsets.txt"
IMAGENET_LABELS = "val.txt"
MINI = 50
"""Classes of mini WebVision."""

_SYNSET = re.compile(r"n\d{8}")
Found = list[tuple[str, str]]
"""(path, synset) of images."""


def is_webvision(folder: Path) -> bool:
    """Whether a folder holds the list of the Google images."""
    return (folder / TRAIN).is_file()


def read(
    folder: Path,
    *,
    classes: int = MINI,
    recipe: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    image_size: images.Size | None = None,
) -> tuple[Rows, Rows]:
    """The training images of the first classes that Google found, and WebVision's own test images of these classes.

    Training images lie where their list says (``google/q0001/...``), test images in ``val_images_256``. Images are
    decoded when a batch asks for them: the middle of each that has the shape asked for, resized. Classes are called
    by their synsets, as ImageNet's folders are.

    Parameters
    ----------
    classes: how many, in the order of ``info/synsets.txt``, at least 2; 50 is mini WebVision.
    recipe: size and classes of an earlier reading, to be used again.
    skip_broken: leave out images that are missing or cannot be decoded; to know, each is decoded once.
    image_size: a side or (height, width); 64 if not given.
    """
    order = _synsets(folder / SYNSETS)
    if recipe is None:
        if not 2 <= classes <= len(order):
            raise HoldfastError(f"{folder / SYNSETS} lists {len(order)} classes; take 2 to {len(order)}, not {classes}")
        size = images.sides(images.LONGEST_SIDE if image_size is None else image_size)
        recipe = {"kind": "image", "size": size, "channels": 3, "crop": True, "classes": order[:classes]}
    train = _rows(folder, _listed(folder / TRAIN, order), folder / TRAIN, recipe, skip_broken)
    test = _rows(folder / TEST_IMAGES, _listed(folder / TEST, order), folder / TEST, recipe, skip_broken)
    return train, test


def read_inputs(folder: Path, recipe: Mapping[str, Any], skip_broken: bool = False) -> tuple[Tensor, tuple[str, ...]]:
    """WebVision's test images of the recipe's classes, decoded, and their names."""
    order = _synsets(folder / SYNSETS)
    found = _of_classes(_listed(folder / TEST, order), recipe.get("classes", order[:MINI]))
    paths = [folder / TEST_IMAGES / name for name, _ in found]
    x, kept = images.decode(paths, [str(path) for path in paths], recipe, skip_broken)
    return x, tuple(found[i][0] for i in kept)


def read_imagenet(
    folder: Path,
    synsets: Path,
    recipe: Mapping[str, Any],
    *,
    labels: Path | None = None,
    skip_broken: bool = False,
) -> Rows:
    """The validation images of ImageNet (ILSVRC-2012) that belong to the classes of a WebVision reading.

    Parameters
    ----------
    folder: with one subfolder a synset, or with all images side by side and a list of their classes.
    synsets: WebVision's ``info/synsets.txt``.
    recipe: of the WebVision rows: its classes and size are used again.
    labels: the list, for images side by side; ``val.txt`` in the folder if not given. A line holds a file name and a
        class, which is a synset or its number in the sorted list of all synsets, counted from 0. Kaggle's
        ``LOC_val_solution.csv`` will do.
    """
    if labels is None and (folder / IMAGENET_LABELS).is_file():
        labels = folder / IMAGENET_LABELS
    if labels is None:
        return _rows(folder, _in_folders(folder, recipe["classes"]), folder, recipe, skip_broken)
    return _rows(folder, _labelled(labels, _synsets(synsets)), labels, recipe, skip_broken)


def _rows(folder: Path, listed: Found, source: Path, recipe: Mapping[str, Any], skip_broken: bool) -> Rows:
    """Rows of the images that belong to the recipe's classes."""
    found = _of_classes(listed, recipe["classes"])
    if not found:
        raise HoldfastError(f"{source} names no image of the {len(recipe['classes'])} classes asked for")
    gone = {name for name, _ in found if not os.path.isfile(folder / name)}
    if gone and not skip_broken:
        raise HoldfastError(
            f"{folder} lacks {len(gone)} of the {len(found)} images that {source} names ({min(gone)}, ...); "
            "fetch them, or pass --skip-broken to leave them out"
        )
    found = [(name, synset) for name, synset in found if name not in gone]
    if not found:
        raise HoldfastError(f"{folder} holds none of the {len(gone)} images that {source} names")
    skipped = [f"{len(gone):,} that are not there ({shortened(sorted(gone))})"] if gone else []
    if skip_broken:
        kept = images.whole([folder / name for name, _ in found], recipe)
        skipped += images.skipped_text([name for name, _ in found], kept)
        found = [found[i] for i in kept]
    place = {synset: k for k, synset in enumerate(recipe["classes"])}
    y = torch.tensor([place[synset] for _, synset in found])
    return Rows(
        images.Pictures([folder / name for name, _ in found], recipe),
        y,
        tuple(recipe["classes"]),
        tuple(name for name, _ in found),
        recipe=recipe,
        summary=summary_of("WebVision", y, recipe["classes"], skipped),
    )


def _of_classes(listed: Found, classes: Sequence[str]) -> Found:
    wanted = set(classes)
    return [(name, synset) for name, synset in listed if synset in wanted]


def _synsets(path: Path) -> list[str]:
    """The synsets of all classes in order: the first word of each line."""
    order = []
    for number, line in _lines(path):
        synset = line.split()[0]
        if not _SYNSET.fullmatch(synset):
            raise HoldfastError(f"{path} line {number} does not begin with a synset such as n01440764: {line[:60]!r}")
        if synset in order:
            raise HoldfastError(f"{path} line {number} lists {synset} a second time")
        order.append(synset)
    return order


def _listed(path: Path, order: Sequence[str]) -> Found:
    """The images of a WebVision list, whose lines hold a path and the number of a class."""
    found = []
    for number, line in _lines(path):
        name, _, label = line.strip().rpartition(" ")
        place = number_in(label)
        if not name or place is None:
            raise HoldfastError(f"{path} line {number} is no path and class number: {line[:60]!r}")
        found.append((name, _numbered(place, order, path, number)))
    return found


def _labelled(path: Path, order: Sequence[str]) -> Found:
    """The images of an ImageNet list, whose lines hold a file name, a class, and with Kaggle's boxes more."""
    numbers = sorted(order)
    found = []
    for number, line in _lines(path):
        name, label, *_ = [*line.replace(",", " ").split(), "", ""]
        if number == 1 and name == "ImageId":
            continue
        if not _SYNSET.fullmatch(label):
            place = number_in(label)
            if place is None:
                raise HoldfastError(f"{path} line {number} is no file name and class: {line[:60]!r}")
            label = _numbered(place, numbers, path, number)
        found.append((name if name.lower().endswith(SUFFIXES) else f"{name}.JPEG", label))
    return found


def _in_folders(folder: Path, classes: Sequence[str]) -> Found:
    """The images in the folders of the synsets."""
    found: Found = []
    for synset in classes:
        if not (folder / synset).is_dir():
            raise HoldfastError(
                f"{folder} has no folder {synset} and no list {IMAGENET_LABELS}; sort the images into one folder "
                "a synset, or name the list of their classes"
            )
        names = sorted(path.name for path in (folder / synset).iterdir() if path.name.lower().endswith(SUFFIXES))
        found += [(f"{synset}/{name}", synset) for name in names]
    return found


def _numbered(place: int, order: Sequence[str], path: Path, line: int) -> str:
    if place >= len(order):
        raise HoldfastError(f"{path} line {line} names class {place}, but there are {len(order)} synsets, from 0 on")
    return order[place]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1 on."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror}") from None
    return ((number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())
