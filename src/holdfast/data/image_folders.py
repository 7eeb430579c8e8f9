"""Folders of images with one subfolder per class, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from holdfast.data import folders, images
from holdfast.data.folders import Files, Found
from holdfast.data.hygiene import class_warnings
from holdfast.data.labels import class_numbers
from holdfast.data.on_disk import OnDisk
from holdfast.data.rows import Rows
from holdfast.data.summary import class_counts, listed, summary_of
from holdfast.errors import HoldfastError


def read(
    folder: Path,
    *,
    recipe: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    image_size: images.Size | None = None,
    encoder: str | None = None,
    follow_links: bool = False,
    on_disk: bool | None = None,
) -> tuple[Rows, Rows | None]:
    """The images of a folder whose subfolders are classes, or that holds `train` and `test` (or `val`) so.

    Images become (N, C, H, W) bytes of one size, stretched where their sides differ. Grey if all training
    images are, else RGB. Rows are sorted by file name, which is also the name of the row.

    Parameters
    ----------
    recipe: size, channels and classes of an earlier reading, to be used again.
    skip_broken: leave out images that cannot be decoded instead of giving up.
    image_size: a side or (height, width); by default the most common size of the training images, reduced to
        64 pixels on its long side if it is larger.
    encoder: of a pre-trained network that is to see them, or "auto"; then they are not decoded yet, and keep the size
        that it takes.
    follow_links: read what links lead to outside of the folder.
    on_disk: decode images as batches ask for them; by default where their pixels would take more than 256 MB. Of these
        names and sizes alone are looked at before.
    """
    train_root, test_root = folders.splits(folder)
    train = folders.labelled_files(train_root, folder, follow_links)
    if recipe is None:
        recipe = _recipe(folder, train, image_size, skip_broken, encoder)
    rows = _rows(folder, train, recipe, skip_broken, on_disk)
    skipped = images.skipped_text([name for name, _ in train], rows.names or ())
    warnings = class_warnings(dict(class_counts(rows.y, rows.classes)))
    found = _found(folder, train_root, test_root)
    rows = replace(rows, summary=summary_of(found, rows.y, rows.classes, skipped, warnings))
    if test_root is None:
        return rows, None
    test = folders.labelled_files(test_root, folder, follow_links)
    return rows, _rows(folder, test, recipe, skip_broken, isinstance(rows.x, OnDisk) if on_disk is None else on_disk)


def read_inputs(
    path: Path, recipe: Mapping[str, Any], skip_broken: bool = False, follow_links: bool = False
) -> tuple[Tensor | images.Pictures, tuple[str, ...]]:
    """One image file, or all images of a folder (of its test set if it has one), and their names."""
    if path.is_dir():
        _, test_root = folders.splits(path)
        start = test_root or path
        before = "" if test_root is None else f"{test_root.name}/"
        names = [f"{before}{name}" for name in folders.files(start, path, follow_links)]
        files = Files(path, names)
    else:
        files, names = Files(path.parent, [path.name]), [path.name]
    if not names:
        raise HoldfastError(f"{path} holds no images ({', '.join(folders.SUFFIXES)})")
    x, kept = images.folder_pictures(files, recipe, skip_broken)
    return x, tuple(names) if kept is None else tuple(names[i] for i in kept)


def _found(folder: Path, train: Path, test: Path | None) -> str:
    """What a folder of images is, in plain words, and which of its parts are left alone."""
    if train == folder:
        return "folder of images"
    others = [sub.name for sub in folders.subfolders(folder) if sub not in (train, test)]
    parts = [f"rows of {train.name}/", *([] if test is None else [f"test rows of {test.name}/"])]
    return ", ".join(["folder of images", *parts, *([f"left out: {listed(others)}"] if others else [])])


def _recipe(
    folder: Path,
    train: Sequence[Found],
    image_size: images.Size | None,
    skip_broken: bool,
    encoder: str | None,
) -> dict[str, Any]:
    classes, _ = class_numbers({"the folder": pd.Series([label for _, label in train], dtype=object)})
    files = Files(folder, [train[i].name for i in images.some_of(len(train))])
    seen = images.measure(files, [str(file) for file in files], image_size, skip_broken, encoder)
    return {**seen, "classes": list(classes)}


def _rows(
    folder: Path, found: Sequence[Found], recipe: Mapping[str, Any], skip_broken: bool, on_disk: bool | None
) -> Rows:
    labels = pd.Series([label for _, label in found], dtype=object)
    classes, numbers = class_numbers({str(folder): labels}, classes=recipe["classes"])
    names = tuple(name for name, _ in found)
    x, kept = images.folder_pictures(Files(folder, names), recipe, skip_broken, on_disk)
    y = numbers[str(folder)]
    if kept is None:
        return Rows(x, y, classes, names, recipe=recipe)
    place = torch.tensor(kept) if len(kept) < len(found) else None
    return Rows(x, y[kept], classes, tuple(names[i] for i in kept), recipe=recipe, place=place)
