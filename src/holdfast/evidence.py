"""Evidence: what networks that have never seen the label of a row expect of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import Dataset

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, inputs_of, outputs_on
from holdfast.functional.boosting import BOOSTING, USUAL
from holdfast.functional.held_out import LEAST, Array, held_out_loss, stratified_folds
from holdfast.functional.neighbours import neighbour_votes
from holdfast.functional.posterior import noise_removal
from holdfast.functional.trees import opinions_of, trees_of_folds
from holdfast.kept import of_labels, written_out
from holdfast.method import Method
from holdfast.methods.huber import Huber
from holdfast.nets.trees import ClassTrees, FoldTrees, NumberTrees, as_tensors
from holdfast.noise_model import noise_model
from holdfast.progress import Progress
from holdfast.task import Classification
from holdfast.types import Evidence, Plan

FOLDS = 4
"""Networks, each trained on all folds of the rows but one."""
PATIENCE = 2
"""Epochs without a better held-out loss after which all of them stop."""
WIDE = 256
"""Features times trees a round up to which boosted trees are asked too: they cost a fraction of a training then."""
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
NEAR = 1.02
"""Epochs whose held-out loss is at most so many times the least one count towards the evidence."""


def most_epochs(epochs: int) -> int:
    """Epochs of the folds beside a training of so many: about 1.3 times its cost."""
    return math.ceil(1.3 * epochs / (FOLDS - 1))


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

    The folds train side by side, an epoch each by turns, and stop when the *given* labels of held-out rows no longer
    become likelier: a network that memorises labels memorises those of its own rows and loses on these. So neither a
    clean label nor the noise rate is needed to stop in time. Outputs of the epochs nearest to the best are averaged,
    and so are, up to the best, those that networks made in training of the rows that they do see. Where inputs are
    features, there is a third source: boosted trees, if they predict held-out labels better than networks do, as they
    often do for tables, else the labels of each row's neighbours. Trees are heard for numbers too, where both together
    predict better than networks alone.

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
    if trees is not None and (feed.is_mapped or next(feed.chunks(torch.arange(1)))[1].dim() != 2):
        raise HoldfastError(f"boosted trees ({trees}) learn from features in memory, which these rows are not")
    fold = stratified_folds(feed.y.cpu(), len(nets), feed.generator.initial_seed())
    methods, optimizers, rates = [], [], []
    for net in nets:
        method = Method() if isinstance(task, Classification) else Huber(_bend(feed.y))
        method.begin([net.to(feed.device).train()], feed)
        methods.append(method)
        optimizers.append(optimizer(list(net.parameters())))
        rates.append(CosineAnnealingLR(optimizers[-1], epochs))
    rows, further = len(feed), 0 if test is None else len(test)  # type: ignore[arg-type]
    near: list[tuple[float, Tensor]] = []
    total = torch.zeros(len(feed), task.outputs, device=feed.device)
    best, since, course = torch.inf, 0, list[float]()
    for epoch in range(epochs):
        expected = torch.zeros(rows + further, task.outputs, device=feed.device)
        losses = torch.zeros(len(feed), device=feed.device)
        for number, (net, method, steps) in enumerate(zip(nets, methods, optimizers, strict=True)):
            for batch in feed.batches(Plan((fold != number).nonzero()[:, 0])):
                step = method.step([net], batch, steps)
                if step.output is not None:
                    total.index_add_(0, batch.index, task.expected(step.output.float()))
            rates[number].step()
            own = (fold == number).nonzero()[:, 0].to(feed.device)
            output = outputs_on(net, feed, own)
            expected[own], losses[own] = task.expected(output), task.losses(output, feed.y[own])
            progress.at(epoch + (number + 1) / len(nets), epochs)
        loss = model.held_out_loss(losses)
        course.append(loss)
        if test is not None and loss <= NEAR * best:
            for net in nets:
                expected[rows:] += feed.expected_of(net, test) / len(nets)
        near = [(other, held_out) for other, held_out in [*near, (loss, expected)] if other <= NEAR * min(best, loss)]
        since = 0 if loss < best else since + 1
        best = min(best, loss)
        if since == 0:
            learning = total / ((epoch + 1) * (len(nets) - 1))
        if since >= PATIENCE:
            break
    averaged = torch.stack([held_out for _, held_out in near]).mean(0)
    features = _features(feed, test)
    joining, opinions = (None, None) if features is None else _better_trees(features, feed.y, fold, averaged, trees)
    votes = None
    if joining is not None and opinions is not None:
        averaged = torch.lerp(averaged, opinions, min(0.5, float(joining.share)))
    elif features is not None and isinstance(task, Classification):
        votes = neighbour_votes(features[:rows], feed.y, task.outputs)
    averaged, others = averaged.split([rows, further])
    joined = model.join(averaged, learning, votes, feed.y, feed.reviewed)
    asked = model.further(others, averaged, feed.y, feed.reviewed) if further else None
    return Evidence(averaged, joined, asked, joining, torch.tensor(_unfinished(course, epochs, feed.y)))


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


def _features(feed: Feed, test: Tensor | Dataset[Any] | None) -> Tensor | None:
    """(N + M, d) inputs, test rows last, where they are features in memory; the pixels of an image say too little."""
    if feed.is_mapped:
        return None
    chunks = feed.chunks(torch.arange(len(feed)))
    first = next(chunks)[1]
    if first.dim() != 2:
        return None
    return torch.cat([first, *(x for _, x in chunks), *(() if test is None else inputs_of(test, feed.device))])


def _better_trees(
    features: Tensor, y: Tensor, fold: Tensor, networks: Tensor, library: str | None
) -> tuple[FoldTrees, Tensor] | tuple[None, None]:
    """Boosted trees and what they expect, (N + M, q), if held-out given labels are predicted better with them.

    Their share is the one whose mean of both predicts those labels best. For classes trees must be better alone, else
    neighbours are asked in their place. Trees for numbers, which expect steps, are seldom better alone and often so
    together with a network.
    """
    rows, outputs, numbers = len(y), networks.shape[1], y.is_floating_point()
    wide = features.shape[1] * (1 if outputs == 2 and not numbers else outputs) > WIDE
    if rows < FEW or (wide and library is None):
        return None, None
    trained = trees_of_folds(features[:rows], y, fold, outputs, library=BOOSTING[library or USUAL])
    opinions = opinions_of(trained, features[:rows], fold, features[rows:])
    loss = _capped_miss if numbers else held_out_loss
    given, trees, others = y.cpu().numpy(), opinions[:rows].cpu().numpy(), networks[:rows].cpu().numpy()
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
