"""Figures of each epoch, as the real trackers read them back."""

import csv
import sys

import pandas as pd
import pytest
from torch import nn
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Stack, fit
from holdfast.cli import app
from holdfast.methods import PRLL, CoTeaching, SecondOpinion
from holdfast.trackers import CSV, MLflow, TensorBoard, WandB, trackers_of


def train(rows, method=None, epochs=3, **settings):
    return fit(rows, method or PRLL(), nn.Linear(2, 3), epochs=epochs, batch_size=48, device="cpu", **settings)


def figures_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return {(int(line["step"]), line["name"]): float(line["value"]) for line in csv.DictReader(file)}


def assert_history(found, run):
    """All that is in the history, and nothing else, by epoch and name."""
    table = run.history.to_dict("records")
    wanted = {(k, name): value for k, line in enumerate(table) for name, value in line.items() if not pd.isna(value)}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-6), key


def test_the_history_goes_to_a_csv_file_with_the_figures_of_the_method(blobs, tmp_path):
    run = train(blobs, trackers=[CSV(tmp_path / "figures.csv")], test=blobs)
    found = figures_of(tmp_path / "figures.csv")
    assert_history(found, run)
    assert {"loss", "coverage", "test", "noise_rate", "drop_rate", "stability"} <= {name for _, name in found}
    assert found[2, "noise_rate"] == run.history["noise_rate"].iloc[-1]


def test_a_run_that_goes_on_logs_no_epoch_twice(blobs, tmp_path):
    class Stops(Exception):
        pass

    def watch(epoch, net):
        if epoch == 2:
            raise Stops
        return {}

    out = tmp_path / "run"
    with pytest.raises(Stops):
        train(blobs, epochs=4, out=out, trackers=["csv"], watch=watch)
    left = (out / "figures.csv").read_text()
    (out / "figures.csv").write_text(left + "2,loss,99.0\n")  # of an epoch whose checkpoint was never written
    run = train(blobs, epochs=4, out=out, trackers=["csv"], resume=True)
    assert_history(figures_of(out / "figures.csv"), run)


def test_no_file_of_somebody_else_is_written_over(blobs, tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(HoldfastError, match="exists; choose another name for the figures"):
        train(blobs, trackers=[CSV(tmp_path / "mine.csv")])
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"
    with pytest.raises(HoldfastError, match="figures in CSV need a file"):
        train(blobs, trackers=["csv"])


def test_tensorboard_reads_it(blobs, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = train(blobs, trackers=[TensorBoard(tmp_path / "logs")], test=blobs)
    read = events.EventAccumulator(str(tmp_path / "logs"))
    read.Reload()
    found = {(e.step, name): e.value for name in read.Tags()["scalars"] for e in read.Scalars(name)}
    assert_history(found, run)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_it_and_a_run_goes_on_there(blobs, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    out = tmp_path / "run"
    run = train(blobs, out=out, trackers=["mlflow:labels"], test=blobs)
    client = mlflow.MlflowClient()
    kept = client.get_run((out / "mlflow.txt").read_text().strip())
    assert client.get_experiment(kept.info.experiment_id).name == "labels"
    assert kept.data.params["method.name"] == "PRLL"
    metrics = {name: client.get_metric_history(kept.info.run_id, name) for name in kept.data.metrics}
    assert_history({(m.step, name): m.value for name, found in metrics.items() for m in found}, run)
    assert kept.info.status == "FINISHED"
    train(blobs, out=out, trackers=["mlflow:labels"], test=blobs, resume=True)
    assert len(client.search_runs([kept.info.experiment_id])) == 1


@pytest.mark.filterwarnings("ignore")
def test_wandb_takes_it_offline(blobs, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    out = tmp_path / "run"
    train(blobs, out=out, trackers=[WandB("labels")])
    name = (out / "wandb.txt").read_text().strip()
    logs = list(tmp_path.rglob(f"run-{name}.wandb"))
    assert len(logs) == 1
    assert b"noise_rate" in logs[0].read_bytes()


@pytest.mark.parametrize(
    ("tracker", "module", "message"),
    [
        (MLflow(), "mlflow", r"MLflow is not installed; pip install 'holdfast\[mlflow\]'"),
        (WandB(), "wandb", r"Weights & Biases is not installed; pip install 'holdfast\[wandb\]'"),
    ],
)
def test_what_is_not_installed_is_said_in_a_sentence(blobs, tracker, module, message, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(HoldfastError, match=message):
        train(blobs, trackers=[tracker])


def test_names_stand_for_trackers():
    one, two = trackers_of(["csv:a:b.csv", TensorBoard("logs")])
    assert isinstance(one, CSV)
    assert one.path == "a:b.csv"
    assert isinstance(two, TensorBoard)
    with pytest.raises(HoldfastError, match=r"no tracker is called 'tensorbord'.*did you mean tensorboard"):
        trackers_of(["tensorbord"])


def test_figures_of_stacked_methods_are_together(blobs):
    run = train(blobs, Stack(CoTeaching(0.2), Method()), epochs=2)
    assert run.history["noise_rate"].tolist() == [0.2, 0.2]
    assert SecondOpinion().figures() == {}


def test_the_command_line_takes_trackers(blobs, tmp_path):
    table = pd.DataFrame({"a": blobs.x[:, 0], "b": blobs.x[:, 1], "kind": [blobs.classes[k] for k in blobs.y]})
    table.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    words = ["fit", tmp_path / "t.csv", "--label", "kind", "--out", out, "--epochs", 2, "--method", "prl-l", "--quiet"]
    words += [
        "--no-evidence",
        "--net",
        "mlp",
        "--device",
        "cpu",
        "--track",
        "csv",
        "--track",
        f"csv:{tmp_path / 'f.csv'}",
    ]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exception is None, result.output
    assert figures_of(out / "figures.csv") == figures_of(tmp_path / "f.csv")
    assert (1, "noise_rate") in figures_of(tmp_path / "f.csv")
