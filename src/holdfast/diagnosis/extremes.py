"""alpha and beta of a training in which the coreset changes, epoch by epoch."""

from __future__ import annotations

import pandas as pd
import torch
from torch import nn

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.methods.crust import Crust
from holdfast.theory.coresets import Extremes
from holdfast.theory.jacobian import Jacobian, fitting


class CoresetExtremes:
    """A ``watch`` for ``fit`` with CRUST: the extremes of each epoch's coreset, as the columns alpha and beta.

    ``extremes(run.history)`` are those of the whole training (section 4.3, Corollary A.3). Each epoch costs the
    gradients of a few elements of the coreset, drawn anew: the smallest singular value of a part of its rows is at
    least that of all, and the largest at most, so that alpha is an estimate from above and beta one from below.

    Parameters
    ----------
    method: the one that is trained.
    rows: what it is trained on.
    examples: elements of the coreset whose gradients are taken, at least 2.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy Labels",
    NeurIPS 2020.
    """

    def __init__(self, method: Crust, rows: Rows, examples: int = 50, seed: int = 0) -> None:
        if examples < 2:
            raise HoldfastError(f"extremes need at least two elements of the coreset, not {examples}")
        if rows.classes is None:
            raise HoldfastError("the statements on coresets are about classes, but these rows are a regression")
        self.method = method
        self.rows = rows
        self.examples = examples
        self.seed = seed

    def __call__(self, epoch: int, net: nn.Module) -> dict[str, float]:
        if epoch < self.method.warmup:
            return {}
        kept = self.method.kept.nonzero()[:, 0].cpu()
        draw = torch.Generator().manual_seed(self.seed + epoch)
        some = kept[torch.randperm(len(kept), generator=draw)[: self.examples]].sort().values
        device = next(net.parameters()).device
        x = torch.cat([x for _, x in Feed(self.rows, batch_size=len(some)).chunks(some)]).to(device)
        jacobian = Jacobian(net, x, self.rows.y[some].to(device), fitting(net, len(some))).dense()
        found = Extremes().with_coreset(jacobian, self.method.weight[some.to(device)].cpu())
        return {"alpha": found.alpha, "beta": found.beta}


def extremes(history: pd.DataFrame) -> Extremes:
    """alpha and beta over the whole of a training that ``CoresetExtremes`` has watched."""
    if "alpha" not in history or history["alpha"].isna().all():
        raise HoldfastError("the history has no alpha; train with watch=CoresetExtremes(method, rows)")
    return Extremes(float(history["alpha"].min()), float(history["beta"].max()))
