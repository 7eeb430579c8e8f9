"""Classes that count more than others, with any method."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.feed import Feed
from holdfast.kept import Kept
from holdfast.method import Method
from holdfast.nets import without_trees
from holdfast.stack import Stack
from holdfast.types import Nets, Plan


class ClassWeights(Stack):
    """A method whose rows count as much as the class that they are trained towards.

    Where a method plans targets p of its own, the class-weighted loss ``-sum_c w_c p_c log f_c`` is that of the targets
    ``w_c p_c / sum_k w_k p_k`` with the weight ``sum_k w_k p_k``. Else the given label says how much a row counts.
    Boosted trees, which know of no weights, do not join the network.

    Parameters
    ----------
    method: decides about everything else.
    weight: (C,) at least 0.
    """

    weight: Tensor

    def __init__(self, method: Method, weight: Tensor) -> None:
        super().__init__(method)
        self.register_buffer("weight", weight.float())

    def plan(self, nets: Nets, data: Feed) -> Plan:
        plan = super().plan(nets, data) or Plan(torch.arange(len(data), device=data.device))
        index, weight = plan.index.to(data.device), self.weight.to(data.device)
        target = plan.target
        if target is None:
            counts = weight[data.y]
        elif isinstance(target, Kept):
            weighted = target.value * weight.to(target.device)[target.number.long()]
            counts = weighted.sum(1)
            value = torch.where(counts[:, None] > 0, weighted / counts[:, None].clamp_min(1e-30), target.value)
            target = target.with_values(value)
        else:
            counts = target.to(weight) @ weight
            target = torch.where(counts[:, None] > 0, target * weight / counts[:, None].clamp_min(1e-30), target)
        own = counts[index] if plan.weight is None else counts[index] * plan.weight.to(counts)
        return plan._replace(weight=own, target=target)

    def predictor(self, nets: Nets) -> nn.Module:
        return without_trees(super().predictor(nets))
