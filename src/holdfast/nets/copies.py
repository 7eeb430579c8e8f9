"""Further networks made from one: with other norms, with weights drawn anew, or with weights that follow it."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.errors import HoldfastError
from holdfast.nets.base import group_count


def replace_batchnorm(net: nn.Module, groups: int = 8) -> nn.Module:
    """A copy of a network in which each BatchNorm is a GroupNorm, whose output depends on one example alone.

    Scales and shifts are kept, running statistics dropped.

    Parameters
    ----------
    net: any network; it stays as it is.
    groups: at least 1; lowered to the greatest common divisor with the channels. A BatchNorm1d that would
        have one channel in each group becomes one group, as a lone number has no variance.

    Reference: Wu and He, "Group Normalization", ECCV 2018.

    >>> replace_batchnorm(nn.Sequential(nn.BatchNorm2d(12)))[0].num_groups
    4
    """
    if groups < 1:
        raise HoldfastError(f"a GroupNorm needs at least one group, not {groups}")
    if isinstance(net, _BatchNorm):
        return _group_norm(net, groups)
    net = copy.deepcopy(net)
    for parent in list(net.modules()):
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm):
                setattr(parent, name, _group_norm(child, groups))
    return net


def _group_norm(norm: _BatchNorm, groups: int) -> nn.GroupNorm:
    channels = norm.num_features
    count = group_count(groups, channels)
    if isinstance(norm, nn.BatchNorm1d) and count == channels:
        count = 1
    new = nn.GroupNorm(count, channels, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        new.to(norm.weight.device, norm.weight.dtype)
        new.load_state_dict({"weight": norm.weight, "bias": norm.bias})
    return new.train(norm.training)


def reset_parameters(net: nn.Module, generator: torch.Generator | None = None) -> nn.Module:
    """A copy of a network with its weights drawn anew: the second network of methods that train two.

    Calls ``reset_parameters`` of each part that has one, inner parts first. Parameters of a part without one
    keep their values.

    Parameters
    ----------
    net: any network; it stays as it is.
    generator: decides the draws, and leaves torch's own random state alone; None draws from that state.
    """
    net = copy.deepcopy(net)
    if generator is None:
        _reset(net)
        return net
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    devices = {p.device for p in net.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        torch.manual_seed(seed)
        _reset(net)
    return net


def _reset(net: nn.Module) -> None:
    for part in reversed(list(net.modules())):
        # nn.MultiheadAttention spells it with an underscore.
        reset = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
        if callable(reset):
            reset()


@torch.no_grad()
def move_towards(mean: nn.Module, net: nn.Module, share: float) -> None:
    """Move the weights of one network a share of the way to those of another of the same kind, in place.

    The statistics of normalisation go along: those of one moment do not fit weights of many. Weights are paired by
    their order and not by name, so that either network may be wrapped.

    Parameters
    ----------
    mean: the network that is moved.
    net: where to; it stays as it is.
    share: in [0, 1]; 1 copies.

    >>> mean, net = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> move_towards(mean, net, 1.0)
    >>> torch.equal(mean.weight, net.weight)
    True
    """
    torch._foreach_lerp_(list(mean.parameters()), list(net.parameters()), share)
    for own, other in zip(mean.buffers(), net.buffers(), strict=True):
        if own.is_floating_point():
            own.lerp_(other, share)
        else:
            own.copy_(other)


def load_body(net: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a network the weights of another of its kind, all but those of the last part, its head.

    Parameters
    ----------
    net: a network with a part called ``head``; changed in place.
    weights: the state of the other network, whose head may be of any kind.

    >>> net, other = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 3)}), nn.Linear(2, 2)
    >>> load_body(net, {"body.weight": other.weight, "body.bias": other.bias, "head.0.weight": torch.zeros(9, 2)})
    >>> torch.equal(net["body"].weight, other.weight)
    True
    """
    body = {name: value for name, value in weights.items() if not name.startswith("head.")}
    own = {name: value for name, value in net.state_dict().items() if not name.startswith("head.")}
    if {name: value.shape for name, value in body.items()} != {name: value.shape for name, value in own.items()}:
        raise HoldfastError(
            "the weights to start from are those of another kind of network; choose the one they come from"
        )
    net.load_state_dict(body, strict=False)
