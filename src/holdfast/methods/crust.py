"""CRUST: train on coresets of examples whose loss gradients are close together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.capture import output_layer
from holdfast.functional.partners import beta_shares, cluster_partners
from holdfast.functional.persample import gradient_matrix
from holdfast.functional.row_randomness import epoch_generator
from holdfast.method import Method
from holdfast.select import centrality, facility_location, greedi, nearest, stochastic_greedy
from holdfast.types import Nets, Plan

Select = Literal["exact", "stochastic", "distributed", "central"]
Proxy = Literal["logits", "features", "gradients"]
Group = Literal["predicted", "observed", "one"]

REFERENCE = 1024
"""Random examples of a group to which the centrality of each is measured."""
PART = 5_000
"""Examples in a part of the distributed selection, about; there are at least two parts."""
MOST = 50_000_000
"""Largest product of rows and parameters for whole gradients: 200 MB."""


class Crust(Method):
    """Algorithm 1: in each epoch and predicted class choose medoids of the loss gradients, weigh them, mix them, train.

    ``S = argmax_S sum_i max_{j in S} (d_0 - d_ij)`` in each class (equation 10), by greedy choice; ``d_ij`` is the
    distance of two loss gradients, or its bound by the gradients at the logits ``p_i - y_i`` (equation 9). A medoid j
    stands for the cluster ``V_j`` of the examples nearest to it: random members ``R_j`` of it are mixed in,
    ``x = l x_i + (1 - l) x_j`` and labels alike (equation 11), each with the weight ``r = |V_j| / |R_j|``.

    Parameters
    ----------
    fraction: share of each class in the coreset, in (0, 1]; one for all or one for each class.
    select: how medoids are found (section 4.1). "exact" is the greedy algorithm by lazy evaluation, which picks what
        plain greedy picks; "stochastic" tries a random sample in each step; "distributed" selects in parts and then
        among what these chose (GreeDi). "central" takes the examples nearest to all others instead, as the authors'
        code does.
    proxy: gradients at the logits (equation 9), at the penultimate features ``W^T (p_i - y_i)``, or the whole
        gradients of equation 6, for small networks: rows times parameters are at most 50 million.
    group: select inside each predicted class (the paper), observed class, or over all.
    bins: of a regression, how many quantile bins of the prediction are the groups, at least 1.
    partners: |R_j|, at least 0; 1 in the paper's experiments, 0 mixes nothing.
    alpha: l ~ Beta(alpha, alpha); the paper does not give it.
    weighted: False gives all medoids the same weight.
    warmup: epochs of ordinary training before the first selection; the paper does not give it, the authors' code has 5.
    every: epochs between selections, 1 in the paper.

    Shapes
    ------
    Gradients (n, q), (n, d) or (n, parameters) of a class -> its medoids (k,), weights (k,), partners (k, |R|).

    Differs from the paper: ``warmup`` epochs come first, since predictions of an untrained network are no classes. The
    loss of a batch is divided by the sum of its weights, where equation 8 sums; so the learning rate does not grow with
    the clusters. Partners are never the medoid itself unless it is alone; a cluster with fewer members than partners
    repeats them. In several processes each selects in whole classes.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy
    Labels", NeurIPS 2020.

    >>> Crust(0.3, partners=2)
    Crust(fraction=0.3, partners=2)
    """

    name = "crust"
    kept: Tensor
    weight: Tensor
    partner: Tensor

    def __init__(
        self,
        fraction: float | Sequence[float] = 0.5,
        *,
        select: Select = "exact",
        proxy: Proxy = "logits",
        group: Group = "predicted",
        bins: int = 1,
        partners: int = 1,
        alpha: float = 1.0,
        weighted: bool = True,
        warmup: int = 5,
        every: int = 1,
    ) -> None:
        super().__init__()
        for value in (fraction,) if isinstance(fraction, (int, float)) else fraction:
            if not 0 < value <= 1:
                raise HoldfastError(f"a coreset fraction must lie in (0, 1], not {value:g}")
        for name, given, kinds in (("select", select, Select), ("proxy", proxy, Proxy), ("group", group, Group)):
            if given not in get_args(kinds):
                raise HoldfastError(f"{name} is one of {', '.join(get_args(kinds))}, not {given!r}")
        if every < 1 or bins < 1 or warmup < 0 or partners < 0:
            raise HoldfastError("every and bins must be at least 1, warmup and partners at least 0")
        if not alpha > 0:
            raise HoldfastError(f"alpha must be positive, not {alpha:g}")
        self.fraction = fraction
        self.select = select
        self.proxy = proxy
        self.group = group
        self.bins = bins
        self.partners = partners
        self.alpha = alpha
        self.weighted = weighted
        self.warmup = warmup
        self.every = every
        self._epoch = 0

    @staticmethod
    def authors(fraction: float = 0.5) -> Method:
        """What the released code of the paper does."""
        from holdfast.methods.crust_authors import CrustAuthors  # which is a Crust itself

        return CrustAuthors(fraction)

    def begin(self, nets: Nets, data: Feed) -> None:
        size = len(data) * sum(p.numel() for p in nets[0].parameters() if p.requires_grad)
        if self.proxy == "gradients" and size > MOST:
            raise HoldfastError(
                f"whole gradients of all rows are {size:,} numbers here, and at most {MOST:,} are computed; take a "
                "smaller network or fewer rows, or proxy='logits'"
            )
        super().begin(nets, data)
        n, device = len(data), data.device
        self.register_buffer("kept", torch.ones(n, dtype=torch.bool, device=device))
        self.register_buffer("weight", torch.ones(n, device=device))
        self.register_buffer("partner", torch.arange(n, device=device)[:, None].repeat(1, max(1, self.partners)))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch = epoch

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        since = self._epoch - self.warmup
        if since < 0:
            return None
        output = None
        if since % self.every == 0:
            output = data.outputs(nets[0])
            self._choose(nets[0], data, output)
        return self._compose(data)._replace(output=output)

    def _choose(self, net: nn.Module, data: Feed, output: Tensor) -> None:
        """Select in each group, with weights and partners; in several processes each selects in some of the groups."""
        proxies = None if self.proxy == "gradients" else self._proxies(net, output, data.y)
        groups, own = self._groups(self.task.expected(output), data.y), torch.zeros_like(self.kept)
        owners = data.ranks.assign([len(rows) for _, rows in groups])
        self.kept.fill_(False)
        for (number, rows), owner in zip(groups, owners, strict=True):
            if owner != data.ranks.rank:
                continue
            own[rows] = True
            points = self._gradients(net, data, rows) if proxies is None else proxies[rows].cpu()
            # Draws of a group's own, so that it does not matter which process has which groups.
            generator = epoch_generator(data.generator.initial_seed(), self._epoch, number)
            self._choose_in(rows, points, self._size(number, len(rows)), generator)
        data.ranks.merge(own, self.kept, self.weight, self.partner)

    def _proxies(self, net: nn.Module, output: Tensor, y: Tensor) -> Tensor:
        """(N, q) or (N, d) what stands for the gradients: equation 9, or at the penultimate features."""
        gradients = self.task.gradients(output, y)
        return gradients if self.proxy == "logits" else gradients @ turned(output_layer(net).weight)

    def _gradients(self, net: nn.Module, data: Feed, rows: Tensor) -> Tensor:
        """(n, parameters) whole gradients of some rows: equation 6."""
        training = net.training
        net.eval()
        try:
            parts = [gradient_matrix(net, self.task.losses, x, data.y[part]).cpu() for part, x in data.chunks(rows)]
        finally:
            net.train(training)
        return torch.cat(parts)

    def _groups(self, expected: Tensor, y: Tensor) -> list[tuple[int, Tensor]]:
        """Rows of each group that is not empty, with its number."""
        if self.group == "one":
            label = torch.zeros(len(y), dtype=torch.int64, device=y.device)
        elif y.dim() == 1:
            label = expected.argmax(1) if self.group == "predicted" else y
        else:
            values = (expected if self.group == "predicted" else y).mean(1)
            edges = values.quantile(torch.linspace(0, 1, self.bins + 1, device=y.device)[1:-1])
            label = torch.bucketize(values, edges)
        return [(int(number), (label == number).nonzero()[:, 0]) for number in label.unique()]

    def _size(self, group: int, count: int) -> int:
        """How many examples of a group the coreset takes."""
        share = self.fraction if isinstance(self.fraction, (int, float)) else self.fraction[group]
        return max(1, min(count, round(share * count)))

    def _choose_in(self, rows: Tensor, points: Tensor, size: int, generator: torch.Generator) -> None:
        chosen, cluster = self._medoids(points, size, generator)
        medoids = rows[chosen.to(rows.device)]
        self.kept[medoids] = True
        if self.weighted:
            self.weight[medoids] = torch.bincount(cluster, minlength=len(chosen)).to(self.weight)
        if self.partners:
            partners = cluster_partners(cluster, chosen, generator, self.partners).to(rows.device)
            self.partner[medoids] = rows[partners]

    def _medoids(self, points: Tensor, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """(k,) chosen points, and (n,) the position among them of the medoid nearest to each point."""
        if self.select == "central":
            chosen = most_central(points, size, generator)
            return chosen, nearest(points, chosen)
        if self.select == "stochastic":
            found = stochastic_greedy(points, size, generator=generator)
        elif self.select == "distributed" and len(points) > 1:
            parts = min(len(points), max(2, math.ceil(len(points) / PART)))
            found = greedi(points, size, parts, seed=generator.initial_seed())
        else:
            found = facility_location(points, size, threads=1)
        return found.index, found.assignment

    def _compose(self, data: Feed) -> Plan:
        """The coreset as the plan of an epoch."""
        index = self.kept.nonzero()[:, 0]
        weight = self.weight[index]
        if not self.partners:
            return Plan(index, weight)
        partner = self.partner[index].T.flatten()
        share = beta_shares((self.alpha, self.alpha), len(partner), data.generator)
        return Plan(index.repeat(self.partners), (weight / self.partners).repeat(self.partners), partner, share)


def most_central(points: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The points of smallest mean distance to all others of their group, or to a random sample of a large one.

    Shape: (n, d) -> (size,) positions.
    """
    if size >= len(points):
        return torch.arange(len(points))
    return centrality(points, reference=REFERENCE, generator=generator).mean.argsort(stable=True)[:size]


def turned(weight: Tensor) -> Tensor:
    """The weight of the output layer with its rows turned into as few dimensions as they span: lengths and distances of
    what is multiplied by it stay, and cost the number of outputs instead of that of features.

    Shape: (q, d) -> (q, min(q, d)).
    """
    factor: Tensor = torch.linalg.qr(weight.detach().T, mode="r").R
    return factor.T
