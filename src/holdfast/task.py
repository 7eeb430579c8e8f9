"""Tasks: what a method may ask about outputs and labels, so that none asks "classification or regression?"."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.corruption import UNSETTLED, wrong_labels, wrong_targets
from holdfast.functional.posterior import anchor_rows, clean_posterior, flip_matrix, label_posterior, rivals


class Task(ABC):
    """Outputs of a network against labels.

    Shapes throughout: output (B, q); y (B,) classes or (B, q) targets, soft (B, C) after mixing.
    """

    outputs: int
    metric: str

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
    def agrees(self, expected: Tensor, y: Tensor) -> Tensor:
        """(B,) whether the given label is the one that the network would give."""

    @abstractmethod
    def clean(self, expected: Tensor) -> Tensor:
        """(B, q) the true label as the network has it, freed of the noise that its outputs have taken over."""

    @abstractmethod
    def flips(self, expected: Tensor, y: Tensor) -> Tensor:
        """How labels go wrong, as ``posterior`` needs it."""

    @abstractmethod
    def right(self, clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        """(B,) the probability that the given label is right."""

    @abstractmethod
    def settled(self, before: Tensor, now: Tensor) -> float:
        """How far the network has made up its mind, from what it expected before and expects now: at most 1."""

    @abstractmethod
    def posterior(self, clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        """(B, q) the true label as expectation and given label together have it."""

    @abstractmethod
    def doubt(self, expected: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        """(B, 1) how plausible the best rival of each label is: 0 for none, 1 for one that is given it as often."""

    @abstractmethod
    def bounded_losses(self, output: Tensor, y: Tensor, limit: float | None) -> Tensor:
        """(B,) losses that large errors pull at no harder than ``limit`` allows; None: the task's usual limit."""

    @abstractmethod
    def wrong(self, expected: Tensor, y: Tensor, settled: float = 1.0) -> tuple[float, float, float]:
        """The share of wrong labels by the expectations of a network that has settled so far: estimate, low, high."""

    @abstractmethod
    def still_learning(self, before: float, now: float, settled: float) -> bool:
        """Whether a new estimate of wrong labels is better than the last, by the upper bounds of both."""

    @abstractmethod
    def encode(self, y: Tensor) -> Tensor:
        """(B, q) labels in the space in which they can be mixed."""

    @abstractmethod
    def predict(self, output: Tensor) -> Tensor:
        """(B,) classes, or (B, q) values."""

    @abstractmethod
    def confidence(self, output: Tensor) -> Tensor:
        """(B,) the probability of the prediction; NaN where the task has none."""

    @abstractmethod
    def margins(self, output: Tensor, y: Tensor) -> Tensor:
        """(B,) how far the output leans towards the label, negative where it leans away."""

    @abstractmethod
    def agreement(self, predicted: Tensor, y: Tensor) -> float:
        """How well predictions meet labels, one number for all rows: larger is better, 1 at best."""

    def score(self, output: Tensor, y: Tensor) -> float:
        """The same of outputs."""
        return self.agreement(self.predict(output), y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.outputs})"


class Classification(Task):
    """Cross entropy on logits; accuracy.

    The gradient is ``softmax(z) - y``, the margin the logit of the label less the largest other one.

    >>> Classification(3).predict(torch.tensor([[2.0, 0.5, -1.0]]))
    tensor([0])
    """

    metric = "accuracy"

    def __init__(self, classes: int) -> None:
        self.outputs = classes

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(output, y, reduction="none")

    def expected(self, output: Tensor) -> Tensor:
        return output.softmax(1)

    def agrees(self, expected: Tensor, y: Tensor) -> Tensor:
        return expected.argmax(1) == y

    def clean(self, expected: Tensor) -> Tensor:
        return clean_posterior(expected)

    def flips(self, expected: Tensor, y: Tensor) -> Tensor:
        return flip_matrix(expected, y)

    def right(self, clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        return label_posterior(clean, y, flips).gather(1, y[:, None])[:, 0]

    def settled(self, before: Tensor, now: Tensor) -> float:
        """The share of predictions that stayed."""
        return float((before.argmax(1) == now.argmax(1)).double().mean())

    def posterior(self, clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        return label_posterior(clean, y, flips)

    def doubt(self, expected: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        anchors = torch.tensor([len(rows) for rows in anchor_rows(expected)], device=flips.device)
        return rivals(flips, anchors)[y, None]

    def bounded_losses(self, output: Tensor, y: Tensor, limit: float | None) -> Tensor:
        """Partially Huberised cross entropy: linear in ``p_y`` where that is at most 1 / limit."""
        limit = 10.0 if limit is None else limit
        if limit <= 1:
            raise HoldfastError(f"the limit of a Huberised cross entropy must be above 1, not {limit:g}")
        losses = self.losses(output, y)
        if math.isinf(limit):
            return losses
        linear = math.log(limit) + 1 - limit * (-losses).exp()
        return torch.where(losses < math.log(limit), losses, linear)

    def wrong(self, expected: Tensor, y: Tensor, settled: float = 1.0) -> tuple[float, float, float]:
        return wrong_labels(expected, y, settled)

    def still_learning(self, before: float, now: float, settled: float) -> bool:
        """While the share of labels it disagrees with falls fast, or most of its predictions change, a network learns
        what is common to many labels and not yet single wrong ones by heart."""
        return before - now >= 0.025 or settled < UNSETTLED

    def encode(self, y: Tensor) -> Tensor:
        return y if y.is_floating_point() else F.one_hot(y, self.outputs).float()

    def predict(self, output: Tensor) -> Tensor:
        return output.argmax(1)

    def confidence(self, output: Tensor) -> Tensor:
        return output.softmax(1).amax(1)

    def margins(self, output: Tensor, y: Tensor) -> Tensor:
        label = (y.argmax(1) if y.is_floating_point() else y)[:, None]
        others = output.scatter(1, label, -torch.inf)
        return output.gather(1, label)[:, 0] - others.amax(1)

    def agreement(self, predicted: Tensor, y: Tensor) -> float:
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

    def __init__(self, targets: int) -> None:
        self.outputs = targets

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        return (output - y).square().mean(1)

    def expected(self, output: Tensor) -> Tensor:
        return output

    def agrees(self, expected: Tensor, y: Tensor) -> Tensor:
        """Within three robust standard deviations, taken from the median residual norm."""
        size = (expected - y).norm(dim=1)
        usual: Tensor = size <= 3 * 1.4826 * size.median()
        return usual

    def clean(self, expected: Tensor) -> Tensor:
        return expected

    def flips(self, expected: Tensor, y: Tensor) -> Tensor:
        return torch.eye(self.outputs, device=y.device)

    def right(self, clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        """One where they agree, else zero."""
        return self.agrees(clean, y).float()

    def settled(self, before: Tensor, now: Tensor) -> float:
        """Always: a target that lies far from all others is left out however weak the network still is."""
        return 1.0

    def posterior(self, clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        return clean

    def doubt(self, expected: Tensor, y: Tensor, flips: Tensor) -> Tensor:
        return torch.zeros(len(y), 1, device=y.device)

    def bounded_losses(self, output: Tensor, y: Tensor, limit: float | None) -> Tensor:
        """Huber: half the square up to ``limit``, then linear, averaged over the targets."""
        limit = 1.0 if limit is None else limit
        if math.isinf(limit):
            return self.losses(output, y) / 2
        return F.huber_loss(output, y, reduction="none", delta=limit).mean(1)

    def wrong(self, expected: Tensor, y: Tensor, settled: float = 1.0) -> tuple[float, float, float]:
        return wrong_targets(expected, y)

    def still_learning(self, before: float, now: float, settled: float) -> bool:
        """Always: the better the fit, the farther off the wrong targets lie."""
        return True

    def encode(self, y: Tensor) -> Tensor:
        return y

    def predict(self, output: Tensor) -> Tensor:
        return output

    def confidence(self, output: Tensor) -> Tensor:
        return output.new_full((len(output),), torch.nan)

    def margins(self, output: Tensor, y: Tensor) -> Tensor:
        distance: Tensor = (output - y).norm(dim=1)
        return -distance

    def agreement(self, predicted: Tensor, y: Tensor) -> float:
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

    def __init__(self, outputs: int = 128) -> None:
        super().__init__(outputs)

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        raise HoldfastError("these rows have no labels to learn from; pre-train on them (holdfast.contrastive)")

    def agreement(self, predicted: Tensor, y: Tensor) -> float:
        return math.nan


def require_classes(task: Task, why: str) -> None:
    """Refuse regression where a method has no meaning for it."""
    if not isinstance(task, Classification):
        raise HoldfastError(f"{why}, and these labels are numbers to predict; use PRLL, PRLG or CoPRLL for regression")


def task_of(y: Tensor, classes: int | None) -> Task:
    """The task that labels call for: classes, (N, q) float targets, or none where these have no width."""
    if classes is None and y.shape[1] == 0:
        return Representation()
    return Regression(y.shape[1]) if classes is None else Classification(classes)
