"""Files: everything is written aside and renamed, so that a file is always the old one or the new one.

What a killed process has left beside a file goes when that file is written again.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as pack
from torch import Tensor

from holdfast.digits import number_in
from holdfast.errors import HoldfastError, check_plain

NOTES = "holdfast"
"""Under what name notes and checksum stand in a file of tensors."""
TEMPORARY = "holdfast-"
"""How the names of temporary folders begin, before the number of their process."""
MOST_PROCESSES = 1 << 31
"""No process has such a number; a name with one is nothing that Holdfast has left."""


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``, renamed to it once the block has ended well and the bytes are on disk."""
    check_plain(path)  # the new file would take the place of a device, of which a machine has but one
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
    number = number_in(process)
    return number is not None and number < MOST_PROCESSES and not psutil.pid_exists(number)


def write_text(path: Path, text: str) -> None:
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, str] | None = None) -> None:
    """Tensors by name, and notes, with a checksum over all of it."""
    whole, places = {}, set[int]()
    for name, tensor in tensors.items():
        held = tensor.detach().cpu().contiguous()
        # The format refuses tensors that share memory (tied weights do).
        whole[name] = held.clone() if held.untyped_storage().data_ptr() in places else held
        places.add(held.untyped_storage().data_ptr())
    kept = {"checksum": _checksum(whole, notes or {}), "notes": notes or {}}
    with written_aside(path) as aside:
        # Under one name: several would stand in the file in an order of chance.
        aside.write_bytes(pack(whole, {NOTES: json.dumps(kept, sort_keys=True)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What ``write_tensors`` wrote; a byte that has changed since is found."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes = _notes(dict(file.metadata() or {}))
    except FileNotFoundError:
        raise HoldfastError(f"{path} is missing") from None
    except (SafetensorError, OSError) as error:
        raise HoldfastError(f"{path} is damaged ({error}); remove it and start again") from None
    if notes is not None and notes.checksum not in (None, _checksum(tensors, notes.notes)):
        notes = None
    if notes is None:
        raise HoldfastError(
            f"{path} is damaged: it is no longer what was written (its checksum differs); remove it and start again"
        )
    return tensors, notes.notes


class _Notes(NamedTuple):
    """What stands beside the tensors of a file; files of other programs have neither."""

    checksum: str | None
    notes: dict[str, str]


def _notes(metadata: dict[str, str]) -> _Notes | None:
    """None where they are not what was written."""
    if not metadata:
        return _Notes(None, {})
    try:
        kept = json.loads(metadata[NOTES])
        return _Notes(str(kept["checksum"]), {str(name): str(value) for name, value in kept["notes"].items()})
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _checksum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    """Of names, kinds, shapes and bytes, and of the notes."""
    total = zlib.crc32(json.dumps(sorted(notes.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"
