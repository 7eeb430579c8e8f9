"""The last linear layer of any network, and what flows into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from holdfast.errors import HoldfastError


def output_layer(net: nn.Module) -> nn.Linear:
    """The last ``nn.Linear`` in the order of registration: the layer that makes the logits."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise HoldfastError("the network has no nn.Linear layer, so it has no penultimate features; use the logits")
    return layers[-1]


@contextmanager
def penultimate(net: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the input of the output layer, one tensor a forward pass, while the context is open."""
    caught: list[Tensor] = []
    handle = output_layer(net).register_forward_pre_hook(lambda _, args: caught.append(args[0].detach()))
    try:
        yield caught
    finally:
        handle.remove()
