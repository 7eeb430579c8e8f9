"""Table 1 of the PRL paper: regression of five facial landmarks from targets of which a share is corrupted.

A network of three convolutions is trained on clean targets of some faces, and its 512 features of other faces are
saved; then all eight methods learn the ten coordinates from the features, for five corruptions and four rates. R2 on
clean test targets, the mean of the last ten epochs. faces5 stands in for CelebA: 6,645 faces train the features, 4,000
others are the data, a fifth of them for testing. An extra row trains on all given targets of faces5, of which a quarter
are wrong by nature, with the automatic rate and with the true one. "subset" is ordinary training on clean targets of as
many rows as a perfect filter would leave. The last line is one JSON object.

    python benchmarks/prl_regression.py --data FOLDER             all cells, three seeds
    python benchmarks/prl_regression.py --data FOLDER --quick     linadv and mixture at 20 and 40 %, one seed
    python benchmarks/prl_regression.py --data FOLDER --paper     100 epochs in batches of 512, five seeds

At the published scale the data is CelebA if the folder has it, and its validation images say which epoch of the
extractor is kept.

``--minutes`` starts no further run after so many minutes; the next call goes on from there.
"""

from __future__ import annotations

import argparse
import time
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
from torch.optim import Adam

from holdfast import Method, Rows, fit
from holdfast.compare import corrupted
from holdfast.data import celeba
from holdfast.feed import evaluate, inputs_of
from holdfast.files import write_text, written_aside
from holdfast.functional import Constant
from holdfast.methods import PRLG, PRLL, CoPRLL, Huber, IndividualClip, MinSGD, NormClip
from holdfast.plots import COLOURS, save, tidy
from holdfast.progress import Bar
from holdfast.task import Regression

KINDS = ("linadv", "signflip", "uninoise", "pairflip", "mixture")
RATES = (0.1, 0.2, 0.3, 0.4)
MAKERS: dict[str, Callable[[Any], Method]] = {
    "standard": lambda rate: Method(),
    "norm-clip": lambda rate: NormClip(),
    "huber": lambda rate: Huber(),
    "min-sgd": lambda rate: MinSGD(),
    "individual-clip": lambda rate: IndividualClip(),
    "prl-g": lambda rate: PRLG(rate, ramp=0),
    "prl-l": lambda rate: PRLL(rate, ramp=0),
    "co-prl-l": lambda rate: CoPRLL(rate),
}
PUBLISHED = {
    "linadv": ("-2.33 -2.22 .868 .103 .68 .876 .876 .876", "-8.65 -8.55 .817 .120 .367 .871 .869 .869",
               "-18.5 -19.2 .592 .146 -.944 .865 .861 .860", "-32.2 -32.8 -2.53 .180 -1.60 .857 .847 .847"),
    "signflip": (".800 .798 .857 .110 .846 .877 .878 .879", ".641 .638 .786 .105 .82 .875 .875 .877",
                 ".422 .421 .629 .124 .795 .871 .873 .875", ".193 .190 .379 -.028 .759 .872 .872 .871"),
    "uninoise": (".845 .844 .875 .103 .859 .879 .881 .881", ".798 .795 .865 .120 .844 .878 .880 .880",
                 ".728 .725 .847 .146 .831 .878 .879 .879", ".656 .654 .825 .180 .821 .876 .878 .878"),
    "pairflip": (".852 .851 .870 .110 .867 .877 .876 .878", ".784 .783 .841 .120 .849 .874 .873 .874",
                 ".688 .686 .770 .133 .828 .870 .872 .873", ".556 .553 .642 .134 .810 .863 .870 .870"),
    "mixture": ("-.212 -.010 .873 .101 .861 .878 .880 .880", "-.404 -.463 .855 .119 .855 .877 .878 .879",
                "-.716 -.824 .823 .148 .847 .875 .877 .878", "-3.13 -2.69 .763 .175 .835 .872 .875 .876"),
}  # fmt: skip
"""R2 on CelebA as published, by kind and rate, in the order of the methods."""


class Extractor(nn.Module):
    """Three convolutions and a layer of 512 features; made for 80x80 faces at half their size."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.AvgPool2d(2)]
        for before, after in ((channels, 32), (32, 64), (64, 128)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(512), nn.LeakyReLU())
        self.head = nn.Linear(512, outputs)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.body(x))
        return output


def small_net(outputs: int) -> nn.Module:
    """The paper's three fully connected layers with 256 hidden units."""
    return nn.Sequential(
        nn.Linear(512, 256), nn.LeakyReLU(), nn.Linear(256, 256), nn.LeakyReLU(), nn.Linear(256, outputs)
    )


def standardised(rows: Rows, like: Rows) -> Rows:
    """Targets in units of the spread of some rows, around their mean."""
    return replace(rows, y=(rows.y - like.y.mean(0)) / like.y.std(0))


def parts(options: argparse.Namespace) -> dict[str, Rows]:
    """Faces to train the features on, faces of the experiment, and all faces with the targets as given."""
    folder = protocol.data_folder(options)
    source = torch.Generator().manual_seed(0)
    if data_name(options) == "celeba":
        splits = celeba.read_parts(folder / "celeba", image_size=(80, 64))
        return {"extract": splits["train"], "held_out": splits["validation"], "data": splits["test"]}
    train, test = protocol.load(options, "faces5")
    with np.load(folder / "faces5_jpeg.npz") as file:
        clean = torch.from_numpy(file["group_train"] < 2)
    order = clean.nonzero()[:, 0]
    order = order[torch.randperm(len(order), generator=source)]
    first = train.take(order[4000:])
    assert isinstance(first.x, Tensor)
    assert isinstance(test.x, Tensor)
    extract = replace(first, x=torch.cat([first.x, test.x]), y=torch.cat([first.y, test.y]))
    return {
        "extract": extract,
        "data": train.take(order[:4000]),
        "all": train,
        "clean": replace(train, y=clean[:, None].float()),
    }


class Best:
    """The weights of the epoch whose R2 on other rows is best."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.score = -float("inf")
        self.state: dict[str, Tensor] = {}

    def __call__(self, epoch: int, net: nn.Module) -> dict[str, float]:
        predicted = evaluate(net, inputs_of(self.rows.x, next(net.parameters()).device)).cpu()
        score = Regression(self.rows.y.shape[1]).score(predicted, self.rows.y)
        if score > self.score:
            self.score, self.state = score, {name: t.detach().cpu().clone() for name, t in net.state_dict().items()}
        return {"validation": score}


def data_name(options: argparse.Namespace) -> str:
    """CelebA at the published scale where the folder has it, else faces5."""
    return "celeba" if options.paper and (protocol.data_folder(options) / "celeba").is_dir() else "faces5"


def features(options: argparse.Namespace) -> dict[str, Any]:
    """Features and targets, made once and kept beside the results."""
    path = options.results / "cache" / f"{data_name(options)}_features.npz"
    if not path.exists() or options.fresh:
        datasets = parts(options)
        torch.manual_seed(0)
        extract = standardised(datasets["extract"], datasets["extract"])
        net = Extractor(extract.shape[0], extract.y.shape[1])
        net(torch.zeros(1, *extract.shape))
        device = protocol.device(options)
        # CelebA has validation images to stop early by; faces5 has none to spare.
        held_out = datasets.get("held_out")
        best = None if held_out is None else Best(standardised(held_out, datasets["extract"]))
        run = fit(
            extract, Method(), net, epochs=options.extractor_epochs, batch_size=64, device=device, watch=best,
            progress=Bar("features"),
        )  # fmt: skip
        if best is not None:
            run.net.load_state_dict(best.state)
        body = run.net.body.cpu()
        arrays = {"y": datasets["data"].y.numpy()}
        for name in ("data", "all"):
            if name in datasets:
                arrays[f"x_{name}"] = evaluate(body, inputs_of(datasets[name].x, "cpu")).numpy()
        if "all" in datasets:
            arrays |= {"y_all": datasets["all"].y.numpy(), "clean": datasets["clean"].y[:, 0].numpy() > 0}
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as aside, open(aside, "wb") as file:
            np.savez_compressed(file, **arrays)
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def trial(
    method: str,
    kind: str | None,
    rate: float,
    seed: int,
    arrays: dict[str, Any],
    epochs: int,
    batch: int,
    device: str = "cpu",
) -> dict[str, Any]:
    """One run; R2 on clean test targets by epoch as a string of numbers beside the mean of the last ten."""
    torch.manual_seed(seed)
    if kind == "natural":
        order = torch.randperm(int(arrays["clean"].sum()), generator=torch.Generator().manual_seed(seed))
        apart = arrays["clean"].nonzero()[:, 0][order[:800]]
        keep = torch.ones(len(arrays["clean"]), dtype=torch.bool)
        keep[apart] = False
        rows, test = (
            Rows(arrays["x_all"][keep], arrays["y_all"][keep]),
            Rows(arrays["x_all"][apart], arrays["y_all"][apart]),
        )
    else:
        rows, test = Rows(arrays["x_data"], arrays["y"]).split(0.2, seed)
    test, rows = standardised(test, rows), standardised(rows, rows)
    if kind == "subset":
        rows = rows.take(torch.randperm(len(rows))[: round((1 - rate) * len(rows))])
    rows = corrupted(rows, kind if kind in KINDS else None, rate, seed)
    made = MAKERS[method]("auto" if kind == "natural" and rate == 0 else rate)
    run = fit(
        rows, made, small_net(rows.y.shape[1]), test=test, epochs=epochs, batch_size=batch, seed=seed, device=device,
        optimizer=lambda p: Adam(p, lr=3e-4, fused=True), schedule=Constant(),
    )  # fmt: skip
    found = round(made.estimate.rate, 4) if hasattr(made, "estimate") else rate
    curve = " ".join(f"{value:.4f}" for value in run.history["test"])
    return {
        "last10": round(run.last, 4),
        "told": found,
        "seconds": round(float(run.history["seconds"].sum()), 1),
        "curve": curve,
    }


def table(results: pd.DataFrame, kinds: list[str]) -> str:
    """Markdown: mean and spread over seeds, and the paper's figure in brackets."""
    names = list(MAKERS)
    out = ["| corruption | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for kind in ("clean", "subset", *kinds, "natural"):
        for number, rate in enumerate(RATES):
            single = kind in ("clean", "natural")
            part = results[(results["kind"] == kind) & (results["rate"] == (0.0 if single else rate))]
            if part.empty or (single and number):
                continue
            cells = []
            for place, name in enumerate(names):
                own = part[part["method"] == name]["last10"]
                published = f" ({PUBLISHED[kind][number].split()[place]})" if kind in PUBLISHED else ""
                cells.append(protocol.mean_and_spread(own, 3) + (published if len(own) else ""))
            title = (
                kind if single else f"clean, {1 - rate:.0%} of the rows" if kind == "subset" else f"{kind} {rate:.0%}"
            )
            out.append(f"| {title} | " + " | ".join(cells) + " |")
    part = results[(results["kind"] == "natural") & (results["rate"] > 0)]
    if len(part):
        cells = [protocol.mean_and_spread(part[part["method"] == name]["last10"], 3) for name in names]
        out.append(f"| natural, given {part['rate'].iloc[0]:.1%} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def picture(results: pd.DataFrame, kinds: list[str], rate: float, path: Path) -> None:
    """Test R2 by epoch, one panel a corruption."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(kinds), 3.8), layout="constrained")
    axes = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axis, kind in zip(axes, kinds, strict=True):
        for colour, name in zip(COLOURS, MAKERS, strict=True):
            part = results[(results["kind"] == kind) & (results["method"] == name) & (results["rate"] == rate)]
            lines = [[float(value) for value in text.split()] for text in part["curve"]]
            if lines:
                axis.plot(np.arange(1, len(lines[0]) + 1), np.mean(lines, 0), color=colour, label=name, linewidth=1.6)
        clean = results[(results["kind"] == "clean") & (results["method"] == "standard")]["last10"].mean()
        axis.axhline(clean, color="grey", linestyle=":", linewidth=1, label="clean targets")
        axis.set(title=f"{kind} {rate:.0%}", xlabel="epoch", ylim=(-0.25, 1.0))
        tidy(axis)
    axes[0].set_ylabel("test R2 (curves below the frame are left out)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=9, frameon=False)
    save(figure, path)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.add_argument("--minutes", type=float, default=float("inf"), help="start no further run after so long")
    made.add_argument("--extractor-epochs", type=int, default=20, help="epochs of the network that makes features")
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    epochs = options.epochs or (100 if options.paper else 40)
    batch = 512 if options.paper else 128
    seeds = options.seeds or (1 if options.quick else 5 if options.paper else 3)
    device = protocol.device(options)
    kinds, rates = (["linadv", "mixture"], (0.2, 0.4)) if options.quick else (list(KINDS), RATES)
    arrays = features(options)
    # The hardest first, so that a run cut short by --minutes has measured the most.
    hardest = sorted(rates, key=(0.4, 0.2, 0.3, 0.1).index)
    wrong = round(float((~arrays["clean"]).sum() / (len(arrays["clean"]) - 800)), 3) if "x_all" in arrays else 0.0
    natural = [("natural", 0.0), ("natural", wrong)] if wrong else []
    subsets = [("subset", rate) for rate in hardest]
    cells = [("clean", 0.0), *subsets, *((kind, rate) for kind in kinds for rate in hardest[:1]), *natural]
    cells += [(kind, rate) for rate in hardest[1:] for kind in kinds]
    data = data_name(options)
    results = protocol.Results(options.results / "prl_regression.csv", options.fresh)
    lines, start = [], time.monotonic()
    for seed in range(seeds):
        for kind, rate in cells:
            names = ("standard",) if kind in ("clean", "subset") else tuple(MAKERS)
            for method in ("prl-g", "prl-l", "co-prl-l") if kind == "natural" and rate else names:
                asked = {"data": data, "kind": kind, "rate": rate, "method": method, "epochs": epochs}
                asked |= {"batch": batch, "seed": seed}
                if time.monotonic() - start > 60 * options.minutes and results.find(asked) is None:
                    continue
                row = results.get(asked, partial(trial, method, kind, rate, seed, arrays, epochs, batch, device))
                print(f"seed {seed} {kind} {rate:.0%} {method}: {row['last10']}", flush=True)
                lines.append(row)
    found = pd.DataFrame(lines)
    text = table(found, kinds)
    stem = options.results / f"prl_regression{'_paper' if options.paper else ''}"
    write_text(stem.with_suffix(".md"), text)
    picture(found, kinds, 0.4, stem.with_suffix(".png"))
    print(text)
    clean = found[found["kind"] == "clean"]["last10"].mean()
    means = found[found["kind"].isin(KINDS)].groupby(["kind", "rate", "method"])["last10"].mean()
    worst = {
        name: round(float(clean - means.xs(name, level="method").min()), 4) for name in ("prl-g", "prl-l", "co-prl-l")
    }
    ordinary = {kind: round(float(means.loc[kind, :, "standard"].min()), 3) for kind in ("linadv", "mixture")}
    protocol.close({"clean": round(float(clean), 4), "worst_below_clean": worst, "standard_worst": ordinary})


if __name__ == "__main__":
    main()
