"""TrainAccuracyStop: stop when more labels are fitted than can be right."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.feed import Feed
from holdfast.stop.noise_rate import NoiseRateRule
from holdfast.types import Epoch, Verdict


class TrainAccuracyStop(NoiseRateRule):
    """Stop when the accuracy on the given labels passes the share of right ones, and keep the epoch nearest to it.

    A network that agrees with more labels than are right agrees with wrong ones.

    Parameters
    ----------
    rate: the noise rate, or "auto": estimated from the outputs of the first epochs.
    """

    name = "accuracy"
    nearest: Tensor

    def begin(self, data: Feed) -> None:
        super().begin(data)
        self.register_buffer("nearest", torch.tensor([torch.inf, 0.0], dtype=torch.float64))

    def judge(self, epoch: Epoch, net: nn.Module, data: Feed) -> Verdict:
        right = 1 - self.noise_rate(epoch, net, data)
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
