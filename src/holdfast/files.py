"""Files: everything is written aside and renamed, so that a file is always the old one or the new one.

What a killed process has left beside a file goes when that file is written again.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as pack
from torch import Tensor

from holdfast.errors import HoldfastError

TEMPORARY = "holdfast-"
"""How the names of temporary folders begin, before the number of their process."""


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``, renamed to it once the block has ended well and the bytes are on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in left_beside(path, "part"):
        left.unlink(missing_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def left_beside(path: Path, ending: str) -> list[Path]:
    """What processes that are no more have left beside a path."""
    found = path.parent.glob(f".{glob.escape(path.name)}.*.{ending}")
    return [each for each in found if _is_gone(each.name.rsplit(".", 2)[1])]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that goes with the block; those of processes that were killed go now."""
    for left in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*-*"):
        if _is_gone(left.name.removeprefix(TEMPORARY).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{TEMPORARY}{os.getpid()}-") as folder:
        yield Path(folder)


def _is_gone(process: str) -> bool:
    return process.isdecimal() and not psutil.pid_exists(int(process))


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
