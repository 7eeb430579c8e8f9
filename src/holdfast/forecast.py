"""What a training will take, told from one step of it: so that nobody waits for what cannot end well."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

import psutil
import torch
from torch import nn

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.evidence import FOLDS, most_epochs
from holdfast.feed import as_float, loaded, task_for
from holdfast.kept import KEPT
from holdfast.memory import VARIABLE, as_bytes, in_words

A_ROW = 256
"""Bytes that are kept of each row, whatever its inputs are."""
COPIES = 3
"""Numbers of each class that are kept of each row: what training, and what other networks expect, and both together."""
A_CLASS, FEW_COPIES = 6, 10
"""Where only a few of many classes are kept: bytes of one, and how many times they are, as evidence is of several
epochs."""
WORTH = 60.0
"""Seconds from which on a forecast is worth a line."""
LARGE = 512 << 20
"""Bytes likewise."""


@dataclass(frozen=True)
class Forecast:
    """Seconds that a training will take on this machine, and bytes beside its data, both about."""

    seconds: float
    memory: int

    @property
    def sentence(self) -> str:
        """Both in words; empty where neither is worth a line."""
        if self.seconds < WORTH and self.memory < LARGE:
            return ""
        return f"forecast: about {_time(self.seconds)}, and {in_words(self.memory)} of memory beside the data"


def forecast(rows: Rows, net: nn.Module, *, epochs: int, batch_size: int, evidence: bool, device: str) -> Forecast:
    """What a training will take, by the time of one step of ordinary training; a method may take more.

    An error where it would take more memory than is free, or than ``--max-memory`` allows.
    """
    outputs, few = task_for(rows).outputs, rows.classes is not None and len(rows.classes) > KEPT
    numbers, copies = (A_CLASS * KEPT, FEW_COPIES) if few else (4 * outputs, COPIES)
    memory = len(rows) * (A_ROW + numbers * (copies if evidence else 1))
    asked = os.environ.get(VARIABLE)
    free = as_bytes(asked) if asked else psutil.virtual_memory().available
    if memory > free:
        raise HoldfastError(
            f"training on {len(rows):,} rows would take about {in_words(memory)} of memory beside the data, and "
            f"{in_words(free)} may be used; take fewer rows or classes"
            + (", or raise --max-memory" if asked else "" if not evidence else ", or pass --no-evidence")
        )
    # Networks of the folds see three quarters of the rows in each of their epochs, and are asked about the rest.
    rounds = epochs + (most_epochs(epochs) * (FOLDS - 1) if evidence else 0)
    return Forecast(rounds * math.ceil(len(rows) / batch_size) * _step(rows, net, batch_size, device), memory)


def _step(rows: Rows, net: nn.Module, batch_size: int, device: str) -> float:
    """Seconds of a step, the second of two."""
    picked = torch.arange(min(len(rows), batch_size))
    with torch.random.fork_rng(devices=[]):
        net.to(device).train()
        for _ in range(2):
            began = time.perf_counter()
            x = next(iter(loaded(rows.x, [picked])))
            net(as_float(x.to(device))).square().mean().backward()
            taken = time.perf_counter() - began
    return taken


def _time(seconds: float) -> str:
    """
    >>> _time(50), _time(400), _time(9000)
    ('a minute', '7 minutes', '2.5 hours')
    """
    if seconds < 90:
        return "a minute"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
