"""The queue of keys: the negatives of momentum contrast."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.ranks import get_ranks


class KeyQueue(nn.Module):
    """The last keys, first in, first out; before they come, random directions.

    Parameters
    ----------
    size: how many, at least 1.
    width: of a key.
    generator: of the random directions.

    Shape: keys (size, width), of length one.
    """

    keys: Tensor
    at: Tensor

    def __init__(self, size: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("keys", unit(torch.randn(size, width, generator=generator)))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def push(self, keys: Tensor) -> None:
        """Put in the keys of a batch, of all processes, in the place of the oldest ones."""
        size = len(self.keys)
        keys = get_ranks().gather(keys)[-size:].to(self.keys.dtype)
        place = (self.at.to(keys.device) + torch.arange(len(keys), device=keys.device)) % size
        self.keys[place] = keys
        self.at.copy_((self.at + len(keys)) % size)
