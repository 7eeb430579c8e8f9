"""COCO annotation files: a JSON object with images, annotations and categories, read as images with a class each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

from holdfast.data import image_tables, images
from holdfast.data.folders import SUFFIXES, TEST_FOLDERS, TRAIN_FOLDERS
from holdfast.data.formats import Kind, detect, opened
from holdfast.data.labels import Missing
from holdfast.data.load import check_size
from holdfast.data.rows import Rows
from holdfast.data.summary import listed
from holdfast.errors import HoldfastError

NAMES = ("_annotations.coco.json", "annotations.json")
"""What the file is called in a folder of images."""
FILE, LABEL = "file", "label"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""What JSON may say and no file can hold."""

Id = int | float | str


class Parts(NamedTuple):
    """The annotation files of a path: of the training rows, of the test rows, and those that are left alone."""

    train: Path
    test: Path | None = None
    others: tuple[Path, ...] = ()

    @property
    def every(self) -> list[Path]:
        return [self.train, *([] if self.test is None else [self.test]), *self.others]


@dataclass(frozen=True)
class Annotated:
    """What an annotation file says of its images.

    Attributes
    ----------
    document: all of the file.
    rows: the places in ``document["images"]`` of images with annotations of one category, or with none.
    category: the category of each of them; None where there is no annotation.
    several: names of the images with annotations of several categories, which are no rows.
    names: of the categories, by their ids.
    """

    document: dict[str, Any]
    rows: list[int]
    category: list[Id | None]
    several: list[str]
    names: dict[Id, str]


def is_coco(path: Path) -> bool:
    """Whether a path is an annotation file, or a folder that holds some where they usually lie."""
    return _looks_so(path) if path.is_file() else _parts(path) is not None


def parts_of(path: Path) -> Parts:
    """The annotation files of a path for which ``is_coco`` holds."""
    found = Parts(path) if path.is_file() else _parts(path)
    if found is None:
        raise HoldfastError(f"{path} holds no COCO annotations any more")
    return found


def read(
    path: Path,
    *,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    encoder: str | None = None,
    merge: Mapping[str, str] | None = None,
    keep_spelling: bool = False,
    skip_broken: bool = False,
    image_size: images.Size | None = None,
) -> tuple[Rows, Rows | None]:
    """The training images at a path with their category as the label, and the test images where there are some.

    Parameters
    ----------
    path: an annotation file, or a folder that holds some.
    missing: what to do with images that have no annotation; see ``image_tables.build`` for the others.
    """
    found, root = parts_of(path), _root(path)
    options: dict[str, Any] = {
        "missing": missing, "encoder": encoder, "merge": merge, "keep_spelling": keep_spelling,
        "skip_broken": skip_broken, "image_size": image_size,
    }  # fmt: skip
    rows, left_out = _rows(found.train, root, recipe, _said(found, root), options)
    test = None
    if found.test is not None:
        test, more = _rows(found.test, root, rows.recipe, "", options)
        left_out += more
    if rows.summary is not None:
        skipped = (*rows.summary.skipped, *left_out)
        rows = replace(rows, summary=replace(rows.summary, columns=(), skipped=skipped))
    return rows, test


def read_inputs(
    path: Path, recipe: Mapping[str, Any], skip_broken: bool = False
) -> tuple[Tensor | images.Pictures, tuple[str, ...]]:
    """All images of an annotation file (of the test set if there is one), annotated or not, and their names."""
    found, root = parts_of(path), _root(path)
    file = found.test or found.train
    frame = pd.DataFrame({FILE: _files(file, root, _images(_document(file), str(file)))})
    return image_tables.inputs(frame, root, {**recipe, "column": FILE}, skip_broken)


def annotated(document: dict[str, Any], source: str) -> Annotated:
    """What the contents of an annotation file say; an error in one sentence where they are not well formed.

    Parameters
    ----------
    source: what errors call it.
    """
    held = _images(document, source)
    names = _categories(document, source)
    places = {image["id"]: place for place, image in enumerate(held)}
    seen: list[dict[Id, None]] = [{} for _ in held]
    for number, annotation in enumerate(_objects(document, "annotations", source)):
        where = f"{source}: annotation {number}"
        image, category = (_id(annotation, key, where) for key in ("image_id", "category_id"))
        if image not in places:
            raise HoldfastError(f"{where} belongs to the image {image!r}, which 'images' does not list")
        if category not in names:
            raise HoldfastError(f"{where} is of the category {category!r}, which 'categories' does not list")
        seen[places[image]][category] = None
    rows = [place for place, found in enumerate(seen) if len(found) < 2]
    several = [held[place]["file_name"] for place, found in enumerate(seen) if len(found) > 1]
    return Annotated(document, rows, [next(iter(seen[place]), None) for place in rows], several, names)


def _rows(
    path: Path, root: Path, recipe: Mapping[str, Any] | None, found: str, options: Mapping[str, Any]
) -> tuple[Rows, list[str]]:
    """The rows of one annotation file, and what was left out of it because it has several categories."""
    held = annotated(_document(path), str(path))
    files = _files(path, root, [held.document["images"][place] for place in held.rows])
    labels = [None if category is None else held.names[category] for category in held.category]
    bare = [file for file, label in zip(files, labels, strict=True) if label is None]
    if len(bare) == len(files):
        raise HoldfastError(f"{path} has no image with annotations of exactly one category")
    if bare and options["missing"] == "error":
        what = f"{len(bare):,} image{'s' if len(bare) > 1 else ''} without an annotation ({listed(bare)})"
        raise HoldfastError(f"{path} has {what}; annotate them or pass --missing drop")
    frame = pd.DataFrame({FILE: files, LABEL: pd.Series(labels, dtype=object)})
    rows = image_tables.build(
        frame, str(path), root, FILE, label=LABEL, task="classification", recipe=recipe, found=found, **options
    )
    if not held.several:
        return rows, []
    count = len(held.several)
    what = f"image{'s' if count > 1 else ''} with annotations of several categories ({listed(held.several)})"
    return rows, [f"{count:,} {what} in {path.relative_to(root).as_posix()}"]


def _root(path: Path) -> Path:
    """Where the names of rows are found from."""
    return path if path.is_dir() else path.parent


def _parts(folder: Path) -> Parts | None:
    """The annotation files of a folder: its own, those of its split folders, or those in its ``annotations``."""
    own = _annotations_in(folder)
    if own is not None:
        return Parts(own)
    splits = {name: _annotations_in(folder / name) for name in (*TRAIN_FOLDERS, *TEST_FOLDERS)}
    found = [(name, file) for name, file in splits.items() if file is not None]
    if not found:
        files = sorted((folder / "annotations").glob("instances_*.json"))
        found = [(_split(file), file) for file in files if _looks_so(file)]
    if len(found) < 2:
        return Parts(found[0][1]) if found else None
    train = [file for name, file in found if name in TRAIN_FOLDERS]
    if len(train) != 1:
        several = listed([file.relative_to(folder).as_posix() for _, file in found])
        raise HoldfastError(f"{folder} holds {several} and not one training set; pass the file that is meant")
    ranked = sorted((TEST_FOLDERS.index(name), file) for name, file in found if name in TEST_FOLDERS)
    test = ranked[0][1] if ranked else None
    return Parts(train[0], test, tuple(file for _, file in found if file not in (train[0], test)))


def _annotations_in(folder: Path) -> Path | None:
    return next((folder / name for name in NAMES if _looks_so(folder / name)), None)


def _split(file: Path) -> str:
    """'train' of 'instances_train2017.json'."""
    word = re.match(r"[a-z]*", file.stem.removeprefix("instances_").lower())
    return word.group() if word else ""


def _said(found: Parts, root: Path) -> str:
    """What was found, in plain words."""
    train, *others = [file.relative_to(root).as_posix() for file in (found.train, *found.others)]
    if found.test is None:
        return "COCO"
    left = [f"left out: {listed(others)}"] if others else []
    return ", ".join(["COCO", f"rows of {train}", f"test rows of {found.test.relative_to(root).as_posix()}", *left])


def _looks_so(path: Path) -> bool:
    """Whether a file is a JSON object that names images, and annotations or categories."""
    if not path.is_file():
        return False
    try:
        text = text_of(path)
    except (HoldfastError, UnicodeDecodeError):
        return False
    keys = [text is not None and re.search(rf'"{key}"\s*:', text) for key in ("images", "annotations", "categories")]
    return bool(keys[0] and (keys[1] or keys[2]))


def text_of(path: Path) -> str | None:
    """The text of a file that holds one JSON object; None where it holds something else."""
    found = detect(path)
    if found.kind is not Kind.JSON or found.encoding is None:
        return None
    check_size(path, found)
    with opened(path, found) as file:
        text = file.read().decode(found.encoding)
    return text if text.lstrip().startswith("{") else None


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text_of(path) or "")
    except RecursionError:
        raise HoldfastError(f"{path} is nested too deeply") from None
    except ValueError as error:
        raise HoldfastError(f"{path} is no well-formed JSON: {error}") from None
    if not isinstance(document, dict):
        raise HoldfastError(f"{path} is no object with images, annotations and categories")
    return document


def _objects(document: Mapping[str, Any], key: str, source: str) -> list[dict[str, Any]]:
    held = document.get(key)
    if not isinstance(held, list):
        raise HoldfastError(f"{source} has no list {key!r}, as COCO annotations have")
    odd = next((number for number, each in enumerate(held) if not isinstance(each, dict)), None)
    if odd is not None:
        raise HoldfastError(f"{source}: item {odd} of {key!r} is no object of names and values")
    return held


def _images(document: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    held = _objects(document, "images", source)
    if not held:
        raise HoldfastError(f"{source} lists no images")
    _check_ids(held, "image", source)
    for number, image in enumerate(held):
        name = image.get("file_name")
        if not _is_word(name) or not str(name).strip().lower().endswith(SUFFIXES):
            raise HoldfastError(f"{source}: image {number} has the file_name {name!r}, which names no image file")
    return held


def _categories(document: Mapping[str, Any], source: str) -> dict[Id, str]:
    held = _objects(document, "categories", source)
    _check_ids(held, "category", source)
    for number, category in enumerate(held):
        if not _is_word(category.get("name")):
            raise HoldfastError(f"{source}: category {number} has the name {category.get('name')!r}; names are words")
    return {category["id"]: category["name"] for category in held}


def _check_ids(held: Iterable[Mapping[str, Any]], what: str, source: str) -> None:
    seen: set[Id] = set()
    for number, each in enumerate(held):
        key = _id(each, "id", f"{source}: {what} {number}")
        if key in seen:
            raise HoldfastError(f"{source}: {what} {number} has the id {key!r}, as another has; ids must differ")
        seen.add(key)


def _id(held: Mapping[str, Any], key: str, where: str) -> Id:
    """A number or a word that stands for something."""
    value = held.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or value != value:
        raise HoldfastError(f"{where} has the {key} {value!r}; a number or a word is needed")
    return value


def _is_word(value: object) -> bool:
    """Whether a value is text that is not blank and that can be written."""
    return isinstance(value, str) and bool(value.strip()) and _LONE_SURROGATE.search(value) is None


def _files(path: Path, root: Path, held: Iterable[Mapping[str, Any]]) -> list[str]:
    """The file of each image, from the root: beside the annotations, or in one of the usual folders if it is there."""
    places = [path.parent, path.parent / "images"]
    if path.parent.name == "annotations":
        above, split = path.parent.parent, path.stem.removeprefix("instances_")
        places += [above / "images", above / "images" / split, above / split, above]
    starts = [Path(os.path.relpath(place, root)) for place in places]
    found = []
    for image in held:
        name = image["file_name"].strip().replace("\\", "/")
        start = next((start for start in starts if os.path.isfile(root / start / name)), starts[0])
        found.append((start / name).as_posix())
    return found
