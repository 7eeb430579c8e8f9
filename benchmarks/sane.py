"""Tables 1, 4, 5 and 6 of the SANE paper at the scale of a CPU: what refined labels and momentum mixup add to MoCo.

A small network is pre-trained without labels on 5,000 images of Fashion-MNIST and, for MoCo and SANE alone, of
CIFAR-10; its features are judged by k-NN accuracy (k = 50) and by a linear layer, both on the true labels of those
images and of the test set. Three seeds for MoCo and SANE, one for the rest. What the paper compares with on ImageNet
alone learns from the images of CIFAR-10 too. Beside it: how far one-hot and refined labels are from those that classes
would give, by epoch; and ordinary training and EMA refinement at 80 % symmetric noise on 10,000 images of CIFAR-10,
from scratch and from the pre-trained network. Published numbers stand beside (CIFAR-10, ResNet-50: 2,000 epochs in
Table 1, MoCo, BYOL and i-Mix there 4,000; 1,000 epochs with strong views in Tables 4 and 5, and with both kinds in
Table 6). The last line is one JSON object.

    python benchmarks/sane.py --data FOLDER             all of it, an hour on two cores with --jobs 2
    python benchmarks/sane.py --data FOLDER --quick     Fashion-MNIST, 2,000 images, 8 epochs, within ten minutes
    python benchmarks/sane.py --data FOLDER --strong    Tables 4 and 5 with strong views, as in the paper
    python benchmarks/sane.py --data FOLDER --paper     CIFAR-10, ResNet-50, as published: needs a GPU

``--jobs`` trains as many runs at a time, a process and a thread each; ``--minutes`` starts no further run after so
long. What is done is kept in the results and not done again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import protocol
import torch
from torch import nn

from holdfast import Method, Rows, Run, fit
from holdfast.augment import PadCropFlip
from holdfast.compare import corrupted
from holdfast.contrastive import (
    BYOL,
    CLSA,
    CMC,
    CO2,
    CPC,
    DACL,
    PIRL,
    SANE,
    Contrastive,
    ImageViews,
    IMix,
    InfoMin,
    InstDisc,
    LocalAgg,
    MoCo,
    SeLa,
    SimCLR,
    VanillaMixup,
    knn_accuracy,
    label_quality,
    linear_accuracy,
    pretrain,
)
from holdfast.contrastive.pretrain import sgd
from holdfast.files import write_text
from holdfast.methods import EMARefinement, SecondOpinion
from holdfast.nets import build, load_body
from holdfast.plots import COLOURS, save, tidy

ONE_HOT = {"positive": False, "others": False}
ROWS: dict[str, tuple[str, Callable[..., Contrastive] | None]] = {
    "random": ("random network", None),
    "moco": ("MoCo", MoCo),
    "mixup": ("MoCo + mixup", partial(SANE, **ONE_HOT, mixup=VanillaMixup())),
    "momentum-mixup": ("MoCo + momentum mixup", partial(SANE, **ONE_HOT)),
    "p": ("SLR with p", partial(SANE, others=False, mixup=None)),
    "q": ("SLR with q", partial(SANE, positive=False, mixup=None)),
    "p+q": ("SLR with p and q", partial(SANE, mixup=None)),
    "p+mix": ("p and momentum mixup", partial(SANE, others=False)),
    "q+mix": ("q and momentum mixup", partial(SANE, positive=False)),
    "sane": ("SANE", SANE),
    "lambda-0": ("SANE, lambda 0", partial(SANE, 0.0)),
    "lambda-0.25": ("SANE, lambda 0.25", partial(SANE, 0.25)),
    "lambda-0.75": ("SANE, lambda 0.75", partial(SANE, 0.75)),
    "lambda-1": ("SANE, lambda 1", partial(SANE, 1.0)),
    "simclr": ("SimCLR", SimCLR),
    "byol": ("BYOL", BYOL),
    "i-mix": ("i-Mix", IMix),
    "co2": ("CO2", CO2),
    "clsa": ("CLSA", CLSA),
    "dacl": ("DACL", DACL),
    "inst-disc": ("InstDisc", InstDisc),
    "local-agg": ("LocalAgg", LocalAgg),
    "sela": ("SeLa", SeLa),
    "pirl": ("PIRL", PIRL),
    "cpc": ("CPC v2", CPC),
    "cmc": ("CMC", CMC),
    "info-min": ("InfoMin Aug", InfoMin),
}
TABLE4 = ("random", "moco", "p", "q", "momentum-mixup", "p+q", "p+mix", "q+mix", "sane")
TABLE5 = {"lambda-0": 94.3, "lambda-0.25": 95.8, "sane": 95.9, "lambda-0.75": 95.5, "lambda-1": 94.5}
TABLE6 = {
    ("mixup", False): 93.7,
    ("momentum-mixup", False): 94.2,
    ("mixup", True): 93.3,
    ("momentum-mixup", True): 94.8,
}
ROBUST: dict[str, Callable[[], Method]] = {"standard": Method, "second-opinion": SecondOpinion}
"""Methods that start from scratch and from SANE: ordinary training and the default."""
PEERS = ("simclr", "byol", "i-mix", "co2", "clsa", "dacl")
TABLE2 = ("inst-disc", "local-agg", "sela", "pirl", "cpc", "cmc", "info-min")
"""Compared with on ImageNet alone; here on CIFAR-10, since CMC needs colours."""
WITHOUT_QUEUE = {"simclr", "byol", "dacl", *TABLE2} - {"info-min"}
PUBLISHED4 = {"p": "93.7", "q": "94.6", "momentum-mixup": "94.5", "p+q": "94.8", "p+mix": "95.2", "q+mix": "95.2"}
PUBLISHED4 |= {"sane": "95.9"}
"""Table 4. The printed table has nine rows, some with the same marks; these are the first of each, and the best."""
PUBLISHED1 = {"moco": "92.5 / 93.9", "simclr": "- / 94.0", "byol": "92.4 / 93.9", "i-mix": "- / 95.9"}
PUBLISHED1 |= {"clsa": "93.4 / 94.9", "dacl": "- / 94.4", "sane": "95.2 / 96.1"}
"""Table 1: k-NN accuracy / linear layer on CIFAR-10; SANE with weak views."""
STRONG1 = {"sane": "95.5 / 96.5"}
"""Table 1 with strong views."""
TABLE1 = {"moco": 4_000, "simclr": 1_000, "byol": 4_000, "dacl": 2_000, "clsa": 2_000, "i-mix": 4_000, "sane": 2_000}
"""Epochs of each line of Table 1. The paper trains SANE for 2,000 and takes MoCo, BYOL and i-Mix with 4,000 from i-Mix,
SimCLR with 1,000 from its own; of DACL and CLSA it does not say, and they have as many as SANE."""
ABLATION = 1_000
"""Epochs of Tables 4 to 6."""
NOISE = 0.8
HEAD = ("| | k-NN accuracy (%) | linear (%) | published (%) |", "|---|---|---|---|")


class Scale(NamedTuple):
    """How large a part of the benchmark is."""

    data: str
    rows: int
    epochs: int
    net: str
    batch: int
    rate: float
    queue: int
    momentum: float
    linear: int
    tested: int
    least: float = 0.2
    """The least fraction of an image in a view: half a shoe on an empty background looks much like a bag."""
    blur: float = 0.5
    """The share of weak views that are blurred; published code blurs none of CIFAR-10."""


SCALES = {
    "fashion": Scale("fashion_mnist", 5_000, 24, "cnn4-slim", 128, 0.06, 2048, 0.99, 100, 10_000, 0.4),
    "cifar": Scale("cifar10", 5_000, 24, "cnn4-slim", 128, 0.06, 2048, 0.99, 100, 10_000),
    "bridge": Scale("cifar10", 10_000, 24, "cnn4-slim", 128, 0.06, 2048, 0.99, 100, 10_000),
    "robust": Scale("cifar10", 5_000, 24, "cnn4-slim", 128, 0.06, 2048, 0.99, 100, 10_000),
    "quick": Scale("fashion_mnist", 2_000, 8, "cnn4-slim", 128, 0.06, 1024, 0.95, 30, 2_000, 0.4),
    "quick-bridge": Scale("cifar10", 2_000, 6, "cnn4-slim", 128, 0.06, 512, 0.95, 10, 1_000),
    "paper": Scale("cifar10", 50_000, TABLE1["sane"], "resnet50", 256, 0.03, 4096, 0.999, 200, 10_000, blur=0.0),
}


class Trial(NamedTuple):
    """One run."""

    part: str
    row: str
    strong: bool
    epochs: int
    rows: int
    seed: int


def trials(options: argparse.Namespace) -> Iterator[Trial]:
    """Everything to run, the most telling first."""

    def of(part: str, rows: Iterable[str], strong: bool = options.strong, seed: int = 0) -> Iterator[Trial]:
        scale = SCALES[part]
        for row in rows:
            # Strong views are a matter of SANE's mixing; the others have them or not by their own definition.
            own = strong and (row in TABLE4 or row in TABLE5 or row == "mixup") and row not in ("random", "moco")
            yield Trial(part, row, own, options.epochs or scale.epochs, scale.rows, seed)

    named = tuple(options.methods.split(",")) if options.methods else ()
    if options.quick:
        yield from of("quick", named or ("random", "moco", "mixup", "momentum-mixup", "p+q", "sane", "simclr"))
        yield from of("quick-bridge", ("bridge",) if not named else ())
        return
    if options.paper:
        yield from published_trials(options, named)
        return
    part = "fashion"
    if set(named) & set(ROBUST):
        yield from (t for seed in range(options.seeds or 1) for t in of("robust", named, strong=False, seed=seed))
        return
    if named:
        for seed in range(options.seeds or 1):
            for row in named:
                yield from of("cifar" if row in TABLE2 else part, (row,), seed=seed)
        return
    seeds = range(options.seeds or 3)
    yield from of(part, ("random",))
    for seed in seeds:
        yield from of(part, ("moco", "sane"), seed=seed)
    yield from of(part, [row for row in TABLE4 if row not in ("random", "moco", "sane")])
    yield from of(part, ("mixup",))
    yield from of("bridge", ("bridge",), strong=False)
    yield from of("cifar", ("random",))
    for seed in seeds:
        yield from of("cifar", ("moco", "sane"), seed=seed)
    yield from of(part, [row for row in TABLE5 if row != "sane"])
    yield from of(part, PEERS)
    yield from of("cifar", TABLE2)
    yield from of("robust", ROBUST, strong=False)
    yield from of(part, ("mixup", "momentum-mixup"), strong=not options.strong)


def published_trials(options: argparse.Namespace, named: tuple[str, ...]) -> Iterator[Trial]:
    """Table 1 with the epochs and views of each line, then Tables 4 to 6."""
    count = options.rows or SCALES["paper"].rows
    lines = [(row, False, epochs) for row, epochs in TABLE1.items()] + [("sane", True, TABLE1["sane"])]
    lines += [("random", False, 0)]
    lines += [(row, True, ABLATION) for row in dict.fromkeys((*TABLE4[2:], *TABLE5))]
    lines += [(row, strong, ABLATION) for row, strong in TABLE6]
    for seed in range(options.seeds or 1):
        for row, strong, epochs in dict.fromkeys(lines):
            if not named or row in named:
                yield Trial("paper", row, strong, options.epochs or epochs, count, seed)


def load(options: argparse.Namespace, scale: Scale) -> tuple[Rows, Rows]:
    train, test = protocol.load(options, scale.data, options.rows or scale.rows)
    return train, test.take(torch.arange(min(scale.tested, len(test))))


def method_of(trial: Trial, scale: Scale) -> Contrastive:
    make = ROWS[trial.row][1]
    assert make is not None
    kept = {} if trial.row in WITHOUT_QUEUE else {"queue": scale.queue, "momentum": scale.momentum}
    return make(**kept, **({"strong": True} if trial.strong else {}))


def learn(
    trial: Trial,
    options: argparse.Namespace,
    method: Contrastive,
    rows: Rows,
    watch: Any,
    folder: Path | None = None,
) -> Run:
    """Pre-train; the published scale leaves checkpoints to go on from."""
    scale = SCALES[trial.part]
    if options.paper:
        folder = options.results / "sane_runs" / "-".join(map(str, trial))
    return pretrain(
        rows, method, scale.net, views=ImageViews(rows.shape[1], scale.least, scale.blur), epochs=trial.epochs,
        batch_size=scale.batch, seed=trial.seed, watch=watch,
        optimizer=partial(sgd, rate=scale.rate), device=protocol.device(options), out=folder,
        resume=folder is not None,
    )  # fmt: skip


def run(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """Pre-train and judge: accuracies in per cent, and the quality of labels as strings of numbers by epoch."""
    if trial.row == "bridge":
        return bridge(trial, options)
    if trial.part == "robust":
        return robust(trial, options)
    scale = SCALES[trial.part]
    rows, test = load(options, scale)
    history = pd.DataFrame()
    start = time.process_time()
    if trial.row == "random":
        torch.manual_seed(trial.seed)
        net = build(f"{scale.net}+mlp", rows.shape, 128)
    else:
        method = method_of(trial, scale)

        def look(epoch: int, net: nn.Module) -> dict[str, float]:
            if trial.row != "sane" or not isinstance(method, SANE):
                return {}
            found = label_quality(method, rows, keys=min(2048, len(rows) // 2))
            return {f"{name}_labels": value for name, value in found.items()}

        done = learn(trial, options, method, rows, look)
        net, history = done.net, done.history
    spent = time.process_time() - start
    return {
        "knn": round(100 * knn_accuracy(net, rows, test), 2),
        "linear": round(100 * linear_accuracy(net, rows, test, epochs=scale.linear), 2),
        "cpu_seconds": round(spent, 1),
        **{name: " ".join(f"{value:.4f}" for value in history[name]) for name in history if name.endswith("labels")},
    }


def bridge(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """EMA refinement and ordinary training at 80 % symmetric noise, from scratch and from pre-trained features."""
    scale = SCALES[trial.part]
    rows, test = load(options, scale)
    method = method_of(trial._replace(row="sane"), scale)
    start = time.process_time()
    learnt = learn(trial, options, method, rows, None)
    line = {"cpu_seconds": round(time.process_time() - start, 1)}
    noisy = corrupted(rows, "symmetric", NOISE, trial.seed)
    for name, make in (("ema_refinement", EMARefinement), ("standard", Method)):
        for kind in ("scratch", "pretrained"):
            torch.manual_seed(trial.seed)
            net = build(scale.net, rows.shape, 10)
            if kind == "pretrained":
                load_body(net, learnt.net.state_dict())
            done = fit(
                noisy, make(), net, test=test, epochs=trial.epochs, batch_size=128, seed=trial.seed,
                augment=PadCropFlip(), device="cpu",
            )  # fmt: skip
            line[f"{name}_{kind}"] = round(100 * done.last, 2)
            line[f"{name}_{kind}_best"] = round(100 * done.best, 2)
    return line


def robust(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """A method at 80 % symmetric noise from scratch and from SANE; the networks that the default asks start alike."""
    scale = SCALES[trial.part]
    rows, test = load(options, scale)
    folder = options.results / "cache" / f"sane-{trial.rows}-{trial.epochs}-{trial.seed}"
    learn(trial, options, method_of(trial._replace(row="sane"), scale), rows, None, folder)
    noisy = corrupted(rows, "symmetric", NOISE, trial.seed)
    line: dict[str, Any] = {"cpu_seconds": 0.0}
    for kind, start in (("scratch", {"net": scale.net}), ("pretrained", {"pretrained": folder})):
        done = fit(
            noisy, ROBUST[trial.row](), test=test, epochs=trial.epochs, batch_size=128, seed=trial.seed,
            augment=PadCropFlip(), device="cpu", **start,
        )  # fmt: skip
        line |= {kind: round(100 * done.last, 2), f"{kind}_best": round(100 * done.best, 2)}
        line["cpu_seconds"] += round(float(done.history["cpu_seconds"].sum()), 1)
    return line


def pick(found: pd.DataFrame, part: str, row: str, strong: bool | None = None) -> pd.DataFrame:
    own = found[(found["part"] == part) & (found["row"] == row)]
    return own if strong is None else own[own["strong"].astype(str) == str(strong)]


def cells(own: pd.DataFrame) -> str:
    return f"{protocol.mean_and_spread(own['knn'])} | {protocol.mean_and_spread(own['linear'])}"


def tables(found: pd.DataFrame, part: str, strong: bool) -> str:
    """The tables of one part as Markdown, published numbers beside."""
    scale = SCALES[part]

    def line(title: str, own: pd.DataFrame, published: object) -> list[str]:
        return [f"| {title} | {cells(own)} | {published} |"] if len(own) else []

    text = [f"## {scale.data}, {scale.rows:,} images, {scale.epochs} epochs, {scale.net}"]

    def add(title: str, lines: list[str]) -> None:
        if len(lines) > 1:
            text.append("\n".join([f"\n{title}\n", *HEAD, *lines]))

    every, modules, weights, mixes = [], [], [], []
    beside = PUBLISHED1 | (STRONG1 if strong else {})
    for row, (title, _) in ROWS.items():
        if row not in TABLE5 or row == "sane":
            plain = row in ("random", "moco", *PEERS, *TABLE2)
            every += line(title, pick(found, part, row, None if plain else strong), beside.get(row, "-"))
    for row in TABLE4[1:]:
        own = pick(found, part, row, None if row == "moco" else strong)
        modules += line(ROWS[row][0], own, PUBLISHED4.get(row, "-"))
    for row, published in TABLE5.items():
        weights += line(weight_of(row), pick(found, part, row, strong), published)
    for (row, hard), published in TABLE6.items():
        mixes += line(mix_of(row, hard), pick(found, part, row, hard), published)
    add("All methods (Table 1)", every)
    add("Table 4: modules of SANE (p, q, momentum mixup)", modules if len(modules) > 2 else [])
    add("Table 5: lambda", weights)
    add("Table 6: vanilla and momentum mixup", mixes)
    return "\n".join(text) + "\n"


def weight_of(row: str) -> str:
    return "lambda 0.5" if row == "sane" else ROWS[row][0].removeprefix("SANE, ")


def mix_of(row: str, strong: bool) -> str:
    return f"{ROWS[row][0]}, {'strong' if strong else 'weak'} views"


def published_tables(found: pd.DataFrame, epochs: int | None) -> str:
    """The tables of the published scale: each line with the epochs and the views that its published figure has."""

    def line(title: str, row: str, strong: bool, trained: int, published: object) -> str:
        own = pick(found, "paper", row, strong)
        own = own[own["epochs"] == (epochs or trained)]
        return f"| {title} | {cells(own)} | {published} |"

    tables = {
        "Table 1": [
            *(line(ROWS[row][0], row, False, trained, PUBLISHED1[row]) for row, trained in TABLE1.items()),
            line("SANE, strong views", "sane", True, TABLE1["sane"], STRONG1["sane"]),
        ],
        "Table 4, strong views": [
            line(ROWS[row][0], row, True, ABLATION, PUBLISHED4[row]) for row in TABLE4 if row in PUBLISHED4
        ],
        "Table 5, strong views": [
            line(weight_of(row), row, True, ABLATION, published) for row, published in TABLE5.items()
        ],
        "Table 6": [
            line(mix_of(row, strong), row, strong, ABLATION, published) for (row, strong), published in TABLE6.items()
        ],
    }
    text = ["## CIFAR-10, ResNet-50, as published"]
    return "\n".join([*text, *("\n".join([f"\n{title}\n", *HEAD, *lines]) for title, lines in tables.items())]) + "\n"


def bridge_table(found: pd.DataFrame, part: str) -> str:
    own, later = pick(found, part, "bridge"), found[found["part"] == "robust"]
    text: list[str] = []

    def head(scale: Scale) -> None:
        text.append(f"\n## From pre-training to {NOISE:.0%} symmetric noise ({scale.data}, {scale.rows:,} images)\n")
        text.extend(["| | from scratch (%) | after SANE (%) |", "|---|---|---|"])

    def line(title: str, starts: Iterable[pd.Series[float]]) -> None:
        text.append(f"| {title} | " + " | ".join(map(protocol.mean_and_spread, starts)) + " |")

    if len(own):
        head(SCALES[part])
        for name, title in (("ema_refinement", "EMA refinement"), ("standard", "ordinary")):
            line(title, (own[f"{name}_{start}"] for start in ("scratch", "pretrained")))
    if len(later):
        head(SCALES["robust"])
        for name, title in (("second-opinion", "second opinion (default)"), ("standard", "ordinary")):
            rows = later[later["row"] == name]
            line(title, (rows[start] for start in ("scratch", "pretrained")))
    return "\n".join([*text, ""])


def numbers(text: Any) -> list[float]:
    return [float(value) for value in str(text).split()]


def picture(found: pd.DataFrame, part: str, path: Path) -> None:
    """Accuracies of the rows, Table 5 as a line, and the distance of labels from true ones by epoch."""
    from matplotlib.figure import Figure

    own = found[(found["part"] == part) & (found["row"] != "bridge")]
    figure = Figure(figsize=(13.5, 4.6), layout="constrained")
    bars, line, labels = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
    shown = [row for row in ROWS if (own["row"] == row).any() and (row not in TABLE5 or row == "sane")]
    for shift, (column, title) in enumerate((("knn", "k-NN, k = 50"), ("linear", "linear layer"))):
        mean = [own[own["row"] == row][column].mean() for row in shown]
        spread = [own[own["row"] == row][column].std() if (own["row"] == row).sum() > 2 else 0 for row in shown]
        place = [k + 0.38 * shift for k in range(len(shown))]
        bars.barh(place, mean, 0.36, xerr=spread, color=COLOURS[shift], label=title)
    bars.set_yticks([k + 0.19 for k in range(len(shown))], [ROWS[row][0] for row in shown])
    bars.invert_yaxis()
    bars.set(xlabel="test accuracy (%)", xlim=(max(0, own["knn"].min() - 5), min(100, own["linear"].max() + 4)))
    bars.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    weights = {float(row.removeprefix("lambda-")) if row != "sane" else 0.5: row for row in TABLE5}
    known = [
        (weight, own[own["row"] == row]["knn"].mean()) for weight, row in weights.items() if (own["row"] == row).any()
    ]
    line.plot(*zip(*known, strict=True), marker="o", color=COLOURS[0]) if known else None
    line.set(xlabel="lambda", ylabel="k-NN accuracy (%)", title="Table 5")
    curves = own[own["row"] == "sane"]
    for name, colour, title in (("onehot", COLOURS[1], "one-hot"), ("refined", COLOURS[0], "refined")):
        for text in curves.get(f"{name}_labels", pd.Series(dtype=str)).dropna():
            values = numbers(text)
            labels.plot(range(1, len(values) + 1), values, color=colour, label=title)
            title = "_"
    labels.set(xlabel="epoch", ylabel="distance to labels by class", title="quality of labels")
    labels.legend(frameon=False)
    for axis in (bars, line, labels):
        tidy(axis)
    save(figure, path)


def summary(found: pd.DataFrame, part: str) -> dict[str, Any]:
    """The figures of the last line."""
    own = found[(found["part"] == part) & (found["row"] != "bridge")]
    out: dict[str, Any] = {}
    for (row, strong), lines in own.groupby(["row", "strong"], sort=False):
        name = f"{row}{'_strong' if str(strong) == 'True' else ''}"
        out[name] = {"knn": round(float(lines["knn"].mean()), 2), "linear": round(float(lines["linear"].mean()), 2)}
        if len(lines) > 1:
            out[name] |= {
                "knn_sd": round(float(lines["knn"].std()), 2),
                "linear_sd": round(float(lines["linear"].std()), 2),
            }
    quality = own[own["row"] == "sane"]
    if "refined_labels" in quality and quality["refined_labels"].notna().any():
        kept = quality.dropna(subset=["refined_labels"])
        for name in ("onehot", "refined", "right"):
            ends = [numbers(text)[-1] for text in kept[f"{name}_labels"]]
            out[f"labels_{name}"] = round(sum(ends) / len(ends), 4)
    return out


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.set_defaults(methods="")
    made.add_argument("--strong", action="store_true", help="Tables 4 and 5 with strong views")
    protocol.job_arguments(made)
    protocol.rows_argument(made)
    return made


def main() -> None:
    options = parser().parse_args()
    torch.set_num_threads(options.threads)
    unknown = [row for row in options.methods.split(",") if row and row not in (*ROWS, *ROBUST)]
    if unknown:
        raise SystemExit(f"no row is called {', '.join(unknown)}; there are {', '.join(ROWS)}")
    results = protocol.Results(options.results / "sane.csv", options.fresh)
    work = partial(run, options=options)
    found, failed = protocol.finish(trials(options), work, results, options)
    if found.empty:
        raise SystemExit("no run has ended yet; allow more minutes")
    if options.paper:
        text = published_tables(found, options.epochs)
        write_text(options.results / "sane_paper.md", text)
        print(text)
        protocol.close({"paper": summary(found, "paper"), **({"failed": failed} if failed else {})})
        return
    kind = "quick" if options.quick else "fashion"
    text = tables(found, kind, options.strong)
    if (found["part"] == "cifar").any():
        text += "\n" + tables(found, "cifar", options.strong)
    text += bridge_table(found, "quick-bridge" if options.quick else "bridge")
    stem = f"sane_{kind}" if kind != "fashion" else "sane_strong" if options.strong else "sane"
    write_text(options.results / f"{stem}.md", text)
    if ((found["part"] == kind) & found.get("knn", pd.Series(dtype=float)).notna()).any():
        # Table 6 alone has both kinds of views.
        own = found["row"].isin(["random", "moco", *PEERS]) | (found["strong"].astype(str) == str(options.strong))
        picture(found[own], kind, options.results / f"{stem}.png")
    print(text)
    figures: dict[str, Any] = {kind: summary(found, kind)}
    if (found["part"] == "cifar").any():
        figures["cifar"] = summary(found, "cifar")
    joined = found[found["row"] == "bridge"]
    if len(joined):
        columns = [f"{name}_{how}" for name in ("ema_refinement", "standard") for how in ("scratch", "pretrained")]
        figures["bridge"] = {name: round(float(joined[name].mean()), 2) for name in columns}
    protocol.close({**figures, **({"failed": failed} if failed else {})})


if __name__ == "__main__":
    main()
