"""Norms of the gradients of single examples, without a matrix of examples by parameters.

Linear and convolution layers, GroupNorm and LayerNorm have closed forms in what flows into a layer and the gradient at
its output, so that one backward pass to the activations gives all norms; any other layer goes through
``torch.func.vmap``, a few examples at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.grad import conv2d_weight
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from holdfast.errors import HoldfastError

Losses = Callable[[Tensor, Tensor], Tensor]
"""(output (B, q), y (B, ...)) -> (B,)."""

WORKSPACE = 2**23
"""Numbers that one chunk of examples may take up."""


def gradient_norms(net: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``||d l_i / d theta||_2`` of each example, beside outputs and losses whose graph is still whole.

    Parameters
    ----------
    net: the network, in training mode or not; only parameters that require a gradient count.
    losses: outputs and labels to one loss an example.

    Shapes
    ------
    x (B, ...), y (B, ...) -> norms (B,) without a gradient, output (B, q), losses (B,).
    """
    check_separable(net)
    _check_one_tensor(x)
    layers = _trained_layers(net)
    if not layers:
        raise HoldfastError("the network has no parameter that requires a gradient")
    if all(_closed_form(layer) for layer in layers) and not _shares_parameters(layers):
        found = _from_layers(net, layers, losses, x, y)
        if found is not None:
            return found
    output = net(x)
    return _from_vmap(net, losses, x, y), output, losses(output, y)


def gradient_matrix(net: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> Tensor:
    """(B, D) the gradient of each example; for small models, as it holds examples by parameters."""
    check_separable(net)
    _check_one_tensor(x)
    return torch.cat([_flat(part) for part in _chunks(net, losses, x, y)])


def check_separable(net: nn.Module) -> None:
    """Refuse what ties the examples of a batch together."""
    for path, layer in net.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            name = path.removeprefix("_forward_module.")  # the wrapper of lightning-fabric
            raise HoldfastError(
                f"the gradient of a single example has no meaning under BatchNorm in training (layer {name!r}); train "
                "holdfast.nets.replace_batchnorm(net) instead, on the command line a network with -group at the end "
                "of its name"
            )


def _check_one_tensor(x: object) -> None:
    if not isinstance(x, Tensor):
        raise HoldfastError(
            "the gradient of a single example is computed for networks that take one tensor a row, and this one takes "
            "several inputs; choose a method that needs only losses, such as PRLL"
        )


def _trained_layers(net: nn.Module) -> list[nn.Module]:
    return [layer for layer in net.modules() if any(p.requires_grad for p in layer.parameters(recurse=False))]


def _closed_form(layer: nn.Module) -> bool:
    """Subclasses may compute anything, so only the classes themselves count."""
    if type(layer) is nn.Conv2d:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) in (nn.Linear, nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)


def _shares_parameters(layers: list[nn.Module]) -> bool:
    uses = Counter(id(p) for layer in layers for p in layer.parameters(recurse=False))
    return max(uses.values()) > 1


def _from_layers(
    net: nn.Module, layers: list[nn.Module], losses: Losses, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Norms by closed forms; None where they do not hold.

    A layer that is used twice has two gradients that add up before the norm; one whose rows are not the examples (a
    sequence first, examples folded into one another) has no gradient of an example in a row.
    """
    squares = torch.zeros(len(x), device=x.device, dtype=torch.float64)
    calls: Counter[nn.Module] = Counter()
    roots: list[Tensor] = []
    handles: list[RemovableHandle] = []

    def seen(layer: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        straight = bool(given) and isinstance(given[0], Tensor) and len(given[0]) == len(x)
        calls[layer] += 1 if straight else 2
        if not straight:
            return
        inputs = given[0]
        if not inputs.requires_grad:
            # Asking for the gradients of the first layers alone sends the pass through all others and spares it
            # the gradients of their weights.
            roots.extend(p for p in layer.parameters(recurse=False) if p.requires_grad)
        flowed_in = inputs.detach()

        def reached(g: Tensor) -> None:
            squares.add_(_squared(layer, _wide(flowed_in), _wide(g.detach())))

        handles.append(out.register_hook(reached))

    hooks = [layer.register_forward_hook(seen) for layer in layers]
    try:
        with torch.enable_grad():
            output = net(x)
            each = losses(output, y)
            if max(calls.values()) > 1 or not roots:
                return None
            torch.autograd.grad(each.sum(), roots, retain_graph=True, allow_unused=True)
    finally:
        for handle in (*hooks, *handles):
            handle.remove()
    return squares.sqrt().to(each), output, each


def _wide(values: Tensor) -> Tensor:
    """Squares of half precision would leave its range."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _squared(layer: nn.Module, inputs: Tensor, g: Tensor) -> Tensor:
    """(B,) squared norm of the gradient at one layer's own parameters."""
    if isinstance(layer, nn.Conv2d):
        return _squared_conv(layer, inputs, g)
    if isinstance(layer, nn.Linear):
        return _squared_linear(layer, inputs, g)
    assert isinstance(layer, (nn.GroupNorm, nn.LayerNorm, _BatchNorm))
    return _squared_norm(layer, inputs, g)


def _squared_linear(layer: nn.Linear, inputs: Tensor, g: Tensor) -> Tensor:
    total = torch.zeros(len(g), device=g.device, dtype=torch.float64)
    inputs, g = inputs.reshape(len(g), -1, inputs.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
    if layer.weight.requires_grad:
        if inputs.shape[1] == 1:
            total += inputs.square().sum((1, 2)) * g.square().sum((1, 2))
        else:
            total += _squared_product(inputs.transpose(1, 2), g.transpose(1, 2))
    if layer.bias is not None and layer.bias.requires_grad:
        total += g.sum(1).square().sum(1)
    return total


def _squared_conv(layer: nn.Conv2d, inputs: Tensor, g: Tensor) -> Tensor:
    total = torch.zeros(len(g), device=g.device, dtype=torch.float64)
    if layer.bias is not None and layer.bias.requires_grad:
        total += g.sum((2, 3)).square().sum(1)
    if not layer.weight.requires_grad:
        return total
    assert not isinstance(layer.padding, str)  # told apart in _closed_form
    each, outputs, positions = layer.weight[0].numel(), layer.out_channels // layer.groups, g[0, 0].numel()
    if positions * (each + outputs) >= each * outputs:
        # One weight gradient at a time: on large images faster than patches, and never more than one is inputs.
        for i in range(len(g)):
            slope = conv2d_weight(
                inputs[i : i + 1],
                layer.weight.shape,
                g[i : i + 1],
                layer.stride,
                layer.padding,
                layer.dilation,
                layer.groups,
            )
            total[i] += slope.square().sum()
        return total
    size = max(1, WORKSPACE // (each * layer.groups * positions))
    for part in torch.arange(len(g), device=g.device).split(size):
        columns = F.unfold(inputs[part].contiguous(), layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        patches = columns.reshape(len(part), layer.groups, each, positions)
        slopes = g[part].reshape(len(part), layer.groups, outputs, positions)
        for group in range(layer.groups):
            total[part] += _squared_product(patches[:, group], slopes[:, group])
    return total


def _squared_product(a: Tensor, b: Tensor) -> Tensor:
    """(B,) ``||a_i b_i^T||_F^2`` of a (B, m, P) and b (B, n, P), by whichever order takes fewer multiplications.

    ``||a b^T||^2 = <a^T a, b^T b>``: the second form never makes the m x n gradient.
    """
    (m, positions), n = a.shape[1:], b.shape[1]
    if positions * (m + n) < m * n:
        return ((a.transpose(1, 2) @ a) * (b.transpose(1, 2) @ b)).sum((1, 2))
    return (b @ a.transpose(1, 2)).square().sum((1, 2))


def _squared_norm(layer: nn.GroupNorm | nn.LayerNorm | _BatchNorm, inputs: Tensor, g: Tensor) -> Tensor:
    if isinstance(layer, nn.GroupNorm):
        normal = F.group_norm(inputs, layer.num_groups, eps=layer.eps)
        over = tuple(range(2, g.dim()))
    elif isinstance(layer, _BatchNorm):
        # In evaluation it is a fixed scale of each channel.
        normal = F.batch_norm(inputs, layer.running_mean, layer.running_var, eps=layer.eps)
        over = tuple(range(2, g.dim()))
    else:
        normal = F.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
        over = tuple(range(1, g.dim() - len(layer.normalized_shape)))
    total = torch.zeros(len(g), device=g.device, dtype=torch.float64)
    for parameter, slope in ((layer.weight, g * normal), (layer.bias, g)):
        if parameter is not None and parameter.requires_grad:
            total += (slope.sum(over) if over else slope).flatten(1).square().sum(1)
    return total


def _from_vmap(net: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> Tensor:
    return torch.cat(
        [
            torch.stack([_wide(g).flatten(1).square().sum(1) for g in part.values()]).sum(0).sqrt()
            for part in _chunks(net, losses, x, y)
        ]
    )


def _chunks(net: nn.Module, losses: Losses, x: Tensor, y: Tensor) -> Iterator[dict[str, Tensor]]:
    """Gradients of a few examples at a time, by parameter."""
    # The wrapper of lightning-fabric names each parameter twice, which functional_call cannot undo.
    net = getattr(net, "_forward_module", net)
    trained = {name: p.detach() for name, p in net.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in net.named_parameters() if not p.requires_grad} | dict(net.named_buffers())

    def one(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return losses(functional_call(net, (parameters, fixed), (x[None],)), y[None])[0]

    every = vmap(grad(one), in_dims=(None, 0, 0), randomness="different")
    size = max(1, WORKSPACE // max(1, sum(map(math.prod, (p.shape for p in trained.values())))))
    for part in torch.arange(len(x), device=x.device).split(size):
        try:
            yield every(trained, x[part], y[part])
        except (RuntimeError, ValueError):
            # Some operation has no rule for batches of examples: one at a time then.
            each = [grad(one)(trained, x[i], y[i]) for i in part]
            yield {name: torch.stack([g[name] for g in each]) for name in trained}


def _flat(gradients: dict[str, Tensor]) -> Tensor:
    return torch.cat([g.flatten(1) for g in gradients.values()], 1)
