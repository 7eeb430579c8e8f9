"""How many labels are wrong: one rate and one number of flags, whoever is asked."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from finished_runs import prices_run
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from holdfast import Method, Run, fit
from holdfast.cli import app
from holdfast.issues import WrongLabels
from holdfast.methods import SecondOpinion
from holdfast.noise import symmetric
from holdfast.review.queue import Filter, ReviewQueue
from holdfast.review.store import Store


def command(*words):
    done = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Digits in a file, three labels in ten wrong."""
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    x, truth = load_digits(return_X_y=True)
    given = symmetric(torch.from_numpy(truth), 0.3, 10, seed=1).labels.numpy()
    np.savez(path, x_train=(x[:600] / 16).astype("float32"), y_train=given[:600])
    return path


@pytest.mark.parametrize("method", ["second-opinion", "prl-l"])
def test_every_command_tells_the_same(digits, tmp_path, method):
    out = tmp_path / "run"
    words = ("--method", method) if method != "second-opinion" else ()
    said = command("fit", digits, "--out", out, "--epochs", 6, "--quiet", "--device", "cpu", *words)
    run = Run.records(out)
    rate, low, high = run.noise().rate
    table = run.issues()
    assert 0.2 < rate < 0.5
    assert rate == pytest.approx(1 - table["trust"].mean())
    estimate = f"wrong labels, estimated: {rate:.1%} ({low:.1%} to {high:.1%})"
    flags = f"{int(table['flag'].sum())} of 600 rows flagged"
    for text in (said, command("issues", out), command("report", out), reviewing(out)):
        assert estimate in text
        assert flags in text
        assert re.findall(r"[\d.]+%(?= \()", text) == [f"{rate:.1%}"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"<b>{rate:.1%}</b>wrong labels, estimated ({low:.1%} to {high:.1%})" in page
    assert f"<b>{flags.split()[0]}</b>{flags.partition(' ')[2]}" in page
    # What a method has reckoned with is its own affair, and is called so.
    assert ("the rate it trained with: " in said) == (method == "prl-l")


def reviewing(run):
    """What the command says before its link, and what its page says is left to find."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from holdfast.cli import main; main()", "review", str(run)],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in process.stdout:
        if line.startswith("http"):
            break
        lines.append(line)
    process.terminate()
    process.wait()
    process.stdout.close()
    made = Run.records(run)
    queue = ReviewQueue(made.issue_table(), made.classes, None, None, Store(run / "other.sqlite", "x"))
    assert queue.progress("Ada", Filter())["remaining"] == made.wrong_labels().expected
    return "".join(lines)


def test_reviewed_labels_are_right_for_the_rate_too(blobs):
    reviewed = torch.arange(240) % 2 == 0
    rows = replace(blobs, reviewed=reviewed)
    run = fit(rows, SecondOpinion(), "mlp", epochs=6, device="cpu")
    table, noise = run.issue_table(), run.noise()
    assert (table["trust"][reviewed.numpy()] == 1).all()
    assert noise.rate[0] == pytest.approx(1 - table["trust"].mean(), abs=1e-9)
    assert noise.rate[1] <= noise.rate[0] <= noise.rate[2] < 0.2
    plain = fit(blobs, SecondOpinion(), "mlp", epochs=6, device="cpu")
    assert plain.noise().rate[0] > noise.rate[0] + 0.04


def test_numbers_have_a_rate_as_well(tmp_path):
    run = prices_run(tmp_path)
    found = run.wrong_labels()
    assert found.rate == pytest.approx(1 - run.issues()["trust"].mean())
    assert 0.07 < found.low < found.rate < found.high < 0.16
    said = command("issues", tmp_path / "run")
    assert found.estimate in said
    assert found.flags in said
    command("report", tmp_path / "run")
    assert f"<b>{found.rate:.1%}</b>wrong labels, estimated" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("rate", "flagged", "says"),
    [
        (0.08, 1, "80 labels are expected to be wrong, but only 1 is itself likelier wrong than right"),
        (0.08, 53, "80 labels are expected to be wrong, but only 53 are each likelier wrong than right"),
        (0.08, 54, ""),
        (0.08, 80, ""),
        (0.08, 120, ""),
        (0.08, 121, "80 labels are expected to be wrong, as many of the 121 flagged are only just likelier wrong than"),
        (0.0, 0, ""),
        (0.0004, 0, ""),
        (0.001, 0, "1 label is expected to be wrong, but no single one is likelier wrong than right"),
    ],
)
def test_a_rate_far_from_the_flags_is_explained(rate, flagged, says):
    found = WrongLabels(rate, rate, rate, flagged, 1000).difference
    assert found.startswith(says)
    assert bool(found) == bool(says)


def test_the_commands_explain_it(blobs, tmp_path):
    """Weak evidence for the true classes: some labels must be wrong, and none is likelier wrong than right."""
    fit(blobs, Method(), "mlp", epochs=1, device="cpu", out=tmp_path / "run")
    ledger = tmp_path / "run" / "ledger.npz"
    with np.load(ledger) as stored:
        arrays = dict(stored)
    arrays["evidence"] = torch.nn.functional.one_hot(blobs.truth, 3).float().softmax(1).numpy()
    np.savez(ledger, **arrays)
    doubtful = Run.records(tmp_path / "run").wrong_labels()
    assert doubtful.flagged == 0
    assert doubtful.expected > 3
    for text in (command("issues", tmp_path / "run"), command("report", tmp_path / "run")):
        assert doubtful.difference in text
    assert f"{doubtful.difference}." in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
