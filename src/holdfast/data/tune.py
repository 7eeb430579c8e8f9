"""Rows for a pre-trained network that is to be tuned: what it reads, beside its features as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from holdfast.data import images
from holdfast.data.encode import as_inputs, encode_data, encoder_in, for_texts, is_raw, items
from holdfast.data.labels import to_names
from holdfast.data.rows import Rows, as_rows
from holdfast.encoders.efficientnet_lite import EfficientNetLite0
from holdfast.encoders.minilm import MiniLM
from holdfast.encoders.named import is_encoder
from holdfast.errors import HoldfastError
from holdfast.registry import columns_near

USUAL = {"table": MiniLM.kind}
"""The encoder to tune where nobody names one, by the kind of data; of anything else it is that of pictures."""


def encoder_to_tune(named: str | None, kind: str) -> str:
    """The encoder that is to be tuned: the one named, or the usual one."""
    return USUAL.get(kind, EfficientNetLite0.kind) if named in (None, "auto") else str(named)


def tuned_in(recipe: Mapping[str, Any]) -> str | None:
    """The name of the encoder that a network on these rows tunes; None: none."""
    name: str | None = recipe.get("tuned")
    return name


def to_tune(rows: Rows, raw: Tensor | Dataset[Any]) -> Rows:
    """Rows of features as rows of what the encoder has read, tokens or pixels, with the features beside them."""
    assert isinstance(rows.x, Tensor)
    return replace(rows, x=raw, frozen=rows.x, recipe={**rows.recipe, "tuned": encoder_in(rows.recipe)})


def read_columns(recipe: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The columns of a table that a tuned network reads, and those that only the second opinions do."""
    columns: Sequence[Mapping[str, Any]] = recipe.get("columns", ())
    read = [spec["name"] for spec in columns if "encoder" in spec]
    return read, [spec["name"] for spec in columns if "encoder" not in spec]


def table_tokens(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> Tensor:
    """(N, most) tokens of the texts of a table, those of several columns one after the other."""
    named, _ = read_columns(recipe)
    gone = [name for name in named if name not in frame.columns]
    if gone:
        raise HoldfastError(f"the table lacks the column {gone[0]!r}; {columns_near(gone[0], frame)}")
    columns = []
    for name in named:
        codes, names = to_names(frame[name])
        columns.append(np.array([*names, ""], dtype=object)[codes])  # the last answers for -1, the code of a gap
    texts = ["\n".join(row).strip() for row in zip(*columns, strict=True)]
    return for_texts(str(encoder_in(recipe))).tokens(texts)


def read_by_encoder(
    data: Rows | tuple[Any, Any], net: object, tune: bool, like: Rows | tuple[Any, Any] | None = None
) -> Rows:
    """Texts or pictures in memory, with their labels, as rows for an encoder, frozen or to be tuned.

    Parameters
    ----------
    net: the name of the encoder; "auto": the usual one.
    like: the training rows, where these are further ones.
    """
    if isinstance(data, Rows) and tuned_in(data.recipe) is not None:
        return data
    if not isinstance(net, str) or (net != "auto" and not is_encoder(net)):
        named = net if isinstance(net, str) else type(net).__name__
        raise HoldfastError(
            f"tuning is for pre-trained networks, and {named} is none; name one, such as minilm for text or lite0 for "
            "images, or leave tune out"
        )
    x: Any = data.x if isinstance(data, Rows) else data[0]
    texts = is_raw(x) and not isinstance(x, (Tensor, images.Pictures)) and np.ndim(x) == 1
    name = encoder_to_tune(net, "table" if texts else "image")
    if not tune or not isinstance(like, Rows):
        rows = encode_data(data, name, like if isinstance(like, Rows) else None)
        return to_tune(rows, raw_inputs(x, rows.recipe)) if tune else rows
    held, recipe = raw_inputs(x, like.recipe), like.recipe
    if isinstance(data, Rows):
        return replace(data, x=held, recipe={**data.recipe, **recipe})
    return replace(as_rows((torch.zeros(len(held), 1), data[1]), like), x=held, recipe=recipe)


def network_inputs(x: Any, recipe: Mapping[str, Any]) -> Tensor:
    """Inputs as the network of a run takes them: texts and pictures by its encoder, anything else as it is."""
    return as_inputs(x, recipe) if tuned_in(recipe) is None else raw_inputs(x, recipe)


def raw_inputs(x: Any, recipe: Mapping[str, Any]) -> Tensor:
    """Texts as tokens, and pictures as their bytes: what a tuned network takes."""
    if isinstance(x, images.Pictures):
        whole: Tensor = items(x, recipe).load(range(len(x)))
        return whole
    if isinstance(x, Tensor) or (isinstance(x, np.ndarray) and x.ndim > 1):
        return torch.as_tensor(x)
    return for_texts(str(encoder_in(recipe))).tokens([str(text) for text in x])
