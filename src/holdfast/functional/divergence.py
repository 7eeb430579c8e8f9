"""How far two distributions lie apart."""

from __future__ import annotations

from torch import Tensor


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """``KL(p || q) + KL(q || p)`` of each example, from logits.

    Shape: (B, C), (B, C) -> (B,).
    """
    log, other = first.log_softmax(1), second.log_softmax(1)
    return ((log.exp() - other.exp()) * (log - other)).sum(1)
