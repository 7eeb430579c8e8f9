"""PRL(G): train on the examples whose whole gradient is small."""

from __future__ import annotations

from holdfast.functional.persample import gradient_norms
from holdfast.functional.reduce import keep_smallest, weighted_mean
from holdfast.methods.sample_selection import WithNoiseRate
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Step


class PRLG(WithNoiseRate):
    """In each batch keep the examples whose gradient is smallest: PRL(G), Algorithms 1 and 2.

    ``s_i = ||d l_i / d theta||_2``; the step follows the mean gradient of the ``k`` smallest. It withstands corrupted
    inputs as well as labels, with an error of O(rate L) for clean gradients bounded by L (Theorem 2).

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``; with "one" the graph of the norms is used again for training.

    Shapes
    ------
    Norms (B,) -> weights (B,) of zeros and ones.

    Differs from the paper: norms come from each layer's inputs and output gradients; the matrix of gradients is never
    stored. A network with BatchNorm is refused. Algorithm 2 drops the full share from the start (``ramp=0``).

    Reference: "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", Algorithm 2.

    >>> PRLG(0.3)
    PRLG(rate=0.3)
    """

    name = "prl-g"
    looks_inside = True

    def loss(self, nets: Nets, batch: Batch) -> Step:
        net, x, y = nets[0], batch.x, batch.y
        norms, output, losses = gradient_norms(net, self.task.losses, x, y)
        kept = keep_smallest(get_ranks().gather(norms), self.drop_rate)
        weight = kept[get_ranks().share(len(kept))] * batch.weight
        said = output.detach()
        self.observe(batch.index, said)
        if self.in_two() and bool((weight > 0).any()):
            rows = weight.nonzero()[:, 0]
            # The first graph goes before the second one is built, or memory would hold both.
            del output, losses
            return Step(weighted_mean(self.task.losses(net(x[rows]), y[rows]), weight[rows]), weight, said)
        return Step(weighted_mean(losses, weight), weight, said)
