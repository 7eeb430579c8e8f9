"""Rows: the one form in which examples enter the library, whatever file they came from."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset

from holdfast.data.labels import floats_are_targets
from holdfast.data.on_disk import OnDisk
from holdfast.data.summary import Summary
from holdfast.errors import HoldfastError

OF_JUDGED = ("source_index", "reviewed", "reviewer", "original")
"""What a run keeps of each row that it judges, by the names that ``Rows`` has for it."""
OF_EACH_ROW = ("truth", *OF_JUDGED, "content", "place", "frozen", "weight")
"""What else may be known of each row."""
_PIECE = 1 << 16


@dataclass(frozen=True)
class Rows:
    """Examples and the labels they were given.

    Parameters
    ----------
    x: inputs, (N, ...). Bytes (uint8) are images and reach the network as floats in [0, 1]; a map-style
        dataset yields the input of row i, or a tuple that begins with it. What is ``OnDisk`` is read as batches need
        it.
    y: (N,) int64 classes, or (N, q) float32 targets; of no width where there are no labels.
    classes: class names in the order of their numbers; None for regression.
    names: a file name or key for each row, for reports.
    truth: true labels where they are known, of the shape of y. Only measurements read them, never a method.
    recipe: how further rows of the same kind are prepared, as plain JSON values.
    source_index: (N,) the number of each row among those that were read; None: its own number.
    reviewed: (N,) whether a person has reviewed the label; a method trusts such labels fully.
    reviewer, reviewers: (N,) who has, as numbers from 1 of names; 0 where that is not known.
    original: labels as the data has them, in its units, where they were corrected; of the shape of y.
    source: where the rows were read from, as plain JSON values; empty for rows made in memory.
    content: (N, 32) digests of what the inputs were made of, where they are features of a pre-trained network: computed
        anew on another machine they differ in their last bits. None: the inputs are their own content.
    place: (N,) the number of each row in its file, where reading has left some out; None: they are all there.
    frozen: (N, d) features of the same rows by a pre-trained network as it came, where the inputs are what that network
        reads, since it is to be tuned.
    weight: (N,) how much each row counts in the loss, at least 0; None: all the same.
    summary: what was read, for people; None for rows made in memory.
    """

    x: Tensor | Dataset[Any]
    y: Tensor
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    truth: Tensor | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    source_index: Tensor | None = None
    reviewed: Tensor | None = None
    reviewer: Tensor | None = None
    reviewers: tuple[str, ...] = ()
    original: Tensor | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    content: Tensor | None = None
    place: Tensor | None = None
    frozen: Tensor | None = None
    weight: Tensor | None = None
    summary: Summary | None = None

    def __post_init__(self) -> None:
        n = len(self.y)
        if n == 0:
            raise HoldfastError("the data holds no rows")
        if len(self.x) != n:  # type: ignore[arg-type]
            raise HoldfastError(f"{len(self.x)} inputs but {n} labels; each row needs one of both")  # type: ignore[arg-type]
        if self.truth is not None and self.truth.shape != self.y.shape:
            raise HoldfastError(
                f"true labels of shape {tuple(self.truth.shape)} beside labels of shape {tuple(self.y.shape)}"
            )
        if self.weight is not None:
            self._check_weight(self.weight)
        if isinstance(self.x, Tensor) and self.x.is_floating_point():
            bad = _not_finite(self.x)
            if bad is not None:
                raise HoldfastError(f"{_some(bad)} hold NaN or infinite features; fill them in or drop those rows")
        if self.classes is None:
            self._check_targets()
        else:
            self._check_labels(self.classes)

    def _check_weight(self, weight: Tensor) -> None:
        if weight.shape != (len(self),):
            raise HoldfastError(f"weights of shape {tuple(weight.shape)} for {len(self)} rows; each row needs one")
        bad = ~torch.isfinite(weight) | (weight < 0)
        if bad.any():
            raise HoldfastError(f"{_some(bad)} have a weight below 0, NaN or infinite")
        if not weight.any():
            raise HoldfastError("all rows have the weight 0, which leaves nothing to learn from")

    def _check_targets(self) -> None:
        if not self.y.is_floating_point():
            raise HoldfastError("targets of a regression must be floats; pass class names to classify")
        bad = _not_finite(self.y)
        if bad is not None:
            raise HoldfastError(f"{_some(bad)} have a NaN or infinite target; drop those rows")

    def _check_labels(self, classes: tuple[str, ...]) -> None:
        if len(classes) < 2:
            raise HoldfastError(
                f"only one class ({classes[0] if classes else 'none'}); a classifier needs at least two"
            )
        bad = (self.y < 0) | (self.y >= len(classes))
        if bad.any():
            row = int(bad.nonzero()[0])
            raise HoldfastError(
                f"{_some(bad)} have a label outside the {len(classes)} classes (row {row}: {int(self.y[row])})"
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input; () where it is several tensors, or none."""
        return shape_of(self.x)

    @property
    def unlabelled(self) -> bool:
        return self.y.dim() == 2 and self.y.shape[1] == 0

    @property
    def untuned(self) -> Rows:
        """The rows as features of a pre-trained network as it came, where the inputs are those of one to be tuned."""
        if self.frozen is None:
            return self
        recipe = {name: value for name, value in self.recipe.items() if name != "tuned"}
        return replace(self, x=self.frozen, frozen=None, recipe=recipe)

    def known(self) -> dict[str, Tensor]:
        """What a run keeps of the rows that it judges, as far as it is known."""
        values = {name: getattr(self, name) for name in OF_JUDGED}
        return {name: each for name, each in values.items() if each is not None}

    def without_labels(self) -> Rows:
        """The inputs alone: what a method never sees it cannot learn."""
        return replace(self, y=torch.zeros(len(self), 0), classes=None, truth=None, original=None)

    @property
    def fingerprint(self) -> str:
        """A digest of inputs, labels and weights, to tell one set of rows from another.

        Of inputs on disk it is that of their names and sizes, of any other dataset of no inputs.
        """
        digest = hashlib.sha256()
        held = self.x if self.content is None else self.content
        if isinstance(held, OnDisk):
            digest.update(held.digest)
        for part in (self.y, held, self.weight):
            if isinstance(part, Tensor):
                digest.update(_checksums(part))
        return digest.hexdigest()[:16]

    def take(self, index: Tensor) -> Rows:
        """The rows of an index, in its order."""
        x: Tensor | Dataset[Any]
        if isinstance(self.x, Tensor):
            x = self.x[index]
        else:
            x = self.x.take(index) if isinstance(self.x, OnDisk) else Subset(self.x, index.tolist())
        names = None if self.names is None else tuple(self.names[i] for i in index.tolist())
        columns = {name: getattr(self, name) for name in OF_EACH_ROW}
        taken: dict[str, Any] = {name: None if values is None else values[index] for name, values in columns.items()}
        return replace(self, x=x, y=self.y[index], names=names, **taken)

    def followed_by(self, other: Rows) -> Rows:
        """These rows and after them others of the same kind; what only one of both knows of its rows is left out."""
        x: Tensor | Dataset[Any] | None = None
        if isinstance(self.x, Tensor) and isinstance(other.x, Tensor):
            x = torch.cat([self.x, other.x])
        elif isinstance(self.x, OnDisk):
            x = self.x.joined(other.x)
        if x is None:
            x = ConcatDataset([self.x, other.x])  # type: ignore[list-item]
        names = None if self.names is None or other.names is None else self.names + other.names
        joined: dict[str, Any] = {}
        for name in OF_EACH_ROW:
            own, its = getattr(self, name), getattr(other, name)
            joined[name] = None if own is None or its is None else torch.cat([own, its])
        return replace(self, x=x, y=torch.cat([self.y, other.y]), names=names, **joined)

    def parted_from(self, other: Rows) -> bool:
        """Whether both are parts of what one source holds, as ``split`` makes them: no row is in both."""
        if not self.source or self.source != other.source or self.source_index is None or other.source_index is None:
            return False
        return not bool(torch.isin(self.source_index, other.source_index).any())

    def split(self, fraction: float, seed: int) -> tuple[Rows, Rows]:
        """A random share of the rows set apart: (the rest, the share)."""
        if not 0 < fraction < 1:
            raise HoldfastError(f"a held-out share must lie between 0 and 1, not {fraction:g}")
        apart = round(fraction * len(self))
        if not 0 < apart < len(self):
            raise HoldfastError(f"{len(self)} rows are too few to hold out a share of {fraction:g}")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        return self.take(order[apart:].sort().values), self.take(order[:apart].sort().values)


def shape_of(x: Tensor | Dataset[Any]) -> tuple[int, ...]:
    """Shape of one of some inputs; () where it is several tensors, or none."""
    first = x[0]
    return tuple(getattr(first[0] if isinstance(first, (tuple, list)) else first, "shape", ()))


def as_rows(data: Rows | tuple[Any, Any], like: Rows | None = None) -> Rows:
    """Rows of a pair (inputs, labels): arrays, tensors or a map-style dataset, and labels of any kind.

    Floats of two dimensions, with fractions or with more than 50 different values are targets, as in a table; anything
    else names classes, integers however many they are. ``like`` are the rows that these belong with: they decide.
    """
    if isinstance(data, Rows):
        return data
    x, given = data
    if not isinstance(x, (Tensor, Dataset)):
        x = torch.as_tensor(np.require(x, requirements="W"))  # torch warns of memory that it may not write to
    if isinstance(x, Tensor) and x.dtype not in (torch.uint8, torch.float32):
        x = x.float()
    labels = given.cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if _are_targets(labels) if like is None else like.classes is None:
        return Rows(x, torch.as_tensor(labels.reshape(len(labels), -1)).float())
    if labels.ndim != 1:
        raise HoldfastError(f"labels need one dimension, not the shape {labels.shape}; targets must be floats")
    place, found = pd.factorize(labels, use_na_sentinel=False)
    names = tuple(str(name) for name in np.unique(found)) if like is None else like.classes
    assert names is not None
    number = {name: k for k, name in enumerate(names)}
    # A label that is no class becomes -1, which Rows refuses by row.
    return Rows(x, torch.tensor([number.get(str(label), -1) for label in found])[torch.from_numpy(place)], names)


def _are_targets(labels: np.ndarray[Any, Any]) -> bool:
    if labels.dtype.kind != "f":
        return False
    # NaN and infinity name no class; as targets they are refused by row.
    return labels.ndim == 2 or not bool(np.isfinite(labels).all()) or floats_are_targets(labels)


def _not_finite(values: Tensor) -> Tensor | None:
    """(N,) marks of the rows that hold NaN or infinity; None where none does."""
    # NaN and infinity outlast any sum, which is one pass without a copy; a sum may overflow by itself too.
    if bool(torch.isfinite(values.sum())):
        return None
    bad = ~torch.isfinite(values.reshape(len(values), -1)).all(1)
    return bad if bool(bad.any()) else None


def _checksums(values: Tensor) -> bytes:
    """CRC-32 of each piece of the memory: enough to tell rows apart, and seven times as fast as SHA-256."""
    memory = values.contiguous().view(-1).numpy().view(np.uint8).data
    return b"".join(zlib.crc32(memory[at : at + _PIECE]).to_bytes(4, "little") for at in range(0, len(memory), _PIECE))


def _some(bad: Tensor, shown: int = 3) -> str:
    """'12 rows (4, 9, 30, ...)' of a mask."""
    rows = bad.nonzero().flatten().tolist()
    listed = ", ".join(map(str, rows[:shown])) + (", ..." if len(rows) > shown else "")
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''} ({listed})"
