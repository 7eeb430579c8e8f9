"""SPL: train on the examples of small loss."""

from __future__ import annotations

from torch import Tensor

from holdfast.functional.reduce import keep_smallest
from holdfast.methods.sample_selection import SampleSelection
from holdfast.types import Batch


class SPL(SampleSelection):
    """Self-paced learning: in each batch keep the examples of smallest loss.

    ``v_i = 1`` for the ``k = max(1, floor((1 - R) B))`` smallest ``l_i``, else 0; the loss is their mean. The share R
    that is dropped grows from 0 to ``rate`` over the first epochs.

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``.

    Shapes
    ------
    Losses (B,) -> weights (B,) of zeros and ones.

    Differs from the paper: Kumar et al. threshold the loss by a value that grows over rounds; this is the form by
    which later work compares, a share of each batch.

    Reference: Kumar, Packer and Koller, "Self-WithProgress Learning for Latent Variable Models", NeurIPS 2010.

    >>> SPL(0.4)
    SPL(rate=0.4)
    """

    name = "spl"

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        return [keep_smallest(self.task.losses(output, batch.y), self.drop_rate) for output in outputs]
