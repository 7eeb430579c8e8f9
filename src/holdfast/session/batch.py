"""The batch that a loop of one's own gets: inputs, labels, and the numbers of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from holdfast.types import Batch, Fields


class SessionBatch(NamedTuple):
    """What ``session.loader(...)`` yields, and ``session.loss(output, batch)`` takes.

    It is made of tensors, dicts and tuples alone, so that frameworks can move it to a device.
    """

    x: Any
    """Inputs as the network takes them: (B, ...), or a dict or tuple of several."""
    y: Tensor
    """(B,) classes or (B, q) targets; soft (B, C) after mixing or with planned targets."""
    index: Tensor  # type: ignore[assignment]
    """(B,) numbers of the rows."""
    weight: Tensor
    """(B,) weight of each in the loss."""
    scale: Tensor | None = None
    """Factor on the loss, where several batches make up one step or rows have weights of their own; None: one."""
    views: tuple[Any, ...] | None = None
    """Further views of the inputs, for methods that ask for more than one."""

    def for_method(self) -> Batch:
        """The same as a method takes it."""
        x = fields_of(self.x)
        if self.views is not None:
            x = (x, *map(fields_of, self.views))
        return Batch(x, self.y, self.index, self.weight)


def fields_of(x: Any) -> Any:
    """Several inputs as ``Fields``, those of a tuple under their positions; one tensor as it is."""
    if isinstance(x, dict):
        return Fields(x)
    return Fields(enumerate(x)) if isinstance(x, (tuple, list)) else x


def given_of(x: Any) -> Any:
    """What ``fields_of`` was made of: a dict, a tuple, or one tensor."""
    if not isinstance(x, Fields):
        return x
    return tuple(x.values()) if 0 in x else dict(x)
