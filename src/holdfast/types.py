"""The records that pass between the feed, the methods and the training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.kept import Probabilities

Nets = Sequence[nn.Module]


class Plan(NamedTuple):
    """What one epoch trains on: M rows, in any order (the feed shuffles them)."""

    index: Tensor  # type: ignore[assignment]
    """(M,) rows; a row may come more than once."""
    weight: Tensor | None = None
    """(M,) weight of each in the loss; None: one."""
    partner: Tensor | None = None
    """(M,) rows to mix in."""
    share: Tensor | None = None
    """(M,) share of the partner in the mix, of inputs and labels alike."""
    target: Probabilities | None = None
    """(N, q) what each row of the data is trained towards; None: the given labels."""
    output: Tensor | None = None
    """(N, q) outputs for all rows, where planning computed them: evidence for the ledger."""

    def without(self, rows: Tensor) -> Plan:
        """The plan less some rows, (N,) marks; a row whose partner is one of them is mixed with itself."""
        index = self.index.to(rows.device)
        kept = ~rows[index]
        left = {
            name: values[kept.to(values.device)]
            for name, values in (("weight", self.weight), ("share", self.share))
            if values is not None
        }
        if self.partner is not None:
            partner = self.partner.to(rows.device)[kept]
            left["partner"] = torch.where(rows[partner], index[kept], partner)
        return self._replace(index=index[kept], **left)


def _refused(*_: Any) -> Any:
    raise HoldfastError(
        "this method mixes or joins the inputs of examples, and these are several tensors a row; choose a method "
        "that takes inputs as they are, or let the dataset yield one tensor of floats"
    )


class Fields(dict[Any, Any]):
    """Several inputs of a batch by their names, of which rows can be taken as of one tensor: ``x[rows]``.

    No function of torch takes them: what mixes or joins inputs needs one tensor a row.

    >>> Fields(ids=torch.tensor([[1], [2]]), mask=torch.tensor([[1], [0]]))[torch.tensor([1])]
    {'ids': tensor([[2]]), 'mask': tensor([[0]])}
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (Tensor, slice)):
            return Fields({name: part[key] for name, part in self.items()})
        return super().__getitem__(key)

    def to(self, device: torch.device | str) -> Fields:
        return Fields({name: part.to(device) for name, part in self.items()})

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        return _refused()

    __add__ = __mul__ = __radd__ = __rmul__ = _refused


class Batch(NamedTuple):
    """What the feed hands to a method."""

    x: Any
    """(B, ...), ``Fields`` where a network takes several inputs, or a tuple of views."""
    y: Tensor
    """(B,) classes or (B, q) targets; soft (B, C) after mixing or with planned targets."""
    index: Tensor  # type: ignore[assignment]
    """(B,) rows."""
    weight: Tensor
    """(B,) from the plan."""


class Step(NamedTuple):
    """What the method made of one batch."""

    loss: Tensor
    """(), summed over the networks."""
    weight: Tensor | None = None
    """(B,) trust put in each example."""
    output: Tensor | None = None
    """(B, q), detached."""


class Stage(NamedTuple):
    """A part of training that starts anew: the optimizer forgets, and the schedule begins again."""

    start: int
    """Its first epoch."""
    rate: float = 1.0
    """Factor on the learning rate."""


class Epoch(NamedTuple):
    """What is known at the end of an epoch."""

    number: int
    """From zero."""
    epochs: int
    """How many there are to be."""
    distance: float
    """How far the weights of the first network are from where they began, in lengths of where they began."""
    agreement: float
    """How well it fits the given labels: the score of its latest output for each row."""
    time: float
    """The learning rates of all steps so far, summed: the clock of gradient flow."""


UNFINISHED = 0.1
"""The part of their knowledge that networks learn in the second half of their epochs, had they to end too early."""


class Evidence(NamedTuple):
    """What other networks say of each row."""

    held_out: Probabilities
    """(N, q) what networks that have never seen the label of a row expect of it."""
    joined: Probabilities
    """(N, q) that, joined with what networks expected while they learnt the label: evidence about the true one."""
    test: Probabilities | None = None
    """(M, q) evidence about the true labels of test rows, where these are to be judged too."""
    trees: nn.Module | None = None
    """Boosted trees, where held-out labels are predicted better with them (``nets.trees.FoldTrees``)."""
    unfinished: Tensor | None = None
    """The part of what the networks had learnt in the end that they learnt in the second half of their epochs."""

    @property
    def finished(self) -> bool:
        """Whether these networks knew about all that they could; else the one that trains on soon knows better."""
        return self.unfinished is None or float(self.unfinished) < UNFINISHED


class Verdict(NamedTuple):
    """What a stop rule makes of an epoch."""

    best: bool
    """Whether it is the best so far: the weights of the last such epoch are what the run returns."""
    stop: str = ""
    """Why to stop here, as a sentence; empty: go on."""
    measured: Mapping[str, float] | None = None
    """Numbers for the history."""
