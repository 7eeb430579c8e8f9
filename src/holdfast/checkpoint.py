"""Checkpoints: one file that holds all of a run's state, without a pickle."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.files import read_tensors, write_tensors

FORMAT = "3"
SHARE = 0.03
"""Of the time that training takes, what checkpoints may take of it at most."""


class Pace:
    """When to write the next checkpoint: at once after the first epoch, then as soon as the time since the last makes
    what it cost a small share."""

    def __init__(self) -> None:
        self._cost = 0.0
        self._written = time.perf_counter()

    def due(self) -> bool:
        return self._cost <= SHARE * (time.perf_counter() - self._written)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A checkpoint is written inside."""
        start = time.perf_counter()
        yield
        self._written = time.perf_counter()
        self._cost = self._written - start


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a tree of dicts, lists, tensors and plain JSON values to one file."""
    tensors: dict[str, Tensor] = {}
    tree = json.dumps({"format": FORMAT, "tree": _lift(state, "", tensors)})
    write_tensors(path, tensors, {"holdfast": tree})


def load(path: Path) -> dict[str, Any]:
    """Read what ``save`` wrote."""
    tensors, notes = read_tensors(path)
    header = json.loads(notes.get("holdfast", "{}"))
    if header.get("format") != FORMAT:
        raise HoldfastError(f"{path} is not a checkpoint that this version of Holdfast can read")
    state: dict[str, Any] = _lower(header["tree"], tensors)
    return state


def _lift(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The tree in JSON, each tensor moved to ``tensors`` and named by its place."""
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        # Optimizer states are keyed by numbers, which JSON would turn into strings.
        return {"items": [[key, _lift(item, f"{name}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_lift(item, f"{name}/{k}", tensors) for k, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise HoldfastError(f"cannot checkpoint {name}: {type(value).__name__} is neither a tensor nor a plain value")


def _lower(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {key: _lower(item, tensors) for key, item in value["items"]}
    if isinstance(value, list):
        return [_lower(item, tensors) for item in value]
    return value


def random_state() -> dict[str, Any]:
    """Every global random state that training may draw from."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": [version, list(words), gauss],
        "numpy": [kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
