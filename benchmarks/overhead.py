"""What Holdfast costs beside the same training without it, in CPU time of one thread.

Each row trains the same network on the same random data, bare and with Holdfast, by turns in this process, and prints
the ratio of the shortest times of both, which others on the machine have disturbed least. ``fit`` is ``holdfast.fit``
with ordinary training beside a plain loop, on the 4-layer network and 32x32 images; ``fit_mlp`` the same on 784-256-10
and as many rows as MNIST has, for five epochs. All of the call counts, with what it does before the first epoch. The
last line is one JSON object of these ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import protocol
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from holdfast import Method, fit
from holdfast.nets import CNN4, MLP

BATCH, RATE = 128, 0.01


class Case(NamedTuple):
    """What is trained: inputs, labels, the network and for how long."""

    x: Tensor
    y: Tensor
    net: Callable[[], nn.Module]
    epochs: int


def images(rows: int, epochs: int) -> Case:
    """The 4-layer network on images of CIFAR's size."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(rows, 3, 32, 32, generator=source)
    return Case(x, torch.arange(rows) % 10, lambda: CNN4(3, 10), epochs)


def digits(rows: int, epochs: int) -> Case:
    """784-256-10 on data of MNIST's size."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(rows, 784, generator=source)
    return Case(x, torch.arange(rows) % 10, lambda: MLP(784, 10, hidden=(256,)), epochs)


def plain_loop(case: Case) -> None:
    """The loop that everybody writes, with data in memory."""
    torch.manual_seed(0)
    net = case.net()
    optimizer = SGD(net.parameters(), RATE)
    for _ in range(case.epochs):
        for rows in torch.randperm(len(case.y)).split(BATCH):
            loss = F.cross_entropy(net(case.x[rows]), case.y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def with_fit(case: Case) -> None:
    """The same by ``holdfast.fit``."""
    torch.manual_seed(0)
    fit(
        (case.x, case.y), Method(), case.net(), epochs=case.epochs, batch_size=BATCH,
        optimizer=lambda parameters: SGD(parameters, RATE), device="cpu",
    )  # fmt: skip


def ratio(name: str, bare: Callable[[], None], ours: Callable[[], None], turns: int) -> float:
    """The shortest time of ours in shortest times of the bare one; a first turn warms up."""
    pairs = [(_seconds(bare), _seconds(ours)) for _ in range(turns + 1)][1:]
    alone, own = (min(times) for times in zip(*pairs, strict=True))
    middle = statistics.median(ours / bare for bare, ours in pairs)
    print(
        f"{name}: {alone:.2f} s bare, {own:.2f} s with Holdfast, ratio {own / alone:.3f} (median {middle:.3f})",
        flush=True,
    )
    return round(own / alone, 3)


def _seconds(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, help="how often each is measured")
    options = parser.parse_args()
    protocol.prepare(options)
    turns = options.turns or (3 if options.quick else 7)
    cnn = images(2_000 if options.quick else 5_000, options.epochs or 2)
    mlp = digits(60_000, options.epochs or 5)
    figures: dict[str, float | None] = {}
    figures["fit"] = ratio("fit", lambda: plain_loop(cnn), lambda: with_fit(cnn), turns)
    figures["fit_mlp"] = ratio("fit_mlp", lambda: plain_loop(mlp), lambda: with_fit(mlp), turns)
    protocol.close(figures)


if __name__ == "__main__":
    main()
