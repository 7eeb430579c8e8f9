"""Losses: the methods that are one, as a criterion for any loop: ``criterion(output, target)``."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from holdfast import methods
from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.functional.transition import checked_transition
from holdfast.method import Method
from holdfast.methods.bootstrap import Kind
from holdfast.methods.forward import Corrected
from holdfast.task import Classification, Regression
from holdfast.types import Batch

Reduction = Literal["mean", "sum", "none"]


class Criterion(nn.Module):
    """The losses of a method, in the place of ``nn.CrossEntropyLoss``.

    Parameters
    ----------
    method: whose ``losses`` these are; nothing is computed a second way.
    reduction: "mean", "sum" or "none", as torch has them.

    Shapes
    ------
    Output (B, C), target (B,) classes or (B, C) shares of them -> (), or (B,) without a reduction.
    """

    def __init__(self, method: Method, reduction: Reduction = "mean") -> None:
        super().__init__()
        if reduction not in get_args(Reduction):
            raise HoldfastError(f"reduction is one of {', '.join(get_args(Reduction))}, not {reduction!r}")
        self.method = method
        self.reduction = reduction

    def forward(self, output: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        if output.dim() != 2 or len(target) != len(output):
            raise HoldfastError(
                f"a criterion takes outputs (B, C) and a target for each, not the shapes {tuple(output.shape)} and "
                f"{tuple(target.shape)}"
            )
        classes = self.method.requires is Classification or not target.is_floating_point()
        self.method._task = (Classification if classes else Regression)(output.shape[1])
        rows = torch.arange(len(output), device=output.device) if index is None else index.to(output.device)
        weight = torch.ones(len(output), device=output.device)
        losses = self.method.losses(output, Batch(None, target, rows, weight))
        if self.reduction == "none":
            return losses
        return losses.sum() if self.reduction == "sum" else weighted_mean(losses, weight)

    def extra_repr(self) -> str:
        return "" if self.reduction == "mean" else f"reduction={self.reduction!r}"


class GCE(Criterion):
    """Generalised cross entropy: ``(1 - p_y^q) / q``; see ``holdfast.methods.GCE``, which can truncate as well.

    >>> GCE(q=0.7)(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.5492)
    """

    def __init__(self, q: float = 0.7, *, reduction: Reduction = "mean") -> None:
        super().__init__(methods.GCE(q), reduction)


class SCE(Criterion):
    """Symmetric cross entropy: ``a CE + b RCE`` with ``RCE = - sum_c p_c log max(y_c, f)``; see
    ``holdfast.methods.SCE``."""

    def __init__(
        self, ce: float = 0.1, rce: float = 1.0, *, floor: float = 1e-4, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(methods.SCE(ce, rce, floor=floor), reduction)


class APL(Criterion):
    """Active-passive loss: ``a NCE + b RCE``, ``NCE = (- sum_c y_c log p_c) / (- sum_c log p_c)``; see
    ``holdfast.methods.APL``."""

    def __init__(
        self, active: float = 1.0, passive: float = 1.0, *, floor: float = 1e-4, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(methods.APL(active, passive, floor=floor), reduction)


class Huber(Criterion):
    """Of classes ``-log p_y`` where ``p_y > 1 / t``, else ``-t p_y + log t + 1``; of float targets (B, q) Huber's loss
    ``r^2 / 2`` where ``|r| <= d``, else ``d (|r| - d / 2)``; see ``holdfast.methods.Huber``."""

    def __init__(self, limit: float | None = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(methods.Huber(limit), reduction)


class Bootstrap(Criterion):
    """Cross entropy towards a mix with the network's own belief: ``- sum_c [b y_c + (1 - b) p_c] log p_c`` (soft), or
    with its prediction (hard); see ``holdfast.methods.Bootstrap``."""

    def __init__(self, kind: Kind = "hard", share: float | None = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(methods.Bootstrap(kind, share), reduction)


class _Known(Criterion):
    """Losses corrected by a transition matrix that is known."""

    def __init__(self, method: Corrected, transition: Any, reduction: Reduction) -> None:
        super().__init__(method, reduction)
        method.register_buffer("matrix", checked_transition(transition, len(transition)))


class Forward(_Known):
    """``- log (p T)_y`` with ``T[i, j]`` the probability that a row of class i is labelled j; see
    ``holdfast.methods.Forward``, which can estimate T."""

    def __init__(self, transition: Any, *, reduction: Reduction = "mean") -> None:
        super().__init__(methods.Forward(transition), transition, reduction)


class Backward(_Known):
    """``(T^-1 l)_y`` with ``l`` the cross entropies towards each class; see ``holdfast.methods.Backward``, which can
    estimate T."""

    def __init__(self, transition: Any, *, reduction: Reduction = "mean") -> None:
        super().__init__(methods.Backward(transition), transition, reduction)


class ELR(Criterion):
    """Early-learning regularisation: ``- log p_y + s log(1 - <p, t_i>)`` with ``t_i <- b t_i + (1 - b) p`` before it;
    see ``holdfast.methods.ELR``.

    It remembers what was predicted of each row, so it is told which rows it sees: ``criterion(output, target, index)``.
    Its memory is a buffer: move it to a device, and save its ``state_dict``, with the network.

    Parameters
    ----------
    n_rows, n_classes: of the training data.
    strength, memory: s, at least 0, and b, in [0, 1].
    """

    def __init__(
        self, n_rows: int, n_classes: int, strength: float = 3.0, memory: float = 0.7, *, reduction: Reduction = "mean"
    ) -> None:
        method = methods.ELR(strength, memory)
        super().__init__(method, reduction)
        if n_rows < 1 or n_classes < 2:
            raise HoldfastError(f"ELR remembers rows of at least two classes, not {n_rows} rows of {n_classes}")
        method.forget(n_rows, n_classes)
        self._rows = n_rows

    def forward(self, output: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        if index is None:
            raise HoldfastError("ELR remembers each row; call criterion(output, target, index) with their numbers")
        if index.shape != (len(output),) or not bool(((index >= 0) & (index < self._rows)).all()):
            raise HoldfastError(f"ELR takes the number of each row of the batch, from 0 to {self._rows - 1}")
        return super().forward(output, target, index)
