"""TrainAccuracyStop: stop when more labels are fitted than can be right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.method import Epoch, Nets, Verdict
from holdfast.methods.rated import Rate
from holdfast.stop.share import WrongShare
from holdfast.task import require_classes

if TYPE_CHECKING:
    from holdfast.feed import Feed


class TrainAccuracyStop(WrongShare):
    """Stop when the accuracy on the given labels passes the share of right ones, and keep the epoch nearest to it.

    A network that agrees with more labels than are right agrees with wrong ones.

    Parameters
    ----------
    rate: share of wrong labels, or "auto": estimated from the outputs of the first epochs.
    """

    nearest: Tensor

    def __init__(self, rate: Rate = "auto") -> None:
        super().__init__(rate)

    def begin(self, nets: Nets, data: Feed) -> None:
        require_classes(data.task, "TrainAccuracyStop counts labels that are met")
        super().begin(nets, data)
        self.register_buffer("nearest", torch.tensor([torch.inf, 0.0], dtype=torch.float64))

    def judge(self, epoch: Epoch) -> Verdict:
        right = 1 - self.wrong(epoch)
        off = abs(epoch.agreement - right)
        # While the estimate still moves, epochs before it were measured against another one.
        best = self.probing or off < float(self.nearest[0])
        if best:
            self.nearest.copy_(torch.tensor([off, epoch.number]))
        stop = ""
        if epoch.agreement > right and not self.probing:
            stop = (
                f"it agrees with {epoch.agreement:.1%} of the given labels, and {right:.1%} are thought to be right: "
                f"the weights of epoch {int(self.nearest[1]) + 1}, nearest to that, are kept"
            )
        return Verdict(best=best, stop=stop)
