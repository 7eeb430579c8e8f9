"""The published scale of each benchmark: it starts on a tiny copy of its data, with the settings of its paper."""

import importlib
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn
from torch.optim import SGD, Adadelta

from holdfast import Method, Rows
from holdfast.augment import PadCropFlip
from holdfast.methods import Bootstrap, Crust
from holdfast.methods.crust_authors import CrustAuthors
from holdfast.nets import CNN4
from holdfast.noise import corrupt

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS = 128


def benchmark(name):
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """MNIST, both CIFAR and the faces, each in the form of its file, with a few generated images."""
    chance, path = np.random.default_rng(0), tmp_path_factory.mktemp("data")

    def images(count, *shape):
        return chance.integers(0, 256, (count, *shape), dtype=np.uint8)

    def jpeg(pixels):
        packed = []
        for each in pixels:
            Image.fromarray(each).save(file := io.BytesIO(), format="JPEG")
            packed.append(np.frombuffer(file.getvalue(), np.uint8))
        return np.concatenate(packed), np.cumsum([0, *map(len, packed)])

    def labels(count, classes):
        return (np.arange(count) % classes).astype(np.uint8)

    np.savez(
        path / "mnist.npz", x_train=images(ROWS, 28, 28), y_train=labels(ROWS, 10), x_test=images(20, 28, 28),
        y_test=labels(20, 10),
    )  # fmt: skip
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        made = {}
        # Of each class one, so that the labels have all names.
        for split, count in (("train", 260), ("test", max(20, classes))):
            made[f"jpeg_{split}"], made[f"offsets_{split}"] = jpeg(images(count, 32, 32, 3))
            made[f"y_{split}"] = labels(count, classes)
        np.savez(path / f"{name}_jpeg.npz", class_names=np.array([f"c{k}" for k in range(classes)]), **made)
    faces = {}
    for split, count in (("train", 4_080), ("test", 20)):
        faces[f"jpeg_{split}"], faces[f"offsets_{split}"] = jpeg(images(count, 16, 16, 3))
        faces[f"y_{split}"] = chance.random((count, 10), dtype=np.float32)
        faces[f"group_{split}"] = np.zeros(count, dtype=np.uint8)
    np.savez(path / "faces5_jpeg.npz", **faces)
    return path


@pytest.fixture
def asked(folder, tmp_path):
    """The options of a benchmark, as its command line makes them."""

    def options(name, *more):
        made = (
            benchmark(name).parser().parse_args(["--paper", "--data", str(folder), "--results", str(tmp_path), *more])
        )
        made.methods = made.methods or ""
        return made

    return options


@pytest.fixture
def calls(monkeypatch):
    """What a benchmark asks ``fit`` or ``pretrain`` for; it is done then, for one epoch."""

    def watched(name, function="fit"):
        module, seen = benchmark(name), []
        real = getattr(module, function)

        def spy(*given, **named):
            seen.append({"given": given, **named})
            return real(*given, **{**named, "epochs": 1})

        monkeypatch.setattr(module, function, spy)
        return seen

    return watched


def run_main(monkeypatch, name, folder, results, *more):
    monkeypatch.setattr(sys, "argv", [name, "--paper", "--data", str(folder), "--results", str(results), *more])
    benchmark(name).main()


def optimised(call):
    """The class of an optimizer and its numbers."""
    made = call["optimizer"]([nn.Parameter(torch.zeros(1))])
    group = made.param_groups[0]
    names = ("lr", "momentum", "weight_decay", "nesterov")
    return type(made), tuple(group[name] for name in names if name in group)


def factors(call, epochs, at):
    """The schedule's factor at some epochs."""
    return [pytest.approx(call["schedule"](epoch / epochs)) for epoch in at]


def layers(net):
    """Layers with weights on the way through: convolutions but for short cuts, and linear ones."""
    return sum(isinstance(part, (nn.Conv2d, nn.Linear)) and "short" not in name for name, part in net.named_modules())


CRUST = (SGD, (0.1, 0.9, 5e-4, False))
"""Section 5.1: SGD at 0.1, momentum 0.9, weight decay 0.0005."""


@pytest.mark.parametrize(("device", "seen_device"), [((), "auto"), (("--device", "cpu"), "cpu")])
def test_crust_table_1(asked, calls, device, seen_device):
    module, seen = benchmark("crust_table1"), calls("crust_table1")
    options = asked("crust_table1", "--rows", str(ROWS), "--methods", "crust,standard", *device)
    trials = list(module.trials(options, []))
    cells = {(t.part, t.noise, t.rate) for t in trials}
    assert cells == {
        ("paper", "symmetric", 0.2), ("paper", "symmetric", 0.5), ("paper", "symmetric", 0.8),
        ("paper", "derangement", 0.4), ("paper-100", "symmetric", 0.2), ("paper-100", "symmetric", 0.5),
        ("paper-100", "derangement", 0.4),
    }  # fmt: skip
    assert {t.seed for t in trials} == set(range(5))
    assert {t.epochs for t in trials} == {120}
    assert {t.rows for t in module.trials(asked("crust_table1", *device), [])} == {50_000}
    for part in ("paper", "paper-100"):
        trial = next(t for t in trials if t.part == part and t.method == "crust")
        assert "last10" in module.run(trial, options)
        call = seen[-1]
        assert (call["epochs"], call["batch_size"], call["device"]) == (120, 128, seen_device)
        assert optimised(call) == CRUST
        assert factors(call, 120, (0, 79, 80, 99, 100, 119)) == [1, 1, 0.1, 0.1, 0.01, 0.01]
        assert isinstance(call["augment"], PadCropFlip)
        _, method, net = call["given"]
        assert layers(net) == 32
        # Algorithm 1 itself, and neither a default nor what the authors' code does.
        assert type(method) is Crust
        assert (method.fraction, method.select, method.proxy, method.group) == (0.5, "exact", "logits", "predicted")
        assert (method.partners, method.weighted, method.every) == (1, True, 1)


def test_crust_s_asymmetric_noise_flips_as_many_labels_as_the_authors_do(folder):
    """A derangement of all ten classes, where the five pairs of CIFAR-10 flip half as many."""
    module = benchmark("crust_table1")
    kind, rate = next((k, r) for data, k, r in module.COLUMNS if data == "cifar10" and k != "symmetric")
    rows = Rows(torch.zeros(50_000, 1), torch.arange(50_000) % 10, tuple("0123456789"))
    flipped = [float(corrupt(kind, rows, rate, seed).mask.double().mean()) for seed in range(3)]
    assert flipped == [pytest.approx(0.4, abs=0.01)] * 3


def test_every_method_that_is_trained_has_a_line_in_the_table():
    module = benchmark("crust_table1")
    found = pd.DataFrame(
        [{"part": "mnist", "method": method, "noise": "symmetric", "rate": 0.5, "last10": 1.0, "best": 2.0,
          "cpu_seconds": 3.0} for method in ("crust", "crust-authors", "second-opinion", "apl")]
    )  # fmt: skip
    text = module.page(found)
    for title in ("CRUST", "CRUST, authors' code", "second opinion (default)", "apl"):
        assert f"| {title} | 1.00 (best 2.00" in text


def test_published_figures_stand_under_the_noise_they_were_measured_with():
    module = benchmark("crust_table1")
    assert module.published("cifar10")["crust"]["derangement", 0.4] == "88.8 ± 0.4"
    assert module.published("cifar100")["crust"] == {
        ("symmetric", 0.2): "65.2 ± 0.2", ("symmetric", 0.5): "56.4 ± 0.4", ("derangement", 0.4): "53.0 ± 0.2",
    }  # fmt: skip
    assert benchmark("crust_ablation").PAPER["CRUST"] == (91.12, 86.27)


def test_crust_table_2(monkeypatch, calls, folder, tmp_path):
    seen = calls("crust_ablation")
    run_main(
        monkeypatch, "crust_ablation", folder, tmp_path, "--rows", str(ROWS), "--seeds", "1", "--device", "cpu",
        "--names", "CRUST",
    )  # fmt: skip
    rates = [float((call["given"][0].y != call["given"][0].truth).double().mean()) for call in seen]
    assert rates[:2] == [pytest.approx(0.2, abs=0.12), pytest.approx(0.5, abs=0.15)]
    for call in seen:
        assert (call["epochs"], call["batch_size"], call["device"]) == (120, 128, "cpu")
        assert optimised(call) == CRUST
        assert factors(call, 120, (79, 80, 100)) == [1, 0.1, 0.01]
        assert isinstance(call["augment"], PadCropFlip)
        assert layers(call["given"][2]) == 32
        assert call["given"][1].warmup == 5
        assert type(call["given"][1]) is Crust
    assert len(seen) == 2
    assert type(benchmark("crust_ablation").TABLE["CRUST (authors' code)"](5)) is CrustAuthors
    written = pd.read_csv(tmp_path / "crust_ablation.csv")
    assert set(written["data"]) == {"cifar10"}
    assert set(written["rows"]) == {ROWS}


@pytest.mark.parametrize(("data", "falls"), [("cifar10", 80), ("cifar100", 100)])
def test_prl_tables_2_and_3(asked, calls, monkeypatch, data, falls):
    module, seen = benchmark("prl_classification"), calls("prl_classification")
    options = asked("prl_classification", "--rows", str(ROWS), "--device", "cpu")
    trials = list(module.trials(options))
    own = [t for t in trials if t.data == data and t.net == "cnn9"]
    assert {(t.method, t.noise, t.rate) for t in own if t.shift == "0"} == {
        (method, kind, rate) for method in module.MAKERS for kind, rate in module.PUBLISHED[data]
    }
    assert {t.shift for t in own if t.method == "co-prl-l"} == {"0", "auto", "0.1", "-0.1", "0.05", "-0.05"}
    assert {t.seed for t in own} == {0, 1, 2}
    trial = next(t for t in own if t.method == "spl")
    net = module.network("cnn9", 100 if data == "cifar100" else 10)
    assert [part.out_channels for part in net.modules() if isinstance(part, nn.Conv2d)] == [
        128, 128, 128, 256, 256, 256, 512, 256, 128,
    ]  # fmt: skip
    # It trains a smaller one here: a step of nine layers takes longer than all of the rest.
    monkeypatch.setattr(module, "network", lambda name, classes: CNN4(3, classes))
    assert "last" in module.run(trial, options, *benchmark("protocol").load(options, data, ROWS))
    call = seen[-1]
    assert (call["epochs"], call["batch_size"], call["device"]) == (200, 128, "cpu")
    assert factors(call, 200, (0, falls - 1, (200 + falls) / 2, 200)) == [1, 1, 0.5, 0]
    assert call["given"][1].ramp == 10
    # Adam at 0.001 forgets its first moment faster from where the rate falls.
    weight = nn.Parameter(torch.ones(1))
    made = call["optimizer"]([weight])
    first = made.param_groups[0]
    for rate, beta in ((1e-3, 0.9), (0.999e-3, 0.1)):
        first["lr"] = rate
        weight.grad = torch.ones(1)
        made.step()
        assert first["betas"] == (beta, 0.999)
    plain = module.MAKERS["bootstrap"](0.5, 10)
    assert (type(plain), plain.kind) == (Bootstrap, "hard")


@pytest.mark.slow
def test_prl_table_1(monkeypatch, calls, folder, tmp_path):
    seen = calls("prl_regression")
    run_main(
        monkeypatch, "prl_regression", folder, tmp_path, "--quick", "--seeds", "1", "--device", "cpu", "--methods",
        "standard",
    )  # fmt: skip
    extractor, *runs = seen
    assert layers(extractor["given"][2]) == 5
    for call in runs:
        assert (call["epochs"], call["batch_size"], call["device"]) == (100, 512, "cpu")
        made = call["optimizer"]([nn.Parameter(torch.zeros(1))]).param_groups[0]
        assert (made["lr"], made["betas"][0]) == (3e-4, 0.9)
        widths = [part.out_features for part in call["given"][2].modules() if isinstance(part, nn.Linear)]
        assert widths == [256, 256, 10]
    # Without CelebA the folder's other faces are what was trained on, and are called so.
    assert set(pd.read_csv(tmp_path / "prl_regression.csv")["data"]) == {"faces5"}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["faces5_features.npz"]


def test_sane_tables(asked, calls):
    module, seen = benchmark("sane"), calls("sane", "pretrain")
    options = asked("sane", "--rows", "256", "--device", "cpu")
    trials = list(module.trials(options))
    wanted = {
        "Table 1": {("moco", False, 4000), ("simclr", False, 1000), ("byol", False, 4000), ("dacl", False, 2000),
                    ("clsa", False, 2000), ("i-mix", False, 4000), ("sane", False, 2000), ("sane", True, 2000)},
        "Table 4": {(row, True, 1000) for row in ("p", "q", "momentum-mixup", "p+q", "p+mix", "q+mix", "sane")},
        "Table 5": {(row, True, 1000) for row in ("lambda-0", "lambda-0.25", "sane", "lambda-0.75", "lambda-1")},
        "Table 6": {(row, hard, 1000) for row in ("mixup", "momentum-mixup") for hard in (False, True)},
    }  # fmt: skip
    assert {(t.row, t.strong, t.epochs) for t in trials} == set.union({("random", False, 0)}, *wanted.values())
    assert {t.rows for t in module.trials(asked("sane"))} == {50_000}
    # The figure of weak views does not stand beside strong ones.
    found = pd.DataFrame(
        [{"part": "paper", "row": "sane", "strong": strong, "epochs": 2000, "knn": 1.0 + strong, "linear": 3.0}
         for strong in (False, True)]
    )  # fmt: skip
    text = module.published_tables(found, None)
    assert "| SANE | 1.00 | 3.00 | 95.2 / 96.1 |" in text
    assert "| SANE, strong views | 2.00 | 3.00 | 95.5 / 96.5 |" in text
    scale = module.SCALES["paper"]
    assert (scale.batch, scale.queue, scale.momentum, scale.linear) == (256, 4096, 0.999, 200)
    trial = next(t for t in trials if t.row == "sane" and not t.strong)
    small = scale._replace(net="cnn4-slim", linear=1)
    with pytest.MonkeyPatch.context() as patch:
        # The network alone is smaller: one step of a ResNet-50 takes longer than all other tests of this file.
        patch.setitem(module.SCALES, "paper", small)
        assert {"knn", "linear"} <= set(module.run(trial, options))
    call = seen[-1]
    assert scale.net == "resnet50"
    assert (call["epochs"], call["batch_size"], call["device"]) == (2000, 256, "cpu")
    assert optimised(call) == (SGD, (0.03, 0.9, 1e-4, False))
    method = call["given"][1]
    assert (method.weight, method.temperature, method.sharpness, method.mu, method.mixup.kappa) == (
        0.5, 0.2, 0.8, (0.0, 1.0), 2.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("figure", "rows", "epochs"),
    [pytest.param("1", 50_000, 200, marks=pytest.mark.slow), ("3", 3_000, 200), ("4", 50_000, 30)],
)
def test_early_stopping_figures(monkeypatch, calls, folder, tmp_path, figure, rows, epochs):
    module, seen = benchmark("early_stopping"), calls("early_stopping")
    options = ["--figure", figure, "--rows", str(ROWS), "--device", "cpu"]
    run_main(monkeypatch, "early_stopping", folder, tmp_path, *options)
    for call in seen:
        assert (call["epochs"], call["device"]) == (epochs, "cpu")
        net = call["given"][2]
        if figure == "4":
            assert layers(net) == 20
        else:
            assert sum(p.numel() for p in net.parameters()) == 4_795_914
            assert optimised(call)[0] is Adadelta
    # As many rows as the paper has, where none are asked for.
    asked = []

    def refuse(options, name, count=None):
        asked.append(count)
        raise SystemExit

    monkeypatch.setattr(benchmark("protocol"), "load", refuse)
    with pytest.raises(SystemExit):
        run_main(monkeypatch, "early_stopping", folder, tmp_path, "--figure", figure)
    assert asked == [rows]
    assert module.parser().parse_args(["--paper"]).device is None


def test_mnist_and_cifar_protocols(monkeypatch, calls, folder, tmp_path):
    protocol = benchmark("protocol")
    seen = []
    real = protocol.fit
    monkeypatch.setattr(
        protocol, "fit", lambda *given, **named: seen.append({"given": given, **named}) or real(*given, **named | ONE)
    )
    some = ("--seeds", "1", "--methods", "standard", "--device", "cpu")
    run_main(monkeypatch, "mnist_noise", folder, tmp_path, "--noise", "asymmetric", "--rate", "0.4", *some)
    assert (seen[-1]["epochs"], seen[-1]["batch_size"], seen[-1]["device"]) == (200, 128, "cpu")
    noisy = seen[-1]["given"][0]
    changed = noisy.truth[noisy.y != noisy.truth].unique().tolist()
    assert set(changed) <= {2, 3, 5, 6, 7}  # MNIST's pairs
    run_main(monkeypatch, "cifar_noise", folder, tmp_path, "--rows", str(ROWS), "--noise", "symmetric", *some)
    assert (seen[-1]["epochs"], seen[-1]["device"]) == (120, "cpu")
    assert isinstance(seen[-1]["given"][1], Method)
    with pytest.raises(SystemExit, match="fewer than the 50000"):
        run_main(monkeypatch, "cifar_noise", folder, tmp_path, "--noise", "instance", *some)


ONE = {"epochs": 1}


def test_webvision(monkeypatch, calls, tmp_path):
    module, seen = benchmark("webvision"), calls("webvision")
    scale = module.PAPER
    assert (scale.classes, scale.side, scale.crop, scale.net) == (50, 320, 299, "inception-resnet-v2")
    module.generate(tmp_path, 6)
    # The classes that are generated, and a network for them: one step of the published one takes minutes here.
    monkeypatch.setattr(module, "PAPER", replace(scale, classes=6, side=40, crop=32, net="cnn4"))
    more = ("--methods", "crust", "--device", "cpu", "--runs", str(tmp_path / "runs"))
    run_main(monkeypatch, "webvision", tmp_path, tmp_path / "results", *more)
    (call,) = seen
    assert (call["epochs"], call["batch_size"], call["device"]) == (90, 128, "cpu")
    assert optimised(call) == CRUST
    assert factors(call, 90, (0, 29, 30, 59, 60, 89)) == [1, 1, 0.1, 0.1, 0.01, 0.01]
    rows, method, _ = call["given"]
    assert len(rows) == 240
    assert (type(method), method.fraction) == (Crust, 0.5)
    assert set(pd.read_csv(tmp_path / "results" / "webvision.csv")["scale"]) == {"paper"}


def test_the_spectra_of_figure_5_are_of_as_many_images_as_published(monkeypatch, folder, tmp_path):
    asked = []

    def noted(self, what, make):
        asked.append(what)
        return {"above": 1, "values": "1 1"}

    monkeypatch.setattr(benchmark("protocol").Results, "get", noted)
    run_main(monkeypatch, "early_stopping", folder, tmp_path, "--figure", "5")
    assert [(a["outputs"], a["examples"]) for a in asked] == 2 * [("all", 1_000)] + 2 * [("correct", 10_000)]
    assert {(a["rows"], a["epochs"]) for a in asked} == {(50_000, 160)}
