"""From inputs without labels to a training on labels that may be wrong: the library's way and the command line's."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Rows, Run, fit
from holdfast.cli import app
from holdfast.contrastive import MoCo, pretrain
from holdfast.methods import Crust
from holdfast.nets import build, load_body, project

FAST = {"epochs": 2, "batch_size": 24, "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stripes):
    out = tmp_path_factory.mktemp("bridge") / "pre"
    pretrain(stripes, MoCo(queue=48), "cnn4", out=out, seed=1, **FAST)
    return out


def test_a_run_of_pre_training_says_that_it_saw_no_label(folder):
    run = Run.load(folder)
    assert run.config.unlabelled is True
    assert run.config.classes is None
    assert (run.config.net, run.config.outputs) == ("cnn4+mlp", 128)
    assert run.outputs(torch.rand(4, 3, 12, 12)).shape == (4, 128)
    assert repr(run.task) == "Representation(128)"
    ledger = run.ledger
    assert (ledger["trained"] == 2).all()
    assert (ledger["seen"] == 0).all()


@pytest.mark.parametrize("method", [None, Crust()], ids=repr)
def test_every_network_starts_from_the_body(folder, stripes, method):
    body = {n: v for n, v in Run.load(folder).net.state_dict().items() if n.startswith("body.")}
    seen = {}

    def still(parameters):
        return torch.optim.SGD(parameters, lr=1e-12)

    run = fit(stripes, method, pretrained=folder, optimizer=still, epochs=1, batch_size=24, device="cpu")
    assert run.config.net == "cnn4"
    assert run.config.pretrained == str(folder)
    now = run.net.state_dict()
    for name, value in body.items():
        if name.endswith("weight"):
            torch.testing.assert_close(now[name], value, atol=1e-6, rtol=0)
            seen[name] = value
    assert len(seen) == 8
    assert now["head.weight"].shape == (2, 96)
    other = fit(stripes, method, "cnn4", optimizer=still, epochs=1, batch_size=24, device="cpu").net.state_dict()
    assert not torch.allclose(other["body.0.weight"], body["body.0.weight"], atol=1e-3)


def test_features_of_pre_training_help_where_labels_are_few_and_wrong():
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(600) % 3
    x = torch.randn(600, 60, generator=source)
    for kind in range(3):
        x[truth == kind, 20 * kind : 20 * kind + 20] += 1.0
    given = torch.where(torch.rand(600, generator=source) < 0.5, torch.randint(0, 3, (600,), generator=source), truth)
    rows = Rows(x[:400], given[:400], tuple("abc"), truth=truth[:400])
    test = Rows(x[400:], truth[400:], tuple("abc"))
    before = pretrain(rows, MoCo(queue=256), "mlp", epochs=30, batch_size=100, device="cpu")
    assert Rows(x, truth, tuple("abc")).without_labels().unlabelled

    def score(net):
        return fit(rows, Method(), net, test=test, epochs=30, batch_size=50, device="cpu").last

    torch.manual_seed(0)
    warm = build("mlp", (60,), 3)
    load_body(warm, before.net.state_dict())
    for parameter in warm.body.parameters():
        parameter.requires_grad_(False)
    torch.manual_seed(0)
    assert score(warm) > score(build("mlp", (60,), 3)) + 0.02


def test_mistakes_are_named(folder, stripes, tmp_path, blobs):
    with pytest.raises(HoldfastError, match=r"saw inputs of shape \(3, 12, 12\), these have \(2,\)"):
        fit(blobs, Method(), pretrained=folder)
    with pytest.raises(HoldfastError, match="another kind of network"):
        fit(stripes, Method(), "resnet20", pretrained=folder)
    with pytest.raises(HoldfastError, match="holds no run"):
        fit(stripes, Method(), pretrained=tmp_path)
    (tmp_path / "run.json").write_text((folder / "run.json").read_text())
    with pytest.raises(HoldfastError, match="has not ended"):
        fit(stripes, Method(), pretrained=tmp_path)
    with pytest.raises(HoldfastError, match="Linear cannot take a projection head"):
        project(nn.Linear(2, 2))


@pytest.fixture(autouse=True)
def _there(monkeypatch, tmp_path):
    """Commands run where the data is."""
    monkeypatch.chdir(tmp_path)


def run(*command, ok=True):
    done = CliRunner().invoke(app, [str(word) for word in command], env={"COLUMNS": "200"})
    assert (done.exception is None) is ok, done.output
    return done


def test_a_table_from_file_to_crust(tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.choice(["low", "high"], 200)
    numbers = rng.normal(0, 1, (200, 6)) + np.where(kind == "high", 1.5, 0)[:, None]
    frame = pd.DataFrame(numbers, columns=list("abcdef"))
    frame["income"] = kind
    frame.to_csv(tmp_path / "people.csv", index=False)
    fast = ("--quiet", "--device", "cpu", "--seed", 0)
    done = run(
        "pretrain", "people.csv", "--label", "income", "--out", "pre", "--epochs", 4, "--batch-size", 50, "--watch", 2,
        "--set", "queue=64", "--set", "mixup=None", *fast,
    )  # fmt: skip
    assert "k-NN accuracy" in done.output
    assert "holdfast fit people.csv --from pre" in done.output
    method = json.loads((tmp_path / "pre" / "run.json").read_text())["method"]
    assert method["name"] == "SANE"
    changed = {"mixup": None, "queue": 64}
    assert {name: method["settings"][name] for name in (*changed, "momentum")} == {**changed, "momentum": 0.99}
    history = pd.read_csv(tmp_path / "pre" / "history.csv")
    assert history["knn"].notna().tolist() == [False, True, False, True]
    again = run("pretrain", "people.csv", "--label", "income", "--out", "pre", *fast, ok=False)
    assert "holds a run already" in str(again.exception)
    done = run(
        "fit", "people.csv", "--label", "income", "--from", "pre", "--method", "crust", "--out", "run", "--epochs", 8,
        "--batch-size", 20, *fast,
    )  # fmt: skip
    assert "test accuracy" in done.output
    assert pd.read_csv(tmp_path / "run" / "history.csv")["test"].iloc[-1] > 0.85
    assert "prediction" in run("predict", "run", "people.csv").output


def test_the_mixing_and_the_optimizer_are_set(tmp_path):
    pd.DataFrame({"a": range(30), "b": range(30), "y": [0, 1] * 15}).to_csv(tmp_path / "t.csv", index=False)
    run(
        "pretrain", "t.csv", "--label", "y", "--out", "o", "--set", "mixup=VanillaMixup(kappa=0.1)", "--epochs", 1,
        "--lars", "--lr", 0.3, "--quiet", "--device", "cpu",
    )  # fmt: skip
    config = json.loads((tmp_path / "o" / "run.json").read_text())
    assert config["method"]["settings"]["mixup"] == {"name": "VanillaMixup", "settings": {"kappa": 0.1}}
    assert config["optimizer"]["name"] == "LARS"


def test_images_from_file_to_ordinary_training(tmp_path, stripes):
    np.savez(tmp_path / "stripes.npz", x_train=stripes.x.numpy(), y_train=stripes.y.numpy())
    fast = ("--quiet", "--device", "cpu", "--batch-size", 24)
    for method in ("sane-strong", "byol"):
        out = f"pre-{method}"
        run("pretrain", "stripes.npz", "--method", method, "--net", "cnn4", "--out", out, "--epochs", 1, *fast)
        run("fit", "stripes.npz", "--from", out, "--method", "standard", "--out", f"run-{method}", "--epochs", 1, *fast)
        assert json.loads((tmp_path / f"run-{method}" / "run.json").read_text())["net"] == "cnn4"


def test_mistakes_on_the_command_line(tmp_path):
    pd.DataFrame({"a": range(30), "y": [0, 1] * 15}).to_csv(tmp_path / "t.csv", index=False)
    for command, words in (
        (("--method", "moko"), "did you mean moco"),
        (("--set", "weight"), "name=value"),
        (("--set", "mixup=vanilla"), "mixup takes MomentumMixup"),
        (("--set", "nonsense=1"), "sane has no setting"),
        (("--lr", "0"), "must be positive"),
        (("--set", "mixup=VanillaMixup(kappa=0)"), "kappa"),
        (("--set", "mixup=VanillaMixup(sum([1]))"), "mixup takes MomentumMixup"),
        (("--set", "mixup=Mixup(2)"), "mixup takes MomentumMixup"),
    ):
        done = run("pretrain", "t.csv", "--label", "y", "--out", "o", *command, ok=False)
        assert isinstance(done.exception, HoldfastError)
        assert words in str(done.exception)
