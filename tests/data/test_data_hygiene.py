"""Class names as people type them, what is merged and what is said."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.data import read
from holdfast.data.hygiene import near_duplicates
from holdfast.errors import HoldfastError
from holdfast.run import Run

SPELT = {"yes": ["Yes", "yes", "YES ", "yes"], "no": ["no", " no", "No", "no"]}


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    wanted = rng.random(n) < 0.5
    labels = [SPELT["yes" if w else "no"][k] for w, k in zip(wanted, rng.integers(0, 4, n), strict=True)]
    return pd.DataFrame({"a": rng.normal(size=n) + 2 * wanted, "b": rng.normal(size=n), "label": labels}), wanted


def test_spellings_are_one_class_and_the_file_keeps_its_own(tmp_path):
    frame, wanted = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    rows, _ = read(tmp_path / "a.csv", label="label")
    assert rows.classes == ("no", "yes")
    assert torch.equal(rows.y, torch.from_numpy(wanted.astype(np.int64)))
    assert len(rows.summary.merged) == 2
    again, _ = read(tmp_path / "a.csv", recipe=json.loads(json.dumps(rows.recipe)))
    assert again.fingerprint == rows.fingerprint


def test_further_rows_may_be_spelt_in_yet_other_ways(tmp_path):
    frame, _ = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    rows, _ = read(tmp_path / "a.csv", label="label")
    frame.head(3).assign(label=["yEs", " NO ", "no"]).to_csv(tmp_path / "b.csv", index=False)
    further, _ = read(tmp_path / "b.csv", recipe=rows.recipe)
    assert further.y.tolist() == [1, 0, 0]
    frame.head(1).assign(label=["maybe"]).to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(HoldfastError, match="label 'maybe'"):
        read(tmp_path / "c.csv", recipe=rows.recipe)


def test_true_labels_are_spelt_like_given_ones(tmp_path):
    frame, wanted = table()
    frame.assign(real=np.where(wanted, "YES", "NO")).to_csv(tmp_path / "a.csv", index=False)
    rows, _ = read(tmp_path / "a.csv", label="label", truth="real")
    assert torch.equal(rows.truth, rows.y)


def test_spellings_are_kept_apart_on_request_and_names_merged_on_request(tmp_path):
    frame, _ = table()
    frame.loc[0, "label"] = "jepp"
    frame.to_csv(tmp_path / "a.csv", index=False)
    apart, _ = read(tmp_path / "a.csv", label="label", keep_spelling=True)
    assert set(apart.classes) == {*SPELT["yes"], *SPELT["no"], "jepp"}
    assert not apart.summary.merged
    merged, _ = read(tmp_path / "a.csv", label="label", merge={"jepp": "YES"})
    assert merged.classes == ("no", "yes")
    assert merged.y[0] == 1
    with pytest.raises(HoldfastError, match="--merge names 'nope', which is no label"):
        read(tmp_path / "a.csv", label="label", merge={"nope": "yes"})


def test_old_recipes_read_labels_as_they_are(tmp_path):
    frame, _ = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    rows, _ = read(tmp_path / "a.csv", label="label", keep_spelling=True)
    recipe = {name: value for name, value in rows.recipe.items() if name != "labels"}
    assert read(tmp_path / "a.csv", recipe=recipe)[0].fingerprint == rows.fingerprint


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"positive": 90, "negative": 10}, []),
        ({"male": 90, "female": 10}, []),
        ({"class 1": 90, "class 2": 10}, []),
        ({"Category A": 90, "Category B": 10}, []),
        ({"complaint": 90, "compliant": 80}, []),
        ({"complaint": 90, "compliant": 8, "praise": 50}, [("compliant", "complaint")]),
    ],
)
def test_near_duplicates_are_rare_slips_of_the_pen(counts, found):
    assert near_duplicates(counts) == found


def test_columns_that_repeat_a_number_are_told_of(tmp_path):
    frame, _ = table()
    price = frame["a"].round(3)
    pd.DataFrame({"a": frame["b"], "price": price, "copy": price}).to_csv(tmp_path / "a.csv", index=False)
    rows, _ = read(tmp_path / "a.csv", label="price")
    assert rows.classes is None
    assert "column 'copy' equals the label 'price'" in rows.summary.warnings[0]
    ignored, _ = read(tmp_path / "a.csv", label="price", ignore=["copy"])
    assert not ignored.summary.warnings
    assert ignored.x.shape == (160, 1)


def invoked(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_fit_and_check_say_what_was_read_and_a_run_reads_it_again(tmp_path):
    frame, _ = table()
    frame = frame.assign(b=[f"{value:.3f}".replace(".", ",") for value in frame["b"]])
    frame.loc[0, "label"] = "jepp"
    data = tmp_path / "a.csv"
    frame.to_csv(data, sep=":", index=False, encoding="latin-1")
    words = [data, "--label", "label", "--delimiter", ":", "--encoding", "latin-1", "--merge", "jepp=yes"]
    out = invoked("fit", *words, "--out", tmp_path / "run", "--epochs", 1, "--no-evidence", "--quiet")
    for part in ("data: CSV, delimiter ':', latin-1; 160 rows", "columns: 2 numbers", "b  number, decimal comma"):
        assert part in out
    assert max(map(len, out.splitlines()[:8])) <= 80
    run = Run.load(tmp_path / "run")
    assert run.classes == ("no", "yes")
    assert len(run.judged_rows()) == 160
    assert run.judged_rows().summary.merged
    more = invoked("predict", tmp_path / "run", data, "--out", tmp_path / "p.csv")
    assert "160 predictions" in more
    invoked("fit", "--config", tmp_path / "run", "--out", tmp_path / "again", "--quiet")
    assert Run.load(tmp_path / "again").config.fingerprint == run.config.fingerprint
    invoked("report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What was read" in page
    assert "decimal comma" in page
    told = invoked("check", *words, "--out", tmp_path / "check", "--quiet")
    assert "columns: 2 numbers" in told
    assert "read as the class 'yes'" in told
    assert "--delimiter :" in told
    assert "What was read" in (tmp_path / "check" / "check.html").read_text(encoding="utf-8")


def test_messy_labels_are_not_taken_for_wrong_ones(tmp_path):
    frame, _ = table(400)
    found = holdfast.check(frame, label="label", encoder=None)
    assert found.summary.set_index("kind").loc["label", "issues"] < 80
    given = found.issues.query("kind == 'label'")
    assert set(given["given"]) == {"yes", "no"}


def test_merge_wants_two_names(tmp_path):
    frame, _ = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "a.csv"), "--label", "label", "--merge", "jepp"])
    assert isinstance(result.exception, HoldfastError)
    assert "--merge takes a label and its class" in str(result.exception)
