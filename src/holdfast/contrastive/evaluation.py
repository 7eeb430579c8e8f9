"""How good a representation is: k-NN accuracy, linear probe, fine-tuning, and transfer to other data."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from holdfast.contrastive.base import unit
from holdfast.data.rows import Rows
from holdfast.engine import bare
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of
from holdfast.fit import fit
from holdfast.functional.schedules import Cosine, Schedule
from holdfast.method import Method
from holdfast.run import Run

ALONG_A_COSINE = Cosine()


class Features(nn.Module):
    """A network without its head."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = bare(net)
        if not hasattr(self.net, "features"):
            raise HoldfastError(f"{type(self.net).__name__} has no features(x), which its head would see")
        self.training = self.net.training

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.net.features(x))  # type: ignore[operator]


def features_of(net: nn.Module, rows: Rows) -> Tensor:
    """(N, d) what the head of a network sees of each row, in evaluation mode and without augmentation."""
    device = next(bare(net).parameters()).device
    return evaluate(Features(net), inputs_of(rows.x, device)).float().cpu()


def knn_votes(similarity: Tensor, labels: Tensor, classes: int, temperature: float) -> Tensor:
    """Votes for each class, ``sum exp(similarity / T)`` over the neighbours, as a share of the nearest one's vote.

    Shape: (B, k), (B, k) -> (B, classes).
    """
    weight = ((similarity - similarity.amax(1, keepdim=True)) / temperature).exp()
    return torch.zeros(len(labels), classes).to(weight).scatter_add_(1, labels, weight)


def knn_predict(
    known: Tensor, labels: Tensor, queries: Tensor, classes: int, *, k: int = 50, temperature: float = 0.05
) -> Tensor:
    """Classes by weighted k-NN: the vote of the k most similar known rows.

    Shape: known (N, d), labels (N,), queries (M, d), features of any length -> (M,).
    """
    known, k = unit(known), min(k, len(known))
    found = []
    for part in unit(queries).split(1024):
        similarity, place = (part @ known.T).topk(k)
        found.append(knn_votes(similarity, labels[place], classes, temperature).argmax(1))
    return torch.cat(found)


def knn_accuracy(net: nn.Module, train: Rows, test: Rows, *, k: int = 50, temperature: float = 0.05) -> float:
    """k-NN accuracy: test rows classified by the given labels of training rows; k = 50 and T = 0.05 as for SANE."""
    found = knn_predict(
        features_of(net, train), train.y, features_of(net, test), _classes(train), k=k, temperature=temperature
    )
    return float((found == test.y).double().mean())


def linear_accuracy(
    net: nn.Module,
    train: Rows,
    test: Rows,
    *,
    epochs: int = 200,
    rate: float = 0.01,
    batch_size: int = 256,
    seed: int = 0,
) -> float:
    """Linear-probe accuracy: that of a linear layer trained on frozen features, on test rows.

    Adam at 0.01 for 200 epochs without weight decay, as SANE has it for CIFAR-10. Differs from there: features are
    those of images as they are, computed once and divided by one number, their mean standard deviation; the rate falls
    along a cosine.
    """
    known, queries = features_of(net, train), features_of(net, test)
    scale = known.std(0).mean().clamp_min(1e-6)
    train, test = (replace(rows, x=x / scale, truth=None, names=None) for rows, x in ((train, known), (test, queries)))
    return _layer_on(train, test, optimizer=partial(Adam, lr=rate), epochs=epochs, batch_size=batch_size, seed=seed)


def sgd_linear_accuracy(
    net: nn.Module,
    train: Rows,
    test: Rows,
    *,
    epochs: int = 100,
    rate: float = 10.0,
    batch_size: int = 256,
    seed: int = 0,
    schedule: Schedule = ALONG_A_COSINE,
) -> float:
    """Linear-probe accuracy as SANE has it for ImageNet: SGD at 10 along a cosine, momentum 0.9, no weight decay.

    On features as they are. MoCo has a rate of 30 that falls to a tenth after 60 and after 80 of 100 epochs:
    ``rate=30.0, schedule=holdfast.functional.Steps((0.6, 0.8))``. Differs from both: images are seen as they are, once.
    """
    train, test = (replace(rows, x=features_of(net, rows), truth=None, names=None) for rows in (train, test))
    return _layer_on(
        train, test, optimizer=partial(SGD, lr=rate, momentum=0.9), epochs=epochs, batch_size=batch_size, seed=seed,
        schedule=schedule,
    )  # fmt: skip


def _layer_on(train: Rows, test: Rows, *, batch_size: int, **settings: Any) -> float:
    """The accuracy on test rows of a linear layer trained on features."""
    with torch.random.fork_rng():
        layer = nn.Linear(train.shape[0], _classes(train))
        run = fit(
            train, Method(), layer, test=test, batch_size=min(batch_size, len(train)), device="cpu", **settings
        )  # fmt: skip
    return float(run.history["test"].iloc[-1])


def fine_tune(
    net: nn.Module, rows: Rows, test: Rows | None = None, method: Method | None = None, **settings: Any
) -> Run:
    """Train a copy of a pre-trained network with a new linear head; settings are those of ``holdfast.fit``.

    It judges features, so that unless a method is given training is ordinary.
    """
    own = copy.deepcopy(bare(net))
    width = features_of(own, rows.take(torch.arange(1))).shape[1]
    own.head = nn.Linear(width, _classes(rows))
    return fit(rows, method or Method(), own, test=test, **settings)


def transfer(net: nn.Module, train: Rows, test: Rows, **settings: Any) -> dict[str, float]:
    """Accuracies on another data set than the one pre-trained on: k-NN and linear probe.

    Grey images reach a network for colours three times over, colours one for grey images by their mean.
    """
    channels = next((layer.in_channels for layer in bare(net).modules() if isinstance(layer, nn.Conv2d)), None)
    train, test = (_with_channels(rows, channels) for rows in (train, test))
    return {"knn": knn_accuracy(net, train, test), "linear": linear_accuracy(net, train, test, **settings)}


class Probe:
    """Watches a pre-training: every so many epochs the k-NN accuracy joins the history.

    ``spread`` beside it is the mean standard deviation of normalised features times the root of their number: near one
    for features that fill the space, near zero for a representation that has collapsed.

    Parameters
    ----------
    train, test: labelled rows; of the training rows at most ``most`` are neighbours.
    every: epochs between two looks, the last epoch of each such number.
    linear: epochs of a linear probe each time, 0 for none.
    """

    def __init__(self, train: Rows, test: Rows, *, every: int = 10, linear: int = 0, most: int = 20_000) -> None:
        if every < 1:
            raise HoldfastError(f"a probe looks every so many epochs, at least 1, not {every}")
        self.train = train.take(torch.arange(min(most, len(train))))
        self.test = test
        self.every = every
        self.linear = linear

    def __call__(self, epoch: int, net: nn.Module) -> Mapping[str, float]:
        if (epoch + 1) % self.every:
            return {}
        known = unit(features_of(net, self.train))
        queries = unit(features_of(net, self.test))
        found = knn_predict(known, self.train.y, queries, _classes(self.train))
        line = {
            "knn": float((found == self.test.y).double().mean()),
            "spread": float(known.std(0).mean() * known.shape[1] ** 0.5),
        }
        if self.linear:
            line["linear"] = linear_accuracy(net, self.train, self.test, epochs=self.linear)
        return line


def _classes(rows: Rows) -> int:
    if rows.classes is None:
        raise HoldfastError("a representation is judged by classes, and these rows have none")
    return len(rows.classes)


def _with_channels(rows: Rows, channels: int | None) -> Rows:
    if channels is None or not isinstance(rows.x, Tensor) or rows.shape[0] == channels:
        return rows
    if rows.shape[0] == 1:
        return replace(rows, x=rows.x.expand(-1, channels, -1, -1))
    mean = rows.x.float().mean(1, keepdim=True).to(rows.x.dtype)
    return replace(rows, x=mean.expand(-1, channels, -1, -1))
