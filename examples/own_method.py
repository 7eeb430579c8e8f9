"""A method of your own: small-loss training in a dozen lines, checked against the contract and trained."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

import holdfast
from holdfast.contract import check_method
from holdfast.functional import keep_count, smallest
from holdfast.method import Weigh
from holdfast.types import Batch


class SmallLoss(Weigh):
    """Train on the examples of smallest loss in each batch."""

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__()
        self.rate = rate

    def weigh(self, outputs: list[torch.Tensor], batch: Batch) -> list[torch.Tensor]:
        losses = self.task.losses(outputs[0], batch.y)
        weight = torch.zeros_like(losses)
        weight[smallest(losses, keep_count(self.rate, len(losses)))] = 1
        return [weight]


if __name__ == "__main__":
    check_method(SmallLoss(), neutral=SmallLoss(rate=0))
    x, y = load_digits(return_X_y=True)
    run = holdfast.fit((x / 16, y), SmallLoss(), "mlp", test=(x / 16, y), epochs=5)
    print(run)
