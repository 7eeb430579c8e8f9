"""The ledger: what training saw of each row. One line a row, cheap enough not to show in a profile."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.functional.few import Summed, few
from holdfast.kept import Kept, Probabilities, packed, written_out
from holdfast.noise_model import noise_model
from holdfast.ranks import get_ranks
from holdfast.task import Task
from holdfast.types import Batch, Plan, Step

SUMS = ("trust", "loss", "margin", "gradient")
WAITING, NUMBERS = 8192, 1 << 21
"""Rows, and numbers, that wait at most until they are worked through together."""
STATE = (
    "seen", "trained", "selected", "against", "changed", "expected", "expected_class", "sums", "prediction",
    "probability",
)  # fmt: skip


class _Seen(NamedTuple):
    """What M outputs have said of their rows."""

    index: Tensor  # type: ignore[assignment]
    prediction: Tensor
    values: Tensor
    """(M, 3) losses, margins and gradients."""
    against: Tensor
    expected: Tensor
    """(M, q), or (M, 32) of the classes that are kept."""
    number: Tensor
    """(M, 32) of which class each is; of no rows where all are kept."""


class Ledger:
    """Per-row evidence, gathered from the outputs that training makes anyway.

    Every output that a row gets, in a batch or while planning, counts as seen once; the output of a mixed input counts
    for the row that was planned, not for its partner. Losses, margins and loss-layer gradient norms are
    against the *given* label. Batches wait in a buffer and are worked through many at a time. In a training of
    several processes they wait until the end of the epoch, of many classes those that matter for each row, are
    gathered, and each process has the whole ledger. A row that an epoch trains towards another label than its given one
    has no trust in that epoch. ``weight`` (N,) is what the user gave each row: trust is told without it.

    Attributes
    ----------
    seen: outputs seen of each row.
    against: how many of them were against the given label, as the task has it.
    changed: how often the prediction was another than the one seen before.
    selected: batches in which the given label had a positive weight.
    expected: (N, q) the label that the network expected, summed over what was seen; of more than 32 classes those that
        matter for the row, ``expected_class`` (N, 32), the given one first.
    prediction, probability: of the last output; regression has no probability.
    """

    def __init__(self, y: Tensor, task: Task, *, weight: Tensor | None = None, buffer: int | None = None) -> None:
        n = len(y)
        width = task.outputs if y.dim() == 1 else y.shape[1]
        self._weight = None if weight is None else weight.to(y.device)
        self._y = y
        self._task = task
        self._model = noise_model(task)
        self._buffer = min(WAITING, max(1, NUMBERS // max(1, width))) if buffer is None else buffer
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._looked_at: list[_Seen] = []
        self._rows = 0
        self._ranks = get_ranks()
        self.seen = torch.zeros(n, dtype=torch.int64, device=y.device)
        self.trained = torch.zeros(n, dtype=torch.int64, device=y.device)
        self.selected = torch.zeros(n, dtype=torch.int64, device=y.device)
        self.against = torch.zeros(n, dtype=torch.int64, device=y.device)
        self.changed = torch.zeros(n, dtype=torch.int64, device=y.device)
        self._summed = Summed(y, width)
        self.expected, self.expected_class = self._summed.value, self._summed.number
        self.sums = torch.zeros(n, len(SUMS), dtype=torch.float64, device=y.device)
        shape = (n,) if task.metric == "accuracy" else (n, width)
        kind = torch.int64 if task.metric == "accuracy" else torch.float32
        self.prediction = torch.zeros(shape, dtype=kind, device=y.device)
        self.probability = torch.full((n,), torch.nan, device=y.device)
        self._places = torch.zeros(n, dtype=torch.int32, device=y.device)
        self._trust: list[tuple[Tensor, Tensor]] = []
        self._kept: Tensor | None = None

    def plan(self, plan: Plan | None) -> None:
        """Take in what planning computed for all rows, and which of them keep their given label."""
        self._kept = None
        if plan is not None and plan.target is not None:
            self._kept = self._model.agrees(plan.target, self._y)
        if plan is not None and plan.output is not None:
            self._take(torch.arange(len(self._y), device=self._y.device), plan.output)

    def record(self, batch: Batch, step: Step) -> None:
        """Take in one batch; most of the work waits."""
        trust = batch.weight if step.weight is None else step.weight.detach()
        if self._weight is not None:  # how much a row counts is no word on its label
            own = self._weight[batch.index]
            trust = torch.where(own > 0, trust / own.clamp_min(1e-30), 0.0)
        self._trust.append((batch.index, trust if self._kept is None else trust * self._kept[batch.index]))
        if step.output is not None:
            self._waiting.append((batch.index, step.output.detach()))
        self._rows += len(batch.index)
        # Parts of a batch differ in size, so processes would come to this at different steps and wait for each other.
        if self._rows >= self._buffer and self._ranks.count == 1:
            self.flush()
        elif self._rows >= self._buffer and len(self.expected_class):
            self._condense()

    def flush(self) -> None:
        """Work through what waits."""
        gather = self._ranks.gather
        if self._trust:
            index = gather(torch.cat([rows for rows, _ in self._trust]))
            trust = gather(torch.cat([weight for _, weight in self._trust]).double())
            self.trained.index_add_(0, index, torch.ones_like(index))
            self.selected.index_add_(0, index, (trust > 0).long())
            self.sums[:, 0].index_add_(0, index, trust)
        if self._ranks.count > 1 and len(self.expected_class):
            self._condense()
            if self._looked_at:
                self._enter(_Seen(*(gather(torch.cat(parts)) for parts in zip(*self._looked_at, strict=True))))
        elif self._waiting:
            index = gather(torch.cat([rows for rows, _ in self._waiting]))
            self._take(index, gather(torch.cat([output for _, output in self._waiting]).float()))
        self._trust, self._waiting, self._looked_at, self._rows = [], [], [], 0

    def _take(self, index: Tensor, output: Tensor) -> None:
        self._enter(self._look(index, output))

    def _condense(self) -> None:
        """Keep of what waits the classes that matter for each row: of many, all would take the memory of a machine."""
        if self._waiting:
            index = torch.cat([rows for rows, _ in self._waiting])
            seen = self._look(index, torch.cat([output for _, output in self._waiting]))
            kept = few(seen.expected, self._y[index])
            assert isinstance(kept, Kept)
            self._looked_at.append(seen._replace(
                expected=kept.value.to(index.device), number=kept.number.int().to(index.device)
            ))  # fmt: skip
        self._waiting, self._rows = [], 0

    @torch.no_grad()
    def _look(self, index: Tensor, output: Tensor) -> _Seen:
        """What outputs say of their rows."""
        y = self._y[index]
        seen = self._task.seen(output.float(), y)
        values = torch.stack([seen.loss, seen.margin, seen.gradient], dim=1)
        against = seen.prediction != y if seen.prediction.dim() == 1 else ~self._model.agrees(seen.expected, y)
        return _Seen(index, seen.prediction, values, against.long(), seen.expected, index[:0])

    def _enter(self, seen: _Seen) -> None:
        """Add what outputs have said."""
        index, expected = seen.index, seen.expected
        classes = seen.prediction.dim() == 1
        if classes:
            self._count_changes(index, seen.prediction)
        self.seen.index_add_(0, index, torch.ones_like(index))
        self.sums[:, 1:].index_add_(0, index, seen.values.double())
        self.against.index_add_(0, index, seen.against)
        self._summed.add(index, Kept(expected, seen.number, self._task.outputs) if len(seen.number) else expected)
        self.prediction[index] = seen.prediction
        if classes:
            self.probability[index] = expected.amax(1)

    def _count_changes(self, index: Tensor, prediction: Tensor) -> None:
        """Compare each prediction with the one before it, which may wait in the same buffer."""
        if self._come_once(index):  # as all do that an epoch trains on once: nothing to sort
            known = self.seen[index] > 0
            self.changed.index_add_(0, index, ((prediction != self.prediction[index]) & known).long())
            return
        order = index.argsort(stable=True)
        rows, now = index[order], prediction[order]
        first = torch.ones_like(rows, dtype=torch.bool)
        first[1:] = rows[1:] != rows[:-1]
        before = torch.where(first, self.prediction[rows], now.roll(1))
        known = ~first | (self.seen[rows] > 0)
        self.changed.index_add_(0, rows, ((now != before) & known).long())

    def _come_once(self, index: Tensor) -> bool:
        """Whether no row comes twice: each finds its own number again."""
        numbers = torch.arange(len(index), dtype=self._places.dtype, device=index.device)
        self._places[index] = numbers
        return torch.equal(self._places[index], numbers)

    def agreement(self) -> float:
        """How well the last predictions meet the given labels, over the rows that were seen."""
        self.flush()
        seen = self.seen > 0
        return self._task.score(self.prediction[seen], self._y[seen])

    def learning(self, otherwise: Probabilities) -> Probabilities:
        """(N, q) what outputs have expected of each row so far, on average, and ``otherwise`` (N, q) of others."""
        self.flush()
        seen = self.seen[:, None]
        mean = self._summed.mean(seen.clamp_min(1).float())
        if isinstance(mean, Kept):
            other = few(otherwise, self._y).to(mean.device)
            assert isinstance(other, Kept)
            known = seen.to(mean.device) > 0
            number = torch.where(known, mean.number, other.number.to(mean.number))
            return Kept(torch.where(known, mean.value, other.value.to(mean.value)), number, mean.classes)
        return torch.where(seen > 0, mean, written_out(otherwise).to(mean))

    def arrays(self) -> dict[str, Tensor]:
        """What a run keeps: counts, means over what was seen, and the last prediction."""
        self.flush()
        seen = self.seen.clamp_min(1).double()
        means = {name: self.sums[:, k] / seen for k, name in enumerate(SUMS) if k}
        means["trust"] = self.sums[:, 0] / self.trained.clamp_min(1)
        return {
            "seen": self.seen,
            "trained": self.trained,
            "selected": self.selected,
            "against": self.against,
            "changed": self.changed,
            **packed({"expected": self._summed.mean(seen.float()[:, None])}),
            "given": self._y,
            **{name: value.float() for name, value in means.items()},
            "prediction": self.prediction,
            "probability": self.probability,
        }

    def state_dict(self) -> dict[str, Tensor]:
        self.flush()
        return {name: getattr(self, name) for name in STATE}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            getattr(self, name).copy_(value)
