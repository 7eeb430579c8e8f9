"""A user's network as methods call it: with the output that is there already, or by a pass of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from holdfast.errors import HoldfastError
from holdfast.session.batch import given_of

Forward = Callable[[nn.Module, Any], Any]
"""(network, inputs of a batch) -> (B, q) outputs."""


def by_structure(net: nn.Module, x: Any) -> Any:
    """The forward pass where nobody says otherwise: ``net(x)``, ``net(**x)`` of a dict, ``net(*x)`` of a tuple."""
    if isinstance(x, dict):
        return net(**x)
    return net(*x) if isinstance(x, tuple) else net(x)


def logits_of(output: Any) -> Tensor:
    """The (B, q) outputs in what a network returned, in full precision: a tensor, or an object that has ``logits``."""
    found = getattr(output, "logits", output)
    if not isinstance(found, Tensor) or found.dim() != 2:
        shown = f"the shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(output).__name__}"
        raise HoldfastError(
            f"the network returned {shown}; a method needs one line of outputs a row: (rows, classes or targets). "
            "Pass forward=lambda net, x: ... that returns it"
        )
    return found.float() if found.dtype in (torch.float16, torch.bfloat16) else found


class Forwarding(nn.Module):
    """A network under the hands of a method.

    While a batch is ``answered``, calling it on the inputs of that batch gives the output that the user's own forward
    pass made; on any other inputs, and outside of it, the user's ``forward`` runs.

    Parameters
    ----------
    model: the user's network, wrapped for several processes or not.
    forward: how to run it on the inputs of a batch.
    """

    def __init__(self, model: nn.Module, forward: Forward) -> None:
        super().__init__()
        self.model = model
        self._run = forward
        self._answer: tuple[Any, Tensor] | None = None
        self._modes: list[bool] = []

    def answer(self, x: Any, output: Tensor | None) -> None:
        """Give this output for these inputs from now on; None: run for every call."""
        self._answer = None if output is None else (x, output)

    def forward(self, x: Any) -> Tensor:
        if self._answer is not None and x is self._answer[0]:
            return self._answer[1] if torch.is_grad_enabled() else self._answer[1].detach()
        # Without a gradient there is nothing to synchronise, and processes may pass different numbers of batches.
        net = self.model if torch.is_grad_enabled() else bare(self.model)
        return logits_of(self._run(net, given_of(x)))

    def train(self, mode: bool = True) -> Forwarding:
        """Layers that the user keeps in evaluation mode are so again afterwards."""
        parts = list(self.modules())
        if not mode:
            self._modes = [part.training for part in parts] if self.training else self._modes
            return super().train(False)
        if len(self._modes) != len(parts):
            return super().train(True)
        for part, training in zip(parts, self._modes, strict=True):
            part.training = training
        return self


def bare(net: nn.Module) -> nn.Module:
    """The network itself, without the wrapper for several processes; a part called ``module`` is no wrapper."""
    return net.module if isinstance(net, DistributedDataParallel) else net
