"""The network of the theorems: one hidden layer that is trained, output weights that are not."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]


class Shallow(nn.Module):
    """``f(W, x) = v^T phi(W x)``: W (k, d) of standard normal entries, v of half +1/sqrt(k) and half -1/sqrt(k).

    Parameters
    ----------
    inputs, hidden: d and k; of an odd k one output weight is zero.
    activation: phi and its derivative.

    Shapes
    ------
    x (n, d) -> (n,).
    """

    v: Tensor

    def __init__(
        self,
        inputs: int,
        hidden: int,
        activation: tuple[Activation, Activation] = (nn.functional.softplus, torch.sigmoid),
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(hidden, inputs, generator=source, dtype=torch.float64))
        v = torch.zeros(hidden, dtype=torch.float64)
        v[: hidden // 2] = 1 / math.sqrt(hidden)
        v[hidden - hidden // 2 :] = -1 / math.sqrt(hidden)
        self.register_buffer("v", v)
        self.phi, self.slope = activation

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.phi(x @ self.weight.T) @ self.v
        return out

    def jacobian(self, x: Tensor) -> Tensor:
        """(n, k d) row i the entries of ``(v o phi'(W x_i)) x_i^T``, in closed form."""
        tilt = self.v * self.slope(x @ self.weight.detach().T)
        return (tilt[:, :, None] * x[:, None, :]).flatten(1)

    def distance(self, start: Tensor) -> float:
        """``||W - W_0||_F``."""
        return float((self.weight.detach() - start).norm())


@torch.no_grad()
def descend(net: Shallow, x: Tensor, y: Tensor, rate: float, steps: int) -> Tensor:
    """Gradient descent on ``1/2 sum_i (y_i - f(W, x_i))^2``.

    Returns the outputs before each step and at the end, (steps + 1, n). The gradient is the closed form
    ``(v o phi'(W X^T)) diag(f - y) X``.
    """
    return torch.stack([*(step(net, x, y, rate) for _ in range(steps)), net(x)])


@torch.no_grad()
def step(net: Shallow, x: Tensor, y: Tensor, rate: float) -> Tensor:
    """One step of it; the outputs before."""
    before = x @ net.weight.T
    output: Tensor = net.phi(before) @ net.v
    tilt = net.slope(before) * net.v * (output - y)[:, None]
    net.weight.sub_(tilt.T @ x, alpha=rate)
    return output
