"""CRUST: train on coresets whose loss gradients lie together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.functional.by_heart import by_heart
from holdfast.functional.capture import output_layer
from holdfast.functional.partners import beta_shares, cluster_partners, label_partners
from holdfast.method import Batch, Method, Nets, Plan, Step
from holdfast.methods.staged import held_rows
from holdfast.nets.copies import move_towards
from holdfast.ranks import here
from holdfast.select import centrality, cluster_weights, facility_location, nearest, radius_weights

if TYPE_CHECKING:
    from holdfast.feed import Feed

Group = Literal["predicted", "observed", "one"]
Proxy = Literal["logits", "features"]
Select = Literal["central", "facility"]
Weights = Literal["none", "cluster", "radius"]
Mix = Literal["none", "cluster", "same_label"]
Rest = Literal["refine", "drop"]

REFERENCE = 1024
"""Random examples of a group to which the centrality of each is measured."""
SURE = 0.8
"""The probability of being right that lets in a label with which the network disagrees."""
SETTLED = (0.85, 0.92)
"""Share of examples for which a network in training predicts what it expects on average: up to the first it is still
learning, from the second on it has learnt what it can."""
PROBE = (0.05, 500)
"""Share of the rows, and their number at most, that are withheld while a network is learning."""
CRAMMED = 0.25
"""Share of the fitted labels learnt by heart, from which on a network is not let learn further labels as given."""


class Crust(Method):
    """In each epoch and class, keep the examples whose gradients lie together; wrong labels scatter.

    The proxy of a gradient is that at the logits, ``g_i = p_i - y_i`` (equation 9 of the paper), or at the
    penultimate features, ``W^T g_i``. Inside each predicted class a coreset is chosen by medoids
    (equations 6 and 10) or by centrality. What the coreset leaves out is dropped, or stays with a label that
    the network's own expectation has refined.

    Parameters
    ----------
    fraction: share of each class in the coreset, in (0, 1]; one for all or one for each class. None takes, in each
        class, the examples whose label agrees with the averaged prediction or is right with a probability of at least
        0.8.
    group: select inside each predicted class (the paper), observed class (the authors' code), or over all.
        Regression groups quantile bins of the prediction, as many as ``bins``.
    proxy: gradient at the logits, or at the penultimate features.
    select: "central", the points nearest to all others (what the authors' code does), or "facility", greedy
        medoids by marginal gain (the paper).
    weights: the loss weight of a coreset example: none, the size of its cluster, or the number of examples
        within ``radius``.
    mix: mix each example with a member of its cluster (the paper), with any example of the same given label
        (the authors' code), or not at all; the share of the partner is Beta(alpha[0], alpha[1]).
    rest: "drop" leaves out what is not in the coreset; "refine" goes on training it towards the averaged prediction.
        While the network still changes its mind there is no coreset: all labels stay, but for what makes another
        class likely, and a few rows are withheld. Where it fits labels that it cannot tell of those, it learns by
        heart, and coresets begin although it has not settled.
    memory: how much of the averaged prediction stays from epoch to epoch once the network has made up its mind,
        in [0, 1); before it is half as much.
    average: over how many epochs the weights of the predicting network are averaged; 0 does not.
    warmup: epochs of ordinary training before the first selection.
    every: epochs between selections.

    Differs from the paper: see ``Crust.paper`` for its choices. The default selects by centrality, since
    medoids by marginal gain seek coverage and so reach for outliers once the dense, clean part is covered.
    It needs no noise rate, starts to leave labels out only when the network has settled or learns labels by heart,
    refines instead of dropping, and averages predictions and weights. Shares of the mix are drawn for each example; the
    authors' code draws one for each batch.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy
    Labels", NeurIPS 2020.

    >>> Crust(fraction=0.5, rest="drop")
    Crust(fraction=0.5, rest='drop')
    """

    belief: Tensor
    kept: Tensor
    load: Tensor
    partner: Tensor
    mass: Tensor
    steps: Tensor
    settled: Tensor
    counted: Tensor
    flips: Tensor
    probe: Tensor
    crammed: Tensor

    def __init__(
        self,
        fraction: float | Sequence[float] | None = None,
        *,
        group: Group = "predicted",
        bins: int = 1,
        proxy: Proxy = "logits",
        select: Select = "central",
        weights: Weights = "none",
        radius: float = 2.0,
        mix: Mix = "none",
        alpha: tuple[float, float] = (1.0, 1.0),
        rest: Rest = "refine",
        memory: float = 0.9,
        average: float = 2.0,
        warmup: int = 2,
        every: int = 1,
    ) -> None:
        super().__init__()
        for value in () if fraction is None else (fraction,) if isinstance(fraction, (int, float)) else fraction:
            if not 0 < value <= 1:
                raise HoldfastError(f"a coreset fraction must lie in (0, 1], not {value:g}")
        for name, chosen, kinds in (
            ("group", group, Group),
            ("proxy", proxy, Proxy),
            ("select", select, Select),
            ("weights", weights, Weights),
            ("mix", mix, Mix),
            ("rest", rest, Rest),
        ):
            if chosen not in get_args(kinds):
                raise HoldfastError(f"{name} is one of {', '.join(get_args(kinds))}, not {chosen!r}")
        if not 0 <= memory < 1:
            raise HoldfastError(f"memory must lie in [0, 1), not {memory:g}")
        if every < 1 or bins < 1 or warmup < 0:
            raise HoldfastError("every and bins must be at least 1, warmup at least 0")
        self.fraction = fraction
        self.group = group
        self.bins = bins
        self.proxy = proxy
        self.select = select
        self.weights = weights
        self.radius = radius
        self.mix = mix
        self.alpha = alpha
        self.rest = rest
        self.memory = memory
        self.average = average
        self.warmup = warmup
        self.every = every
        self._epoch = 0

    @classmethod
    def paper(cls, fraction: float = 0.5) -> Crust:
        """Algorithm 1: predicted classes, greedy medoids, cluster weights, mixing inside the cluster."""
        return cls(
            fraction,
            select="facility",
            weights="cluster",
            mix="cluster",
            rest="drop",
            memory=0,
            average=0,
            warmup=5,
        )

    @classmethod
    def authors(cls, fraction: float = 0.5) -> Crust:
        """The released code: observed classes, features, centrality, radius weights, partners of the same label."""
        return cls(
            fraction,
            group="observed",
            proxy="features",
            weights="radius",
            mix="same_label",
            alpha=(0.1, 1.0),
            rest="drop",
            memory=0,
            average=0,
            warmup=5,
        )

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        n, device = len(data), data.device
        self.register_buffer("belief", torch.zeros(n, data.task.outputs, device=device))
        self.register_buffer("kept", torch.ones(n, dtype=torch.bool, device=device))
        self.register_buffer("load", torch.ones(n, device=device))
        self.register_buffer("partner", torch.arange(n, device=device))
        self.register_buffer("mass", torch.zeros((), device=device))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("flips", torch.zeros(data.task.outputs, data.task.outputs, device=device))
        self.register_buffer("settled", torch.zeros(()))
        self.register_buffer("counted", torch.zeros(2, dtype=torch.float64))
        share, most = PROBE
        self.register_buffer("probe", held_rows(min(most, int(share * n)), data))
        self.register_buffer("crammed", torch.zeros((), dtype=torch.bool))
        self.averaged = copy.deepcopy(nets[0]).requires_grad_(False) if self.average else None
        self._pace = self.average * data.steps()

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch = epoch
        if self.counted[1] > 0:
            self._tally()

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        since = self._epoch - self.warmup
        if self._epoch == 0 or (since < 0 and self.memory == 0):
            return None
        if self.flips.any() and since % self.every:
            return self._compose(data, None)
        net = self.predictor(nets)
        output = data.outputs(net)
        expected = self.task.expected(output)
        if since > 0 and self._learning():
            fits = self.task.agrees(expected, data.y)
            self.crammed.fill_(by_heart(fits[~self.probe], fits[self.probe]) > CRAMMED)
        self._remember(expected)
        if since < 0:
            return Plan(torch.arange(len(data)), output=output)
        self._choose(net, data)
        return self._compose(data, output)

    def withhold(self, data: Feed) -> Tensor | None:
        return self.probe if self._epoch >= self.warmup and self._learning() else None

    def after_step(self, nets: Nets) -> None:
        if self.averaged is None:
            return
        self.steps += 1
        # The horizon grows with the steps done, so that the start is forgotten soon.
        horizon = min(self._pace, (10 + float(self.steps)) / 9)
        move_towards(self.averaged, nets[0], 1 / max(1.0, horizon))

    def predictor(self, nets: Nets) -> nn.Module:
        return nets[0] if self.averaged is None else self.averaged

    def expected(self) -> Tensor:
        """(N, q) the prediction for each training row, averaged over epochs."""
        return self.belief / self.mass

    def loss(self, nets: Nets, batch: Batch) -> Step:
        step = super().loss(nets, batch)
        if self.mass > 0 and step.output is not None:
            count = len(batch.index)
            now = self.task.expected(step.output)
            stayed = self.task.settled(self.belief[batch.index], now)
            self.counted += torch.tensor([stayed * count, count], dtype=torch.float64)
        return step

    def after_epoch(self, nets: Nets) -> None:
        self._tally()

    def _tally(self) -> None:
        """Put into the state what was counted in an epoch: at its end, so that a checkpoint is complete, and before the
        next one for a loop that never says so."""
        stayed, seen = here().total(self.counted).tolist()
        if seen:
            self.settled.fill_(stayed / seen)
        self.counted.zero_()

    def _firm(self) -> float:
        """How far the network has made up its mind: 0 while it is learning, 1 once it has settled."""
        if self.fraction is not None or self.rest == "drop" or bool(self.crammed):
            return 1.0
        low, high = SETTLED
        return min(1.0, max(0.0, (float(self.settled) - low) / (high - low)))

    def _learning(self) -> bool:
        """Whether all labels still count, so that rows are withheld."""
        return self._firm() == 0 and bool(self.probe.any())

    def _remember(self, expected: Tensor) -> None:
        memory = self.memory * (1 + self._firm()) / 2
        self.belief.mul_(memory).add_(expected, alpha=1 - memory)
        self.mass.mul_(memory).add_(1 - memory)

    def _choose(self, net: nn.Module, data: Feed) -> None:
        """Select a coreset in each group, with its weights and partners."""
        expected = self.expected()
        points = expected - self.task.encode(data.y)
        if not self.flips.any() or self._firm() == 0:
            self.flips.copy_(self.task.flips(expected, data.y))
        right = self.task.right(self.task.clean(expected), data.y, self.flips)
        if self.proxy == "features":
            points = points @ _turned(output_layer(net).weight)
        self.kept.fill_(False)
        groups, mine = self._groups(expected, data.y), torch.zeros_like(self.kept)
        likely = self.task.agrees(expected, data.y) | (right >= SURE)
        owners = data.ranks.deal([len(rows) for _, rows in groups])
        for (number, rows), owner in zip(groups, owners, strict=True):
            mine[rows] = owner == data.ranks.rank
            candidates = rows[likely[rows]] if self.fraction is None else rows
            if len(candidates) == 0:
                continue
            size = self._size(number, len(candidates))
            if owner == data.ranks.rank:
                self._choose_in(candidates, points[candidates].cpu(), size, data)
            else:
                self._draw_for(len(candidates), size, data)
        data.ranks.merge(mine, self.kept, self.load, self.partner)
        if self.mix == "same_label":
            self.partner.copy_(label_partners(data.y, data.generator))

    def _groups(self, expected: Tensor, y: Tensor) -> list[tuple[int, Tensor]]:
        """Rows of each group that is not empty, with its number."""
        if self.group == "one":
            label = torch.zeros(len(y), dtype=torch.int64)
        elif y.dim() == 1:
            label = expected.argmax(1) if self.group == "predicted" else y
        else:
            source = (expected if self.group == "predicted" else y).mean(1)
            edges = source.quantile(torch.linspace(0, 1, self.bins + 1, device=y.device)[1:-1])
            label = torch.bucketize(source, edges)
        return [(int(number), (label == number).nonzero()[:, 0]) for number in label.unique()]

    def _size(self, group: int, count: int) -> int:
        if self.fraction is None:
            return count
        share = self.fraction if isinstance(self.fraction, (int, float)) else self.fraction[group]
        return max(1, min(count, round(share * count)))

    def _choose_in(self, rows: Tensor, points: Tensor, size: int, data: Feed) -> None:
        if self.select == "facility":
            chosen, weight, _, owner, _ = facility_location(points, size, threads=1)
        else:
            chosen = torch.arange(size)
            if size < len(rows):
                far = centrality(points, reference=REFERENCE, generator=data.generator).mean
                chosen = far.argsort(stable=True)[:size]
            clustered = "cluster" in (self.weights, self.mix)
            owner = nearest(points, chosen) if clustered else chosen
            weight = cluster_weights(points, chosen) if self.weights == "cluster" else torch.ones(size)
        if self.weights == "radius":
            weight = radius_weights(points, chosen, self.radius)
        self.kept[rows[chosen]] = True
        self.load[rows[chosen]] = weight.to(self.load) if self.weights != "none" else 1.0
        if self.mix == "cluster":
            self.partner[rows[chosen]] = rows[cluster_partners(owner, chosen, data.generator)]

    def _draw_for(self, count: int, size: int, data: Feed) -> None:
        """Draw what ``_choose_in`` draws in a group that another process works on, and throw it away: all keep one
        random state, which is that of one process."""
        if self.select == "central" and size < count > REFERENCE:
            torch.randperm(count, generator=data.generator)
        if self.mix == "cluster":
            torch.rand(count, generator=data.generator)

    def _targets(self, y: Tensor) -> Tensor:
        """(N, q) what each row is trained towards.

        Where a network has made up its mind, more of a label that it disagrees with would only be memorised: outside
        of the coreset what it expects replaces the label. While it is still learning that would teach it nothing but
        what it knows already: labels stay, and only where one is often given to another class the posterior has part
        in it.
        """
        expected, given = self.expected(), self.task.encode(y)
        posterior = self.task.posterior(self.task.clean(expected), y, self.flips)
        learning = torch.lerp(given, posterior, self.task.doubt(expected, y, self.flips))
        settled = torch.where(self.kept[:, None], given, expected)
        return torch.lerp(learning, settled, self._firm())

    def _compose(self, data: Feed, output: Tensor | None) -> Plan:
        index, target = self.kept.nonzero()[:, 0], None
        weight = self.load[index]
        if self.rest == "refine":
            index = torch.arange(len(data), device=data.device)
            weight = torch.where(self.kept, self.load, 1.0)
            target = self._targets(data.y)
        if self.mix == "none":
            return Plan(index, weight, target=target, output=output)
        share = beta_shares(self.alpha, len(index), data.generator)
        return Plan(index, weight, self.partner[index], share, target, output)


def _turned(weight: Tensor) -> Tensor:
    """The weight of the output layer with its rows turned into as few dimensions as they span: lengths and distances of
    what is multiplied by it stay, and cost the number of outputs instead of that of features.

    Shape: (q, d) -> (q, min(q, d)).
    """
    factor: Tensor = torch.linalg.qr(weight.detach().T, mode="r").R
    return factor.T
