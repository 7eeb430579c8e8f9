"""What a pre-trained network makes of the texts or pictures that are checked, where there is time for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.data.encode import encode_data, encode_texts, fit_texts
from holdfast.data.labels import to_names
from holdfast.data.own_features import in_place_of_inputs
from holdfast.data.rows import Rows
from holdfast.data.source import Source
from holdfast.encoders.named import picture_encoder, usual_for_texts
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, Progress

LONGEST = 300.0
"""Seconds that an encoding may take which nobody asked for."""
LOOK = 5.0
"""Seconds of it after which one can tell."""


class Reading(NamedTuple):
    """What models read beside, or instead of, words and pixels."""

    sentence: str = ""
    """What reads the rows, or why nothing does; empty where that goes without saying."""
    features: Tensor | None = None
    """(N, d) in the units in which ``fit`` learns from them."""
    alone: bool = False
    """Whether they stand in place of what the rows hold."""


NOTHING = Reading()
"""Words and pixels alone."""


class TooLong(Exception):
    """An encoding that nobody asked for would take too long."""

    def __init__(self, name: str, unit: str, seconds: float) -> None:
        super().__init__(name)
        self.name, self.unit, self.seconds = name, unit, seconds


class Bounded:
    """A bar that ends an encoding once it shows that this would take too long; the cache keeps what is done."""

    def __init__(self, bar: Progress, name: str, unit: str) -> None:
        self._bar, self._name, self._unit = bar, name, unit
        self._first: tuple[float, float] | None = None

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def at(self, epochs: float, of: int) -> None:
        self._bar.at(epochs, of)
        now = time.monotonic()
        # From the end of the first batch: before it the network is loaded.
        start, done = self._first = self._first or (now, epochs)
        if now - start < LOOK or epochs <= done:
            return
        seconds = (now - start) / (epochs - done) * (of - done)
        if seconds > LONGEST:
            raise TooLong(self._name, self._unit, seconds)

    def say(self, line: Mapping[str, float]) -> None:
        self._bar.say(line)

    def phase(self, text: str) -> None:
        self._bar.phase(text)


def read_by_encoder(
    rows: Rows,
    frame: pd.DataFrame | None,
    data: Any,
    encoder: str | None,
    features: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
    progress: MakeProgress,
) -> Reading:
    """Features of the rows, as ``fit`` would learn from them.

    Parameters
    ----------
    rows, frame: what was read without an encoder, and the table behind it.
    data: where it was read from, with the options of ``holdfast.read``.
    encoder: the name of one, "auto" or None. "auto" gives up on what would take longer than LONGEST.
    features: a file of them, in place of an encoder.
    """
    if features is not None:
        where = data if isinstance(data, str | os.PathLike) else "the data"
        made = in_place_of_inputs(rows, Path(features), Path(where)).x
        assert isinstance(made, Tensor)
        return Reading(f"rows are read as the features in {features}", made, alone=True)
    if encoder is None:
        return NOTHING
    make: MakeProgress = progress if encoder != "auto" else lambda name, unit: Bounded(progress(name, unit), name, unit)
    try:
        if len(rows.shape) == 3:
            return _pictures(rows, data, encoder, options, make)
        return _texts(rows, frame, encoder, make)
    except TooLong as found:
        otherwise = "words" if found.unit == "texts" else "thumbnails and edges"
        minutes = f"about {found.seconds / 60:.0f} minutes"
        return Reading(
            f"{found.name}, a pre-trained network, would need {minutes} for these {found.unit}, which are read as "
            f"{otherwise} alone; --net {found.name} waits for it"
        )


def _texts(rows: Rows, frame: pd.DataFrame | None, encoder: str, progress: MakeProgress) -> Reading:
    name = usual_for_texts() if encoder == "auto" else encoder
    columns = [spec["name"] for spec in rows.recipe.get("columns", ()) if spec["as"] == "text"]
    if frame is None or not columns:
        if encoder != "auto":
            raise HoldfastError(f"there are neither texts nor pictures (bytes) that {encoder} could read; leave it out")
        return NOTHING
    if name is None:
        return Reading("texts are read as words; with holdfast[text] installed a pre-trained network reads them too")
    blocks = []
    for column in columns:
        codes, distinct = to_names(frame[column])
        spec = fit_texts(distinct, name, progress)
        # The last row answers for -1, a missing text: the mean of all, which says nothing.
        block = np.zeros((len(distinct) + 1, spec["size"]), dtype=np.float32)
        block[:-1] = encode_texts(distinct, spec)
        blocks.append(block[codes])
    made = torch.from_numpy(np.concatenate(blocks, axis=1))
    return Reading(f"texts are read by {name}, a pre-trained network, beside their words", made)


def _pictures(rows: Rows, data: Any, encoder: str, options: Mapping[str, Any], progress: MakeProgress) -> Reading:
    channels, height, width = rows.shape
    photographs = isinstance(rows.x, Tensor) and rows.x.dtype == torch.uint8 and rows.classes is not None
    if encoder == "auto" and not photographs:
        return NOTHING
    name = picture_encoder(encoder, height, width, channels)
    if name is None:
        return NOTHING
    if isinstance(data, str | os.PathLike):
        # From the files once more: the pixels above were made smaller.
        made, _ = Source.at(Path(data), "0", 0, **{**options, "encoder": encoder}).load(progress)
    else:
        made = encode_data(rows, name, progress=progress)
    if "encoder" not in made.recipe:
        return NOTHING
    assert isinstance(made.x, Tensor)
    return Reading(f"pictures are read by {name}, a pre-trained network", made.x, alone=True)
