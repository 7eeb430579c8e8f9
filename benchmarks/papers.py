"""Every algorithm, equation, statement, table and figure of the four papers on one page: docs/papers.md.

A line each: where it is, how to run it, what came out beside what is published, and what was reduced. Statements are
listed in papers.csv; figures come from the rows of results, and what is published from the benchmarks that measure it.
A figure that nobody has run yet is called "not run".

    python benchmarks/papers.py     writes docs/papers.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
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


@lru_cache(maxsize=64)
def rows_of(path: Path, changed: int) -> pd.DataFrame:
    """A file of results as it was when it was last ``changed``: the page asks each a hundred times."""
    return pd.read_csv(path)


def measured(results: Path, file: str, column: str, digits: int, /, **where: Any) -> str:
    """The mean over the rows of a file that meet all of ``where``, with the spread over several; or "not run"."""
    path = results / f"{file}.csv"
    table = rows_of(path, path.stat().st_mtime_ns) if path.exists() else pd.DataFrame()
    for key, value in where.items():
        table = table[table[key].astype(str) == str(value)] if key in table else table.iloc[:0]
    values = table[column].dropna() if column in table else pd.Series(dtype=float)
    return protocol.mean_and_spread(values, digits) if len(values) else NOT_RUN


def at_the_end(results: Path, file: str, fraction: float) -> str:
    """The purity of coresets in the last epoch of a curve."""
    path = results / f"{file}.csv"
    if not path.exists():
        return NOT_RUN
    curve = pd.read_csv(path)
    return f"{curve[curve['fraction'] == fraction].sort_values('epoch')['purity'].iloc[-1]:.3f}"


def named(figures: Mapping[str, str]) -> str:
    """'CRUST 33.88, ordinary 25.82', and "not run" alone where nothing was."""
    return NOT_RUN if set(figures.values()) == {NOT_RUN} else ", ".join(f"{k} {v}" for k, v in figures.items())


def measured_alone(line: Line) -> Iterator[Line]:
    """A line at a smaller scale, once there is a figure for it."""
    if line.ours != NOT_RUN:
        yield line


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
        part = "cifar" if data == "cifar10" else "cifar-100"
        small = {
            name: measured(results, "crust_table1", "last10", 2, part=part, method=method, noise=kind, rate=rate)
            for name, method in shown.items()
        }
        if (kind, rate) in crust_table1.SMALL[part]:
            reduced = CRUST_SMALL if data == "cifar10" else CRUST_SMALL.replace("no augmentation", "batches of 128")
            yield from measured_alone(
                Line(f"{title}, small", "the same", file, f"{file} --small", named(small), f"CRUST {told}", reduced)
            )
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
                ("cifar10", "--paper", "nothing"),
                ("cifar10", "--dataset cifar10 --epochs 10", "ResNet-20 of half the width, 5,000 images, 10 epochs"),
                ("mnist", "--quick", "MNIST, 10,000 images, 784-256-10, 12 epochs"),
            ):
                scale = {"rows": 10_000} if data == "mnist" else {"rows": 5_000, "epochs": 10}
                scale = {"rows": 50_000, "epochs": 120} if how == "--paper" else scale
                ours = measured(results, "crust_ablation", "last10", 2, data=data, name=name, rate=rate, **scale)
                line = Line(item, f"ablation, {data}", file, f"{file} {how}", ours, f"{told} on CIFAR-10", reduced)
                yield from [line] if how == "--paper" else measured_alone(line)
    for fraction in (0.3, 0.5, 0.7):
        item, what = f"Figure 1, coreset of {fraction:.0%}", "right labels in the coreset at the end"
        for stem, how, reduced in (
            ("cifar10_paper", "--paper", "nothing"),
            ("cifar10", "--dataset cifar10 --epochs 10", "ResNet-20 of half the width, 5,000 images, 10 epochs"),
            ("mnist", "--quick", "MNIST, 10,000 images, 784-256-10, 12 epochs; central selection"),
        ):
            ours = at_the_end(results, f"crust_figure1_{stem}", fraction)
            line = Line(item, what, file, f"{file} {how}", ours, "a curve, falling with the size", reduced)
            yield from [line] if how == "--paper" else measured_alone(line)
    file = "benchmarks/webvision.py"
    for method, told in WEBVISION.items():
        ours = {
            where: measured(results, "webvision", f"{where.lower()}_top1_last10", 2, scale="paper", method=method)
            for where in ("WebVision", "ImageNet")
        }
        command = f"{file} --paper --methods {method}"
        beside = named(dict(zip(ours, told.split(), strict=True)))
        title = f"Table 3, {crust_table1.NAMES[method]}"
        yield Line(title, "mini WebVision, top-1", file, command, named(ours), beside,
                   "nothing; needs WebVision and ImageNet. `--quick` runs all of it on generated images")  # fmt: skip


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
                ours = {
                    name: measured(results, "prl_classification", "last", 2, data=data, net=net, method=m, noise=kind,
                                   rate=rate, shift="0")
                    for name, m in shown.items()
                }  # fmt: skip
                item = f"Table 2, {data}, {kind} {rate:.0%}{', small' if net == 'cnn4' else ''}"
                line = Line(item, "accuracy", file, f"{file}{how}", named(ours), beside, reduced)
                yield from [line] if net == "cnn9" else measured_alone(line)
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
    for data, net, kind, rate, reduced in (
        ("cifar10", "cnn4", "pairflip", 0.45, "4 layers, 10,000 images, 12 epochs, one seed"),
        ("mnist", "mlp", "pairflip", 0.45, "MNIST, 12 epochs, one seed; published on CIFAR-10"),
        ("mnist", "mlp", "symmetric", 0.5, "MNIST, 12 epochs, one seed; published on CIFAR-10"),
    ):
        ours = {
            shift: measured(results, "prl_classification", "last", 2, data=data, net=net, method="co-prl-l",
                            noise=kind, rate=rate, shift=shift)
            for shift in ("-0.1", "-0.05", "0", "0.05", "0.1")
        }  # fmt: skip
        beside = named(dict(zip(ours, map(str, prl_classification.SHIFTED["cifar10", kind, rate]), strict=True)))
        item = f"Tables 3 and 5, {'MNIST' if data == 'mnist' else 'cifar10, small'}, {kind} {rate:.0%}"
        yield Line(item, "a rate that is off", file, file, named(ours), beside, reduced)
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
SINGLE, MULTI = '--set "sizes=(0.43,)"', '--set "sizes=(1.0, 0.857, 0.714, 0.571, 0.429)"'
NAMES = {
    "MoCo": "moco --set temperature=0.07", "SimCLR": "simclr --lars --lr 4.8", "PCL": "pcl", "MoCo v2": "moco",
    "CPC v2": "cpc --set grid=7 --set skipped=2", "CO2": "co2", "MixCo": "mixco", "PIRL": "pirl", "CMC": "cmc",
    "SwAV-Multi": "swav --lars --lr 4.8", "SANE-Single": f"sane {SINGLE}", "SANE-Multi": f"sane {MULTI}",
    "BYOL": "byol --lars --lr 3.2", "SimSiam": "simsiam", "i-Mix": "i-mix",
    "CLSA-Single": 'clsa --set "strong=(0.43,)"',
    "CLSA-Multi": f"clsa {MULTI.replace('sizes', 'weak')} {MULTI.replace('sizes', 'strong')}",
    "SANE-Single (strong)": f"sane-strong {SINGLE}", "SANE-Multi (strong)": f"sane-strong {MULTI}",
    "InfoMin Aug": "info-min --set temperature=0.15", "SeLa": "sela --set clusters=3000",
    "InstDisc": "inst-disc --set negatives=4096 --set temperature=0.07",
    "LocalAgg": "local-agg --set neighbours=4096 --set temperature=0.07",
}  # fmt: skip
"""What ``holdfast pretrain`` is asked for; settings of ImageNet beyond these stand in each method's docstring."""


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
            command, where = "-", "-"
        else:
            ours, reduced, name = NOT_RUN, IMAGENET, NAMES[method].split()[0].removesuffix("-strong")
            command = f"holdfast pretrain IMAGENET --image-size 224 --net resnet50-imagenet --method {NAMES[method]}"
            where = f"src/holdfast/contrastive/{name.replace('-', '_')}.py"
        yield Line(f"Table 2, {method}", "linear layer on ImageNet, top-1", where, command, ours, str(told), reduced)
    for row in sane.TABLE2:
        title = sane.ROWS[row][0]
        ours = " / ".join(measured(results, "sane", column, 2, part="cifar", row=row) for column in ("knn", "linear"))
        reduced = "CIFAR-10, 5,000 images, slim 4-layer network, 24 epochs"
        beside = f"{(WEAK | OTHERS)[title]} on ImageNet, linear"
        yield Line(f"Table 2, {title}, small", "its views: k-NN / linear", file, f"{file} --methods {row}",
                   ours.replace(f"{NOT_RUN} / {NOT_RUN}", NOT_RUN), beside, reduced)  # fmt: skip
    yield Line(
        "Table 3, classification on VOC07", "transfer of SANE-Multi",
        "src/holdfast/contrastive/linear_svm.py: voc_precision",
        "holdfast pretrain IMAGENET, then voc_precision(net, VOC2007)", NOT_RUN, "92.9, strong 94.0",
        "needs ImageNet and VOC; mean precision of linear SVMs, where the paper says accuracy",
    )  # fmt: skip
    for column, told, reduced in (
        ("detection on VOC07+12", "82.9, strong 83.4", "detectors are another library's trade: detectron2"),
        ("detection on COCO", "42.2, strong 42.4", "detectors are another library's trade: detectron2"),
        ("BoWNet", "79.3 / 81.3", "predicts words of a codebook; it contrasts nothing"),
    ):
        yield Line(f"Table 3, {column}", "transfer of SANE-Multi", "-", "-", "out of scope", told, reduced)
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
        "Every algorithm, equation, statement, table and figure of the four papers: where it is in the code, how to "
        "run it, and what came out next to what is published. `python benchmarks/papers.py` makes this page from the"
        ' rows of results, and a test checks that the two agree. "Not run" means that we do not have this figure. If'
        " you have the data and the time, the command next to it runs it and, if it was stopped, continues. Where "
        'the last column says "nothing", the command runs the published setting.'
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
