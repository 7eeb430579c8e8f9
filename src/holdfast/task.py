"""Tasks: outputs of a network against labels, so that a method need not ask "classification or regression?"."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import HoldfastError


class Seen(NamedTuple):
    """What outputs say of their rows, against given labels."""

    expected: Tensor
    """(B, q)."""
    prediction: Tensor
    """(B,) classes, or (B, q) values."""
    loss: Tensor
    """(B,)."""
    margin: Tensor
    """(B,)."""
    gradient: Tensor
    """(B,) the length of the gradient of each loss at the output."""


class Task(ABC):
    """Outputs of a network against labels.

    Shapes throughout: output (B, q); y (B,) classes or (B, q) targets, soft (B, C) after mixing.
    """

    outputs: int
    metric: ClassVar[str]
    wanted: ClassVar[str] = "takes any labels"
    """What a method that requires this task says of other rows."""

    @abstractmethod
    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        """(B,) the loss of each example."""

    @abstractmethod
    def expected(self, output: Tensor) -> Tensor:
        """(B, q) the label that the network expects: probabilities, or values."""

    def gradients(self, output: Tensor, y: Tensor) -> Tensor:
        """(B, q) the gradient of each loss at the output, in closed form: expected less given label."""
        return self.expected(output) - self.encode(y)

    @abstractmethod
    def encode(self, y: Tensor) -> Tensor:
        """(B, q) labels in the space in which they can be mixed."""

    @abstractmethod
    def predict(self, output: Tensor) -> Tensor:
        """(B,) classes, or (B, q) values."""

    @abstractmethod
    def margins(self, output: Tensor, y: Tensor) -> Tensor:
        """(B,) how far the output leans towards the label, negative where it leans away."""

    @torch.no_grad()
    def seen(self, output: Tensor, y: Tensor) -> Seen:
        """All of it at once, for rows and their given labels."""
        return Seen(
            self.expected(output), self.predict(output), self.losses(output, y), self.margins(output, y),
            self.gradients(output, y).norm(dim=1),
        )  # fmt: skip

    @abstractmethod
    def score(self, predicted: Tensor, y: Tensor) -> float:
        """How well predictions meet labels, one number for all rows: larger is better, 1 at best."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.outputs})"


class Classification(Task):
    """Cross entropy on logits; accuracy.

    The gradient is ``softmax(z) - y``, the margin the logit of the label less the largest other one.

    >>> Classification(3).predict(torch.tensor([[2.0, 0.5, -1.0]]))
    tensor([0])
    """

    metric = "accuracy"
    wanted = "needs classes, and these labels are numbers to predict; use PRLL, PRLG or CoPRLL for regression"

    def __init__(self, classes: int) -> None:
        self.outputs = classes

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(output, y, reduction="none")

    def expected(self, output: Tensor) -> Tensor:
        return output.softmax(1)

    def encode(self, y: Tensor) -> Tensor:
        return y if y.is_floating_point() else F.one_hot(y, self.outputs).float()

    def predict(self, output: Tensor) -> Tensor:
        return output.argmax(1)

    def margins(self, output: Tensor, y: Tensor) -> Tensor:
        label = (y.argmax(1) if y.is_floating_point() else y)[:, None]
        others = output.scatter(1, label, -torch.inf)
        return output.gather(1, label)[:, 0] - others.amax(1)

    @torch.no_grad()
    def seen(self, output: Tensor, y: Tensor) -> Seen:
        # A column for each row: torch works along rows of ten numbers one by one, and across columns on many at once.
        columns, label = output.t().contiguous(), y[None]
        logs = columns.log_softmax(0)
        expected = logs.exp()
        margin = columns.gather(0, label)[0] - columns.scatter(0, label, -torch.inf).amax(0)
        residual = expected.scatter_add(0, label, -torch.ones_like(expected[:1]))
        gradient = residual.square().sum(0).sqrt()
        prediction = columns.max(0).indices  # in half of the time of argmax, and the first of equal ones as well
        return Seen(expected.t().contiguous(), prediction, -logs.gather(0, label)[0], margin, gradient)

    def score(self, predicted: Tensor, y: Tensor) -> float:
        return float((predicted == y).double().mean())

    def top(self, output: Tensor, y: Tensor, k: int = 5) -> float:
        """The share of rows whose label is among the k largest outputs; of equal ones the first counts as larger."""
        if not 1 <= k <= self.outputs:
            raise HoldfastError(f"a top-k accuracy of {self.outputs} classes needs k from 1 to {self.outputs}, not {k}")
        best = output.argsort(dim=1, descending=True, stable=True)[:, :k]
        return float((best == y[:, None]).any(1).double().mean())


class Regression(Task):
    """Squared error, averaged over the targets; R2, averaged uniformly over them.

    The gradient is the residual (the factor 2/q only rescales it), the margin minus its norm.
    """

    metric = "r2"
    wanted = "needs numbers to predict, and these labels are classes"

    def __init__(self, targets: int) -> None:
        self.outputs = targets

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        return (output - y).square().mean(1)

    def expected(self, output: Tensor) -> Tensor:
        return output

    def encode(self, y: Tensor) -> Tensor:
        return y

    def predict(self, output: Tensor) -> Tensor:
        return output

    def margins(self, output: Tensor, y: Tensor) -> Tensor:
        distance: Tensor = (output - y).norm(dim=1)
        return -distance

    def score(self, predicted: Tensor, y: Tensor) -> float:
        predicted, y = predicted.double(), y.double()
        residual = (y - predicted).square().sum(0)
        total = (y - y.mean(0)).square().sum(0)
        # A constant target has nothing to explain: 1 where it is met exactly, else 0, as scikit-learn has it.
        flat = (residual == 0).double()
        return float(torch.where(total > 0, 1 - residual / total.clamp_min(1e-300), flat).mean())


class Representation(Regression):
    """A regression of no targets: outputs are embeddings, and there are no labels to hold them against.

    >>> Representation().outputs
    128
    """

    metric = "none"
    wanted = "learns without labels; use holdfast.contrastive.pretrain, or pass rows.without_labels()"

    def __init__(self, outputs: int = 128) -> None:
        super().__init__(outputs)

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        raise HoldfastError("these rows have no labels to learn from; pre-train on them (holdfast.contrastive)")

    def score(self, predicted: Tensor, y: Tensor) -> float:
        return math.nan


def task_of(y: Tensor, classes: int | None) -> Task:
    """The task that labels call for: classes, (N, q) float targets, or none where these have no width."""
    if classes is None and y.shape[1] == 0:
        return Representation()
    return Regression(y.shape[1]) if classes is None else Classification(classes)
