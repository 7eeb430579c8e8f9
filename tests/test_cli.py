"""The command line as people type it: real files, real processes."""

import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from in_process import typed
from PIL import Image
from typer.testing import CliRunner

from holdfast.cli import app

FAST = ("--epochs", "3", "--batch-size", "32", "--quiet", "--device", "cpu")


def holdfast(*words, ok=True):
    """Run the command: one that works in a process of its own, one that is refused in this one."""
    if not ok:
        refused = typed(*words)
        assert refused.returncode == 2, refused.stderr or refused.stdout
        assert "Traceback" not in refused.stderr
        return refused
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "COLUMNS": "200"}
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with numbers, categories, text and gaps."""
    rng = np.random.default_rng(0)
    n = 240
    income = rng.choice(["low", "high"], n)
    age = np.where(income == "high", 50, 30) + rng.normal(0, 5, n)
    age[::17] = np.nan
    words = {"low": "rent bus night shift work", "high": "golf yacht board meeting trip"}
    note = [" ".join(rng.permutation(words[k].split())) + f" day {i}" for i, k in enumerate(income)]
    frame = pd.DataFrame({"age": age, "town": rng.choice(["A", "B", "C"], n), "note": note, "income": income})
    path = tmp_path_factory.mktemp("table") / "people.csv"
    frame.to_csv(path, index=False)
    return path


def test_help_reads_well():
    runner = CliRunner()
    text = runner.invoke(app, ["--help"]).output
    for command in ("fit", "compare", "noise", "predict"):
        assert command in text
    assert "--label" in runner.invoke(app, ["fit", "--help"], env={"COLUMNS": "160"}).output
    assert runner.invoke(app, ["--version"]).output.startswith("holdfast ")


def test_fit_and_predict_a_table(table, tmp_path):
    out = tmp_path / "run"
    done = holdfast(
        "fit", table, "--label", "income", "--out", out, "--test", "0.25", "--epochs", 8, "--batch-size", 32, "--quiet"
    )
    history = pd.read_csv(out / "history.csv")
    # The score is that of the saved model, and its labels are a share of those in doubt.
    end, last, best = history["test"].iloc[-1], history["test"].mean(), history["test"].max()
    beside = f"epoch 8; mean of the last ten {last:.4f}, best {best:.4f}"
    assert f"test accuracy: {end:.4f} by labels that may be wrong themselves ({beside})" in done.stdout
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert end > 0.9
    bare = tmp_path / "new.csv"
    pd.read_csv(table).drop(columns="income").head(7).to_csv(bare, index=False)
    lines = holdfast("predict", out, bare).stdout.splitlines()
    assert lines[0].startswith("row,")
    assert len(lines) == 8
    holdfast("predict", out, bare, "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert set(predicted["prediction"]) <= {"low", "high"}
    assert (predicted["prediction"] == pd.read_csv(table)["income"].head(7)).mean() > 0.7


@pytest.mark.slow
def test_true_labels_have_a_score_of_their_own(table, tmp_path):
    frame = pd.read_csv(table)
    frame["truth"] = frame["income"]
    frame.loc[::3, "income"] = frame.loc[::3, "income"].map({"low": "high", "high": "low"})
    frame.to_csv(tmp_path / "noisy.csv", index=False)
    out = tmp_path / "run"
    words = ("--label", "income", "--truth", "truth", "--out", out, "--epochs", 12, "--quiet", "--device", "cpu")
    done = holdfast("fit", tmp_path / "noisy.csv", *words)
    end = pd.read_csv(out / "history.csv").iloc[-1]
    assert end["test_true"] > 0.9 > end["test"] + 0.1
    by = f"by labels that may be wrong themselves, {end['test_true']:.4f} by true labels (epoch 12;"
    assert f"test accuracy: {end['test']:.4f} {by}" in done.stdout


@pytest.mark.parametrize("kind", ["csv.gz", "tsv", "parquet"])
@pytest.mark.slow
def test_other_tables(table, tmp_path, kind):
    frame = pd.read_csv(table)
    path = tmp_path / f"people.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    holdfast("fit", path, "--label", "income", "--out", tmp_path / "run", *FAST)


@pytest.mark.slow
def test_a_number_to_predict_is_a_regression(table, tmp_path):
    frame = pd.read_csv(table).dropna()
    frame["price"] = frame["age"] * 2.5 + 0.123
    frame.to_csv(tmp_path / "p.csv", index=False)
    done = holdfast("fit", tmp_path / "p.csv", "--label", "price", "--out", tmp_path / "run", *FAST)
    assert "test R2" in done.stdout
    assert "prediction" in holdfast("predict", tmp_path / "run", tmp_path / "p.csv").stdout


@pytest.mark.slow
def test_a_regression_tells_its_error_in_the_units_of_the_file(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    y = 50_000 + 8_000 * x @ [1.0, -2.0, 0.5]
    given = np.where(np.arange(900) % 10 == 0, 10 * y, y)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "price": given})
    frame[:700].to_csv(tmp_path / "train.csv", index=False)
    frame[700:].assign(price=y[700:]).to_csv(tmp_path / "test.csv", index=False)
    words = ("fit", tmp_path / "train.csv", "--label", "price", "--test", tmp_path / "test.csv", "--out")
    more = ("--epochs", "20", "--batch-size", "32", "--quiet", "--device", "cpu", "--lr", "0.005")
    done = holdfast(*words, tmp_path / "run", "--method", "prl-l", "--task", "regression", *more)
    rate = float(done.stdout.split("wrong labels, estimated: ")[1].split("%")[0])
    assert 9 < rate < 30
    error = float(done.stdout.split("test MAE: ")[1].split()[0])
    assert error < 6_000  # of a spread of 18,000
    with Image.open(tmp_path / "run" / "residuals.png") as picture:
        assert picture.size[0] > 800
    holdfast("predict", tmp_path / "run", tmp_path / "test.csv", "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert np.abs(predicted - y[700:]).mean() == pytest.approx(error, rel=1e-3)
    ordinary = holdfast(*words, tmp_path / "other", "--method", "standard", *more)
    assert float(ordinary.stdout.split("test MAE: ")[1].split()[0]) > 2 * error


@pytest.mark.slow
def test_wrong_targets_are_planted(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x_train=rng.normal(size=(100, 4)), y_train=rng.normal(size=(100, 2)))
    done = holdfast("noise", tmp_path / "a.npz", "--kind", "signflip", "--rate", "0.3", "--out", tmp_path / "b.npz")
    assert "30.0% of the targets wrong" in done.stdout
    with np.load(tmp_path / "b.npz") as file:
        assert (file["y_train"] != file["y_true"]).any(1).sum() == 30
    refused = holdfast("noise", tmp_path / "a.npz", "--kind", "symmetric", "--out", tmp_path / "c.npz", ok=False)
    assert "there are linadv, signflip" in refused.stderr


@pytest.mark.slow
def test_a_held_out_file_is_encoded_as_the_training_file(table, tmp_path):
    frame = pd.read_csv(table)
    frame.head(180).to_csv(tmp_path / "a.csv", index=False)
    frame.tail(60).to_csv(tmp_path / "b.csv", index=False)
    done = holdfast(
        "fit", tmp_path / "a.csv", "--label", "income", "--test", tmp_path / "b.csv", "--out", tmp_path / "run", *FAST
    )
    assert "by the labels of b.csv, right or wrong (epoch 3;" in done.stdout
    assert json.loads((tmp_path / "run" / "run.json").read_text())["rows"] == 180


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    rng = np.random.default_rng(1)
    y = np.arange(300) % 3
    x = rng.integers(0, 120, (300, 12, 12), dtype=np.uint8)
    x[np.arange(300), y * 4] += 120
    path = tmp_path_factory.mktemp("arrays") / "bars.npz"
    np.savez(path, x_train=x[:240], y_train=y[:240], x_test=x[240:], y_test=y[240:])
    return path


@pytest.mark.slow
def test_noise_then_fit_then_compare(arrays, tmp_path):
    noisy = tmp_path / "noisy.npz"
    done = holdfast("noise", arrays, "--kind", "pairflip", "--rate", 0.3, "--out", noisy)
    assert "240 rows" in done.stdout
    with np.load(noisy) as z:
        rate = (z["y_train"] != z["y_true"]).mean()
        assert 0.2 < rate < 0.4
        assert ((z["y_train"] - z["y_true"]) % 3 != 2).all()
        np.testing.assert_allclose(z["transition"].sum(1), 1)
    assert (
        "right"
        in holdfast("fit", noisy, "--out", tmp_path / "run", "--method", "crust", "--set", "warmup=1", *FAST).stdout
    )
    done = holdfast(
        "compare",
        arrays,
        "--noise",
        "symmetric",
        "--rate",
        0.3,
        "--seeds",
        2,
        "--out",
        tmp_path / "c",
        "--net",
        "mlp",
        *FAST,
    )
    assert "±" in done.stdout
    summary = pd.read_csv(tmp_path / "c" / "summary.csv")
    assert summary["method"].tolist() == ["standard", "second-opinion"]
    assert (tmp_path / "c" / "curves.png").stat().st_size > 10_000
    assert len(pd.read_csv(tmp_path / "c" / "runs.csv")) == 4


@pytest.mark.slow
def test_a_folder_of_images(tmp_path):
    rng = np.random.default_rng(2)
    for name, level in (("dark", 60), ("light", 190)):
        (tmp_path / "img" / name).mkdir(parents=True)
        for k in range(40):
            pixels = np.clip(rng.normal(level, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "img" / name / f"{k}.png")
    (tmp_path / "img" / "dark" / "broken.png").write_bytes(b"\x89PNG nothing")
    done = holdfast("fit", tmp_path / "img", "--out", tmp_path / "run", *FAST, ok=False)
    assert "broken.png" in done.stderr
    assert not (tmp_path / "run").exists()
    holdfast("fit", tmp_path / "img", "--out", tmp_path / "run", "--skip-broken", *FAST)
    output = holdfast("predict", tmp_path / "run", tmp_path / "img" / "light").stdout
    assert output.count("light/") + output.count(".png") >= 40


@pytest.mark.slow
def test_killed_in_the_middle_and_resumed(arrays, tmp_path):
    words = [
        "fit",
        arrays,
        "--net",
        "mlp",
        "--epochs",
        "60",
        "--batch-size",
        "16",
        "--quiet",
        "--resume",
        "--threads",
        "1",
    ]
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *map(str, words), "--out"]
    process = subprocess.Popen([*command, str(tmp_path / "a")])
    while not (tmp_path / "a" / "checkpoint" / "last.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    for folder in ("a", "b"):
        subprocess.run([*command, str(tmp_path / folder)], check=True, capture_output=True)
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


class Evil:
    def __reduce__(self):
        return (os.system, ("touch pwned",))


@pytest.mark.parametrize(
    ("make", "words", "message"),
    [
        (None, ["--label", "incme"], "income"),
        (None, [], "--label"),
        (None, ["--label", "income", "--method", "crst"], "did you mean crust"),
        (None, ["--label", "income", "--method", "crust", "--set", "fraction=1.5"], r"(0, 1], not 1.5"),
        (None, ["--label", "income", "--set", "colour=red"], "colour"),
        (None, ["--label", "income", "--batch-size", "999", "--quiet"], "fewer than a batch of 999"),
        (None, ["--label", "income", "--net", "resnet99"], "resnet99"),
        (None, ["--label", "income", "--lr", "-1"], "must be positive"),
        (None, ["--label", "income", "--schedule", "wavy"], "no schedule is called"),
        (None, ["--label", "income", "--augment"], "crops images"),
        (None, ["--label", "income", "--test", "1.5"], "between 0 and 1"),
        (lambda p: p.with_name("no.csv"), ["--label", "y"], "no.csv"),
        ("", ["--label", "y"], "empty"),
        ("a,y\n1,x\n2,x\n", ["--label", "y"], "only one class"),
        ("a,y\n1,x\ninf,z\n", ["--label", "y"], "inf"),
        ("a,y\n1,x\n2,\n3,z\n", ["--label", "y"], "--missing drop"),
    ],
)
def test_a_mistake_is_one_clear_sentence(table, tmp_path, make, words, message):
    path = table
    if callable(make):
        path = make(tmp_path / "x.csv")
    elif make is not None:
        path = tmp_path / "bad.csv"
        path.write_text(make)
    done = holdfast("fit", path, "--out", tmp_path / "run", *words, *() if "--batch-size" in words else FAST, ok=False)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.slow
def test_files_that_are_cut_or_dangerous(table, arrays, tmp_path):
    whole = gzip.compress(table.read_bytes())
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut.npz").write_bytes(arrays.read_bytes()[:500])
    (tmp_path / "data.pkl").write_bytes(pickle.dumps(Evil()))
    for name, message in (("cut.csv.gz", "cut.csv.gz"), ("cut.npz", "cut.npz"), ("data.pkl", "--trust-pickle")):
        label = ("--label", "income") if "csv" in name else ()
        done = holdfast("fit", tmp_path / name, *label, "--out", tmp_path / "run", ok=False)
        assert message in done.stderr
    assert not Path("pwned").exists()


@pytest.mark.slow
def test_folders_that_hold_something_else(table, tmp_path):
    words = ("fit", table, "--label", "income", *FAST)
    holdfast(*words, "--out", tmp_path / "run")
    assert "holds a run already" in holdfast(*words, "--out", tmp_path / "run", ok=False).stderr
    other = holdfast(*words, "--out", tmp_path / "run", "--resume", "--method", "standard", ok=False).stderr
    assert "cannot resume" in other
    assert "holds no run" in holdfast("predict", tmp_path, table, ok=False).stderr
