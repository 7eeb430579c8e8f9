"""Encoders that are trained themselves: the pre-trained network with a gradient, and a head on its features."""

from __future__ import annotations

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.encoders.base import Encoder, ImageEncoder, TextEncoder
from holdfast.encoders.named import encoder_named
from holdfast.errors import HoldfastError
from holdfast.nets import PROJECTED, build, project

PREFIX = "tune:"
"""What the name of a network begins with that is an encoder to be tuned."""
TOKENS = 1024
"""In a part of a batch of texts, roughly: with gradients half as many fit in a processor's cache as without."""
ON_GPU = 2**16
"""The same where memory is all that counts."""


class Tuned(nn.Module):
    """An encoder and a linear head, all of it trained.

    Each row of features is brought to mean 0 and variance 1, so that it is long: one small rate then serves the
    pre-trained weights, which are to move little, and the head, whose outputs it moves far.
    """

    def __init__(self, encoder: Encoder, outputs: int) -> None:
        super().__init__()
        self.body = encoder.load().requires_grad_(True)
        self.head = nn.Linear(encoder.size, outputs)

    @abstractmethod
    def read(self, x: Tensor) -> Tensor:
        """(B, size) what the encoder makes of a batch."""

    def features(self, x: Tensor) -> Tensor:
        """What the head sees, (B, size)."""
        found = self.read(x)
        return F.layer_norm(found, found.shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Logits or targets, (B, outputs)."""
        outputs: Tensor = self.head(self.features(x))
        return outputs


class TunedText(Tuned):
    """Of texts: (B, most) numbers of tokens in, as ``TextEncoder.tokens`` makes them.

    Texts of a batch go through in parts of like length, each as wide as its longest; what comes out is the same.
    """

    def read(self, x: Tensor) -> Tensor:
        if x.is_floating_point():
            raise _unmixable()
        lengths = (x >= 0).sum(1)
        order = lengths.argsort(descending=True, stable=True)
        widths = lengths[order].clamp_min(1).tolist()
        budget = TOKENS if x.device.type == "cpu" else ON_GPU
        parts, first = [], 0
        while first < len(x):
            count = max(1, budget // widths[first])
            parts.append(self._part(x[order[first : first + count], : widths[first]]))
            first += count
        return torch.cat(parts)[order.argsort()]

    def _part(self, x: Tensor) -> Tensor:
        found: Tensor = self.body({"input_ids": x.clamp_min(0).long(), "attention_mask": (x >= 0).long()})
        return found


class TunedImages(Tuned):
    """Of pictures: (B, C, H, W) of any size in, in [0, 1]."""

    def __init__(self, encoder: ImageEncoder, outputs: int) -> None:
        super().__init__(encoder, outputs)
        self._squares = encoder.squares

    def read(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(self._squares(x))
        return found


def network(spec: str, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """A network by its name: an encoder to be tuned, or one of ``holdfast.nets``."""
    if not is_tuned(spec):
        return build(spec, shape, outputs)
    made = tuned(spec.removeprefix(PREFIX).removesuffix(PROJECTED), outputs)
    return project(made, outputs) if spec.endswith(PROJECTED) else made


def is_tuned(spec: str | None) -> bool:
    """Whether the name of a network is that of an encoder to be tuned.

    >>> is_tuned("tune:minilm"), is_tuned("mlp"), is_tuned(None)
    (True, False, False)
    """
    return spec is not None and spec.startswith(PREFIX)


def tuned(name: str, outputs: int) -> Tuned:
    """An encoder with its pre-trained weights and a new head."""
    encoder = encoder_named(name)
    if isinstance(encoder, ImageEncoder):
        return TunedImages(encoder, outputs)
    if isinstance(encoder, TextEncoder):
        return TunedText(encoder, outputs)
    raise HoldfastError(f"{name} encodes neither texts nor images, so it cannot be tuned; leave --tune out")


def _unmixable() -> HoldfastError:
    return HoldfastError(
        "the method mixes inputs, which texts do not allow where their encoder is tuned; choose another method, or "
        "leave --tune out"
    )
