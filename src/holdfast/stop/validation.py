"""NoisyValidationStop: judge epochs by rows that training does not see, wrong labels and all."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, outputs_on, withheld_rows
from holdfast.stop.rule import StopRule, check_patience
from holdfast.types import Epoch, Verdict


class NoisyValidationStop(StopRule):
    """Stop when the score on withheld rows no longer rises, and keep the epoch of the best.

    Their labels are as wrong as all others. A network that memorises wrong labels memorises those of its own rows,
    not of these, and loses here what it loses on true labels, if less of it.

    Parameters
    ----------
    share: of the rows that no epoch trains on; labels that a person has reviewed are not among them.
    patience: epochs in a row without a better score.
    """

    name = "validation"
    rows: Tensor
    most: Tensor

    def __init__(self, share: float = 0.1, patience: int = 5) -> None:
        super().__init__()
        if not 0 < share < 1:
            raise HoldfastError(f"the share of withheld rows must lie between 0 and 1, not {share:g}")
        check_patience(patience)
        self.share = share
        self.patience = patience

    def begin(self, data: Feed) -> None:
        super().begin(data)
        self.register_buffer("rows", withheld_rows(max(1, round(self.share * len(data))), data))
        if not bool(self.rows.any()):
            raise HoldfastError(
                "all rows are reviewed and trained on, so none can be withheld; leave the stop rule out"
            )
        self.register_buffer("most", torch.tensor([-torch.inf, 0.0], dtype=torch.float64))

    def withheld(self) -> Tensor:
        return self.rows

    def judge(self, epoch: Epoch, net: nn.Module, data: Feed) -> Verdict:
        predicted = self.task.predict(outputs_on(net, data, self.rows.nonzero()[:, 0]))
        score = self.task.score(predicted, data.y[self.rows])
        most, at = self.most.tolist()
        if score > most:
            self.most.copy_(torch.tensor([score, epoch.number]))
            return Verdict(best=True, measured={"withheld": score})
        stop = ""
        if epoch.number - at >= self.patience:
            stop = f"the score on withheld rows was best in epoch {int(at) + 1} ({most:.4f}): its weights are kept"
        return Verdict(best=False, stop=stop, measured={"withheld": score})
