"""Second opinion: train towards what given labels and networks that never saw them say together."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.boosting import BOOSTING
from holdfast.kept import Probabilities
from holdfast.method import Method
from holdfast.nets.trees import FoldTrees, WithTrees
from holdfast.noise_model import noise_model
from holdfast.task import Representation, Task
from holdfast.types import Nets, Plan


class SecondOpinion(Method):
    """The default: each label is weighed against the opinion of networks that have never seen it.

    Before training, the rows are divided into folds, and for each fold a network trains on all others until it no
    longer predicts held-out *given* labels better (``holdfast.evidence``): ``q_i``, the out-of-fold opinion about row
    i. Joined with what networks expected of a row while they learnt it, and by Bayes' rule with a transition matrix T,
    it becomes a posterior, ``p_ic`` in proportion to ``q'_ic T[c, y_i]`` (``functional/label_trust.py``). The network
    then trains on all rows towards ``3/4 p_i + 1/4 q_i``; up to half of the target is the given label where the folds
    had to end while they were still learning. For numbers ``q_i`` replaces targets that lie far from it.

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
    _target: Probabilities
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
        self._target = noise_model(data.task).refined(data.evidence, data.y, data.reviewed)
        trees = data.evidence.trees
        self._trees = trees if isinstance(trees, FoldTrees) else None

    def plan(self, nets: Nets, data: Feed) -> Plan:
        return Plan(torch.arange(len(data), device=data.device), target=self._target)

    def predictor(self, nets: Nets) -> nn.Module:
        return nets[0] if self._trees is None else WithTrees(nets[0], self._trees)
