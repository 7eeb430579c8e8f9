"""Pickles of arrays, read only on the user's word, since reading a pickle runs the code in it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.errors import HoldfastError

SUFFIXES = (".pkl", ".pickle", ".pt", ".pth")


def load(path: Path, *, trust_pickle: bool) -> dict[str, NDArray[Any]]:
    """The named arrays of a pickled dict, or x and y of a pickled pair."""
    if not trust_pickle:
        raise HoldfastError(
            f"{path} is a pickle, and reading it would run whatever code is in it; save the arrays as npz, "
            "or pass --trust-pickle if you know who made it"
        )
    content = _unpickled(path)
    if isinstance(content, Mapping):
        return {str(key): _array(value) for key, value in content.items()}
    if isinstance(content, tuple | list) and len(content) == 2:
        return {"x": _array(content[0]), "y": _array(content[1])}
    raise HoldfastError(f"{path} holds a {type(content).__name__}; needed is a dict of arrays or a pair (x, y)")


def _unpickled(path: Path) -> Any:
    try:
        if path.suffix.lower() in (".pt", ".pth"):
            return torch.load(path, map_location="cpu", weights_only=False)
        with path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:
        raise HoldfastError(f"{path} is empty, cut short or damaged: {error}") from None


def _array(value: Any) -> NDArray[Any]:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
