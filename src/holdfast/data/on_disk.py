"""Inputs that stay on disk until a batch asks for them: features in a memory-mapped file, and what pictures share."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset


class OnDisk(Dataset[Tensor]):
    """Inputs of rows that are read when they are asked for; a part of them is such again.

    Parameters
    ----------
    count: how many there are.
    digest: of what tells them from others, in place of their content; empty where nothing does.
    index: (N,) which of them these are, in order; None: all.
    """

    def __init__(self, count: int, digest: bytes = b"", index: Tensor | None = None) -> None:
        self.count, self.identity, self.index = count, digest, index

    def __len__(self) -> int:
        return self.count if self.index is None else len(self.index)

    @property
    def digest(self) -> bytes:
        """Tells these rows from others; empty where nothing is known."""
        if self.index is None or not self.identity:
            return self.identity
        return hashlib.sha256(self.identity + self.index.numpy().tobytes()).digest()

    def take(self, index: Tensor) -> Self:
        """The rows of an index, in its order."""
        taken = type(self).__new__(type(self))
        taken.__dict__ = {**self.__dict__, "index": index if self.index is None else self.index[index]}
        return taken

    def joined(self, other: object) -> Self | None:
        """These rows and after them others of the same file or folder; None where they are of another."""
        if type(other) is not type(self) or not self.identity or other.identity != self.identity:
            return None
        every = [torch.arange(each.count) if each.index is None else each.index for each in (self, other)]
        whole = self.take(torch.arange(0))
        whole.index = torch.cat(every)
        return whole

    def place(self, row: int) -> int:
        """Where a row lies among all of them."""
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        return row if self.index is None else int(self.index[row])


class Mapped(OnDisk):
    """(N, d) features in a .npy file that is mapped into memory: a batch is gathered as from a tensor.

    The system keeps of the file what it has room for and takes it back as it likes, so that it counts as free memory.
    """

    def __init__(self, path: Path, digest: bytes) -> None:
        self.path = path
        self._open()
        super().__init__(len(self._whole), digest)

    def _open(self) -> None:
        # Copy on write: torch warns of arrays that it may not write to.
        self._whole = torch.from_numpy(np.load(self.path, mmap_mode="c", allow_pickle=False))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_whole"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self._whole.shape[1:])

    def __getitem__(self, rows: int | slice | Tensor) -> Tensor:
        """One row, or a tensor of several, which is a copy."""
        if isinstance(rows, int):
            return self._whole[self.place(rows)]
        if isinstance(rows, slice):
            rows = torch.arange(len(self))[rows]
        return self._whole[rows if self.index is None else self.index[rows]]


class KeptPixels:
    """Images of one size as they were decoded, in a file of the cache, so that none is decoded twice.

    Each has a checksum beside it: what a killed process, or another hand, has left half written is decoded again. Reads
    and writes go by place, so that any number of processes may share the file; where the disk is full nothing more is
    kept.
    """

    def __init__(self, path: Path, count: int, shape: tuple[int, int, int]) -> None:
        self.path, self.shape = path, shape
        self._stride = 4 + int(np.prod(shape))
        self._size = count * self._stride
        self._file: int | None = None

    @property
    def fits(self) -> bool:
        """Whether they can be kept there: the disk has room for all of them and as much again."""
        try:
            there = self.path.exists()
            self._opened()
            return there or shutil.disk_usage(self.path.parent).free > 2 * self._size
        except OSError:
            return False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def get(self, row: int) -> NDArray[np.uint8] | None:
        """(C, H, W) bytes; None where they are not kept."""
        held = os.pread(self._opened(), self._stride, row * self._stride)
        if len(held) < self._stride or zlib.crc32(held[4:]) != int.from_bytes(held[:4], "little"):
            return None
        return np.frombuffer(bytearray(held), dtype=np.uint8, offset=4).reshape(self.shape)

    def put(self, row: int, pixels: NDArray[np.uint8]) -> None:
        raw = pixels.tobytes()
        with suppress(OSError):  # the disk is full: it is decoded again
            os.pwrite(self._opened(), zlib.crc32(raw).to_bytes(4, "little") + raw, row * self._stride)

    def _opened(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file
