"""Networks by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType

from torch import nn

from holdfast.errors import HoldfastError
from holdfast.nets.cnn import CNN4, CNN9
from holdfast.nets.heads import project
from holdfast.nets.inception_resnet import InceptionResNetV2
from holdfast.nets.mlp import MLP
from holdfast.nets.resnet import resnet20, resnet32
from holdfast.nets.resnet_wide import resnet18, resnet50
from holdfast.own_code import own_code

Shape = tuple[int, ...]

_IMAGES: Mapping[str, tuple[Callable[[int, int], nn.Module], int]] = MappingProxyType(
    {
        "cnn4": (CNN4, 8),
        "cnn4-slim": (partial(CNN4, width=(16, 32, 64, 128)), 8),
        "cnn4-wide": (partial(CNN4, width=(32, 64, 128, 256)), 8),
        "cnn9": (CNN9, 28),
        "resnet20": (resnet20, 8),
        "resnet32": (resnet32, 8),
        "resnet18": (resnet18, 8),
        "resnet50": (resnet50, 8),
        "resnet18-imagenet": (partial(resnet18, large=True), 32),
        "resnet50-imagenet": (partial(resnet50, large=True), 32),
        "inception-resnet-v2": (InceptionResNetV2, 75),
        "cnn4-group": (partial(CNN4, norm="group"), 8),
        "cnn9-group": (partial(CNN9, norm="group"), 28),
        "resnet20-group": (partial(resnet20, norm="group"), 8),
        "resnet32-group": (partial(resnet32, norm="group"), 8),
        "inception-resnet-v2-group": (partial(InceptionResNetV2, norm="group"), 75),
    }
)

NETS = ("auto", "mlp", *_IMAGES)
"""Names that ``build`` knows."""
PROJECTED = "+mlp"
"""What a name ends in whose network is to have a projection head."""


def build(spec: str, shape: Shape, outputs: int) -> nn.Module:
    """A new network for inputs of a shape.

    Parameters
    ----------
    spec: one of ``NETS`` (with -group: GroupNorm in place of BatchNorm), or ``module.path:factory`` for a
        function of one's own, called as ``factory(shape, outputs)``; the module may lie in the working
        directory. "auto" is cnn4 for images of at least 8x8 pixels and mlp for anything else. A spec that ends in
        +mlp has the three-layer head of contrastive learning in place of the linear one.
    shape: of one input: (channels, H, W) of an image, (d,) of a table row.
    outputs: classes or targets, at least 1.

    >>> build("auto", (5,), 2).head
    Linear(in_features=256, out_features=2, bias=True)
    """
    shape = tuple(shape)
    if outputs < 1 or any(size < 1 for size in shape):
        raise HoldfastError(f"a network needs sizes of at least 1, not inputs {shape} and {outputs} outputs")
    if spec.endswith(PROJECTED):
        return project(build(spec.removesuffix(PROJECTED), shape, outputs), outputs)
    if ":" in spec:
        return _own(spec, shape, outputs)
    if spec == "auto":
        spec = "cnn4" if _is_image(shape, 8) else "mlp"
    if spec == "mlp":
        return MLP(math.prod(shape), outputs)
    if spec not in _IMAGES:
        raise HoldfastError(_unknown(spec))
    make, smallest = _IMAGES[spec]
    if not _is_image(shape, smallest):
        raise HoldfastError(
            f"{spec} needs images (channels, H, W) of at least {smallest}x{smallest} pixels, but one input "
            f"has shape {shape}; use mlp or auto"
        )
    return make(shape[0], outputs)


def _is_image(shape: Shape, smallest: int) -> bool:
    return len(shape) == 3 and min(shape[1:]) >= smallest


def _unknown(spec: str) -> str:
    close = get_close_matches(spec, NETS, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"no network is called {spec!r} (there are {', '.join(NETS)}, or module.path:factory){hint}"


def _own(spec: str, shape: Shape, outputs: int) -> nn.Module:
    net = own_code(spec, "a network")(shape, outputs)
    if not isinstance(net, nn.Module):
        raise HoldfastError(f"{spec} returned a {type(net).__name__}; it must return a torch.nn.Module")
    return net
