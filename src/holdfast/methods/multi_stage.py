"""What the methods share that train more than once in one run: fresh starts, and rows held out to judge by."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, outputs_on, withheld_rows
from holdfast.method import Method
from holdfast.nets.copies import move_towards
from holdfast.task import Classification
from holdfast.types import Nets, Plan, Stage


class MultiStage(Method):
    """Base of methods that train more than once, for classes.

    The weights that the networks began with are kept, so that each training can start from them.
    """

    requires = Classification

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.initial = nn.ModuleList(copy.deepcopy(net).requires_grad_(False) for net in nets)

    def restart(self, nets: Nets) -> None:
        """Give the networks the weights that they began with."""
        for net, initial in zip(nets, self.initial, strict=True):
            move_towards(net, initial, 1.0)


class HeldOut(nn.Module):
    """Rows that training leaves out, and the weights of the epoch that judged their given labels best.

    Parameters
    ----------
    share: of the rows, in [0, 1); with 0 the last epoch counts as the best.
    """

    rows: Tensor
    score: Tensor

    def __init__(self, share: float, net: nn.Module, data: Feed) -> None:
        super().__init__()
        self.register_buffer("rows", withheld_rows(round(share * len(data)), data))
        self.register_buffer("score", torch.tensor(-torch.inf, dtype=torch.float64))
        self.best = copy.deepcopy(net).requires_grad_(False)

    def plan(self) -> Plan | None:
        """All other rows."""
        return Plan((~self.rows).nonzero()[:, 0]) if bool(self.rows.any()) else None

    def look(self, net: nn.Module, data: Feed, judge: Callable[[Tensor, Tensor], float]) -> None:
        """Keep the weights if what they make of the rows is judged better than all before."""
        score = torch.inf
        if bool(self.rows.any()):
            score = judge(outputs_on(net, data, self.rows.nonzero()[:, 0]), data.y[self.rows])
        if score > self.score or score == torch.inf:
            self.score.fill_(score)
            move_towards(self.best, net, 1.0)

    def reset(self) -> None:
        """Begin to judge anew."""
        self.score.fill_(-torch.inf)


def check_hold_out(share: float) -> None:
    if not 0 <= share < 1:
        raise HoldfastError(f"the share of rows held out must lie in [0, 1), not {share:g}")


def quarter(asked: int | None, epochs: int) -> int:
    """Epochs of a first training: as asked, or a quarter of all, and at least one."""
    return max(1, epochs // 4) if asked is None else asked


def even_stages(count: int, length: int, epochs: int) -> tuple[Stage, ...]:
    """So many trainings of a length, and one of what is left."""
    starts = {k * length for k in range(count + 1)}
    return tuple(Stage(start) for start in sorted(starts) if start < epochs)
