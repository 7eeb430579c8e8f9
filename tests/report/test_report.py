"""The report of real runs: one file, no network, nothing in it that a browser would run."""

import re

import pytest
from finished_runs import SCRIPT, digits_run, people_run, photos_run, prices_run
from markupsafe import escape
from typer.testing import CliRunner

from holdfast import Run
from holdfast.cli import app
from holdfast.report import write_report


def written(run, folder, **options):
    write_report(run, folder / "report.html", **options)
    return (folder / "report.html").read_text(encoding="utf-8")


def check_alone(text):
    """Nothing is fetched from anywhere, and no script is there."""
    assert not re.search(r'(?:src|href)="(?!data:image/png;base64,)', text)
    assert "<script" not in text
    assert "url(" not in text
    assert "Content-Security-Policy" in text


def test_digits(tmp_path):
    run, _ = digits_run(tmp_path)
    result = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--top", "12"])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    check_alone(text)
    assert text.count('src="data:image/png;base64,') == 12
    rate, low, high = run.noise().rate
    assert f"{rate:.1%}" in text
    assert f"({low:.1%} to {high:.1%})" in text
    assert run.config.call.startswith("CoPRLL(")
    assert f"What one run of {escape(run.config.call)} saw of 1,797 rows" in text
    for part in ("Rows by trust", "How labels go wrong", "digit 3", "holdfast review", "accuracy by epoch"):
        assert part in text
    assert "<h2>What was asked</h2>" in text


@pytest.mark.parametrize("make", [photos_run, people_run])
def test_names_and_texts_are_never_markup(tmp_path, make):
    text = written(make(tmp_path), tmp_path)
    check_alone(text)
    assert SCRIPT not in text
    assert SCRIPT.replace("<", "&lt;").replace(">", "&gt;") in text


def test_a_table_shows_passage_and_what_sets_the_row_apart(tmp_path):
    text = written(people_run(tmp_path), tmp_path)
    assert re.search(r'class="passage">[^<]*(golf|rent)', text)
    assert "usually" in text


def test_the_score_is_that_of_the_model(tmp_path):
    run = people_run(tmp_path)
    text = written(run, tmp_path)
    end = run.history["test"].iloc[-1]
    assert f"<b>{end:.4f}</b>test accuracy of the model (epoch 8) by labels that may be wrong themselves<" in text
    (tmp_path / "other").mkdir()
    assert "test accuracy" not in written(digits_run(tmp_path / "other")[0], tmp_path)


def test_a_regression_has_values_and_no_matrix(tmp_path):
    text = written(prices_run(tmp_path), tmp_path)
    check_alone(text)
    assert "How labels go wrong" not in text
    assert re.search(r"<s>[\d.e+-]+</s> → <span class=\"to\">[\d.e+-]+ \([\d.e+-]+ to", text)


def test_moved_data_is_told_of(tmp_path):
    people_run(tmp_path)
    (tmp_path / "people.csv").unlink()
    text = written(Run.records(tmp_path / "run"), tmp_path)
    assert "no longer at" in text
