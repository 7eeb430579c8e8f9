"""Several networks of one kind that predict together."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError

EACH = "together."
"""What the names of all tensors begin with, in a file of such networks."""


class MeanOf(nn.Module):
    """The mean of the outputs of several networks.

    Shape: (B, ...) -> (B, q).

    >>> MeanOf([nn.Identity(), nn.ReLU()])(torch.tensor([[-2.0, 4.0]]))
    tensor([[-1.,  4.]])
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.together = nn.ModuleList(nets)
        self.train(nets[0].training)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([net(x) for net in self.together]).mean(0)


def first_of(net: nn.Module) -> nn.Module:
    """The first of several networks that predict together; any other network as it is."""
    return net.together[0] if isinstance(net, MeanOf) else net


def weights_of_each(weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The weights of each network, under its own names; one dictionary for a network alone."""
    if not weights or not all(name.startswith(f"{EACH}{number}.") for name, number in _numbered(weights)):
        return [dict(weights)]
    found: dict[str, dict[str, Tensor]] = {}
    for name, number in _numbered(weights):
        found.setdefault(number, {})[name.removeprefix(f"{EACH}{number}.")] = weights[name]
    shapes = [{name: value.shape for name, value in each.items()} for each in found.values()]
    if list(found) != [str(k) for k in range(len(found))] or any(each != shapes[0] for each in shapes):
        raise HoldfastError("the weights in the file of the model are not those of networks of one kind; train again")
    return list(found.values())


def _numbered(weights: Mapping[str, Tensor]) -> list[tuple[str, str]]:
    return [(name, name.removeprefix(EACH).partition(".")[0]) for name in weights]


def all_of(net: nn.Module, weights: Sequence[Mapping[str, Tensor]]) -> nn.Module:
    """A network with saved weights; where those are of several, their mean."""
    nets = [net, *(copy.deepcopy(net) for _ in weights[1:])]
    for each, own in zip(nets, weights, strict=True):
        each.load_state_dict(own)
    return nets[0] if len(nets) == 1 else MeanOf(nets)
