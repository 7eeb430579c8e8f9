"""What a run has written down of its rows and epochs, measured and checked before use: it may be anybody's."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.config import RunConfig
from holdfast.errors import HoldfastError, unreadable
from holdfast.kept import KEPT

COUNTED = ("seen", "trained", "selected", "against", "changed")
"""What every ledger of labelled rows counts."""
ROUNDED = 1e-3
LARGEST_LINE = 1 << 16
"""Bytes of a ledger that a row may take beside its name and what is expected of it."""


def read_ledger(path: Path, config: RunConfig) -> dict[str, Tensor]:
    """The arrays of a ledger file, each with a line for each row.

    The size of an array is known from the head of the file, so that one which claims to be too large is never unpacked.
    """
    most = config.rows * (LARGEST_LINE + 16 * config.outputs)
    with unreadable(path, "is damaged, train again"):
        with zipfile.ZipFile(path) as held:
            size = sum(entry.file_size for entry in held.infolist())
        if size > most:
            raise HoldfastError(f"{path} is damaged: it would unpack to {size / 1e9:.1f} GB; train again")
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}


def check_arrays(arrays: Mapping[str, Tensor], config: RunConfig, path: Path, rows: int | None) -> None:
    """Lengths, kinds and values of the arrays of a ledger, or of that of held-out rows, as others rely on them.

    Parameters
    ----------
    rows: how many there must be; None: as many as have a given label.
    """
    if config.unlabelled:
        return
    count = len(arrays["given"]) if rows is None and "given" in arrays else rows
    for name in ("given", *(COUNTED if rows is not None else ())):
        if name not in arrays:
            raise HoldfastError(f"{path} is damaged: it lacks {name!r}; train again")
    for name, values in arrays.items():
        kept = f"{name}_class" in arrays and config.outputs > KEPT
        wide = values.dim() == 2 and (
            values.shape[1] == (KEPT if kept else config.outputs) or not values.is_floating_point()
        )
        if len(values.shape) not in (1, 2) or len(values) != count or not (values.dim() == 1 or wide):
            raise HoldfastError(f"{path} is damaged: {name!r} has the shape {tuple(values.shape)}; train again")
    given = arrays["given"]
    if (config.classes is None) != given.is_floating_point() or (config.classes is None) != (given.dim() == 2):
        raise HoldfastError(f"{path} is damaged: given labels are not of the run's kind; train again")
    if config.classes is not None and len(given) and not (0 <= int(given.min()) <= int(given.max()) < config.outputs):
        raise HoldfastError(f"{path} is damaged: given labels are none of the {config.outputs} classes; train again")
    for name in ("expected", "evidence"):
        number = arrays.get(f"{name}_class")
        if number is not None and (
            number.is_floating_point()
            or number.shape != arrays.get(name, number[:0]).shape
            or (number.numel() and not 0 <= int(number.min()) <= int(number.max()) < config.outputs)
        ):
            raise HoldfastError(f"{path} is damaged: '{name}_class' holds no class numbers; train again")
    for name in ("given", "expected", "evidence"):
        if name in arrays and not bool(torch.isfinite(arrays[name]).all()):
            raise HoldfastError(f"{path} is damaged: {name!r} has values that are no numbers; train again")
    for name in ("expected", "evidence"):
        if config.classes is not None and name in arrays and not _are_shares(arrays[name]):
            raise HoldfastError(f"{path} is damaged: {name!r} has values that are no probabilities; train again")
    if config.classes is not None and "evidence" in arrays and not bool((arrays["evidence"].sum(1) > 0).all()):
        raise HoldfastError(f"{path} is damaged: 'evidence' says nothing about some rows; train again")


def check_alike(ledger: Mapping[str, Tensor], held_out: Mapping[str, Tensor], path: Path) -> None:
    """Rows held out are judged beside the others, so that either all or none of them were shown to other networks."""
    if ("evidence" in ledger) != ("evidence" in held_out):
        raise HoldfastError(f"{path} is damaged: it has 'evidence' for some of the rows of the run alone; train again")


def _are_shares(values: Tensor) -> bool:
    """Whether values lie between 0 and 1, but for what rounding adds."""
    return not len(values) or (float(values.min()) > -ROUNDED and float(values.max()) < 1 + ROUNDED)


def read_history(path: Path) -> list[dict[str, float]]:
    """One line an epoch, all numbers."""
    if not path.exists():
        raise HoldfastError(f"{path} is missing; train again")
    with unreadable(path, "is damaged, train again"):
        table = pd.read_csv(path)
    words = [name for name in table.columns if table[name].dtype.kind not in "biuf"]
    lacking = [name for name in ("epoch", "loss", "coverage", "seconds") if name not in table]
    if words or lacking or not len(table):
        what = f"{words[0]!r} has no numbers" if words else f"it lacks {lacking[0]!r}" if lacking else "it is empty"
        raise HoldfastError(f"{path} is damaged: {what}; train again")
    return table.to_dict("records")  # type: ignore[return-value]
