"""The issues of real runs, in memory and read again from their folder."""

import numpy as np
import pandas as pd
import pytest
import torch
from finished_runs import SCRIPT, digits_run, people_run, prices_run
from sklearn.metrics import f1_score
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Run, fit
from holdfast.cli import app
from holdfast.data.source import Source, read_again
from holdfast.methods import EMARefinement


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return (*digits_run(folder), folder)


def test_a_run_says_which_labels_are_wrong(digits):
    run, wrong, folder = digits
    table = run.issues()
    assert table.columns.tolist() == ["row", "name", "given", "suggested", "trust", "flag", "held_out", "why"]
    assert table["trust"].is_monotonic_increasing
    flag = table.sort_values("row")["flag"].to_numpy()
    assert f1_score(wrong, flag) > 0.9
    suspect = table[table["flag"]]
    assert suspect["why"].str.contains("gradient large in|selected in|predicted digit").mean() > 0.9
    assert not table.loc[~table["flag"], "why"].any()
    assert abs(run.noise().rate[0] - wrong.mean()) < 0.05
    pd.testing.assert_frame_equal(Run.records(folder / "run").issues(), table)


def test_the_command_writes_the_table(digits):
    run, _, folder = digits
    result = CliRunner().invoke(app, ["issues", str(folder / "run"), "--show", "2"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    rate, low, high = run.noise().rate
    assert f"wrong labels, estimated: {rate:.1%} ({low:.1%} to {high:.1%})" in result.output
    written = pd.read_csv(folder / "run" / "issues.csv", keep_default_na=False).drop(columns="name")
    pd.testing.assert_frame_equal(written, run.issues().drop(columns="name"), check_dtype=False, rtol=1e-5)


def test_labels_that_are_refined_have_no_trust(blobs):
    run = fit(blobs, EMARefinement(), "mlp", epochs=12, batch_size=16, device="cpu")
    flag = run.issues().sort_values("row")["flag"].to_numpy()
    assert f1_score((blobs.y != blobs.truth).numpy(), flag) > 0.9


def test_wrong_values_have_a_suggestion_with_an_interval(tmp_path):
    run = prices_run(tmp_path)
    table = run.issues().sort_values("row")
    wrong = np.arange(400) % 10 == 0
    assert f1_score(wrong, table["flag"]) > 0.85
    price = pd.read_csv(tmp_path / "prices.csv")
    # Clean prices are linear, so the plane through the right ones says what the wrong ones were.
    plane = np.linalg.lstsq(np.c_[np.ones(360), price[~wrong][["size", "age"]]], price[~wrong]["price"], rcond=None)[0]
    true = np.c_[np.ones(40), price[wrong][["size", "age"]]] @ plane
    found = table[wrong]
    assert (found["low"].le(true) & found["high"].ge(true)).mean() > 0.8
    assert (found["suggested"] - true).abs().median() < 40
    with pytest.raises(HoldfastError, match="no transition matrix"):
        run.noise()


def test_rows_are_numbered_as_in_the_file_and_found_again(tmp_path):
    run = people_run(tmp_path)
    frame = pd.read_csv(tmp_path / "people.csv")
    table = Run.records(tmp_path / "run").issue_table()
    assert table["held_out"].tolist() == [False] * 192 + [True] * 48
    assert sorted(table["row"]) == list(range(240))
    assert (frame["income"].to_numpy()[table["row"]] == table["given"]).all()
    again = read_again(run.config.source, run.config.fingerprint)
    assert torch.equal(again.x, run.rows.x)
    (tmp_path / "people.csv").rename(tmp_path / "moved.csv")
    with pytest.raises(HoldfastError, match=r"no longer at .*people\.csv"):
        read_again(run.config.source, run.config.fingerprint)
    frame.assign(age=1.0).to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(HoldfastError, match="has changed since the run"):
        read_again(run.config.source, run.config.fingerprint)


def test_names_survive_the_folder(tmp_path, blobs):
    from dataclasses import replace

    named = replace(blobs, names=tuple(f"ä {i}" for i in range(240)))
    fit(named, Method(), "mlp", epochs=1, device="cpu", out=tmp_path / "run")
    assert Run.records(tmp_path / "run").names == named.names
    with pytest.raises(HoldfastError, match="in memory"):
        Run.records(tmp_path / "run").training_rows()


def test_an_unfinished_run_is_told_of(tmp_path, blobs):
    fit(blobs, Method(), "mlp", epochs=1, device="cpu", out=tmp_path / "run")
    (tmp_path / "run" / "ledger.npz").unlink()
    with pytest.raises(HoldfastError, match="not finished"):
        Run.records(tmp_path / "run")


def cleaned(folder, **columns):
    frame = pd.read_csv(folder / "people.csv")
    table = pd.DataFrame({"row": range(len(frame)), "given": frame["income"], "label": frame["income"]})
    table["reviewed"] = False
    table = table.assign(**columns)
    table.to_csv(folder / "cleaned.csv", index=False)
    return Source.at(folder / "people.csv", "0", 0, folder / "cleaned.csv", label="income")


def test_corrected_labels_are_trained_on_with_full_trust(tmp_path):
    people_run(tmp_path)
    frame = pd.read_csv(tmp_path / "people.csv")
    other = {"low": SCRIPT, SCRIPT: "low"}
    # Of three wrong labels one is corrected, one reviewed as it is, which no method would trust, and one left alone.
    corrected, confirmed, left = (np.arange(240) % 24 == k for k in (0, 8, 16))
    label = np.where(corrected, frame["income"].map(other), frame["income"])
    reviewed = corrected | confirmed
    rows, _ = cleaned(tmp_path, label=label, reviewed=reviewed).load()
    assert [rows.classes[k] for k in rows.y] == label.tolist()
    assert rows.reviewed.tolist() == reviewed.tolist()
    run = fit(rows, EMARefinement(), "mlp", epochs=8, batch_size=16, device="cpu", out=tmp_path / "again")
    assert run.config.method["name"] == "EMARefinement"
    always = run.ledger["selected"] == run.ledger["trained"]
    assert always[reviewed].all()
    assert not always[left].all()
    table = Run.records(tmp_path / "again").issue_table()
    assert (table["trust"][reviewed] == 1).all()
    assert not table["flag"][reviewed].any()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"label": "nobody"}, "'nobody' is none of the classes"),
        ({"given": "low"}, "exported for other data: row"),
        ({"row": 3}, "names rows twice"),
        ({"row": np.arange(240) + 1}, "rows that the data does not have"),
    ],
)
def test_a_file_of_labels_for_other_data_is_refused(tmp_path, columns, says):
    people_run(tmp_path)
    with pytest.raises(HoldfastError, match=says):
        cleaned(tmp_path, **columns).load()
