"""Rows as people look at them: pictures, the fields of a table, passages of text."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from holdfast.data import images, tables
from holdfast.data.folders import is_inside
from holdfast.data.formats import file_options
from holdfast.data.labels import present
from holdfast.data.large import LargeTable, large_table
from holdfast.data.native import encoded_width
from holdfast.data.on_disk import Mapped
from holdfast.data.read import read
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError

PART = 65_536
"""Rows of a large table that are looked at together."""
LONGEST = 640
"""Pixels on the long side of a picture; larger files are reduced."""
PASSAGE = 4000
"""Characters of a text that are shown."""


class Field(NamedTuple):
    """One column of a row."""

    name: str
    value: str
    apart: float
    """How far the value lies from those of the same given label, in standard deviations."""
    usual: str
    """What those usually have."""


class Display:
    """What there is to see of each row.

    Parameters
    ----------
    rows: as a run trained on them. Those of a table are read again, since encoded numbers tell a reader nothing.
    frame: the table of the rows, a line for each, where it need not be read again.
    """

    def __init__(self, rows: Rows, frame: pd.DataFrame | None = None) -> None:
        rows = rows.untuned
        self._rows = rows
        self._recipe = rows.recipe
        again = frame is None and rows.recipe.get("kind") == "table" and bool(rows.source)
        self._large = _large(rows) if again else None
        self._frame = _frame(rows) if again and self._large is None else frame
        first = rows.x[0]
        shape = (first[0] if isinstance(first, (tuple, list)) else first).shape
        made = "encoder" in rows.recipe or "features" in rows.recipe
        self._pixels = _seen(rows) if made and rows.recipe.get("kind") == "image" else rows
        self.pictures = (len(shape) == 3 and shape[0] in (1, 3)) if self._pixels is rows else self._pixels is not None
        # Features of one's own are those of no column.
        columns = (self._frame is not None or self._large is not None) and "features" not in rows.recipe
        self._groups = _groups(rows) if columns else None

    @property
    def frame(self) -> pd.DataFrame | None:
        """The table, a line for each row; None where the rows are no table, or where it does not fit into memory."""
        return self._frame

    def png(self, row: int, longest: int = LONGEST) -> bytes:
        """The picture of a row: the file itself where each row is one, else what the network saw."""
        if not self.pictures:
            raise HoldfastError("these rows are no pictures")
        path = self._file(row)
        if path is None and self._pixels is None:
            raise HoldfastError("these rows are no pictures any more, only features of such")
        image = _opened(path, longest) if path is not None else _image(_input(cast(Rows, self._pixels), row))
        file = io.BytesIO()
        image.save(file, format="PNG")
        return file.getvalue()

    def texts(self, row: int) -> list[tuple[str, str]]:
        """(column, passage) of each column of text."""
        line = self._line(row)
        if line is None:
            return []
        named = [spec["name"] for spec in self._recipe["columns"] if spec["as"] == "text"]
        return [(name, _shown(line[name], PASSAGE)) for name in named]

    def fields(self, row: int, most: int = 40) -> list[Field]:
        """The other columns, those that set the row apart from its given label first."""
        line = self._line(row)
        if line is None or self._groups is None:
            return []
        label = self._groups.label[row]
        x = _input(self._rows, row).double().numpy()
        far = np.abs(x - self._groups.mean[label]) / self._groups.spread
        found, at = [], 0
        for spec in self._recipe["columns"]:
            wide = encoded_width(spec)
            if spec["as"] not in ("text", "vector"):
                usual = _usual(spec, self._groups.mean[label][at : at + wide])
                found.append(
                    Field(spec["name"], _shown(line[spec["name"]], 200), float(far[at : at + wide].max()), usual)
                )
            at += wide
        return sorted(found, key=lambda field: -field.apart)[:most]

    def _line(self, row: int) -> pd.Series[Any] | None:
        """A row of the table; None where there is none."""
        if self._large is not None:
            return self._large.line(self._place(row))
        return None if self._frame is None else self._frame.iloc[row]

    def _place(self, row: int) -> int:
        """Where a row of a large table lies in it."""
        return cast(Mapped, self._rows.x).place(row)

    def _file(self, row: int) -> Path | None:
        """The image file of a row, where the data is a folder of such, or a table that names them."""
        source, names = self._rows.source, self._rows.names
        if not source or names is None:
            return None
        place = Path(source["path"])
        if not place.is_dir() and "column" not in self._recipe:
            return None
        path = (place if place.is_dir() else place.parent) / names[row]
        if place.is_dir() and not source["reading"].get("follow_links") and not is_inside(path, place.resolve()):
            return None
        return path if os.path.isfile(path) else None


class _Groups(NamedTuple):
    label: NDArray[np.int64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


def _seen(rows: Rows) -> Rows | None:
    """The pictures that a pre-trained network saw in place of its features, read again; None without a place."""
    if not rows.source:
        return None
    plain, _ = read(
        Path(rows.source["path"]), **{**rows.source["reading"], "encoder": None, "features": None, "tune": False}
    )
    return plain if rows.source_index is None else plain.take(rows.source_index)


def _groups(rows: Rows) -> _Groups:
    """The usual features of each given label (of each quarter of the targets of a regression)."""
    label = rows.y if rows.classes is not None else _quarter(rows.y[:, 0])
    count = torch.bincount(label).clamp_min(1)
    if isinstance(rows.x, Mapped):
        return _groups_in_parts(rows.x, label, count)
    if not isinstance(rows.x, Tensor):
        raise HoldfastError("rows of a table are one tensor")
    x = rows.x
    mean = torch.zeros(len(count), x.shape[1], dtype=torch.float64).index_add_(0, label, x.double()) / count[:, None]
    spread = x.std(0).double().clamp_min(1e-3)
    return _Groups(label.numpy(), mean.numpy(), spread.numpy())


def _groups_in_parts(x: Mapped, label: Tensor, count: Tensor) -> _Groups:
    """The same of features that do not fit into memory."""
    total = torch.zeros(len(count), x.shape[1], dtype=torch.float64)
    squares = torch.zeros(x.shape[1], dtype=torch.float64)
    for part in torch.arange(len(x)).split(PART):
        some = x[part].double()
        total.index_add_(0, label[part], some)
        squares += some.square().sum(0)
    spread = (squares / len(x) - (total.sum(0) / len(x)).square()).clamp_min(0).sqrt().clamp_min(1e-3)
    return _Groups(label.numpy(), (total / count[:, None]).numpy(), spread.numpy())


def _large(rows: Rows) -> LargeTable | None:
    """The table of the rows where it does not fit into memory."""
    if not isinstance(rows.x, Mapped):
        return None
    parts = large_table(Path(rows.source["path"]), on_disk=True)
    return None if parts is None else parts.rows


def _quarter(values: Tensor) -> Tensor:
    edges = torch.from_numpy(np.percentile(values.numpy(), (25, 50, 75)))
    return torch.bucketize(values.double(), edges)


def _frame(rows: Rows) -> pd.DataFrame:
    """The table as the file holds it, a line for each row."""
    frame = tables.load(Path(rows.source["path"]), **file_options(rows.source["reading"]))
    frame = frame[present(frame[rows.recipe["label"]], "the labels", "drop")]
    place = np.arange(len(rows)) if rows.source_index is None else rows.source_index.numpy()
    return frame.iloc[place]


def _usual(spec: Mapping[str, Any], mean: NDArray[np.float64]) -> str:
    if spec["as"] == "number":
        value = spec["mean"] + mean[0] * spec["scale"]
        if "date" in spec.get("written", ()):
            return str((pd.Timestamp(0) + pd.Timedelta(days=float(value))).date())
        return f"{value:.4g}"
    best = int(mean.argmax())
    named = spec["values"][best] if best < len(spec["values"]) else "other"
    return f"{named} ({mean[best]:.0%})"


def _shown(value: object, most: int) -> str:
    if not isinstance(value, str) and pd.isna(value):  # type: ignore[call-overload]
        return "(missing)"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _input(rows: Rows, row: int) -> Tensor:
    item = rows.x[row]
    return torch.as_tensor(item[0] if isinstance(item, (tuple, list)) else item)


def _image(pixels: Tensor) -> Image.Image:
    if pixels.dtype != torch.uint8:
        low, high = pixels.aminmax()
        pixels = ((pixels - low) / (high - low).clamp_min(1e-9) * 255).to(torch.uint8)
    array = pixels.numpy()
    return Image.fromarray(array[0] if len(array) == 1 else np.ascontiguousarray(array.transpose(1, 2, 0)))


def _opened(path: Path, longest: int) -> Image.Image:
    """An image file, decoded with the care that reading takes, and no larger than it needs to be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with images.open_image(path) as opened:
                opened.draft(None, (2 * longest,) * 2)
                turned = ImageOps.exif_transpose(opened)
                shown = turned.convert("L" if turned.mode in ("1", "L") else "RGB")
    # Damaged bytes make the decoders raise nearly anything.
    except Exception as error:
        raise HoldfastError(f"{path.name} {images.trouble(error)}") from None
    shown.thumbnail((longest, longest))
    return shown
