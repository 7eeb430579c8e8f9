"""Odd files, places and signals: one sentence on the screen, and no traceback."""

import datetime
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import typed
from typer.testing import CliRunner

from holdfast import HoldfastError, read
from holdfast.cli import app


def holdfast(*command: object, **more) -> subprocess.CompletedProcess:
    words = [sys.executable, "-m", "holdfast", *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, **more)


def table(path: Path, rows: int = 40) -> Path:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    pd.DataFrame(x, columns=list("abc")).assign(label=np.where(x[:, 0] > 0, "p", "q")).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "/dev/null/run"], "/dev/null"),
        (["--label", "[/red]", "--out", "run"], "no column '[/red]'"),
        (["--seed", "99999999999999999999", "--out", "run"], "--seed"),
        pytest.param(["--device", "cuda", "--out", "run"], "--device", marks=pytest.mark.slow),
        pytest.param(["--label", "[bold]", "--out", "run"], "no column '[bold]'", marks=pytest.mark.slow),
        pytest.param(["--device", "abacus", "--out", "run"], "--device abacus", marks=pytest.mark.slow),
        pytest.param(["--precision", "half", "--out", "run"], "--precision half", marks=pytest.mark.slow),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    options = options if "--label" in options else ["--label", "label", *options]
    done = typed("fit", table(tmp_path / "t.csv"), *options, "--epochs", 1, "--quiet")
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    if "/dev/null/run" in options:
        assert "Traceback" in typed("fit", tmp_path / "t.csv", *options, "--debug").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.slow
def test_a_full_disk_is_told_and_nothing_half_written_stays(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        done = holdfast(
            "fit", table(tmp_path / "t.csv", 4000), "--label", "label", "--out", disk / "run", "--epochs", 1, "--quiet"
        )
        assert "the disk is full" in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
        assert not list(disk.rglob("*.part"))
    finally:
        subprocess.run(["umount", disk], check=False)


def hears_interrupts() -> None:
    """A process that a shell has started in the background, and what it starts, ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_a_stopped_training_says_how_it_goes_on(tmp_path):
    words = [sys.executable, "-m", "holdfast", "fit", table(tmp_path / "t.csv", 4000), "--label", "label", "--out",
             tmp_path / "run", "--epochs", "2000", "--method", "standard", "--quiet"]  # fmt: skip
    process = subprocess.Popen(
        list(map(str, words)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=hears_interrupts
    )
    until = time.time() + 120
    while not (tmp_path / "run" / "checkpoint" / "last.safetensors").exists() and time.time() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume goes on" in " ".join(said.split())
    assert "Traceback" not in said


@pytest.mark.parametrize("kind", ["date32", "timestamp"])
def test_dates_of_any_year_are_numbers(tmp_path, kind):
    if kind == "date32":
        days = pa.array([datetime.date(254, 1, 1), datetime.date(9999, 12, 31), None, datetime.date(1970, 1, 2)] * 10)
    else:
        moments = [datetime.datetime(254, 1, 1), datetime.datetime(9999, 12, 31), None, datetime.datetime(1970, 1, 2)]
        days = pa.array(moments * 10, type=pa.timestamp("us"))
    pq.write_table(pa.table({"when": days, "label": ["x", "y"] * 20}), tmp_path / "t.parquet")
    rows, _ = read(tmp_path / "t.parquet", label="label")
    column = rows.recipe["columns"][0]
    assert column["as"] == "number"
    assert column["median"] == 86400
    assert rows.x[0, 0] < rows.x[3, 0] < rows.x[1, 0]


def test_an_archive_without_rows_is_a_sentence(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=np.zeros((0, 3)), y_train=np.zeros(0, dtype=int))
    with pytest.raises(HoldfastError, match="holds no rows"):
        read(tmp_path / "a.npz")


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = typed("noise", table(tmp_path / "t.csv"), "--label", "label", "--out", "[/red].csv")
    assert done.returncode == 0, done.stderr
    assert "[/red].csv" in done.stdout


@pytest.mark.parametrize("command", ["report", "issues", "diagnose"])
def test_a_page_or_a_table_is_not_written_over_something_else(tmp_path, command):
    (tmp_path / "mine").write_text("precious")
    done = typed(command, tmp_path / "run", "--out", tmp_path / "mine")
    assert done.returncode == 2
    assert "exists; choose another name, or pass --force" in " ".join(done.stderr.split())
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_file_where_a_folder_is_needed_is_a_sentence(tmp_path):
    done = typed("noise", table(tmp_path / "t.csv"), "--label", "label", "--out", tmp_path / "t.csv" / "o.csv")
    assert done.returncode == 2
    assert "there is a file where a folder is needed; choose another place" in " ".join(done.stderr.split())


def test_what_is_no_array_is_not_called_a_pickle(tmp_path):
    wrong = tmp_path / "t.npy"
    wrong.write_text("a,b\n1,2\n")
    done = CliRunner().invoke(app, ["select", str(wrong), "--out", str(tmp_path / "o.csv")])
    assert str(done.exception).endswith("is no .npy or .npz file")


@pytest.mark.parametrize("more", [[], ["--no-evidence"]])
def test_a_rate_that_is_far_too_high_is_a_sentence(tmp_path, more):
    words = [
        "fit",
        table(tmp_path / "t.csv"),
        "--label",
        "label",
        "--out",
        tmp_path / "run",
        "--epochs",
        "2",
        "--quiet",
    ]
    wild = CliRunner().invoke(app, [*map(str, words), "--optimizer", "sgd", "--lr", "1e30", *more])
    assert isinstance(wild.exception, HoldfastError), repr(wild.exception)
    assert str(wild.exception).endswith("nothing was kept; lower the learning rate (--lr)")
    assert CliRunner().invoke(app, [*map(str, words), *more]).exit_code == 0


@pytest.mark.parametrize("rate", ["1e308", "inf", "nan", "0", "-1"])
@pytest.mark.parametrize("words", [["fit", "--out", "run"], ["pretrain", "--method", "simclr", "--out", "body"]])
def test_what_is_no_learning_rate_is_a_sentence(tmp_path, monkeypatch, words, rate):
    monkeypatch.chdir(tmp_path)
    command, *more = words
    wild = CliRunner().invoke(app, [command, str(table(tmp_path / "t.csv")), "--label", "label", *more, "--lr", rate])
    assert str(wild.exception).startswith("a learning rate must be positive and at most 1e+30")
    assert not (tmp_path / more[-1]).exists()


@pytest.mark.parametrize("setting", ["rate=x", "seed=3", "kind=pairflip"])
def test_a_setting_of_noise_that_is_an_option_is_a_sentence(tmp_path, setting):
    words = ["noise", table(tmp_path / "t.csv"), "--label", "label", "--out", tmp_path / "o.csv", "--set", setting]
    wild = CliRunner().invoke(app, list(map(str, words)))
    assert isinstance(wild.exception, HoldfastError), repr(wild.exception)
    assert setting.partition("=")[0] in str(wild.exception)
