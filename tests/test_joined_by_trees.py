"""Boosted trees that join the network of a run: trained, saved, loaded, resumed and told of."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from torch import nn
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Rows, Run, Stack, fit
from holdfast.cli import app
from holdfast.diagnosis import diagnose
from holdfast.methods import SecondOpinion
from holdfast.nets import MLP, WithTrees
from holdfast.nets.trees import NumberTrees
from holdfast.noise import symmetric
from holdfast.report import write_report
from holdfast.stop import DistanceStop


def stripes(n=900, seed=0, rate=0.15):
    """Narrow stripes, which trees learn and a small network does not."""
    x = torch.rand(n, 4, generator=torch.Generator().manual_seed(seed)) - 0.5
    truth = (x[:, 0] * 8).floor().long() % 2
    return Rows(x, symmetric(truth, rate, 2, seed=1).labels if rate else truth, ("a", "b"), truth=truth)


def small_net():
    torch.manual_seed(0)
    return MLP(4, 2, (8,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("joined") / "run"
    fit(stripes(), net="mlp", test=stripes(300, 1, 0.0), epochs=4, out=out)
    return out


def test_trees_join_where_they_predict_held_out_labels_better(folder):
    run, test = Run.load(folder), stripes(300, 1, 0.0)
    assert isinstance(run.net, WithTrees)
    assert float(run.net.trees.share) > 0.5
    assert run.joined.startswith("held-out labels are predicted better with boosted trees; they join the network")
    accuracy = (run.predict(test.x) == np.array(["a", "b"])[test.y]).mean()
    assert accuracy == pytest.approx(run.score)
    alone = (run.net.net(test.x).argmax(1) == test.y).double().mean()
    assert accuracy > max(0.9, alone + 0.05)


def test_what_a_run_returns_is_what_it_saves(folder, tmp_path):
    rows, x = stripes(), stripes(300, 1).x
    net = small_net()
    run = fit(rows, SecondOpinion(), net, epochs=2, out=tmp_path / "run")
    assert run.net.net is net
    loaded = Run.load(tmp_path / "run", small_net())
    assert torch.equal(loaded.outputs(x), run.outputs(x))
    assert loaded.joined == run.joined
    with pytest.raises(HoldfastError, match="network of your own"):
        Run.load(tmp_path / "run")


def test_trees_stay_away_where_the_network_is_better():
    x = torch.randn(900, 6, generator=torch.Generator().manual_seed(0))
    rows = Rows(x, symmetric((x.sum(1) > 0).long(), 0.2, 2, seed=1).labels, ("a", "b"))
    run = fit(rows, net="mlp", epochs=6)
    assert not isinstance(run.net, WithTrees)
    assert run.joined == ""
    assert "trees" not in run.history


def test_other_methods_are_left_alone():
    run = fit(stripes(), Method(), "mlp", evidence=True, epochs=2)
    assert not isinstance(run.net, WithTrees)


@pytest.mark.parametrize("moment", ["asked", pytest.param("epoch", marks=pytest.mark.slow)])
def test_a_run_that_was_stopped_ends_the_same(folder, tmp_path, moment):
    class Stopped(Exception):
        pass

    def stop(epoch, net):
        if epoch == 2:
            raise Stopped
        return {}

    rows, test = stripes(), stripes(300, 1, 0.0)
    how = {"net": "mlp", "test": test, "epochs": 4, "out": tmp_path / "run"}
    with pytest.raises(Stopped):
        fit(rows, **how, watch=stop)
    if moment == "asked":
        shutil.rmtree(tmp_path / "run" / "checkpoint")
    fit(rows, **how, resume=True)
    for name in ("model.safetensors", "evidence.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (folder / name).read_bytes()


def test_a_stop_rule_returns_the_best_epoch_with_its_trees(tmp_path):
    rows, x = stripes(), stripes(300, 1).x
    run = fit(rows, net="mlp", stop=DistanceStop(), epochs=3, out=tmp_path / "run")
    assert isinstance(run.net, WithTrees)
    assert torch.equal(Run.load(tmp_path / "run").outputs(x), run.outputs(x))


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")
@pytest.mark.slow
def test_two_processes_predict_what_one_does():
    rows, test = stripes(), stripes(300, 1, 0.0)
    how = {"test": test, "epochs": 2, "batch_size": 30, "device": "cpu"}
    net = small_net()
    one = fit(rows, SecondOpinion(), small_net(), **how)
    two = fit(rows, SecondOpinion(), net, devices=2, **how)
    assert two.net.net is net
    torch.testing.assert_close(two.outputs(test.x), one.outputs(test.x), atol=1e-3, rtol=1e-3)
    assert two.history["trees"].equals(one.history["trees"])


def test_a_network_can_start_from_one_that_trees_have_joined(folder):
    run = fit(stripes(), Method(), pretrained=folder, epochs=1)
    assert run.config.net == "mlp"
    assert run.history["distance"].iloc[0] < 1


def test_pages_about_such_a_run(folder, tmp_path):
    run = Run.load(folder)
    diagnosis = diagnose(run, stripes(), examples=10)
    assert np.isfinite(diagnosis.losses).all()
    write_report(run, tmp_path / "report.html")
    assert "predicted better with boosted trees" in (tmp_path / "report.html").read_text()


def test_a_stack_has_the_trees_of_its_member():
    assert isinstance(fit(stripes(), Stack(SecondOpinion()), "mlp", epochs=1).net, WithTrees)


def test_numbers_that_trees_predict_better():
    """Steps, every seventh target wrong by far."""
    x = torch.rand(900, 3, generator=torch.Generator().manual_seed(0))
    truth = ((x[:, :1] * 6).floor() % 2) * 4 + (x[:, 1:2] * 3).floor()
    y = truth.clone()
    y[::7] += 30
    run = fit(Rows(x, y), net="mlp", epochs=4)
    assert isinstance(run.net, WithTrees)
    assert isinstance(run.net.trees, NumberTrees)
    missed, alone = (
        np.abs(found - truth.numpy()).mean() for found in (run.predict(x), run.net.net(x).detach().numpy())
    )
    assert missed < 0.6 * alone
    assert run.joined.startswith("held-out targets are predicted better")
    assert run.issue_table()["flag"][::7].mean() > 0.95


def test_the_command_line_says_so_and_predicts_with_them(tmp_path):
    rows = stripes(600)
    frame = pd.DataFrame(rows.x.numpy(), columns=list("wxyz")).assign(label=[rows.classes[k] for k in rows.y])
    frame.to_csv(tmp_path / "table.csv", index=False)
    out, more = tmp_path / "run", tmp_path / "more.csv"
    frame.drop(columns="label").to_csv(more, index=False)
    words = ["fit", str(tmp_path / "table.csv"), "--label", "label", "--epochs", "3", "--quiet", "--out", str(out)]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert "they join the network" in " ".join(said.output.split())
    told = CliRunner().invoke(app, ["predict", str(out), str(more), "--out", str(tmp_path / "predicted.csv")])
    assert told.exit_code == 0, told.output
    right = pd.read_csv(tmp_path / "predicted.csv")["prediction"] == [rows.classes[k] for k in rows.truth]
    assert right.mean() > 0.85
    for command in (["issues", str(out)], ["report", str(out)], ["diagnose", str(out)]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    again = ["fit", "--config", str(out / "run.json"), "--quiet", "--out", str(tmp_path / "again")]
    assert CliRunner().invoke(app, again).exit_code == 0
    model = "model.safetensors"
    assert (tmp_path / "again" / model).read_bytes() == (out / model).read_bytes()


def test_a_network_of_its_own_with_parts_of_that_name_is_not_taken_for_one(tmp_path):
    net = nn.ModuleDict({"trees": nn.Linear(4, 2)})
    net.forward = lambda x: net["trees"](x)
    fit(stripes(), Method(), net, epochs=1, out=tmp_path / "run")
    other = nn.ModuleDict({"trees": nn.Linear(4, 2)})
    assert Run.load(tmp_path / "run", other).net is other


@pytest.mark.parametrize("rows", [2, 39, 45])
@pytest.mark.parametrize("numbers", [False, True])
def test_a_few_rows_are_no_obstacle(rows, numbers):
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(0))
    y = x[:, :1].floor() if numbers else torch.zeros(rows, dtype=torch.int64)
    run = fit(Rows(x, y) if numbers else Rows(x, y, ("a", "b", "c")), net="mlp", epochs=1)
    assert torch.isfinite(run.outputs(x)).all()
