"""The configuration of a run: complete, comparable, and enough to start the run again."""

import dataclasses
import functools
import json
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Run, Stack, fit
from holdfast.augment import PadCropFlip
from holdfast.cli import app
from holdfast.config import call_of, plain
from holdfast.files import read_tensors
from holdfast.functional import AuthorsRamp, Constant, Steps
from holdfast.methods import PRLL, Crust, NormClip
from holdfast.run_folder import RunFolder
from holdfast.stop import DistanceStop


def train(rows, out, method=None, **settings):
    return fit(rows, method or Method(), nn.Linear(2, 3), epochs=2, batch_size=60, out=out, **settings)


def test_all_that_a_run_was_made_with_is_written_down(blobs, tmp_path):
    settings = {"optimizer": functools.partial(SGD, lr=0.3, momentum=0.5), "schedule": Steps((0.5,), 0.2)}
    method = Stack(PRLL(0.2, ramp=AuthorsRamp(4)), NormClip(2.0))
    run = train(blobs, tmp_path / "run", method, stop=DistanceStop(2), seed=3, **settings)
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert config["optimizer"]["name"] == "SGD"
    assert config["optimizer"]["settings"]["lr"] == 0.3
    assert config["optimizer"]["settings"]["momentum"] == 0.5
    assert config["schedule"] == {"name": "Steps", "settings": {"at": [0.5], "factor": 0.2}}
    prl, clip = config["method"]["settings"]["members"]
    assert prl["settings"]["ramp"] == {"name": "AuthorsRamp", "settings": {"epochs": 4, "power": 1.0}}
    assert clip == {"name": "NormClip", "settings": {"limit": 2.0}}
    assert config["stop"] == {"name": "DistanceStop", "settings": {"patience": 2}}
    assert (config["seed"], config["epochs"], config["batch_size"], config["augment"]) == (3, 2, 60, None)
    assert RunFolder(tmp_path / "run").config() == run.config


def halved(share):
    return 0.5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"optimizer": functools.partial(Adam, lr=0.5, fused=True)}, "optimizer lr 0.001, not 0.5"),
        ({"optimizer": functools.partial(SGD, lr=0.001)}, r"optimizer Adam\(.*, not SGD\("),
        ({"schedule": Constant()}, r"schedule Cosine\(\), not Constant\(\)"),
        ({"schedule": halved}, r"schedule Cosine\(\), not own\("),
        ({"augment": PadCropFlip()}, "augment None, not PadCropFlip"),
        ({"method": PRLL(0.3)}, r"method rate 0.2, not 0.3"),
        ({"stop": DistanceStop()}, "stop None, not DistanceStop"),
        ({"seed": 9}, "seed 0, not 9"),
    ],
)
def test_a_run_goes_on_only_as_it_began(blobs, tmp_path, changed, words):
    train(blobs, tmp_path / "run", PRLL(0.2))
    before = (tmp_path / "run" / "history.csv").read_text()
    settings = {"method": PRLL(0.2), **changed}
    with pytest.raises(HoldfastError, match=f"was started with .*{words}.*another folder"):
        train(blobs, tmp_path / "run", resume=True, **settings)
    assert (tmp_path / "run" / "history.csv").read_text() == before


def test_what_it_trains_on_may_change_between_two_parts_of_a_run(blobs, tmp_path):
    train(blobs, tmp_path / "run", workers=0, device="cpu")
    again = train(blobs, tmp_path / "run", workers=0, device="auto", resume=True)
    assert len(again.history) == 2


def test_functions_are_told_apart_by_what_they_do():
    def power(k):
        return lambda rate, epoch: rate * k

    assert plain(power(0.5)) == plain(power(0.5))
    assert plain(power(0.5)) != plain(power(0.25))
    assert plain(lambda rate, epoch: rate) != plain(lambda rate, epoch: rate / 2)
    assert not re.search("0x[0-9a-f]+", json.dumps(plain(PRLL(0.2, ramp=lambda rate, epoch: rate))))
    assert plain(halved) == {"name": f"{__name__}:halved", "settings": {}}


def test_arrays_are_written_out_or_digested():
    assert plain(torch.eye(2)) == plain(np.eye(2)) == [[1.0, 0.0], [0.0, 1.0]]
    assert plain(np.zeros(5000)) != plain(np.ones(5000))
    assert set(plain(torch.zeros(5000))) == {"shape", "digest"}
    assert call_of(plain(Method())) == "Method()"


@pytest.fixture
def bars(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    np.savez(tmp_path / "bars.npz", x_train=rng.normal(y[:, None], 1.0, (200, 4)).astype("float32"), y_train=y)
    return tmp_path / "bars.npz"


def run_command(*words):
    return CliRunner().invoke(app, [*map(str, words), "--quiet"], catch_exceptions=True)


def test_a_run_starts_again_from_its_configuration(bars, tmp_path):
    words = ("--method", "prl-l", "--set", "rate=0.3", "--stop", "validation", "--optimizer", "sgd", "--lr", "0.05")
    more = ("--epochs", "4", "--batch-size", "20", "--seed", "5", "--schedule", "onecycle", "--device", "cpu")
    first = run_command("fit", bars, "--out", tmp_path / "one", *words, *more)
    assert first.exit_code == 0, first.output
    again = run_command("fit", "--config", tmp_path / "one" / "run.json", "--out", tmp_path / "two", "--device", "cpu")
    assert again.exit_code == 0, again.output
    one, two = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    configs = [RunFolder(tmp_path / name).config() for name in ("one", "two")]
    assert configs[0] == configs[1]


def test_a_configuration_runs_no_code_and_suffers_no_contradiction(bars, tmp_path):
    run_command("fit", bars, "--out", tmp_path / "one", "--epochs", "1", "--device", "cpu")
    path = tmp_path / "one" / "run.json"
    refused = run_command("fit", "--config", path, "--out", tmp_path / "two", "--epochs", "3")
    assert "leave out --epochs" in str(refused.exception)
    config = json.loads(path.read_text())
    for changed, words in (
        ({"net": "evil:factory"}, "--net evil:factory if you trust it"),
        ({"method": {"name": "evil:Method", "settings": {}}}, "evil:Method, which Holdfast cannot make again"),
        ({"optimizer": {"name": "os:system", "settings": {}}}, "os:system, which Holdfast cannot make again"),
        ({"method": {"name": "PRLL", "settings": {"speed": 3}}}, "does not fit PRLL"),
        ({"source": {}}, "rows in memory"),
        ({"source": {**config["source"], "reading": {"trust_pickle": True}}}, "--trust-pickle instead"),
    ):
        path.write_text(json.dumps({**config, **changed}))
        refused = run_command("fit", "--config", path, "--out", tmp_path / "two")
        assert isinstance(refused.exception, HoldfastError), refused.output
        assert words in str(refused.exception)
    path.write_text("{}")
    assert "another version" in str(run_command("fit", "--config", path).exception)
    assert "name the data" in str(run_command("fit").exception)


def test_presets_are_made_again_too(bars, tmp_path):
    for method in ("crust-authors", "ema-refinement", "divide-mix"):
        out = tmp_path / method
        done = run_command("fit", bars, "--out", out, "--epochs", "2", "--method", method, "--device", "cpu")
        assert done.exit_code == 0, done.output
        done = run_command("fit", "--config", out, "--out", tmp_path / f"{method} again", "--device", "cpu")
        assert done.exit_code == 0, done.output
        assert Run.records(out).config.method == Run.records(tmp_path / f"{method} again").config.method


def test_a_parameter_under_another_name_is_named(blobs):
    class Hidden(Method):
        def __init__(self, rate=0.2):
            super().__init__()
            self._rate = rate

    assert repr(Hidden()) == "Hidden(rate='?')"
    with pytest.raises(HoldfastError, match="takes 'rate' and keeps it under another name"):
        fit(blobs, Hidden(), "mlp", epochs=1)
    assert "fraction=0.3" in repr(Crust(0.3))


def test_other_reviewed_labels_are_another_run(blobs, tmp_path):
    reviewed = torch.arange(240) % 5 == 0
    train(dataclasses.replace(blobs, reviewed=reviewed), tmp_path / "run")
    with pytest.raises(HoldfastError, match="other reviewed labels"):
        train(dataclasses.replace(blobs, reviewed=~reviewed), tmp_path / "run", resume=True)
    with pytest.raises(HoldfastError, match="other reviewed labels"):
        train(blobs, tmp_path / "run", resume=True)
