"""Checkpoints: one file that holds all of a run's state, written aside and renamed, without a pickle."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as pack
from torch import Tensor

from holdfast.errors import HoldfastError

FORMAT = "2"


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``, renamed to it once the block has ended well and the bytes are on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, str] | None = None) -> None:
    # Clones, because the format refuses tensors that share memory (tied weights do).
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with written_aside(path) as aside:
        aside.write_bytes(pack(whole, notes))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except FileNotFoundError:
        raise HoldfastError(f"{path} is missing") from None
    except (SafetensorError, OSError) as error:
        raise HoldfastError(f"{path} is damaged ({error}); remove it and start again") from None


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
