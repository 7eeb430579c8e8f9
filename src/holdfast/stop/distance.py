"""DistanceStop: stop when distance begins to buy wrong labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.feed import Feed
from holdfast.stop.rule import StopRule, check_patience
from holdfast.types import Epoch, Verdict


class DistanceStop(StopRule):
    """Stop when the network gains more agreement with the given labels by each bit of distance than before.

    True labels lie near the initialisation: the first steps fit many of them, later ones fewer and fewer, so that the
    gain in agreement for a length of distance falls from epoch to epoch. Wrong labels lie far away. Once the network
    has set out for them, the gain rises again, as each length of distance now fits labels that it had refused. The
    epoch of the least gain is kept. Labels that are all right never make it rise for long.

    Parameters
    ----------
    patience: epochs in a row that must gain more than the least one.

    Differs from the paper, which shows distance and agreement (Figure 3) and names no rule.

    Reference: Li, Soltanolkotabi and Oymak, "Gradient Descent with Early Stopping is Provably Robust to Label Noise for
    Overparameterized Neural Networks", AISTATS 2020.
    """

    name = "distance"
    before: Tensor
    least: Tensor

    def __init__(self, patience: int = 3) -> None:
        super().__init__()
        check_patience(patience)
        self.patience = patience

    def begin(self, data: Feed) -> None:
        super().begin(data)
        self.register_buffer("before", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("least", torch.tensor([torch.inf, 0.0], dtype=torch.float64))

    def judge(self, epoch: Epoch, net: nn.Module, data: Feed) -> Verdict:
        distance, agreement = self.before.tolist()
        gone = epoch.distance - distance
        self.before.copy_(torch.tensor([epoch.distance, epoch.agreement]))
        if epoch.number == 0 or gone <= 0:
            # From nothing, or from a network that was set back, there is nothing to compare with.
            self.least.copy_(torch.tensor([torch.inf, epoch.number]))
            return Verdict(best=True)
        gain = (epoch.agreement - agreement) / gone
        least, at = self.least.tolist()
        if gain < least:
            self.least.copy_(torch.tensor([gain, epoch.number]))
            return Verdict(best=True, measured={"gain": gain})
        stop = ""
        if epoch.number - at >= self.patience:
            stop = (
                f"since epoch {int(at) + 1} each length of distance fits more of the given labels than before, so the "
                f"network now learns the wrong ones: the weights of epoch {int(at) + 1} are kept"
            )
        return Verdict(best=False, stop=stop, measured={"gain": gain})
