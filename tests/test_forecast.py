"""What a training will take, before it begins."""

import pytest
import torch
from typer.testing import CliRunner

from holdfast import HoldfastError
from holdfast.cli import app
from holdfast.data.rows import Rows
from holdfast.evidence import most_epochs
from holdfast.forecast import Forecast, forecast
from holdfast.nets import build


def rows(count: int, classes: int = 3) -> Rows:
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (count,), generator=draw)
    return Rows(torch.randn(count, 8, generator=draw), y, tuple(map(str, range(classes))))


def told(**changed):
    net = build("mlp", (8,), 3)
    return forecast(rows(400), net, **{"epochs": 10, "batch_size": 40, "evidence": False, "device": "cpu", **changed})


def test_every_step_is_counted(monkeypatch):
    monkeypatch.setattr("holdfast.forecast._step", lambda *_: 0.5)
    assert told().seconds == 10 * 10 * 0.5
    assert told(evidence=True).seconds == (10 + 3 * most_epochs(10)) * 10 * 0.5


def test_a_step_takes_some_time():
    assert 0 < told().seconds < 100


def test_networks_of_the_folds_are_counted():
    assert told(evidence=True).memory > told().memory


def test_of_many_classes_few_are_counted():
    def memory(classes: int) -> int:
        net = build("mlp", (8,), classes)
        return forecast(rows(400, classes), net, epochs=10, batch_size=40, evidence=True, device="cpu").memory

    assert memory(30) < memory(50) == memory(1_000) < 400 * 3_000


def test_nothing_random_is_drawn():
    data, net = rows(400), build("mlp", (8,), 3)
    before = torch.get_rng_state()
    forecast(data, net, epochs=10, batch_size=40, evidence=True, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_what_would_not_fit_is_refused(monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_MEMORY", "50K")
    with pytest.raises(HoldfastError, match=r"400 rows would take about .* and 0 MB may be used"):
        told()


def test_short_trainings_get_no_line():
    assert not Forecast(10, 1 << 20).sentence
    assert Forecast(400, 1 << 20).sentence == "forecast: about 7 minutes, and 1 MB of memory beside the data"


def test_fit_says_it_of_large_data(tmp_path, monkeypatch):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(300, 2, generator=draw)
    lines = [f"{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for a, b in x.tolist()]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,label", *lines]))
    monkeypatch.setattr("holdfast.cli.fit.LONG", 200)
    monkeypatch.setattr("holdfast.forecast.WORTH", 0.0)
    out = str(tmp_path / "run")
    command = ["fit", str(tmp_path / "a.csv"), "--label", "label", "--out", out, "--epochs", "1", "--quiet"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "forecast: about a minute, and 0 MB of memory beside the data" in done.output
