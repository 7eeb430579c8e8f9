"""Second opinion: train towards what a label and networks that never saw it say together."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.boosting import BOOSTING
from holdfast.kept import Probabilities, latest, packed, rounded, unpacked
from holdfast.method import Method
from holdfast.nets.trees import FoldTrees, WithTrees
from holdfast.noise_model import noise_model
from holdfast.task import Classification, Representation, Task
from holdfast.types import Nets, Plan

PARTS = 6
"""Of the epochs: after each but the first and the last, what the network in training has expected in it is heard."""


class SecondOpinion(Method):
    """The default: each label is weighed against the opinion of networks that have never seen it.

    Before training, the rows are divided into folds, and for each fold a network trains on all others until it no
    longer predicts held-out *given* labels better (``holdfast.evidence``): ``q_i``, the out-of-fold opinion about row
    i. Joined with what networks expected of a row while they learnt it, and by Bayes' rule with a transition matrix T,
    it becomes a posterior, ``p_ic`` in proportion to ``q'_ic T[c, y_i]`` (``functional/label_trust.py``). The network
    then trains on all rows towards ``3/4 p_i + 1/4 q_i``; up to half of the target is the given label where the folds
    had to end while they were still learning. From a third of the epochs on, and anew after every sixth, what the
    network has expected in the last sixth is joined with the other opinions, and half of ``q_i`` in that target is its
    own. For numbers ``q_i`` replaces targets that lie far from it.

    Where held-out given labels are predicted better with boosted trees, as for many tables, the trees of the folds join
    the network in what is predicted, with the share that predicts those labels best.

    The noise rate is not given to it, and no clean label is needed.

    Parameters
    ----------
    trees: whose boosted trees are asked; none: scikit-learn's, where they cost a fraction of a training. Those that are
        named are asked however many features there are; lightgbm, xgboost and catboost have to be installed.

    Shapes
    ------
    Opinions (N, q), labels (N,) or (N, q) -> targets (N, q).

    Not from a paper: early stopping (Li et al., AISTATS 2020) in each fold of confident learning's cross-validation
    (Northcutt et al., JAIR 2021), and training towards the posterior. docs/second-opinion.md explains it.

    >>> SecondOpinion()
    SecondOpinion()
    """

    name = "second-opinion"
    uses_evidence = True
    _mean: Probabilities | None = None
    """What the network in training has expected of each row up to the end of a part of the epochs, on average."""
    _own: Probabilities | None = None
    """The same in that part alone, from the second on."""
    _target: Probabilities | None = None
    """What rows are trained towards; it follows from the evidence and from that."""
    _trees: FoldTrees | None

    def __init__(self, trees: Literal["scikit-learn", "lightgbm", "xgboost", "catboost"] | None = None) -> None:
        super().__init__()
        if trees is not None and trees not in BOOSTING:
            raise HoldfastError(f"trees is one of {', '.join(BOOSTING)}, not {trees!r}")
        self.trees = trees

    def check_task(self, task: Task) -> None:
        super().check_task(task)
        if self.trees is not None:
            BOOSTING[self.trees].load()
        if isinstance(task, Representation):
            raise HoldfastError("these rows have no labels to learn from; pre-train on them (holdfast.contrastive)")

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        if data.evidence is None:
            raise HoldfastError(
                "SecondOpinion needs the evidence of other networks; fit gathers it, and in a loop of your own set "
                "feed.evidence to holdfast.evidence.cross_fit(...)"
            )
        self._mean = self._own = self._target = None
        trees = data.evidence.trees
        self._trees = trees if isinstance(trees, FoldTrees) else None

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        assert data.evidence is not None
        ends = [round(part * epochs / PARTS) for part in range(1, PARTS)]
        if epochs >= PARTS and epoch in ends and data.learning is not None and isinstance(data.task, Classification):
            mean = rounded(data.learning(data.evidence.held_out).cpu())
            if self._mean is not None:
                share = ends[ends.index(epoch) - 1] / epoch
                self._own, self._target = rounded(latest(mean, self._mean, share)), None
            self._mean = mean
        if self._target is None:
            own = None if self._own is None else self._own.to(data.device)
            self._target = noise_model(data.task).refined(data.evidence, data.y, data.reviewed, own)

    def plan(self, nets: Nets, data: Feed) -> Plan:
        return Plan(torch.arange(len(data), device=data.device), target=self._target)

    def predictor(self, nets: Nets) -> nn.Module:
        return nets[0] if self._trees is None else WithTrees(nets[0], self._trees)

    def get_extra_state(self) -> dict[str, torch.Tensor]:
        heard = {"mean": self._mean, "own": self._own}
        return packed({name: each for name, each in heard.items() if each is not None})

    def set_extra_state(self, state: dict[str, torch.Tensor]) -> None:
        heard = unpacked(state, self.task.outputs) if state else {}
        self._mean, self._own, self._target = heard.get("mean"), heard.get("own"), None
