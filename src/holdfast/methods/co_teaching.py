"""Co-teaching: two networks pick examples of small loss for each other."""

from __future__ import annotations

from torch import Tensor

from holdfast.functional.reduce import keep_smallest
from holdfast.methods.sample_selection import SampleSelection
from holdfast.types import Batch


class CoTeaching(SampleSelection):
    """Each of two networks trains on the examples of a batch that have the smallest loss to the other.

    ``L_f = mean of l_i over I_g``, ``L_g = mean of l'_i over I_f``, where ``I_f`` and ``I_g`` are the
    ``R(T) B`` examples of smallest loss to each, ``R(T) = 1 - rate min(T^c / T_k, 1)``.

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``; ``ramp`` is T_k, and ``holdfast.functional`` has both the paper's
        schedule (``Ramp``) and that of the released code (``AuthorsRamp``).

    Shapes
    ------
    Two outputs (B, q) -> two weights (B,) of zeros and ones.

    Differs from the authors' code: the mean over what is kept is not divided by its number again; at least one
    example of a batch is kept.

    Reference: Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels",
    NeurIPS 2018, Algorithm 1.

    >>> CoTeaching(0.2, ramp=5)
    CoTeaching(rate=0.2, ramp=5)
    """

    name = "co-teaching"
    networks = 2

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        first, second = (keep_smallest(self.task.losses(output, batch.y), self.drop_rate) for output in outputs)
        return [second, first]
