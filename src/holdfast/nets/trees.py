"""Boosted trees as tensors, and a network that they join: saved, moved and loaded like any other module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.functional.ordered import Ordered
from holdfast.functional.trees import TrainedTrees
from holdfast.nets.mean import all_of, weights_of_each

AT_ONCE = 2**21
"""Rows times trees that are walked through at a time: the memory it takes is bounded."""
ABSENT = -30.0
"""Logit of a class that trees have never seen."""
LEAST = 1e-4
"""Probability of a class at least, after the noise has been taken out."""
BESIDE = "trees."
"""What the names of the tensors of trees begin with, in a file that holds other tensors too."""
PARTS = ("feature", "threshold", "gap_first", "branches", "value", "column", "baseline")
"""Tensors of the trees of a fold."""
COLUMNS = Ordered._fields
"""The same where they see some inputs as one column."""
NETWORK = "net."
"""The same of the network that they join."""


class BoostedTrees(nn.Module):
    """An ensemble of regression trees whose leaf values add up to logits, or to values.

    A row goes to the first child of a node where its feature is at most the threshold (a gap: where the node says so),
    else to the second. Both children of a leaf are the leaf itself.

    Parameters
    ----------
    feature, threshold, gap_first: of each node of each tree, (T, n); trees with fewer nodes are padded.
    branches: (T, n, 2) numbers of nodes of the same tree.
    value: (T, n) of each leaf.
    column: (T,) the output to which each tree adds.
    baseline: (q,) outputs before any tree.
    place, code: (d,) what trees see of the inputs (``functional.ordered``); none: all columns as they are.

    Shape: (B, d) -> (B, q).
    """

    feature: Tensor
    threshold: Tensor
    gap_first: Tensor
    branches: Tensor
    value: Tensor
    column: Tensor
    baseline: Tensor
    place: Tensor | None
    code: Tensor | None

    def __init__(
        self,
        feature: Tensor,
        threshold: Tensor,
        gap_first: Tensor,
        branches: Tensor,
        value: Tensor,
        column: Tensor,
        baseline: Tensor,
        place: Tensor | None = None,
        code: Tensor | None = None,
    ) -> None:
        super().__init__()
        for name, tensor in (
            ("feature", feature), ("threshold", threshold), ("gap_first", gap_first), ("branches", branches),
            ("value", value), ("column", column), ("baseline", baseline), ("place", place), ("code", code),
        ):  # fmt: skip
            self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Tensor:
        seen = x.to(self.threshold.dtype)
        if self.place is not None and self.code is not None:
            seen = Ordered(self.place, self.code).of(seen)
        return torch.cat([self._outputs(part) for part in seen.split(max(1, AT_ONCE // max(1, len(self.column))))])

    def _outputs(self, x: Tensor) -> Tensor:
        count, nodes = self.feature.shape
        outputs = self.baseline.repeat(len(x), 1)
        if not count:
            return outputs
        # Nodes are numbered through all trees, so that one gather reads all of them.
        first = torch.arange(count, device=x.device) * nodes
        branches = (self.branches + first[:, None, None]).flatten()
        feature, threshold, gap_first = self.feature.flatten(), self.threshold.flatten(), self.gap_first.flatten()
        at = first.expand(len(x), count)
        for _ in range(nodes):  # no way down is longer, whatever a file may say
            seen = x.gather(1, feature[at])
            to_first = (seen <= threshold[at]) | (seen.isnan() & gap_first[at])
            below = branches[2 * at + (~to_first).long()]
            if torch.equal(below, at):
                break
            at = below
        return outputs.index_add_(1, self.column, self.value.flatten()[at])


class FoldTrees(nn.Module, ABC):
    """Boosted trees of several folds together, and how much they count beside a network.

    Parameters
    ----------
    members: the trees of each fold.
    share: () the part of the trees in what is predicted, from 0 to 1.

    Shape: (B, d) -> (B, q) what they expect: probabilities, or values.
    """

    share: Tensor

    def __init__(self, members: Sequence[BoostedTrees], share: Tensor) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("share", share)

    @abstractmethod
    def join(self, output: Tensor, opinion: Tensor) -> Tensor:
        """(B, q) outputs of a network, joined with what the trees expect of the same rows."""


class ClassTrees(FoldTrees):
    """Trees for classes: the mean of their probabilities, freed of the noise in the labels that they learnt from.

    Parameters
    ----------
    correction: (C, C) from the probabilities of given classes to those of true ones.
    """

    correction: Tensor

    def __init__(self, members: Sequence[BoostedTrees], share: Tensor, correction: Tensor) -> None:
        super().__init__(members, share)
        self.register_buffer("correction", correction)

    def forward(self, x: Tensor) -> Tensor:
        given = torch.stack([each(x).softmax(1) for each in self.members]).mean(0)
        true: Tensor = (given @ self.correction).clamp_min(LEAST)
        return true / true.sum(1, keepdim=True)

    def join(self, output: Tensor, opinion: Tensor) -> Tensor:
        return torch.lerp(output.to(opinion.dtype).softmax(1), opinion, self.share).log()


class NumberTrees(FoldTrees):
    """Trees for numbers: the mean of their values."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([each(x) for each in self.members]).mean(0)

    def join(self, output: Tensor, opinion: Tensor) -> Tensor:
        return torch.lerp(output.to(opinion.dtype), opinion, self.share)


class WithTrees(nn.Module):
    """A network that boosted trees have joined.

    Shape: (B, d) -> (B, q) logits or values of both together.
    """

    def __init__(self, net: nn.Module, trees: FoldTrees) -> None:
        super().__init__()
        self.net = net
        self.trees = trees
        self.train(net.training)

    def forward(self, x: Tensor) -> Tensor:
        return self.trees.join(self.net(x), self.trees(x))


def without_trees(net: nn.Module) -> nn.Module:
    """The network alone, where trees have joined it."""
    return net.net if isinstance(net, WithTrees) else net


def as_they_were(net: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """A network with the weights of a saved one, joined by trees, or by others of its kind, where those were.

    >>> net = nn.Linear(2, 1)
    >>> as_they_were(net, nn.Linear(2, 1).state_dict()) is net
    True
    """
    trees, whole = trees_among(weights), all_of(net, weights_of_each(network_weights(weights)))
    return whole if trees is None else WithTrees(whole, trees)


def network_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of what predicts without trees, under its own names."""
    if not _joined(weights):
        return dict(weights)
    return {name.removeprefix(NETWORK): value for name, value in weights.items() if name.startswith(NETWORK)}


def trees_among(tensors: Mapping[str, Tensor]) -> FoldTrees | None:
    """The trees whose tensors are among others; their number and size are read off the tensors."""
    if not _joined(tensors):
        return None
    state = {name.removeprefix(BESIDE): value for name, value in tensors.items() if name.startswith(BESIDE)}
    members: list[BoostedTrees] = []
    while any(name.startswith(f"members.{len(members)}.") for name in state):
        start = f"members.{len(members)}."
        members.append(_member({name: state.get(start + name) for name in (*PARTS, *COLUMNS)}))
    if "correction" in state:
        return ClassTrees(members, state["share"], state["correction"])
    return NumberTrees(members, state["share"])


def _member(parts: Mapping[str, Tensor | None]) -> BoostedTrees:
    """The trees of one fold, from tensors of a file, which may be anybody's: nothing in them leads outside of them."""
    found = {name: part for name, part in parts.items() if part is not None}
    if set(PARTS) <= set(found) and _sees(found.get("place"), found.get("code")):
        shape, outputs = found["feature"].shape, found["baseline"].shape
        whole = all(not found[name].is_floating_point() for name in ("feature", "branches", "column"))
        shapes = {
            "threshold": shape, "gap_first": shape, "value": shape, "branches": (*shape, 2), "column": shape[:1]
        }  # fmt: skip
        fits = len(shape) == 2 and len(outputs) == 1 and all(found[name].shape == each for name, each in shapes.items())
        if whole and fits and _inside_of(found["branches"], shape[1]) and _inside_of(found["column"], outputs[0]):
            return BoostedTrees(**found)
    raise HoldfastError("the trees in the file of the model are damaged; train again")


def _sees(place: Tensor | None, code: Tensor | None) -> bool:
    """Whether columns can be made of inputs so, or are as they are."""
    if place is None or code is None:
        return place is code
    one_each = place.dim() == 1 and place.shape == code.shape
    return one_each and place.dtype == torch.int64 and _inside_of(place, len(place))


def _inside_of(numbers: Tensor, end: int) -> bool:
    return not numbers.numel() or (int(numbers.min()) >= 0 and int(numbers.max()) < end)


def _joined(tensors: Mapping[str, Tensor]) -> bool:
    return f"{BESIDE}share" in tensors and f"{BESIDE}members.0.gap_first" in tensors


class _Tree(NamedTuple):
    """The nodes of one tree, by scikit-learn's names, and the output to which it adds."""

    nodes: NDArray[Any]
    column: int


def as_tensors(trained: TrainedTrees) -> BoostedTrees:
    """Trees of a library as tensors that predict the same."""
    baseline = torch.zeros(trained.outputs)
    if len(trained.known) < trained.outputs:
        baseline.fill_(ABSENT)
        baseline[trained.known] = 0.0
    trees: list[_Tree] = []
    for number, model in enumerate(trained.models):
        rounds, start = trained.library.grown(model)
        # The logit of the first of two classes stays zero; else each tree of a round, or each model, has an output.
        columns = trained.known[number:] if len(trained.models) > 1 else trained.known[-len(start) :]
        baseline[columns[: len(start)]] = torch.from_numpy(start).float()
        trees += [_Tree(nodes, int(columns[k])) for each in rounds for k, nodes in enumerate(each)]
    return _packed(trees, baseline, trained.columns)


def _packed(trees: Sequence[_Tree], baseline: Tensor, columns: Ordered | None) -> BoostedTrees:
    count, most = len(trees), max((len(tree.nodes) for tree in trees), default=0)
    feature, branches = np.zeros((count, most), np.int64), np.zeros((count, most, 2), np.int64)
    threshold, value = np.zeros((count, most), np.float32), np.zeros((count, most), np.float32)
    gap_first = np.zeros((count, most), bool)
    for number, (nodes, _) in enumerate(trees):
        size, inner = len(nodes), nodes["is_leaf"] == 0
        feature[number, :size] = np.where(inner, nodes["feature_idx"], 0)
        threshold[number, :size] = _rounded_down(np.where(inner, nodes["num_threshold"], 0.0))
        gap_first[number, :size] = nodes["missing_go_to_left"].astype(bool) & inner
        value[number, :size] = np.where(inner, 0.0, nodes["value"])
        for side, name in enumerate(("left", "right")):
            branches[number, :size, side] = np.where(inner, nodes[name], np.arange(size))
    column = np.array([tree.column for tree in trees], np.int64)
    tensor = torch.from_numpy
    return BoostedTrees(
        tensor(feature), tensor(threshold), tensor(gap_first), tensor(branches), tensor(value), tensor(column),
        baseline, *(columns or (None, None)),
    )  # fmt: skip


def _rounded_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest numbers of single precision that are at most these: they part inputs of single precision alike."""
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
