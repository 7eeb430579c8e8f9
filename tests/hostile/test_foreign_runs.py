"""Somebody else's run folder: opening it runs nothing of theirs, and damage in it is a sentence."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast import HoldfastError, Run, read
from holdfast.cli import app
from holdfast.encoders.named import encoder_named

EVIL = """
from pathlib import Path
Path({mark!r}).write_text("ran")
from holdfast.nets import build
def factory(shape, outputs):
    return build("mlp", shape, outputs)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 3))
    table = pd.DataFrame(x, columns=list("abc")).assign(label=np.where(x[:, 0] > 0, "yes", "no"))
    table.to_csv(folder / "data.csv", index=False)
    command = [
        "fit",
        str(folder / "data.csv"),
        "--label",
        "label",
        "--out",
        str(folder / "run"),
        "--epochs",
        "2",
        "--quiet",
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path, monkeypatch) -> Path:
    """A copy that the test may spoil, and a working folder of its own."""
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "run"


def changed(run: Path, **values) -> None:
    config = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**config, **values}))


def call(*command: object):
    return CliRunner().invoke(app, [str(part) for part in command])


class Malice:
    def __reduce__(self):
        return Path.touch, (Path("mark"),)


def evil_module(name: str) -> Path:
    mark = Path("mark").absolute()
    Path(f"{name}.py").write_text(EVIL.format(mark=str(mark)))
    return mark


@pytest.mark.parametrize("command", ["predict", "diagnose"])
def test_a_network_that_a_run_names_is_not_imported(run, command):
    module = f"evil_{command}"
    mark = evil_module(module)
    changed(run, net=f"{module}:factory")
    more = [run.parent / "data.csv", "--out", "p.csv"] if command == "predict" else []
    pd.DataFrame({"a": [1.0], "b": [1.0], "c": [1.0]}).to_csv("data.csv", index=False)
    done = call(command, run, *more)
    assert done.exit_code == 1
    assert f"--trust-code {module}:factory" in str(done.exception)
    assert not mark.exists()
    assert call(command, run, *more, "--trust-code", "other:factory").exit_code == 1
    assert not mark.exists()
    if command == "predict":
        assert call(command, run, *more, "--trust-code", f"{module}:factory").exit_code == 0
        assert mark.exists()


def test_an_encoder_that_a_run_names_is_not_imported(run):
    mark = evil_module("evil_encoder")
    config = json.loads((run / "run.json").read_text())
    reading = {**config["source"]["reading"], "encoder": "evil_encoder:Encoder"}
    changed(run, source={**config["source"], "reading": reading})
    for command in ("report", "clean"):
        call(command, run, *(["--out", "o.csv"] if command == "clean" else []))
        assert not mark.exists()
    with pytest.raises(HoldfastError, match="--trust-code evil_encoder:Encoder"):
        Run.records(run).training_rows()
    changed(run, source=config["source"], recipe={**config["recipe"], "encoder": {"name": "evil_encoder:Encoder"}})
    with pytest.raises(HoldfastError, match="--trust-code evil_encoder:Encoder"):
        Run.load(run)
    assert not mark.exists()


@pytest.mark.parametrize("place", ["hf-hub:somebody/model", "local-dir:/tmp/model", "somebody/model"])
def test_weights_that_timm_would_fetch_from_anywhere_are_not_loaded(place):
    with pytest.raises(HoldfastError, match="no weights are loaded"):
        encoder_named(f"timm:{place}")


def test_a_pickle_that_a_run_names_is_not_read(run):
    Path("data.pkl").write_bytes(pickle.dumps(Malice()))
    config = json.loads((run / "run.json").read_text())
    source = {**config["source"], "path": str(Path("data.pkl").absolute())}
    for reading in ({"trust_pickle": True}, {}):
        changed(run, source={**source, "reading": reading})
        call("report", run)
        with pytest.raises(HoldfastError, match=r"pickle|--trust-code"):
            Run.records(run).training_rows()
        assert not Path("mark").exists()
    changed(run, source={**source, "reading": {"trust_pickle": True}})
    with pytest.raises(HoldfastError):
        Run.records(run, trust=[source["path"]]).training_rows()
    assert Path("mark").exists()


def test_a_run_to_start_from_is_not_imported_either(run):
    mark = evil_module("evil_start")
    changed(run, net="evil_start:factory")
    draw = np.random.default_rng(0).normal(size=(40, 3))
    pd.DataFrame(draw, columns=list("abc")).assign(label=["yes", "no"] * 20).to_csv("more.csv", index=False)
    done = call("fit", "more.csv", "--label", "label", "--out", "again", "--from", run, "--epochs", "1", "--quiet")
    assert done.exit_code == 1
    assert "pass --net evil_start:factory" in str(done.exception)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shape", [10**12]),
        ("shape", ["a"]),
        ("shape", 3),
        ("outputs", -1),
        ("outputs", 10**9),
        ("classes", [1, 2]),
        ("classes", "yes"),
        ("net", 5),
        ("recipe", []),
        ("recipe", {"kind": "table", "columns": [{"as": "evil"}], "names": None}),
        ("source", {"path": 5}),
        ("source", {"path": "x", "reading": {"evil": 1}, "test": "0", "seed": 0, "labels": None}),
        ("epochs", "many"),
        ("method", "evil"),
        ("fingerprint", None),
    ],
)
@pytest.mark.parametrize("command", ["report", "predict", "issues", "clean", "export"])
def test_a_configuration_that_does_not_fit_is_a_sentence(run, command, name, value):
    changed(run, **{name: value})
    pd.DataFrame({"a": [1.0], "b": [1.0], "c": [1.0]}).to_csv("data.csv", index=False)
    more = {"predict": ["data.csv", "--out", "p.csv"], "clean": ["--out", "o.csv"],
            "export": ["--to", "argilla", "--out", "o.json"]}.get(command, [])  # fmt: skip
    done = call(command, run, *more)
    assert done.exit_code in (0, 1)
    assert done.exception is None or isinstance(done.exception, SystemExit | HoldfastError), repr(done.exception)


@pytest.mark.parametrize("name", ["ledger.npz", "history.csv", "run.json", "model.safetensors", "held_out.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "flipped", "gone"])
def test_damaged_files_are_a_sentence(run, name, damage):
    content = (run / name).read_bytes()
    draw = np.random.default_rng(1)
    flipped = bytearray(content)
    for place in draw.integers(0, len(content), 20):
        flipped[place] ^= 1 << int(draw.integers(8))
    (run / name).unlink()
    if damage != "gone":
        spoilt = {"cut": content[: len(content) // 2], "empty": b"", "zeros": bytes(len(content)), "flipped": flipped}
        (run / name).write_bytes(bytes(spoilt[damage]))
    pd.DataFrame({"a": [1.0], "b": [1.0], "c": [1.0]}).to_csv("data.csv", index=False)
    for command in (["issues", run], ["report", run], ["predict", run, "data.csv", "--out", "p.csv"]):
        done = call(*command)
        assert done.exception is None or isinstance(done.exception, SystemExit | HoldfastError), repr(done.exception)


@pytest.mark.parametrize("damage", ["gone", "nothing"])
def test_opinions_that_are_there_for_some_rows_alone_are_a_sentence(run, damage):
    with np.load(run / "ledger.npz") as file:
        arrays = {name: file[name] for name in file.files}
    assert (run / "held_out.safetensors").exists()
    if damage == "gone":
        del arrays["evidence"]
    else:
        arrays["evidence"][3] = 0
    np.savez_compressed(run / "ledger.npz", **arrays)
    with pytest.raises(HoldfastError, match="'evidence'"):
        Run.records(run).issues()


@pytest.mark.slow
def test_a_ledger_that_claims_to_be_huge_is_not_unpacked(run):
    np.savez_compressed(run / "ledger.npz", given=np.zeros(10**8, dtype=np.int64))
    with pytest.raises(HoldfastError, match=r"would unpack to 0\.8 GB"):
        Run.records(run)


@pytest.mark.parametrize(
    "name", ["run.json", "ledger.npz", "history.csv", "reviews.sqlite", "checkpoint/last.safetensors"]
)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(run, name):
    """Whoever opens a pipe that nobody writes into waits forever."""
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(HoldfastError, match="is a pipe or a device; a file is needed"):
        Run.records(run).issues()


@pytest.mark.parametrize("name", ["data.csv", "data.npz", "data"])
def test_nor_is_a_pipe_that_a_run_names_as_its_data(run, name):
    os.mkfifo(name)
    source = json.loads((run / "run.json").read_text())["source"]
    changed(run, source={**source, "path": str(Path(name).absolute())})
    with pytest.raises(HoldfastError, match="is a pipe or a device; a file is needed"):
        Run.records(run).training_rows()


def test_nor_is_a_pipe_among_pictures(tmp_path):
    for label in "ab":
        (tmp_path / label).mkdir()
        for number in range(3):
            Image.new("RGB", (8, 8)).save(tmp_path / label / f"{number}.png")
    os.mkfifo(tmp_path / "a" / "9.png")
    with pytest.raises(HoldfastError, match="no image of a known format"):
        read(tmp_path)
    assert len(read(tmp_path, skip_broken=True)[0]) == 6
