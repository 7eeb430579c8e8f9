"""Labels that are likelier wrong than right, by models that have never seen them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.audit.finding import Finding, nothing
from holdfast.audit.learners import Linear, Network, Own, TargetTrees
from holdfast.audit.subject import Subject
from holdfast.data.native import native_columns
from holdfast.data.scale import unscaled
from holdfast.functional.boosting.base import ITERATIONS
from holdfast.functional.held_out import HeldOut, held_out, held_out_loss, stratified_folds
from holdfast.functional.label_trust import Trust, joined_evidence, label_trust, trust_in
from holdfast.functional.neighbours import neighbour_votes
from holdfast.functional.target_trust import target_trust
from holdfast.functional.trees import tree_opinions
from holdfast.issues.find import FLAGGED
from holdfast.issues.noise import Noise, WrongLabels, noise_of, rate_by_trust
from holdfast.kept import Probabilities, written_out

Array = NDArray[Any]
KIND = "label"
FOLDS = 5
FAR = 4.0
"""Robust standard deviations beyond which a target is replaced before models are asked again."""
TREES = "boosted trees"
WORK = 1e9
"""Rows x columns x trees up to which boosted trees are asked: about a minute."""


class Opinions(NamedTuple):
    """What models that never saw the labels say of them."""

    held_out: dict[str, HeldOut]
    """By the name of the model, the likeliest first."""
    evidence: Probabilities
    """(N, C) probabilities of the true classes, or (N, q) expected targets."""

    @property
    def chosen(self) -> str:
        return next(iter(self.held_out))

    @property
    def sentence(self) -> str:
        """Which model was chosen, and by what."""
        losses = ", ".join(f"{name} {found.loss:.3f}" for name, found in self.held_out.items())
        return f"judged by {self.chosen}, on whose held-out rows the given labels are likeliest (loss: {losses})"


def opinions(subject: Subject, say: Callable[[str], None] = lambda text: None, model: Any = None) -> Opinions:
    """Ask models trained on other folds what they expect of each row, and choose among them by their held-out loss.

    Tables are judged by the one model that predicts held-out labels best; vectors, texts and pictures by all models
    that know enough, and by the labels of near rows. A ``model`` of the user's is one more of them.
    """
    rows = subject.rows
    classes = None if rows.classes is None else len(rows.classes)
    native = None if subject.reading.alone else native_columns(rows)
    found = _ask(subject, native, rows.y, say, model)
    best, *others = (each.expected for each in found.values())
    if classes is None:
        # Wrong targets have pulled at these models too; the second ones are spared the farthest.
        found = _ask(subject, native, _spared(rows.y, best.to(rows.y)), say, model)
        return Opinions(found, next(iter(found.values())).expected.to(rows.y))
    if native is not None:
        return Opinions(found, label_trust(best, rows.y).evidence)
    say("votes of near rows")
    votes = neighbour_votes(subject.kindred, rows.y, classes)
    return Opinions(found, joined_evidence(best, [*others, votes], rows.y))


def _ask(
    subject: Subject, native: tuple[Array, Array] | None, y: Tensor, say: Callable[[str], None], model: Any
) -> dict[str, HeldOut]:
    """What each model expects of the rows that it was not trained on, the one with the least loss first."""
    classes = None if subject.rows.classes is None else len(subject.rows.classes)
    fold = stratified_folds(y, FOLDS)
    found: dict[str, HeldOut] = {}
    if native is not None and _work(native[0], classes) <= WORK:
        say(TREES)
        found[TREES] = _trees(*native, y, classes, fold)
    say(Linear.name)
    found[Linear.name] = held_out(lambda: Linear(classes), subject.features, y, fold, Linear.steps)
    say(Network.name)
    found[Network.name] = held_out(lambda: Network(classes), subject.features, y, fold, Network.steps)
    if model is not None:
        name = type(model).__name__
        say(name)
        found[name] = held_out(
            lambda: Own(model, classes), subject.features if native is None else native[0], y, fold, Own.steps
        )
    return dict(sorted(found.items(), key=lambda item: item[1].loss))


def _spared(y: Tensor, expected: Tensor) -> Tensor:
    """(N, q) targets, those far from what is expected replaced by it."""
    miss = (y - expected).abs()
    return torch.where(miss <= FAR * 1.4826 * miss.median(0).values, y, expected)


def _work(table: Array, classes: int | None) -> float:
    return float(table.size) * ITERATIONS * (classes if classes is not None and classes > 2 else 1)


def _trees(table: Array, categorical: Array, y: Tensor, classes: int | None, fold: Tensor) -> HeldOut:
    if classes is None:
        return held_out(lambda: TargetTrees(categorical), table, y, fold, TargetTrees.steps)
    expected = tree_opinions(torch.from_numpy(table), y, fold, classes, categorical=categorical)
    return HeldOut(expected, held_out_loss(expected.numpy(), y.numpy()), 1)


class Judged(NamedTuple):
    """The finding, and what it rests on."""

    finding: Finding
    opinions: Opinions | None
    noise: Noise | None
    """Noise rate and transition matrix with intervals; of classes alone."""


def judge_labels(subject: Subject, say: Callable[[str], None] = lambda text: None, model: Any = None) -> Judged:
    """Trust, flags and suggestions for all rows."""
    if len(subject) < 2 * FOLDS:
        text = f"{len(subject)} rows are too few to hold some out and judge labels by the others"
        return Judged(nothing(KIND, text), None, None)
    asked = opinions(subject, say, model)
    if subject.rows.classes is None:
        return Judged(_targets(subject, asked), asked, None)
    trust = trust_in(asked.evidence, subject.rows.y)
    noise = noise_of(trust, subject.rows.y, subject.rows.classes)
    return Judged(_classes(subject, asked, trust, noise), asked, noise)


def _classes(subject: Subject, asked: Opinions, trust: Trust, noise: Noise) -> Finding:
    rows, names = subject.rows, np.asarray(subject.rows.classes, dtype=object)
    y = rows.y
    right = trust.right(y).clamp(0, 1).numpy()
    flag = right < FLAGGED
    rival = trust.rival(y).numpy()
    suggested = names[np.where(flag, rival, y.numpy())]
    why = [
        f"models that never saw the label expect {name}" if bad else ""
        for name, bad in zip(suggested, flag, strict=True)
    ]
    sentence = _sentence(WrongLabels(*noise.rate, int(flag.sum()), len(flag)), asked, subject)
    return Finding(KIND, np.arange(len(y)), 1 - right, flag, why, sentence, suggested=list(suggested))


def _targets(subject: Subject, asked: Opinions) -> Finding:
    rows = subject.rows
    trust = target_trust(written_out(asked.evidence), rows.y)
    right = trust.right.clamp(0, 1).numpy()
    flag = right < FLAGGED
    expected = _shown(torch.where(torch.from_numpy(flag)[:, None], written_out(asked.evidence), rows.y), rows.recipe)
    why = [
        f"models that never saw the number expect {text}" if bad else ""
        for text, bad in zip(expected, flag, strict=True)
    ]
    sentence = _sentence(WrongLabels(*rate_by_trust(right), int(flag.sum()), len(flag)), asked, subject)
    return Finding(KIND, np.arange(len(right)), 1 - right, flag, why, sentence, suggested=expected)


def _sentence(wrong: WrongLabels, asked: Opinions, subject: Subject) -> str:
    parts = (wrong.estimate, wrong.difference, asked.sentence, subject.reading.sentence)
    return "; ".join(part for part in parts if part)


def _shown(values: Tensor, recipe: Any) -> list[str]:
    return [", ".join(f"{v:.5g}" for v in line) for line in unscaled(values, recipe).tolist()]
