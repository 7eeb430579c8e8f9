"""One door for all data: looks at a path and reads what it finds there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import torch
from torch import Tensor

from holdfast.data import (
    arrays,
    celeba,
    cifar,
    coco,
    image_folders,
    image_tables,
    images,
    large_rows,
    mnist,
    pickles,
    shards,
    tables,
    webvision,
)
from holdfast.data.encode import encode_inputs, encode_pictures
from holdfast.data.formats import SEVERAL, detect
from holdfast.data.kinds import kind_of
from holdfast.data.labels import Missing, Task
from holdfast.data.large import large_table
from holdfast.data.load import Table, load_table
from holdfast.data.on_disk import OnDisk
from holdfast.data.own_features import further, in_place_of_inputs
from holdfast.data.rows import Rows
from holdfast.data.summary import summary_of
from holdfast.data.tune import encoder_to_tune, raw_inputs, to_tune, tuned_in
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, silent


def read(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    truth: str | None = None,
    task: Task | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing_labels: Missing = "error",
    skip_broken: bool = False,
    trust_pickle: bool = False,
    image_size: images.Size | None = None,
    encoder: str | None = None,
    features: str | os.PathLike[str] | None = None,
    tune: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    table: str | None = None,
    ignore: Sequence[str] = (),
    merge: Mapping[str, str] | None = None,
    keep_spelling: bool = False,
    follow_links: bool = False,
    on_disk: bool | None = None,
    progress: MakeProgress = silent,
) -> tuple[Rows, Rows | None]:
    """The training rows at a path, and the test rows where the source itself ships some.

    Parameters
    ----------
    path: a table (docs/formats.md), an npz file, or a folder of images, MNIST, CIFAR, CelebA or WebVision files, or
        COCO annotations or a folder that holds them.
    label, truth: columns of a table that hold the labels and, where they are known, the true labels.
    task: classes or numbers to predict; by default the labels decide.
    recipe: the `Rows.recipe` of an earlier reading, to prepare these rows the same way.
    missing_labels: what to do with rows that have no label.
    skip_broken: leave out images that cannot be decoded.
    trust_pickle: read .pkl, .pickle, .pt and .pth files, which may run any code.
    image_size: side or (height, width) of images read from files; see ``image_folders.read`` for the default.
    encoder: a pre-trained network that makes features of text columns or of images: a name of
        ``holdfast.encoders.encoder_named``, or "auto" for the usual one if it is installed. A recipe decides by itself.
    features: a .npy file of numbers that are learned from instead, a row for each row of the data; then test rows that
        the source ships are left out, since there are no features of them.
    tune: the encoder is to be trained itself: inputs are tokens or pixels, with the features beside them
        (``Rows.frozen``). The usual encoder where none is named.
    delimiter, encoding: of a table in a text file, where those found by themselves are wrong.
    table: of an SQLite database, or the sheet of an Excel workbook, where there are several.
    ignore: columns of a table that are not learned from.
    merge: labels of a table by the classes that they belong to, such as ``{"catt": "cat"}``.
    keep_spelling: labels of a table that differ by case or white space alone stay classes of their own.
    follow_links: read what links lead to outside of a folder of images.
    on_disk: leave inputs on disk until a batch asks for them, where the source can (docs/formats.md); by default
        where they are many.
    progress: makes the bar of the encoding.
    """
    _check_choice("task", task, (None, *get_args(Task)))
    _check_choice("missing_labels", missing_labels, get_args(Missing))
    found = Path(path)
    kind = kind_of(found)
    _check_recipe(kind, found, recipe)
    _check_options(kind, found, label or truth, task, image_size)
    if recipe is None:
        check_holds_several(found, kind, table)
    if tune and recipe is None:
        encoder = encoder_to_tune(encoder, kind)
    if features is not None:
        if tune:
            raise HoldfastError(f"features of a file ({features}) cannot be tuned; leave --tune or --features out")
        if recipe is not None:
            raise HoldfastError(f"{features} has no features of {found}; pass --test with a share to hold out")
        encoder = None
    options = {"skip_broken": skip_broken, "image_size": image_size}
    if follow_links and kind not in ("images", "image"):
        raise HoldfastError(f"{found} is no folder of images, so no links in it are followed; leave --follow-links out")
    large = large_table(found, on_disk) if kind == "table" and features is None else None
    if large is not None:
        if tune:
            raise HoldfastError(f"{found} does not fit into memory, as it must for --tune; leave it out, or take less")
        return large_rows.read(
            large, progress, label=label, truth=truth, task=task, recipe=recipe, missing=missing_labels,
            encoder=encoder, ignore=ignore, merge=merge, keep_spelling=keep_spelling,
        )  # fmt: skip
    if kind == "table":
        loaded = load_table(found, delimiter, encoding, table)
        labels = {
            "label": label, "truth": truth, "task": task, "missing": missing_labels, "merge": merge,
            "keep_spelling": keep_spelling,
        }  # fmt: skip
        column = _picture_column(found, loaded, recipe, features, (label, truth, *ignore))
        if column is None:
            _check_sizes(found, image_size)
            rows, test = _of_table(
                found, loaded, features, ignore=ignore, recipe=recipe, encoder=encoder, progress=progress, tune=tune,
                **labels,
            )  # fmt: skip
            return rows, test
        rows, test = _of_image_table(found, loaded, column, encoder=encoder, recipe=recipe, **labels, **options)
    elif kind == "coco":
        rows, test = coco.read(
            found, recipe=recipe, missing=missing_labels, encoder=encoder, merge=merge, keep_spelling=keep_spelling,
            skip_broken=skip_broken, image_size=image_size,
        )  # fmt: skip
    else:
        if encoder == "auto" and kind in ("celeba", "webvision"):
            encoder = None  # they come with a protocol of their own
        lying = {"follow_links": follow_links, "on_disk": on_disk}
        rows, test = _arrays(found, kind, label, recipe, task, missing_labels, trust_pickle, encoder, options, lying)
    if rows.summary is None:
        rows = replace(rows, summary=summary_of(f"files of {kind}", rows.y, rows.classes))
    if features is not None:
        return in_place_of_inputs(rows, Path(features), found), None
    if rows.recipe.get("kind") == "image" and (recipe is None or "encoder" in recipe):
        if recipe is not None and tuned_in(recipe) is not None:
            return rows, test
        if not tune:
            return encode_pictures(rows, test, encoder, progress)
        made = to_tune(encode_pictures(rows, None, encoder, progress)[0], rows.x)
        return made, None if test is None else replace(test, recipe=made.recipe)
    if recipe is None and encoder not in (None, "auto"):
        raise HoldfastError(
            f"{found} holds neither text nor images that {encoder} could read; leave it out (--net mlp, no --tune)"
        )
    return rows, test


def _picture_column(
    path: Path,
    table: Table,
    recipe: Mapping[str, Any] | None,
    features: object,
    aside: Sequence[str | None],
) -> str | None:
    """The column of a table by which its rows are pictures; None where they are not, or are to be read otherwise."""
    if features is not None or (recipe is not None and recipe["kind"] != "image"):
        return None
    column = image_tables.image_column(table.frame, path.parent, aside)
    if column is None and recipe is not None:
        raise HoldfastError(f"{path} does not fit a model that was fitted on rows of kind {recipe['kind']!r}")
    return column


def _of_table(
    path: Path, table: Table, features: str | os.PathLike[str] | None, **options: Any
) -> tuple[Rows, Rows | None]:
    """Rows of a table, and of the test rows that came with it."""
    rows = tables.build(table.frame, str(path), alone=features is None, found=table.found, **options)
    if rows.summary is not None:
        unfound = image_tables.unfound_warnings(table.frame, path.parent)
        warnings = (*rows.summary.warnings, *unfound)
        rows = replace(rows, summary=replace(rows.summary, warnings=warnings))
    if features is not None:
        return in_place_of_inputs(rows, Path(features), path), None
    if table.test is None:
        return rows, None
    further = {**options, "recipe": rows.recipe, "label": None, "truth": None}
    return rows, tables.build(table.test, f"{path}: test", **further)


def _of_image_table(path: Path, table: Table, column: str, **options: Any) -> tuple[Rows, Rows | None]:
    """Pictures of a table, and those of the test rows that came with it."""
    rows = image_tables.build(table.frame, str(path), path.parent, column, found=table.found, **options)
    if table.test is None:
        return rows, None
    further = {**options, "recipe": rows.recipe, "label": None, "truth": None}
    return rows, image_tables.build(table.test, f"{path}: test", path.parent, column, **further)


def _arrays(
    found: Path,
    kind: str,
    label: str | None,
    recipe: Mapping[str, Any] | None,
    task: Task | None,
    missing: Missing,
    trust_pickle: bool,
    encoder: str | None,
    options: Mapping[str, Any],
    lying: Mapping[str, Any],
) -> tuple[Rows, Rows | None]:
    """Rows of anything but a table, images as they are."""
    if kind == "shards":
        return shards.read(
            found, label=label, recipe=recipe, missing=missing, encoder=encoder, on_disk=lying["on_disk"], **options
        )
    if kind == "images":
        return image_folders.read(found, recipe=recipe, encoder=encoder, **options, **lying)
    if kind == "mnist":
        return mnist.read(found, recipe=recipe)
    if kind == "cifar":
        return cifar.read(found, recipe=recipe)
    if kind == "celeba":
        return celeba.read(found, recipe=recipe, **options)
    if kind == "webvision":
        return webvision.read(found, recipe=recipe, **options)
    if kind == "image":
        raise HoldfastError(f"{found} is a single image; pass the folder whose subfolders are the classes")
    return arrays.build(
        arrays.load(found) if kind == "npz" else pickles.load(found, trust_pickle=trust_pickle),
        str(found),
        task=task,
        recipe=recipe,
        missing=missing,
        encoder=encoder,
        **options,
    )


def read_inputs(
    path: str | os.PathLike[str],
    recipe: Mapping[str, Any],
    *,
    skip_broken: bool = False,
    trust_pickle: bool = False,
    features: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    table: str | None = None,
    follow_links: bool = False,
    progress: MakeProgress = silent,
) -> tuple[Tensor | OnDisk, tuple[str, ...] | None]:
    """Inputs to predict on, prepared by a recipe, and the names of the rows; labels are not needed.

    Of a source that ships a test set, the test set is read.
    """
    found = Path(path)
    kind = kind_of(found)
    large = large_table(found, None) if kind == "table" and recipe.get("kind") == "table" else None
    if large is not None and features is None and tuned_in(recipe) is None:
        return large_rows.inputs(large.test or large.rows, recipe, progress)
    frame = _further_frame(found, delimiter, encoding, table) if kind == "table" else None
    _check_recipe(kind, found, recipe)
    if features is not None and "features" not in recipe:
        raise HoldfastError("the model did not learn from features of a file; leave --features out")
    if "features" in recipe:
        if frame is not None:
            count, names = len(frame), tables.row_names(frame, recipe["names"])
        else:
            held, names = _inputs(found, kind, recipe, skip_broken, trust_pickle, follow_links)
            count = len(held)
        return further(None if features is None else Path(features), recipe["features"], count, found), names
    x: Any
    if frame is not None and recipe["kind"] == "table":
        x, names = tables.inputs(frame, recipe, progress)
    else:
        if frame is not None:
            held, names = image_tables.inputs(frame, found.parent, recipe, skip_broken)
        else:
            held, names = _inputs(found, kind, recipe, skip_broken, trust_pickle, follow_links)
        if tuned_in(recipe) is not None:
            x = raw_inputs(held, recipe)
        else:
            x = held if "encoder" not in recipe else encode_inputs(held, recipe, progress)
    if isinstance(x, Tensor) and x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise HoldfastError(f"{found} holds NaN or infinite features; fill them in or drop those rows")
    return x, names


def _further_frame(path: Path, *options: str | None) -> pd.DataFrame:
    table = load_table(path, *options)
    return table.frame if table.test is None else table.test


def _inputs(
    path: Path, kind: str, recipe: Mapping[str, Any], skip_broken: bool, trust_pickle: bool, follow_links: bool
) -> tuple[Tensor | images.Pictures, tuple[str, ...] | None]:
    if kind == "mnist":
        return mnist.read_inputs(path, recipe)
    if kind == "cifar":
        return cifar.read_inputs(path, recipe)
    if kind == "celeba":
        return celeba.read_inputs(path, recipe, skip_broken)
    if kind == "webvision":
        return webvision.read_inputs(path, recipe, skip_broken)
    if kind == "shards":
        return shards.read_inputs(path, recipe, skip_broken)
    if kind == "coco":
        return coco.read_inputs(path, recipe, skip_broken)
    if kind in ("images", "image"):
        return image_folders.read_inputs(path, recipe, skip_broken, follow_links)
    named = arrays.load(path) if kind == "npz" else pickles.load(path, trust_pickle=trust_pickle)
    return arrays.inputs_of(named, str(path), recipe, skip_broken)


def _check_choice(option: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise HoldfastError(f"{option} is one of {listed}, not {value!r}")


def _check_recipe(kind: str, path: Path, recipe: Mapping[str, Any] | None) -> None:
    if recipe is None:
        return
    allowed = {"table": ("table", "image"), "npz": ("array", "image"), "pickle": ("array", "image")}
    fitted = recipe.get("kind")
    if fitted not in ("table", "array", "image"):
        raise HoldfastError("the recipe is not one that a reading of rows left behind")
    if fitted not in allowed.get(kind, ("image",)):
        raise HoldfastError(f"{path} does not fit a model that was fitted on rows of kind {fitted!r}")


def _check_options(
    kind: str, path: Path, column: str | None, task: Task | None, image_size: images.Size | None
) -> None:
    """Options that the source cannot heed are refused rather than ignored."""
    if column is not None and kind not in ("table", "shards"):
        raise HoldfastError(f"{path} has no columns, so none is named {column!r}; name columns for tables only")
    if task == "regression" and kind in ("images", "mnist", "cifar", "webvision", "coco", "shards"):
        raise HoldfastError(f"{path} holds classes, not numbers to regress on; leave --task out")
    if task == "classification" and kind == "celeba":
        raise HoldfastError(f"{path} holds landmarks to regress on, not classes; leave --task out")
    if kind in ("mnist", "cifar"):
        _check_sizes(path, image_size)


def check_holds_several(path: Path, kind: str, table: str | None) -> None:
    """A table is named only where there may be several."""
    if table is not None and (kind != "table" or detect(path).kind not in SEVERAL):
        raise HoldfastError(
            f"{path} is neither a database nor a workbook, so it has no table {table!r}; leave --table out"
        )


def _check_sizes(path: Path, image_size: images.Size | None) -> None:
    if image_size is not None:
        raise HoldfastError(f"{path} holds no image files to resize; leave --image-size out")
