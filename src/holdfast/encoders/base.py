"""The contract of pre-trained networks: texts or pictures in, features out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError


class Encoder(ABC):
    """A pre-trained network that makes features of texts or of pictures.

    It is loaded when it is first needed. ``encode`` is ``net`` on what ``prepare`` makes of a batch, without a
    gradient. ``net`` is never trained; ``holdfast.encoders.tuned`` trains another that ``load`` gives.

    Attributes
    ----------
    name: by which it is found again; it stands in the recipe of a run.
    licence: of the weights; empty where nobody said.
    unit: what it takes, "texts" or "images".
    """

    name: str
    licence: str = ""
    unit: str

    @property
    @abstractmethod
    def size(self) -> int:
        """Numbers in one row of features."""

    @property
    @abstractmethod
    def weights(self) -> Sequence[Path]:
        """The files of the weights."""

    @abstractmethod
    def load(self) -> nn.Module:
        """A network of its own at each call: what ``prepare`` returns in, (B, size) out."""

    @abstractmethod
    def prepare(self, batch: Any) -> Any:
        """A batch as the network takes it."""

    @property
    def settings(self) -> str:
        """What features depend on besides the weights."""
        return ""

    @cached_property
    def identity(self) -> str:
        """Name, weights and settings: features of one identity can be mixed."""
        digest = hashlib.sha256()
        for path in self.weights:
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return f"{self.name} {digest.hexdigest()[:16]} {self.settings}".strip()

    @property
    def dtype(self) -> torch.dtype:
        """In what it computes on this machine; features are float32 in any case."""
        return torch.float32

    @cached_property
    def device(self) -> torch.device:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def net(self) -> nn.Module:
        return self.load().eval().requires_grad_(False).to(self.device, self.dtype)

    def encode(self, batch: Any) -> Tensor:
        """(B, size) features of a batch, as float32 on the processor."""
        with torch.inference_mode():
            features: Tensor = self.net(self.prepare(batch))
            return features.float().cpu()

    @abstractmethod
    def batches(self, order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
        """Rows in batches that suit the network; ``lengths`` are those of the texts, or pixels of the pictures."""


class TextEncoder(Encoder):
    """Base of the encoders of texts. Their features have length one, whatever the length of the text."""

    unit = "texts"
    budget = 2048
    """Tokens in a batch, roughly: what fits in a processor's cache is faster."""

    @property
    @abstractmethod
    def most(self) -> int:
        """Tokens of a text that are read."""

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """(N, most) the numbers of the tokens of each text, and -1 after the last: what a tuned network takes.

        It hands them to what ``load`` gives as ``{"input_ids": (B, L), "attention_mask": (B, L)}``.
        """
        raise HoldfastError(f"{self.name} has no tokens, without which it cannot be tuned; leave --tune out")

    def encode(self, batch: Sequence[str]) -> Tensor:
        return nn.functional.normalize(super().encode(batch))

    def batches(self, order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
        found: list[list[int]] = []
        room = 0
        for row in order:
            # A token of English has four letters or so; the longest text of a batch sets its width.
            tokens = min(self.most, 2 + lengths[row] // 4)
            if not found or (len(found[-1]) + 1) * max(room, tokens) > self.budget:
                found.append([])
                room = 0
            room = max(room, tokens)
            found[-1].append(row)
        return found


@dataclass(frozen=True)
class Squares:
    """Pictures (B, C, H, W) from 0 to ``white`` as the normalised colours of squares, (B, 3, side, side)."""

    side: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, x: Tensor, white: float = 1.0) -> Tensor:
        x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x[:, :3]
        if x.shape[2:] != (self.side, self.side):
            x = nn.functional.interpolate(x, size=(self.side, self.side), mode="bicubic", antialias=True)
            x = x.clamp(0, white)
        mean, deviation = (torch.tensor(each, device=x.device)[:, None, None] for each in (self.mean, self.deviation))
        # As one factor and one shift: each pass over the pixels costs a hundredth of the network.
        x = (x * (1 / (white * deviation))).sub_(mean / deviation)
        return x.contiguous(memory_format=torch.channels_last)


class ImageEncoder(Encoder):
    """Base of the encoders of pictures.

    Parameters
    ----------
    side: to which pictures are stretched, in pixels.
    """

    unit = "images"
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    deviation: tuple[float, ...] = (0.5, 0.5, 0.5)
    budget = 4 * 224**2
    """Pixels in a batch: what fits in a processor's cache is faster by half."""

    def __init__(self, side: int = 224) -> None:
        self.side = side

    @property
    def settings(self) -> str:
        return f"{self.side} pixels"

    def prepare(self, batch: Tensor) -> Tensor:
        """Bytes (B, C, H, W) as the normalised colours of squares."""
        return self.squares(batch.to(self.device, torch.float32), white=255.0).to(self.dtype)

    @property
    def squares(self) -> Squares:
        """How pictures are made to fit the network."""
        return Squares(self.side, self.mean, self.deviation)

    def batches(self, order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
        count = max(1, self.budget // self.side**2) if self.device.type == "cpu" else 64
        return [list(order[i : i + count]) for i in range(0, len(order), count)]
