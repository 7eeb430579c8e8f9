"""Bootstrap: labels mixed with the network's own predictions."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.method import Method
from holdfast.task import Classification
from holdfast.types import Batch

Kind = Literal["hard", "soft"]
SHARE = {"hard": 0.8, "soft": 0.95}
"""Shares of the given label in the paper."""


class Bootstrap(Method):
    """Cross entropy towards a mix of the given label and what the network predicts.

    Soft: ``L_i = - sum_c [b y_ic + (1 - b) p_ic] log p_ic``, the gradient flowing through both ``p``. Hard:
    ``L_i = - [b log p_i,y + (1 - b) log p_i,z]`` with ``z = argmax p_i``.

    Parameters
    ----------
    kind: "hard" (what the PRL paper compares with) or "soft".
    share: b, in [0, 1]; None takes the paper's 0.8 for hard and 0.95 for soft.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> losses (B,).

    Reference: Reed et al., "Training Deep Neural Networks on Noisy Labels with Bootstrapping", ICLR 2015 workshop.

    >>> Bootstrap("soft")
    Bootstrap(kind='soft')
    """

    name = "bootstrap"
    requires = Classification

    def __init__(self, kind: Kind = "hard", share: float | None = None) -> None:
        super().__init__()
        if kind not in get_args(Kind):
            raise HoldfastError(f"kind is one of {', '.join(get_args(Kind))}, not {kind!r}")
        if share is not None and not 0 <= share <= 1:
            raise HoldfastError(f"the share of the given label must lie in [0, 1], not {share:g}")
        self.kind = kind
        self.share = share

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        given = SHARE[self.kind] if self.share is None else self.share
        return given * self.task.losses(output, batch.y) + (1 - given) * own_losses(output, self.kind)


def own_losses(output: Tensor, kind: Kind) -> Tensor:
    """(B,) cross entropy towards the network's own belief: its entropy, or that of its prediction."""
    log = output.log_softmax(1)
    return -(log.exp() * log).sum(1) if kind == "soft" else -log.amax(1)
