"""Rows of a table in memory: its columns, or the pictures that one of them names or holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from holdfast.data import image_tables, tables
from holdfast.data.encode import encode_inputs, encode_pictures
from holdfast.data.frames import titled
from holdfast.data.labels import Task
from holdfast.data.rows import Rows
from holdfast.data.scale import scaled_targets
from holdfast.data.tune import encoder_to_tune, raw_inputs, to_tune, tuned_in

HERE = Path()
"""Where a table in memory has its pictures: their names are found from the working folder."""


class Columns(NamedTuple):
    """What the columns of a table are for."""

    label: str | None = None
    truth: str | None = None
    task: Task | None = None


def rows_of_frame(frame: pd.DataFrame, columns: Columns, encoder: str | None, tune: bool) -> Rows:
    """The rows of a table, encoded as a file of it would be.

    Parameters
    ----------
    encoder: of a pre-trained network that reads texts or pictures, "auto" or None.
    tune: it is to be trained itself.
    """
    held = tables.checked(frame.reset_index(drop=frame.index.name is None), "the table")
    column = image_tables.image_column(held, HERE, (columns.label, columns.truth))
    how = columns._asdict()
    if column is not None:
        encoder = encoder_to_tune(encoder, "image") if tune else encoder
        plain = image_tables.build(held, "the table", HERE, column, **how, encoder=encoder)
        rows = encode_pictures(plain, None, encoder)[0]
        rows = to_tune(rows, plain.x) if tune else rows
    else:
        encoder = encoder_to_tune(encoder, "table") if tune else encoder
        rows = tables.build(held, "the table", **how, encoder=encoder, tune=tune)
    names = rows.names
    if not isinstance(frame.index, pd.RangeIndex) and (names is None or column is not None):
        names = tuple(map(str, frame.index))
    return scaled_targets(replace(rows, names=names, source_index=torch.arange(len(rows))))


def further_of_frame(frame: pd.DataFrame, rows: Rows) -> Rows:
    """Further rows with labels, prepared as those of training."""
    held, recipe = tables.checked(titled(frame, rows.recipe), "the test table"), rows.recipe
    if recipe["kind"] == "table":
        further = tables.build(held, "the test table", recipe=recipe)
    else:
        further = image_tables.build(held, "the test table", HERE, _pictures(held, recipe), recipe=recipe)
        if "encoder" in recipe and tuned_in(recipe) is None:
            further = encode_pictures(further, None, None)[0]
    return scaled_targets(further, rows)


def inputs_of_frame(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> Tensor:
    """Inputs of further rows, which need no labels."""
    held = titled(frame, recipe)
    if recipe["kind"] == "table":
        return tables.inputs(held, recipe)[0]
    pictures = image_tables.inputs(held, HERE, recipe)[0]
    if tuned_in(recipe) is not None:
        return raw_inputs(pictures, recipe)
    return pictures if isinstance(pictures, Tensor) and "encoder" not in recipe else encode_inputs(pictures, recipe)


def _pictures(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> str:
    column: str = recipe["column"]
    tables.require(frame, column, "the test table")
    return column
