"""Evidence: what networks that have never seen the label of a row expect of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import Dataset

from holdfast.errors import Diverged, HoldfastError
from holdfast.feed import Feed, inputs_of, outputs_on
from holdfast.functional.boosting import BOOSTING, USUAL
from holdfast.functional.few import Summed, few
from holdfast.functional.held_out import LEAST, Array, held_out_loss, stratified_folds
from holdfast.functional.label_trust import mean_of
from holdfast.functional.neighbours import neighbour_votes
from holdfast.functional.ordered import columns_seen
from holdfast.functional.posterior import noise_removal
from holdfast.functional.trees import opinions_of, trees_of_folds
from holdfast.kept import Kept, Probabilities, largest, of_labels, rounded, together, written_out
from holdfast.method import Method
from holdfast.methods.huber import Huber
from holdfast.nets.trees import ClassTrees, FoldTrees, NumberTrees, as_tensors
from holdfast.noise_model import noise_model
from holdfast.progress import Progress
from holdfast.task import Classification, Task
from holdfast.types import Evidence, Plan

FOLDS = 4
"""Networks, each trained on all folds of the rows but one."""
PATIENCE = 2
"""Epochs in a row in each of which the held-out loss has grown, after which all of them stop."""
WIDE = 256
"""Columns times trees a round up to which boosted trees are asked too: they cost a fraction of a training then."""
LOOK = 1000
"""Rows that tell how many columns trees would see."""
FEW = 40
"""Rows below which they are not: a leaf has at least 20."""
SHARES = np.linspace(0, 1, 21)
"""Shares of the trees in predictions, from none to all, among which held-out labels choose."""
BEND = 0.1
"""Where Huber's loss of numbers turns from squared to absolute, in widths of the middle half of the targets: nearly the
absolute error, whose best prediction is a median. Further out, wrong targets pull predictions towards themselves."""
HALVED = 5
"""Epochs below which halves of them tell nothing: all that is learnt is learnt late."""
TOLD = 0.01
"""The part of the doubt about labels that inputs must take away from networks, else judging by them is guesswork."""
ROOM = 1 << 22
"""Numbers that a network is asked for at once."""
NEAR = 1.02
"""Epochs whose held-out loss is at most so many times the least one count towards the evidence."""


def most_epochs(epochs: int, trees: bool = False) -> int:
    """Epochs of the folds beside a training of so many: about 1.3 times its cost, of which trees take their part."""
    return math.ceil((1.0 if trees else 1.3) * epochs / (FOLDS - 1))


def asks_trees(feed: Feed, library: str | None = None) -> bool:
    """Whether boosted trees are asked about these rows: of a library that is named, or because they cost little."""
    if len(feed) < FEW or not _has_features(feed):
        return False
    if library is not None:
        return True
    outputs = feed.task.outputs
    each_round = 1 if outputs == 2 and isinstance(feed.task, Classification) else outputs
    some = torch.cat([x for _, x in feed.chunks(torch.arange(min(LOOK, len(feed))))])
    return columns_seen(some.cpu().float()) * each_round <= WIDE


def cross_fit(
    feed: Feed,
    nets: Sequence[nn.Module],
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
    epochs: int,
    progress: Progress,
    test: Tensor | Dataset[Any] | None = None,
    trees: str | None = None,
) -> Evidence:
    """Ask networks trained on other rows alone what they expect of each row: probabilities, or values.

    The folds train side by side, an epoch each by turns, and stop when the *given* labels of held-out rows become less
    likely, and less so than those of rows that are trained on: a network that memorises labels memorises those of its
    own rows and loses on these. So neither a clean label nor the noise rate is needed to stop in time. Outputs of the
    epochs nearest to the best are averaged, and so are, up to the best, those that networks made in training of the
    rows that they do see. Where inputs are features, there is a third source: boosted trees, if they predict held-out
    labels better than networks do, as they often do for tables, else the labels of each row's neighbours. Trees are
    heard for numbers too, where both together predict better than networks alone.

    Parameters
    ----------
    feed: all rows; the order of batches is drawn from its generator.
    nets: a fresh network for each fold.
    optimizer: makes the optimizer of a network from its parameters.
    epochs: of each fold at most; see ``most_epochs``.
    test: inputs (M, ...) of rows that no network trains on: all of them are asked, after the same epochs, and averaged.
    trees: whose boosted trees are asked (``holdfast.functional.boosting``); None: scikit-learn's, where they cost a
        fraction of a training.

    Shapes
    ------
    Outputs of the held-out rows of each fold -> evidence (N, q), and (M, q) about test rows.
    """
    task, model = feed.task, noise_model(feed.task)
    if trees is not None and not _has_features(feed):
        raise HoldfastError(f"boosted trees ({trees}) learn from features in memory, which these rows are not")
    fold = stratified_folds(feed.y.cpu(), len(nets), feed.generator.initial_seed())
    methods, optimizers, rates = [], [], []
    for net in nets:
        method = Method() if isinstance(task, Classification) else Huber(_bend(feed.y))
        method.begin([net.to(feed.device).train()], feed)
        methods.append(method)
        optimizers.append(optimizer(list(net.parameters())))
        rates.append(CosineAnnealingLR(optimizers[-1], epochs))
    rows = len(feed)
    near: list[_Asked] = []
    total = Summed(feed.y, task.outputs)
    best, course = torch.inf, list[float]()
    for epoch in range(epochs):
        expected = Summed(feed.y, task.outputs)
        losses, fitted = torch.zeros(2, len(feed), device=feed.device)
        for number, (net, method, steps) in enumerate(zip(nets, methods, optimizers, strict=True)):
            for batch in feed.batches(Plan((fold != number).nonzero()[:, 0])):
                step = method.step([net], batch, steps)
                if step.output is not None:
                    output = step.output.float()
                    total.add(batch.index, task.expected(output))
                    fitted[batch.index] = task.losses(output, batch.y)
            rates[number].step()
            for own in (fold == number).nonzero()[:, 0].to(feed.device).split(max(1, ROOM // task.outputs)):
                output = outputs_on(net, feed, own)
                expected.add(own, task.expected(output))
                losses[own] = task.losses(output, feed.y[own])
            progress.at(epoch + (number + 1) / len(nets), epochs)
        loss = model.held_out_loss(losses)
        course.append(loss)
        if loss <= NEAR * best:
            further = None if test is None or not len(test) else rounded(_on_average(nets, feed, test))  # type: ignore[arg-type]
            near.append(_Asked(loss, rounded(expected.mean(1)), further))
            near = [each for each in near if each.loss <= NEAR * min(best, loss)]
        if loss < best:
            best, learning = loss, total.mean((epoch + 1) * (len(nets) - 1))
        # A high learning rate lets it swing too. Who memorises fits the rows that are trained on better than others.
        if _has_grown(course) and not model.held_out_loss(fitted) >= loss:
            break
    if not near:
        raise Diverged(
            "the losses of the networks asked for second opinions are no longer numbers; nothing was kept; "
            "lower the learning rate (--lr)"
        )
    averaged = _mean([each.held_out for each in near], feed.y)
    beyond = [each.further for each in near if each.further is not None]
    others = _mean(beyond) if beyond else None
    features = _features(feed)
    further = None
    if test is not None and others is not None and features is not None:
        further = torch.cat(list(inputs_of(test, feed.device)))
    joining, opinions = None, None
    if features is not None and asks_trees(feed, trees):
        joining, opinions = _better_trees(features, feed.y, fold, averaged, further, trees)
    votes = None
    if joining is not None and opinions is not None:
        share = min(0.5, float(joining.share))
        averaged = _kept(torch.lerp(written_out(averaged), opinions[:rows], share), task, feed.y)
        others = None if others is None else _kept(torch.lerp(written_out(others), opinions[rows:], share), task)
    elif features is not None and isinstance(task, Classification):
        votes = neighbour_votes(features, feed.y, task.outputs)
    joined = model.join(averaged, learning, votes, feed.y, feed.reviewed)
    asked = None if others is None else model.further(others, averaged, feed.y, feed.reviewed)
    unfinished = torch.tensor(_unfinished(course, epochs, feed.y))
    # Rounded as in a file: what is trained by it is the same where the run begins and where it goes on.
    return Evidence(rounded(averaged), rounded(joined), None if asked is None else rounded(asked), joining, unfinished)


def _has_grown(course: Sequence[float]) -> bool:
    """Whether a loss has grown in each of the last epochs; one that is no number has."""
    last = course[-PATIENCE - 1 :]
    return len(last) > PATIENCE and not any(after <= before for before, after in pairwise(last))


class _Asked(NamedTuple):
    """What the folds have said after an epoch."""

    loss: float
    held_out: Probabilities
    further: Probabilities | None
    """Of test rows."""


def _on_average(nets: Sequence[nn.Module], feed: Feed, test: Tensor | Dataset[Any]) -> Probabilities:
    """(M, q) what networks expect of further rows."""
    parts, size = list[Probabilities](), max(1, ROOM // feed.task.outputs)
    for start in range(0, len(test), size):  # type: ignore[arg-type]
        part = slice(start, start + size)
        whole = torch.stack([feed.expected_of(net, test, part) / len(nets) for net in nets]).sum(0)
        parts.append(_kept(whole, feed.task))
    return together(parts)


def _kept(whole: Tensor, task: Task, y: Tensor | None = None) -> Probabilities:
    """(N, q) the classes that matter for each row, or all numbers; without labels the likeliest class is kept."""
    return few(whole, whole.argmax(1) if y is None else y) if isinstance(task, Classification) else whole


def _mean(parts: Sequence[Probabilities], y: Tensor | None = None) -> Probabilities:
    """(N, q) the mean of what was said at some times."""
    if isinstance(parts[0], Kept):
        return mean_of(parts, largest(parts[0]) if y is None else y.cpu())
    return torch.stack([each for each in parts if isinstance(each, Tensor)]).mean(0)


def _unfinished(course: Sequence[float], epochs: int, y: Tensor) -> float:
    """The part of what held-out losses of classes fell by, from what knowing no more than their shares costs, that they
    fell by in the second half of so many epochs; 0 where they had ceased to fall before. Noise, which adds to all of
    these losses, hardly changes it."""
    if y.is_floating_point() or len(course) < epochs or epochs < HALVED:
        return 0.0
    nothing, least = _loss_of_shares(y), min(course)
    return max(0.0, course[(epochs - 1) // 2] - least) / (nothing - least) if least < nothing else 0.0


def _loss_of_shares(y: Tensor) -> float:
    """The mean loss of who knows no more of classes than their shares."""
    shares = torch.bincount(y).double() / len(y)
    return -float(torch.special.xlogy(shares, shares).sum())


def caveats(evidence: Evidence, y: Tensor) -> list[str]:
    """What whoever reads a list of wrong labels should know about the evidence behind it, a sentence each.

    Shape: y (N,) classes or (N, q) targets, as given.
    """
    said = []
    if not evidence.finished:
        said.append(
            "networks trained on other rows were still learning when their epochs ended, so labels are judged by the "
            "training itself; more epochs, or a pre-trained network, may find more"
        )
    numbers, given = y.is_floating_point(), y.cpu().numpy()
    if numbers:
        guess = np.broadcast_to(np.median(given, axis=0), given.shape)
        loss, nothing = (_capped_miss(each, given) for each in (written_out(evidence.held_out).cpu().numpy(), guess))
    else:
        own = of_labels(evidence.held_out.cpu(), y.cpu())
        loss, nothing = -float(own.clamp_min(LEAST).log().mean()), _loss_of_shares(y)
    if loss > (1 - TOLD) * nothing > 0:
        what = "targets" if numbers else "labels"
        said.append(
            f"from these inputs, {what} of rows that a network has not seen are predicted no better than by guessing: "
            f"take what is flagged as guesswork, and see whether columns are missing"
        )
    return said


def _has_features(feed: Feed) -> bool:
    """Whether inputs are features in memory; the pixels of an image say too little."""
    return not feed.is_mapped and next(feed.chunks(torch.arange(min(1, len(feed)))))[1].dim() == 2


def _features(feed: Feed) -> Tensor | None:
    """(N, d) inputs, where they are features in memory: these themselves, if they are one tensor there."""
    if not _has_features(feed):
        return None
    if feed.in_memory is not None:
        return feed.in_memory
    chunks = feed.chunks(torch.arange(len(feed)))
    return torch.cat([x for _, x in chunks])


def _better_trees(
    features: Tensor, y: Tensor, fold: Tensor, networks: Probabilities, further: Tensor | None, library: str | None
) -> tuple[FoldTrees, Tensor] | tuple[None, None]:
    """Boosted trees and what they expect, (N + M, q), if held-out given labels are predicted better with them.

    Their share is the one whose mean of both predicts those labels best. For classes trees must be better alone, else
    neighbours are asked in their place. Trees for numbers, which expect steps, are seldom better alone and often so
    together with a network.
    """
    rows, outputs, numbers = len(y), networks.shape[1], y.is_floating_point()
    trained = trees_of_folds(features, y, fold, outputs, library=BOOSTING[library or USUAL])
    opinions = opinions_of(trained, features, fold, further)
    loss = _capped_miss if numbers else held_out_loss
    given, trees, others = y.cpu().numpy(), opinions[:rows].cpu().numpy(), written_out(networks).cpu().numpy()
    losses = [loss(share * trees + (1 - share) * others, given) for share in SHARES]
    best = int(np.argmin(losses))
    if best == 0 or not (numbers or losses[-1] < losses[0]):
        return None, None
    share, members = torch.tensor(float(SHARES[best])), [as_tensors(each) for each in trained]
    if numbers:
        return NumberTrees(members, share), opinions
    return ClassTrees(members, share, noise_removal(opinions[:rows].cpu())), opinions


def _capped_miss(expected: Array, given: Array) -> float:
    """Mean absolute miss, of which none counts for more than targets usually lie from their median: that of a wrong
    target has no bound."""
    usual = np.median(np.abs(given - np.median(given, axis=0)), axis=0)
    return float(np.minimum(np.abs(expected - given), np.where(usual > 0, usual, np.inf)).mean())


def _bend(y: Tensor) -> float:
    """The limit of Huber's loss that suits targets (N, q)."""
    ordered = y.double().sort(0).values
    width = float((ordered[3 * (len(y) - 1) // 4] - ordered[(len(y) - 1) // 4]).mean())
    return BEND * width if width > 0 else 1.0
