"""Every algorithm, equation, statement, table and figure of the four papers on one page: docs/papers.md.

A line each: where it is, how to run it, what came out beside what is published, and what was reduced. Statements are
listed in papers.csv; figures come from the rows of results, and what is published from the benchmarks that measure it.
A figure that nobody has run yet is called "not run".

    python benchmarks/papers.py     writes docs/papers.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import crust_ablation
import crust_table1
import pandas as pd
import prl_classification
import prl_regression
import protocol
import sane

from holdfast.files import write_text

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
NOT_RUN = "not run"
TITLES = {
    "crust": "CRUST: Coresets for Robust Training of Neural Networks against Noisy Labels (NeurIPS 2020)",
    "prl": "PRL: Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision (ICML 2021)",
    "early": "Early stopping: Gradient Descent with Early Stopping is Provably Robust to Label Noise (AISTATS 2020)",
    "sane": "SANE: A Theory-Driven Self-Labeling Refinement Method for Contrastive Representation Learning "
    "(NeurIPS 2021)",
}
HEAD = ("item", "what it is", "file", "command", "ours", "theirs", "reduced how")
IMAGENET = "needs ImageNet and eight GPUs; no figure at a smaller scale would compare"
CRUST_SMALL = "ResNet-20 of half the width, 5,000 images, 20 epochs, no augmentation, one seed"


class Line(NamedTuple):
    """One line of the page."""

    item: str
    what: str
    file: str
    command: str
    ours: str
    theirs: str
    reduced: str


def measured(results: Path, file: str, column: str, digits: int, /, **where: Any) -> str:
    """The mean over the rows of a file that meet all of ``where``, with the spread over several; or "not run"."""
    path = results / f"{file}.csv"
    table = pd.read_csv(path) if path.exists() else pd.DataFrame()
    for key, value in where.items():
        table = table[table[key].astype(str) == str(value)] if key in table else table.iloc[:0]
    values = table[column].dropna() if column in table else pd.Series(dtype=float)
    return protocol.mean_and_spread(values, digits) if len(values) else NOT_RUN


def named(figures: Mapping[str, str]) -> str:
    """'CRUST 33.88, ordinary 25.82', and "not run" alone where nothing was."""
    return NOT_RUN if set(figures.values()) == {NOT_RUN} else ", ".join(f"{k} {v}" for k, v in figures.items())


def statements(paper: str) -> Iterator[Line]:
    """What papers.csv lists."""
    table = pd.read_csv(Path(__file__).with_name("papers.csv"), dtype=str, keep_default_na=False)
    for line in table[table["paper"] == paper].itertuples(index=False):
        yield Line(*line[1:])


WEBVISION = {
    "forward": "61.12 57.36", "decoupling": "62.54 58.26", "co-teaching": "63.58 61.48", "mentor-net": "63.00 57.80",
    "d2l": "62.68 57.80", "incv": "65.24 61.60", "crust": "72.40 67.36",
}  # fmt: skip
"""Table 3 of CRUST: top-1 on WebVision and on ImageNet."""


def crust(results: Path) -> Iterator[Line]:
    file = "benchmarks/crust_table1.py"
    shown = {"CRUST": "crust", "default": "second-opinion", "ordinary": "standard"}
    for data, kind, rate in crust_table1.COLUMNS:
        told = crust_table1.published(data)["crust"][kind, rate]
        title = f"Table 1, {'CIFAR-10' if data == 'cifar10' else 'CIFAR-100'}, {kind} {rate:.0%}"
        full = {
            name: measured(results, "crust_table1", "last10", 2, part="paper" if data == "cifar10" else "paper-100",
                           method=method, noise=kind, rate=rate)
            for name, method in shown.items()
        }  # fmt: skip
        yield Line(
            title, "CRUST beside eight methods", file, f"{file} --paper", named(full), f"CRUST {told}", "nothing"
        )
        small = {
            name: measured(results, "crust_table1", "last10", 2, part="cifar", method=method, noise=kind, rate=rate)
            for name, method in shown.items()
        }
        if data == "cifar10" and (kind, rate) in crust_table1.SMALL["cifar"]:
            told = f"CRUST {told}"
            yield Line(f"{title}, small", "the same", file, f"{file} --small", named(small), told, CRUST_SMALL)
    for method in crust_table1.TABLE1:
        ours = measured(
            results, "crust_table1", "last10", 2, part="mnist", method=method, epochs=40, noise="symmetric", rate=0.5
        )
        told = crust_table1.published("cifar10")[method]["symmetric", 0.5]
        title = crust_table1.NAMES[method]
        reduced = "MNIST, 784-256-10, 40 epochs, no noise rate given"
        yield Line(f"Table 1, {title}", "symmetric 50 %", file, file, ours, f"{told} on CIFAR-10", reduced)
    file = "benchmarks/crust_ablation.py"
    for name, published in crust_ablation.PAPER.items():
        for rate, told in zip((0.2, 0.5), published, strict=True):
            item = f"Table 2, {name}, {rate:.0%}"
            for data, how, reduced in (
                ("cifar10", "--paper", "nothing"), ("mnist", "--quick", "MNIST, 10,000 images, 784-256-10, 12 epochs"),
            ):  # fmt: skip
                scale = {"rows": 50_000, "epochs": 120} if data == "cifar10" else {"rows": 10_000}
                ours = measured(results, "crust_ablation", "last10", 2, data=data, name=name, rate=rate, **scale)
                yield Line(item, f"ablation, {data}", file, f"{file} {how}", ours, f"{told} on CIFAR-10", reduced)
    for fraction in (0.3, 0.5, 0.7):
        ours = measured(results, "crust_figure1_mnist", "purity", 3, fraction=fraction, epoch=19.0)
        reduced = "MNIST, 784-256-10, 20 epochs; central selection"
        yield Line(
            f"Figure 1, coreset of {fraction:.0%}", "right labels in the coreset at the end", file, f"{file} --paper",
            ours, "a curve, falling with the size", reduced,
        )  # fmt: skip
    file = "benchmarks/webvision.py"
    for method, told in WEBVISION.items():
        ours = {
            where: measured(results, "webvision", f"{where.lower()}_top1_last10", 2, scale="paper", method=method)
            for where in ("WebVision", "ImageNet")
        }
        command = f"{file} --paper --methods {method}"
        beside = named(dict(zip(ours, told.split(), strict=True)))
        title = f"Table 3, {crust_table1.NAMES[method]}"
        yield Line(title, "mini WebVision, top-1", file, command, named(ours), beside, "nothing")


def prl(results: Path) -> Iterator[Line]:
    file, places = "benchmarks/prl_regression.py", list(prl_regression.MAKERS)
    for kind, lines in prl_regression.PUBLISHED.items():
        for rate, line in zip(prl_regression.RATES, lines, strict=True):
            told = line.split()
            shown = {"ordinary": "standard", "PRL(G)": "prl-g", "PRL(L)": "prl-l", "Co-PRL(L)": "co-prl-l"}
            ours = {
                name: measured(results, "prl_regression", "last10", 3, data="faces5", kind=kind, rate=rate, method=m)
                for name, m in shown.items()
            }
            beside = named({name: told[places.index(m)] for name, m in shown.items()})
            reduced = "faces5 in place of CelebA, 40 epochs, batches of 128, three seeds"
            yield Line(f"Table 1, {kind} {rate:.0%}", "R2", file, file, named(ours), beside, reduced)
    yield Line(
        "Table 1 on CelebA", "R2 of all cells", file, f"{file} --paper",
        measured(results, "prl_regression", "last10", 3, data="celeba", method="prl-l"), "the table", "nothing",
    )  # fmt: skip
    file, places = "benchmarks/prl_classification.py", list(prl_classification.MAKERS)
    shown = {"SPL": "spl", "PRL(L)": "prl-l", "Co-teaching": "co-teaching", "Co-PRL(L)": "co-prl-l"}
    for data, table in prl_classification.PUBLISHED.items():
        for (kind, rate), told in table.items():
            beside = named({name: f"{told[places.index(m)]:.2f}" for name, m in shown.items()})
            for net, how, reduced in (
                ("cnn9", " --paper", "nothing"), ("cnn4", "", "4 layers, 10,000 images, 12 epochs, one seed"),
            ):  # fmt: skip
                if net == "cnn4" and data == "cifar100":
                    continue
                ours = {
                    name: measured(results, "prl_classification", "last", 2, data=data, net=net, method=m, noise=kind,
                                   rate=rate, shift="0")
                    for name, m in shown.items()
                }  # fmt: skip
                item = f"Table 2, {data}, {kind} {rate:.0%}{', small' if net == 'cnn4' else ''}"
                yield Line(item, "accuracy", file, f"{file}{how}", named(ours), beside, reduced)
    for (data, kind, rate), told in prl_classification.SHIFTED.items():
        shifts = ("-0.1", "-0.05", "0", "0.05", "0.1")
        ours = {
            shift: measured(results, "prl_classification", "last", 2, data=data, net="cnn9", method="co-prl-l",
                            noise=kind, rate=rate, shift=shift)
            for shift in shifts
        }  # fmt: skip
        beside = named(dict(zip(shifts, map(str, told), strict=True)))
        yield Line(f"Tables 3 and 5, {data}, {kind} {rate:.0%}", "a rate that is off", file, f"{file} --paper",
                   named(ours), beside, "nothing")  # fmt: skip
    for kind, rate in (("pairflip", 0.45), ("symmetric", 0.5)):
        ours = {
            shift: measured(results, "prl_classification", "last", 2, data="mnist", method="co-prl-l", noise=kind,
                            rate=rate, shift=shift)
            for shift in ("-0.1", "-0.05", "0", "0.05", "0.1")
        }  # fmt: skip
        beside = named(dict(zip(ours, map(str, prl_classification.SHIFTED["cifar10", kind, rate]), strict=True)))
        yield Line(f"Tables 3 and 5, MNIST, {kind} {rate:.0%}", "a rate that is off", file, file, named(ours), beside,
                   "MNIST, 12 epochs, one seed; published on CIFAR-10")  # fmt: skip
    yield Line("Table 4", "hyperparameters", "tests/benchmarks/test_presets.py", "pytest tests/benchmarks",
               "the same, held by the test", "Adam, 0.001 and 0.0003, batches of 128 and 512", "nothing")  # fmt: skip
    file = "benchmarks/prl_cost.py"
    for method, told in (("prl_g", "3.93"), ("prl_l", "1.48")):
        ours = measured(results, "prl_cost", "cpu_ratio", 2, method=method)
        yield Line(f"Table 6, {method}", "time of an epoch over ordinary training", file, file, ours, told,
                   "a small network on a CPU, in place of a GPU")  # fmt: skip
    for number, picture, file in (
        (2, "prl_regression.png", "benchmarks/prl_regression.py"),
        (3, "prl_classification.png", "benchmarks/prl_classification.py"),
    ):
        there = f"drawn: {picture}" if (results / picture).exists() else NOT_RUN
        yield Line(f"Figure {number}", "test curves", file, file, there, "curves", "as the small tables above")


def early(results: Path) -> Iterator[Line]:
    file = "benchmarks/early_stopping.py"
    for share in (0.0, 0.2, 0.4, 0.6, 0.8):
        path = results / "early_stopping_figure1.csv"
        table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["share", "true", "rows"])
        own = table[(table["share"] == share) & (table["rows"] < 50_000)]
        ends = [float(text.split()[-1]) for text in own["true"]]
        best = [max(map(float, text.split())) for text in own["true"]]
        ours = f"true labels {ends[0]:.3f} at the end, {best[0]:.3f} at best" if ends else NOT_RUN
        yield Line(f"Figure 1, {share:.0%} drawn anew", "training accuracy on true labels", file, f"{file} --figure 1",
                   ours, "curves: the end falls with the share, early stopping stays high",
                   "1,000 images, 25 epochs; --paper has 50,000 and 200")  # fmt: skip
    for share in (0.0, 0.25, 0.5):
        path = results / "early_stopping_figure3.csv"
        table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["share", "distance", "epochs"])
        own = table[table["share"] == share]
        ours = f"distance {float(own['distance'].iloc[0].split()[-1]):.2f} after 12 epochs" if len(own) else NOT_RUN
        yield Line(f"Figure 3, {share:.0%} drawn anew", "distance from the start", file, f"{file} --figure 3", ours,
                   "curves: farther with more wrong labels", "12 epochs; --paper has 200")  # fmt: skip
    for share in (0.3, 0.5):
        ours = f"AUROC {measured(results, 'early_stopping_figure4', 'auroc', 3, share=share)}"
        yield Line(f"Figure 4, {share:.0%}", "losses of clean and corrupted labels", file, f"{file} --figure 4", ours,
                   "histograms that overlap more at 50 %", "5,000 images, 12 epochs; --paper has 50,000")  # fmt: skip
    for outputs, when, told in (
        ("all", "start", 4),
        ("all", "end", 14),
        ("correct", "start", 15),
        ("correct", "end", 16),
    ):
        ours = measured(results, "early_stopping_figure5", "above", 0, outputs=outputs, when=when)
        title = f"{outputs} outputs, {'at the start' if when == 'start' else 'trained'}"
        yield Line(f"Figure 5 and Table 1, {title}", "singular values above a tenth", file, f"{file} --figure 5", ours,
                   str(told), "trained on 5,000 images for 12 epochs; 5,000 examples of the correct class, not 10,000"
                   )  # fmt: skip
    for moment in (80, 4500):
        for name in ("true", "given"):
            ours = measured(results, "early_stopping_figure6", f"{name}_{moment}", 4)
            told = "near zero" if (moment == 80) == (name == "true") else "about 0.15"
            title = f"Figure 6, iteration {moment}"
            yield Line(title, f"error on {name} labels", file, f"{file} --figure 6", ours, told, "nothing")


WEAK = {
    "MoCo": 60.8, "SimCLR": 61.9, "CPC v2": 63.8, "PCL": 65.9, "MoCo v2": 67.5, "CO2": 68.0, "MixCo": 68.4,
    "SwAV-Multi": 72.7, "SANE-Single": 70.6, "SANE-Multi": 73.5, "PIRL": 63.6, "CMC": 66.2, "BYOL": 74.3,
    "SimSiam": 71.3, "i-Mix": 71.3,
}  # fmt: skip
STRONG = {"CLSA-Single": 69.4, "CLSA-Multi": 73.3, "SANE-Single (strong)": 70.1, "SANE-Multi (strong)": 73.7}
OTHERS = {"InfoMin Aug": 70.1, "InstDisc": 54.0, "LocalAgg": 58.8, "BigBiGAN": 56.6, "SeLa": 61.5}
MISSING = ("CPC v2", "PIRL", "CMC", "InfoMin Aug", "InstDisc", "LocalAgg", "SeLa")


def sane_lines(results: Path) -> Iterator[Line]:
    file = "benchmarks/sane.py"

    def of(row: str, strong: bool, epochs: int, small: bool) -> str:
        where: dict[str, Any] = {"row": row, "strong": strong, "part": "fashion" if small else "paper"}
        where |= {} if small else {"epochs": epochs}
        return " / ".join(measured(results, "sane", column, 2, **where) for column in ("knn", "linear"))

    def both(item: str, row: str, strong: bool, epochs: int, told: str, same: bool = True) -> Iterator[Line]:
        """The published scale and the small one, there with weak views unless it has the ``same``."""
        for small in (False, True):
            hard = strong and (same or not small)
            what = f"{sane.ROWS[row][0]}, {'strong' if hard else 'weak'} views: k-NN / linear"
            how = " --paper" if not small else " --strong" if hard else ""
            ours = of(row, hard, epochs, small).replace(f"{NOT_RUN} / {NOT_RUN}", NOT_RUN)
            reduced = "Fashion-MNIST, 5,000 images, slim 4-layer network, 24 epochs" if small else "nothing"
            yield Line(f"{item}{', small' if small else ''}", what, file, f"{file}{how}", ours, told, reduced)

    for row, epochs in sane.TABLE1.items():
        yield from both(f"Table 1, {sane.ROWS[row][0]}", row, False, epochs, sane.PUBLISHED1[row])
    yield from both("Table 1, SANE (strong)", "sane", True, sane.TABLE1["sane"], sane.STRONG1["sane"])
    yield Line("Table 1, supervised", "ordinary training", "benchmarks/cifar_noise.py", "not among the presets",
               NOT_RUN, "- / 95.5", "a ResNet-50 trained with labels; nothing of SANE is in it")  # fmt: skip
    for method, told in (WEAK | STRONG | OTHERS).items():
        if method == "BigBiGAN":
            ours, reduced = "out of scope", "a generative model; it contrasts nothing and refines no labels"
        elif method in MISSING:
            ours, reduced = "not built", "the method is not in the library"
        else:
            ours, reduced = NOT_RUN, IMAGENET
        yield Line(f"Table 2, {method}", "linear layer on ImageNet, top-1", "src/holdfast/contrastive",
                   "holdfast pretrain IMAGES", ours, str(told), reduced)  # fmt: skip
    for column, told, reduced in (
        ("classification on VOC07", "92.9, strong 94.0", "no reader of VOC and no linear SVM protocol yet"),
        ("detection on VOC07+12", "82.9, strong 83.4", "detectors are another library's trade: detectron2"),
        ("detection on COCO", "42.2, strong 42.4", "detectors are another library's trade: detectron2"),
        ("BoWNet", "79.3 / 81.3", "predicts words of a codebook; it contrasts nothing"),
    ):
        scope = "not built" if column.startswith("classification") else "out of scope"
        yield Line(f"Table 3, {column}", "transfer of SANE-Multi", "src/holdfast/contrastive/evaluation.py: transfer",
                   "holdfast pretrain IMAGES, then transfer", scope, told, reduced)  # fmt: skip
    for row, told in sane.PUBLISHED4.items():
        yield from both(f"Table 4, {sane.ROWS[row][0]}", row, True, sane.ABLATION, told, same=False)
    for row, weight in sane.TABLE5.items():
        yield from both(f"Table 5, {sane.weight_of(row)}", row, True, sane.ABLATION, str(weight), same=False)
    for (row, strong), mix in sane.TABLE6.items():
        yield from both(f"Table 6, {sane.mix_of(row, strong)}", row, strong, sane.ABLATION, str(mix))
    for title, told in (("MoCo + mixup", "68.4"), ("MoCo + momentum mixup", "69.0")):
        yield Line(f"Table 6, ImageNet, {title}", "linear layer, top-1", "src/holdfast/contrastive/mixup.py",
                   "holdfast pretrain IMAGES", NOT_RUN, told, IMAGENET)  # fmt: skip


MEASURED = {"crust": crust, "prl": prl, "early": early, "sane": sane_lines}


def lines(paper: str, results: Path = protocol.RESULTS) -> list[Line]:
    """All lines of one paper."""
    return [*statements(paper), *MEASURED[paper](results)]


def page(results: Path = protocol.RESULTS) -> str:
    """The whole page."""
    text = [
        "# The four papers, line by line\n",
        "Every algorithm, equation, statement, table and figure, where it is and what came out. "
        "`python benchmarks/papers.py` makes this page from the rows of results, and a test holds it to them. "
        '"not run" is a figure that whoever has the data and the hours can still have: the command beside it starts, '
        "and goes on where it stopped. Where nothing was reduced, the command is the published setting."
        "\n",
    ]
    for paper, title in TITLES.items():
        found = lines(paper, results)
        waiting = sum(line.ours == NOT_RUN for line in found)
        text.append(f"## {title}\n\n{len(found)} lines, {waiting} of them not run.\n")
        text.append("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
        text += ["| " + " | ".join(shown(line)) + " |" for line in found]
        text.append("")
    return "\n".join(text)


def shown(line: Line) -> list[str]:
    """The cells of a line; files and commands as code."""
    cells = [cell.replace("|", "\\|") for cell in line]
    return [f"`{cell}`" if place in (2, 3) and cell != "-" else cell for place, cell in enumerate(cells)]


def main() -> None:
    write_text(PAGE, page())
    print(f"{PAGE}: {sum(len(lines(paper)) for paper in TITLES)} lines")


if __name__ == "__main__":
    main()
