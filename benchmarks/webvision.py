"""Mini WebVision, Table 3 of the CRUST paper: labels that are wrong by nature, two test sets, top-1 and top-5.

The first 50 classes of WebVision's Google images; tests are WebVision's own validation images and those of ImageNet.
The paper trains Inception-ResNet-v2 for 90 epochs from a learning rate of 0.1, annealed at epochs 30 and 60, on
coresets of half the data. What it leaves open is filled from its CIFAR experiments: batches of 128, SGD with a momentum
of 0.9 and a weight decay of 0.0005, annealing by a factor of 10, random crops and flips. FOLDER has `webvision` as
published and `imagenet` with the validation images of ILSVRC-2012. The last line is one JSON object with a key for each
method. A stopped run goes on from its last epoch when it is started again.

    python benchmarks/webvision.py --data FOLDER             images of 64 pixels, ResNet-32, 30 epochs
    python benchmarks/webvision.py --quick                   six classes of generated images, 4-layer CNN; needs no data
    python benchmarks/webvision.py --data FOLDER --paper --devices 4 --workers 8
"""

from __future__ import annotations

import argparse
import colorsys
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import protocol
import torch
from PIL import Image
from torch import Tensor, nn
from torch.optim import SGD

from holdfast import HoldfastError, Rows, Run, fit
from holdfast.augment import CropFlip
from holdfast.data import webvision
from holdfast.feed import evaluate, inputs_of
from holdfast.functional import Steps
from holdfast.methods import METHODS
from holdfast.nets import build
from holdfast.progress import Bar
from holdfast.run import LAST
from holdfast.task import Classification


@dataclass(frozen=True)
class Scale:
    """How large an experiment is: images are read with a side and seen by the network as crops of another."""

    title: str
    classes: int
    side: int
    crop: int
    net: str
    epochs: int
    batch_size: int = 128


PAPER = Scale("paper", webvision.MINI, 320, 299, "inception-resnet-v2", 90)
SMALL = Scale("small", webvision.MINI, 72, 64, "resnet32", 30)
QUICK = Scale("generated", 6, 40, 32, "cnn4", 12, batch_size=32)


class Middle(nn.Module):
    """The middle of an image that is larger than the crops of training, in [-1, 1] instead of [0, 1]."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        top, left = (x.shape[2] - self.side) // 2, (x.shape[3] - self.side) // 2
        return 2 * x[:, :, top : top + self.side, left : left + self.side] - 1


@dataclass(frozen=True)
class Scored:
    """After each epoch: top-1 and top-5 accuracy on each test set."""

    tests: Mapping[str, Rows]
    workers: int

    def __call__(self, epoch: int, net: nn.Module) -> dict[str, float]:
        device = next(net.parameters()).device
        line = {}
        for name, rows in self.tests.items():
            output = evaluate(net, inputs_of(rows.x, device, self.workers)).float().cpu()
            task = Classification(len(rows.classes or ()))
            line |= {f"{name}_top{k}": task.top(output, rows.y, k) for k in (1, 5)}
        return line


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.set_defaults(methods="standard,crust", device="auto")
    made.add_argument("--imagenet-labels", type=Path, help="list of classes, if ImageNet's images lie side by side")
    made.add_argument("--runs", type=Path, default=Path("runs/webvision"), help="folder for checkpoints")
    made.add_argument("--batch-size", type=int, help="rows in a batch")
    made.add_argument("--workers", type=int, default=0, help="processes that decode images, for each device")
    made.add_argument("--devices", type=int, default=1, help="devices that share each batch")
    made.add_argument("--precision", default="32-true", help="32-true, bf16-mixed, 16-mixed")
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    scale = QUICK if options.quick else PAPER if options.paper else SMALL
    epochs, batch_size = options.epochs or scale.epochs, options.batch_size or scale.batch_size
    results = protocol.Results(options.results / "webvision.csv", options.fresh)
    with ExitStack() as stack:
        if options.quick:
            options.data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webvision-")))
            generate(options.data, scale.classes)
        try:
            rows, tests = load(options, scale)
            report: dict[str, dict[str, float]] = {}
            for method in options.methods.split(","):
                lines = []
                for seed in range(options.seeds or 1):
                    asked = {
                        "scale": scale.title,
                        "rows": len(rows),
                        "method": method,
                        "net": scale.net,
                        "epochs": epochs,
                        "batch_size": batch_size,
                        "seed": seed,
                    }
                    lines.append(results.get(asked, partial(trial, options, scale, rows, tests, asked)))
                report[method] = protocol.mean(lines, [*FIGURES, "coverage", "seconds"])
                print(f"{method}: {scores_text(report[method])}")
        except HoldfastError as error:
            raise SystemExit(str(error)) from None
    protocol.close(report)


SCORES = tuple(f"{name}_top{k}" for name in ("webvision", "imagenet") for k in (1, 5))
FIGURES = tuple(f"{score}_{of}" for score in SCORES for of in ("last10", "best"))


def load(options: argparse.Namespace, scale: Scale) -> tuple[Rows, dict[str, Rows]]:
    """The training rows, and the test rows of both sources."""
    folder = options.data or os.environ.get("HOLDFAST_DATA")
    if not folder:
        raise SystemExit("name the folder with the data: --data FOLDER or HOLDFAST_DATA")
    web, imagenet = Path(folder) / "webvision", Path(folder) / "imagenet"
    for path in (web, imagenet):
        if not path.is_dir():
            raise SystemExit(f"{folder} has no folder {path.name}")
    rows, own = webvision.read(web, classes=scale.classes, image_size=scale.side)
    other = webvision.read_imagenet(imagenet, web / webvision.SYNSETS, rows.recipe, labels=options.imagenet_labels)
    return rows, {"webvision": own, "imagenet": other}


def trial(
    options: argparse.Namespace, scale: Scale, rows: Rows, tests: Mapping[str, Rows], asked: Mapping[str, Any]
) -> dict[str, float]:
    """One run of one method: its figures, scores in per cent."""
    out = options.runs / "-".join(str(asked[name]) for name in ("scale", "method", "epochs", "batch_size", "seed"))
    if options.fresh and (out / "run.json").exists():
        shutil.rmtree(out)
    # The network is made here, so that each method starts from the same weights.
    torch.manual_seed(asked["seed"])
    body = build(scale.net, (3, scale.crop, scale.crop), len(rows.classes or ()))
    run = fit(
        rows, METHODS[asked["method"]](), nn.Sequential(Middle(scale.crop), body),
        epochs=asked["epochs"], batch_size=asked["batch_size"], augment=CropFlip(scale.crop),
        optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=5e-4), schedule=Steps((30 / 90, 60 / 90)),
        seed=asked["seed"], device=options.device, devices=options.devices, precision=options.precision,
        workers=options.workers, out=out, resume=True, progress=Bar(asked["method"]),
        watch=Scored(tests, options.workers),
    )  # fmt: skip
    return figures(run)


def figures(run: Run) -> dict[str, float]:
    """Of each score the mean of the last ten epochs and, chosen by looking at the test, the best epoch."""
    line = {}
    for score in SCORES:
        line[f"{score}_last10"] = round(100 * float(run.history[score].iloc[-LAST:].mean()), 2)
        line[f"{score}_best"] = round(100 * float(run.history[score].max()), 2)
    line["coverage"] = round(float(run.history["coverage"].iloc[-1]), 4)
    line["seconds"] = round(float(run.history["seconds"].sum()), 1)
    return line


def scores_text(line: Mapping[str, float]) -> str:
    """'webvision top1 72.40 (73.00), ...': last ten epochs, and in brackets the best."""
    return ", ".join(
        f"{score.replace('_', ' ')} {line[f'{score}_last10']:.2f} ({line[f'{score}_best']:.2f})" for score in SCORES
    )


def generate(folder: Path, classes: int) -> None:
    """A folder of the published layouts: stripes whose direction is the class, three labels in ten redrawn."""
    chance = np.random.default_rng(0)
    web, synsets = folder / "webvision", [f"n{k:08d}" for k in range(classes)]
    lists: dict[str, list[str]] = {webvision.TRAIN: [], webvision.TEST: []}
    for k, synset in enumerate(synsets):
        for i in range(40):
            name = f"google/q{k + 1:04d}/{i}.jpg"
            label = int(chance.integers(classes)) if i % 10 < 3 else k
            _paint(web / name, k, classes, chance)
            lists[webvision.TRAIN].append(f"{name} {label}")
        for i in range(10):
            name = f"val{10 * k + i:06d}.jpg"
            _paint(web / webvision.TEST_IMAGES / name, k, classes, chance)
            lists[webvision.TEST].append(f"{name} {k}")
            _paint(folder / "imagenet" / synset / f"ILSVRC2012_val_{10 * k + i:08d}.JPEG", k, classes, chance)
    (web / "info").mkdir()
    (web / webvision.SYNSETS).write_text("".join(f"{synset} stripes\n" for synset in synsets))
    for name, lines in lists.items():
        (web / name).write_text("\n".join(lines) + "\n")


def _paint(path: Path, label: int, classes: int, chance: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows, columns = np.mgrid[:48, :64]
    angle = np.pi * label / classes
    wave = np.sin((rows * np.sin(angle) + columns * np.cos(angle)) / 3 + chance.uniform(0, 6))
    colour = np.array(colorsys.hsv_to_rgb(label / classes, 0.1, 1.0))
    pixels = 128 * colour * (1 + 0.5 * wave[..., None]) + chance.normal(0, 100, (48, 64, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, format="JPEG")


if __name__ == "__main__":
    main()
