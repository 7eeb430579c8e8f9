"""Figures and Table 1 of the early stopping paper, and the stop rules beside the best epoch.

Figures by their numbers: 1, accuracy with and without early stopping over the share of corrupted labels (MNIST, the
network of 4.8 million weights); 3, accuracy and loss on the given labels against distance from the start; 4, losses of
clean and corrupted labels (CIFAR-10, ResNet-20); 5, singular values of its Jacobian, with Table 1; 6, two clusters and
one hidden layer, in full. ``rules`` is this library's own: where each stop rule ends on MNIST with the 784-256-10
network and half of the labels wrong. No rule sees a true label. The last line is one JSON object of key figures.

    python benchmarks/early_stopping.py --data FOLDER               everything
    python benchmarks/early_stopping.py --data FOLDER --figure 6    one figure (6 needs no data)
    python benchmarks/early_stopping.py --data FOLDER --quick       small versions of all
    python benchmarks/early_stopping.py --data FOLDER --paper       50,000 images and 200 epochs: needs a GPU

What is done is kept in the results and not done again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import protocol
import torch
from torch import Tensor, nn
from torch.optim import Adadelta, Optimizer

from holdfast import Method, Rows, fit
from holdfast.augment import PadCropFlip
from holdfast.feed import Feed
from holdfast.functional import Constant
from holdfast.nets import MLP, ResNet
from holdfast.plots import COLOURS, save, tidy
from holdfast.stop import DistanceStop, NoisyValidationStop, StopRule, TheoryStop, TrainAccuracyStop
from holdfast.theory import Shallow, descend
from holdfast.theory.jacobian import Jacobian, spectrum, without_largest

RULES: dict[str, Callable[[], StopRule]] = {
    "distance": DistanceStop,
    "validation": NoisyValidationStop,
    "accuracy": TrainAccuracyStop,
    "theory": TheoryStop,
}
FIGURES = ("6", "rules", "3", "1", "4", "5")
Numbers = dict[str, Any]


def wide_network() -> nn.Module:
    """Two convolutions of 64 and 128 channels, a pooling, two dense layers of 256 and 10: 4,795,914 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(18432, 256), nn.ReLU(), nn.Linear(256, 10),
    ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # fmt: skip


def adadelta(parameters: Any) -> Optimizer:
    return Adadelta(parameters, lr=1.0)


def redrawn(rows: Rows, share: float, seed: int = 0) -> Rows:
    """A share of the labels drawn anew from all classes, the true one among them."""
    source = torch.Generator().manual_seed(seed)
    chosen = torch.rand(len(rows), generator=source) < share
    y = torch.where(chosen, torch.randint(10, (len(rows),), generator=source), rows.y)
    return replace(rows, y=y, truth=rows.y)


def joined(values: Any) -> str:
    return " ".join(f"{float(value):.4f}" for value in values)


def split(text: str) -> np.ndarray[Any, Any]:
    return np.array([float(part) for part in str(text).split()])


def train_wide(options: argparse.Namespace, asked: Numbers) -> Numbers:
    """Figures 1 and 3: one training of the wide network, with what it says of true labels after each epoch."""
    rows, test = protocol.load(options, "mnist", asked["rows"])
    test = test.take(torch.arange(min(len(test), asked["rows"])))
    noisy = redrawn(rows, asked["share"])
    feed = Feed(noisy)

    def watch(epoch: int, net: nn.Module) -> Numbers:
        predicted = feed.outputs(net).argmax(1)
        return {
            "true": float((predicted == rows.y).double().mean()),
            "given": float((predicted == noisy.y).double().mean()),
        }

    torch.manual_seed(0)
    run = fit(
        noisy, Method(), wide_network(), test=test, epochs=asked["epochs"], batch_size=128, optimizer=adadelta,
        schedule=Constant(), watch=watch, device=protocol.device(options),
    )  # fmt: skip
    names = ("given", "true", "test", "distance", "loss")
    return {**{name: joined(run.history[name]) for name in names}, "seconds": round(run.history["seconds"].sum(), 1)}


def stop_at(given: np.ndarray[Any, Any], right: float) -> int:
    """The epoch that ``TrainAccuracyStop(1 - right)`` keeps of a recorded training: nearest to the share of right
    labels, of those up to the first that passes it."""
    passed = np.flatnonzero(given > right)
    until = given[: passed[0] + 1] if len(passed) else given
    return int(np.abs(until - right).argmin())


def figure1(options: argparse.Namespace, results: Path) -> Numbers:
    shares = (0.0, 0.5) if options.quick else (0.0, 0.2, 0.4, 0.6, 0.8)
    rows, epochs = (50_000, 200) if options.paper else (200, 6) if options.quick else (1000, 25)
    rows, epochs = options.rows or rows, options.epochs or epochs
    stored = protocol.Results(results / "early_stopping_figure1.csv", options.fresh)
    lines = []
    for share in shares:
        asked = {"share": share, "rows": rows, "epochs": epochs}
        line = stored.get(asked, partial(train_wide, options, asked))
        given = split(line["given"])
        at = stop_at(given, 1 - 0.9 * share)
        for when, epoch in (("early", at), ("end", len(given) - 1)):
            score = {name: split(line[name])[epoch] for name in ("given", "true", "test")}
            lines.append({"share": share, "when": when, "epoch": epoch + 1, **score})
    table = pd.DataFrame(lines)
    print(table.round(4).to_string(index=False))

    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    for axis, when, title in zip(
        figure.subplots(1, 2, sharey=True), ("end", "early"), (f"after {epochs} epochs", "stopped early"), strict=True
    ):
        part = table[table["when"] == when]
        for name, colour, label in (
            ("given", COLOURS[1], "training, given labels"),
            ("true", COLOURS[0], "training, true labels"),
            ("test", COLOURS[2], "test"),
        ):
            axis.plot(part["share"], part[name], color=colour, marker="o", label=label)
        axis.plot(part["share"], 1 - 0.9 * part["share"], color="black", linestyle=":", label="share of right labels")
        axis.set(title=title, xlabel="share of labels drawn anew", ylim=(0, 1.02))
        tidy(axis)
    figure.axes[0].set_ylabel("accuracy")
    figure.axes[0].legend(frameon=False, loc="lower left")
    save(figure, results / "early_stopping_figure1.png")
    return {
        f"true_{when}_{round(100 * share)}": round(float(score), 4)
        for share, when, score in zip(table["share"], table["when"], table["true"], strict=True)
    }


def figure3(options: argparse.Namespace, results: Path) -> Numbers:
    shares = (0.0, 0.5) if options.quick else (0.0, 0.25, 0.5)
    rows, epochs = (3000, 200) if options.paper else (200, 8) if options.quick else (3000, 12)
    rows, epochs = options.rows or rows, options.epochs or epochs
    stored = protocol.Results(results / "early_stopping_figure3.csv", options.fresh)
    found = {}
    for share in shares:
        asked = {"share": share, "rows": rows, "epochs": epochs}
        found[share] = stored.get(asked, partial(train_wide, options, asked))

    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    common = min(split(line["distance"])[-1] for line in found.values())
    reach: Numbers = {"at_distance": round(float(common), 3)}
    for (share, line), colour in zip(found.items(), COLOURS, strict=False):
        distance = split(line["distance"])
        left.plot(
            distance, split(line["given"]), color=colour, marker="o", markersize=3, label=f"{share:.0%} drawn anew"
        )
        right.plot(distance, split(line["loss"]), color=colour, marker="o", markersize=3)
        loss = float(np.interp(common, distance, split(line["loss"])))
        reach[f"loss_{round(100 * share)}"] = round(loss, 3)
    left.set(xlabel="distance / length at the start", ylabel="training accuracy, given labels", ylim=(0, 1.02))
    right.set(xlabel="distance / length at the start", ylabel="training loss, given labels")
    left.legend(frameon=False, loc="lower right")
    for axis in (left, right):
        tidy(axis)
    save(figure, results / "early_stopping_figure3.png")
    return reach


def trained_resnet(
    options: argparse.Namespace, share: float, rows: int, epochs: int
) -> tuple[nn.Module, Rows, nn.Module]:
    """ResNet-20, trained for a few epochs, beside the rows and the network that it was."""
    data, _ = protocol.load(options, "cifar10", rows)
    noisy = redrawn(data, share)
    torch.manual_seed(0)
    net = ResNet(20, channels=3, outputs=10)
    start = ResNet(20, channels=3, outputs=10)
    start.load_state_dict(net.state_dict())
    fit(noisy, Method(), net, epochs=epochs, batch_size=128, augment=PadCropFlip(), device=protocol.device(options))
    return net.cpu().eval(), noisy, start.eval()


def figure4(options: argparse.Namespace, results: Path) -> Numbers:
    rows, epochs = (50_000, 30) if options.paper else (1000, 3) if options.quick else (5000, 12)
    rows, epochs = options.rows or rows, options.epochs or epochs
    stored = protocol.Results(results / "early_stopping_figure4.csv", options.fresh)
    bins = np.linspace(0, 6, 49)

    def make(share: float) -> Numbers:
        net, noisy, _ = trained_resnet(options, share, rows, epochs)
        some = torch.randperm(len(noisy), generator=torch.Generator().manual_seed(1))[:5000]
        part = noisy.take(some)
        loss = nn.functional.cross_entropy(Feed(part).outputs(net), part.y, reduction="none").numpy()
        assert part.truth is not None
        wrong = (part.y != part.truth).numpy()
        order = loss.argsort().argsort()
        auroc = (order[wrong].mean() - (wrong.sum() - 1) / 2) / (~wrong).sum()
        counts = {
            name: " ".join(map(str, np.histogram(loss[which].clip(0, 6), bins)[0].tolist()))
            for name, which in (("clean", ~wrong), ("corrupted", wrong))
        }
        return {**counts, "auroc": round(float(auroc), 4)}

    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    figures: Numbers = {}
    for axis, share in zip(figure.subplots(1, 2), (0.3, 0.5), strict=True):
        asked = {"share": share, "rows": rows, "epochs": epochs}
        line = stored.get(asked, partial(make, share))
        figures[f"auroc_{round(100 * share)}"] = line["auroc"]
        for name, colour in (("clean", COLOURS[0]), ("corrupted", COLOURS[1])):
            axis.stairs(split(line[name]), bins, color=colour, fill=True, alpha=0.65, label=name)
        axis.set(title=f"{share:.0%} of the labels drawn anew", xlabel="cross entropy", ylabel="training rows")
        axis.legend(frameon=False)
        tidy(axis)
    save(figure, results / "early_stopping_figure4.png")
    return figures


def figure5(options: argparse.Namespace, results: Path) -> Numbers:
    rows, epochs, some, many = (
        (50_000, 160, 1000, 10_000)
        if options.paper
        else (1000, 2, 20, 200)
        if options.quick
        else (5000, 12, 1000, 5000)
    )
    rows, epochs = options.rows or rows, options.epochs or epochs
    some, many = min(some, rows), min(many, rows)
    stored = protocol.Results(results / "early_stopping_figure5.csv", options.fresh)
    made: list[tuple[nn.Module, Rows, nn.Module]] = []

    def make(when: str, outputs: str, count: int) -> Numbers:
        if not made:
            made.append(trained_resnet(options, 0.0, rows, epochs))
        net, data, start = made[0]
        (_, x), *_ = Feed(data, batch_size=count).chunks(torch.arange(count))
        one = start if when == "start" else net
        pick: Tensor | None = data.y[:count] if outputs == "correct" else None
        found = spectrum(Jacobian(one, x, pick, without_largest(one)), 100)
        return {"above": found.above(), "values": joined(found.values)}

    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    figures: Numbers = {}
    for axis, (outputs, count) in zip(figure.subplots(1, 2), (("all", some), ("correct", many)), strict=True):
        for when, colour in (("start", COLOURS[1]), ("end", COLOURS[0])):
            asked = {
                "when": when,
                "outputs": outputs,
                "examples": count,
                "rows": rows,
                "epochs": epochs,
            }
            line = stored.get(asked, partial(make, when, outputs, count))
            values = split(line["values"])
            figures[f"{outputs}_{when}"] = int(line["above"])
            label = f"{'at the start' if when == 'start' else 'trained'}: {line['above']} above a tenth"
            axis.semilogy(range(1, len(values) + 1), values / values[0], color=colour, label=label)
        axis.axhline(0.1, color="black", linewidth=0.8, linestyle=":")
        title = f"all outputs of {count} images" if outputs == "all" else f"the label's output of {count} images"
        axis.set(title=title, xlabel="number", ylabel="singular value / the largest")
        axis.legend(frameon=False)
        tidy(axis)
    save(figure, results / "early_stopping_figure5.png")
    return figures


def two_clusters(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Figure 6: 400 points on spheres of radius one half about two unit vectors at least one apart, labels 0 and 1,
    three in ten drawn anew."""
    source = torch.Generator().manual_seed(seed)

    def unit(count: int) -> Tensor:
        drawn = torch.randn(count, 20, generator=source, dtype=torch.float64)
        return drawn / drawn.norm(dim=1, keepdim=True)

    centre = unit(2)
    while float((centre[0] - centre[1]).norm()) < 1:
        centre = unit(2)
    truth = torch.arange(400) % 2
    x = centre[truth] + 0.5 * unit(400)
    drawn = torch.rand(400, generator=source) < 0.3
    y = torch.where(drawn, torch.randint(2, (400,), generator=source), truth)
    return x, y.double(), truth.double()


def figure6(options: argparse.Namespace, results: Path) -> Numbers:
    steps, seeds = (500, 1) if options.quick else (4500, options.seeds or 5)
    stored = protocol.Results(results / "early_stopping_figure6.csv", options.fresh)
    moments = [m for m in (80, 4500) if m <= steps] if not options.quick else [80, 500]
    bins = np.linspace(0, 1.5, 46)

    def make(seed: int) -> Numbers:
        x, y, truth = two_clusters(seed)
        net = Shallow(20, 1000, (torch.relu, lambda z: (z > 0).to(z)), seed=seed)
        start = net.weight.detach().clone()
        far: Numbers = {}
        outputs = [net(x).detach()[None]]
        done = 0
        for moment in moments:
            outputs.append(descend(net, x, y, 0.01, moment - done)[1:])
            done = moment
            far[f"distance_{moment}"] = round(net.distance(start), 2)
        seen = torch.cat(outputs)
        wrong = y != truth
        line: Numbers = {"flipped": float(wrong.double().mean()), **far}
        for name, label in (("true", truth), ("given", y)):
            error = ((seen > 0.5) != (label > 0.5)).double().mean(1)
            line[name] = joined(error[:: max(1, steps // 500)])
            line |= {f"{name}_{moment}": float(error[moment]) for moment in moments}
        for moment in moments:
            loss = (seen[moment] - y).square() / 2
            for name, which in (("clean", ~wrong), ("corrupted", wrong)):
                counts = np.histogram(loss[which].numpy().clip(0, 1.5), bins)[0]
                line[f"{name}_{moment}"] = " ".join(map(str, counts.tolist()))
        return line

    lines = [stored.get({"seed": seed, "steps": steps}, partial(make, seed)) for seed in range(seeds)]

    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.4), layout="constrained")
    first, *rest = figure.subplots(1, 3)
    for name, colour, label in (("true", COLOURS[0], "true labels"), ("given", COLOURS[1], "given labels")):
        mean = np.mean([split(line[name]) for line in lines], 0)
        first.plot(np.arange(len(mean)) * max(1, steps // 500), mean, color=colour, label=label)
    first.axvline(moments[0], color="black", linewidth=0.8, linestyle=":")
    first.set(xlabel="iteration", ylabel="error", title=f"one hidden layer, mean of {len(lines)}", ylim=(0, None))
    first.legend(frameon=False)
    for axis, moment in zip(rest, moments, strict=True):
        for name, colour in (("clean", COLOURS[0]), ("corrupted", COLOURS[1])):
            counts = np.sum([split(line[f"{name}_{moment}"]) for line in lines], 0)
            axis.stairs(counts, bins, color=colour, fill=True, alpha=0.65, label=name)
        axis.set(title=f"iteration {moment}", xlabel="loss", ylabel="points", yscale="log", xlim=(0, 0.9))
        axis.legend(frameon=False)
    for axis in (first, *rest):
        tidy(axis)
    save(figure, results / "early_stopping_figure6.png")
    figures: Numbers = {"flipped": round(float(np.mean([line["flipped"] for line in lines])), 4)}
    for moment in moments:
        for name in ("true", "given"):
            values = [line[f"{name}_{moment}"] for line in lines]
            figures[f"{name}_error_{moment}"] = round(float(np.mean(values)), 4)
        figures[f"distance_{moment}"] = round(float(np.mean([line[f"distance_{moment}"] for line in lines])), 2)
    return figures


def rules(options: argparse.Namespace, results: Path) -> Numbers:
    rows, epochs, seeds = (5000, 15, 1) if options.quick else (60_000, 40, options.seeds or 3)
    rows, epochs = options.rows or rows, options.epochs or epochs
    stored = protocol.Results(results / "early_stopping_rules.csv", options.fresh)

    def make(rule: str, kind: str, rate: float, seed: int) -> Numbers:
        data, test = protocol.load(options, "mnist", rows)
        noisy = replace(protocol.planted(data, "mnist", kind, rate, seed), truth=None) if rate else data
        torch.manual_seed(seed)
        stop = None if rule == "none" else RULES[rule]()
        run = fit(
            noisy, Method(), MLP(784, 10), stop=stop, test=test, epochs=epochs, batch_size=128, schedule=Constant(),
            seed=seed, device=protocol.device(options),
        )  # fmt: skip
        return {
            "kept": run.best_epoch + 1,
            "ended": len(run.history),
            "score": round(100 * run.score, 2),
            "best": round(100 * run.best, 2),
            "why": run.stopped,
        }

    noises = [("symmetric", 0.5)] if options.quick else [("symmetric", 0.5), ("asymmetric", 0.4), ("symmetric", 0.0)]
    lines = []
    for kind, rate in noises:
        for seed in range(seeds if (kind, rate) == ("symmetric", 0.5) else 1):
            for rule in ("none", *RULES) if (kind, rate) == ("symmetric", 0.5) else ("none", "distance"):
                asked = {"rule": rule, "noise": kind, "rate": rate, "seed": seed, "rows": rows, "epochs": epochs}
                line = stored.get(asked, partial(make, rule, kind, rate, seed))
                lines.append({**asked, **line})
    table = pd.DataFrame(lines)
    best = table[table["rule"] == "none"].set_index(["noise", "rate", "seed"])["best"]
    table["ordinary best"] = [best.loc[key] for key in zip(table["noise"], table["rate"], table["seed"], strict=True)]
    print(table[["noise", "rate", "seed", "rule", "kept", "ended", "score", "ordinary best"]].to_string(index=False))
    half = table[(table["noise"] == "symmetric") & (table["rate"] == 0.5)]
    figures: Numbers = {"best": round(float(half["ordinary best"].mean()), 2)}
    for rule in ("none", *RULES):
        figures[rule] = round(float(half[half["rule"] == rule]["score"].mean()), 2)
    return figures


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.add_argument("--figure", choices=FIGURES, action="append", help="one of them; may be repeated")
    protocol.rows_argument(made)
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    makers = {"1": figure1, "3": figure3, "4": figure4, "5": figure5, "6": figure6, "rules": rules}
    figures = {}
    for name in options.figure or FIGURES:
        print(f"{name if name == 'rules' else f'figure {name}'} ...", flush=True)
        figures[f"figure_{name}" if name != "rules" else name] = makers[name](options, options.results)
    protocol.close(figures)


if __name__ == "__main__":
    main()
