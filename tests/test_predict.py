"""``holdfast predict`` into files: probabilities, columns that are kept, nothing written over, nothing that runs."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, fit
from holdfast.cli import app
from holdfast.data.source import Source

FORMULA = "=cmd|' /C calc'!A0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on a table whose classes and names a spreadsheet would run, and rows to predict."""
    folder = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(0)
    rich = rng.random(120) < 0.5
    table = pd.DataFrame(
        {
            "id": [f"@{i}" for i in range(120)],
            "change": np.where(rich, -3.5, 2.5),
            "age": np.where(rich, 60, 30) + rng.normal(0, 3, 120),
            "income": np.where(rich, FORMULA, "low"),
        }
    )
    table.to_csv(folder / "people.csv", index=False)
    rows, held_out = Source.at(folder / "people.csv", "0.2", 0, label="income").load()
    fit(rows, Method(), "mlp", test=held_out, epochs=6, batch_size=16, device="cpu", out=folder / "run")
    table.drop(columns="income").head(9).to_csv(folder / "new.csv", index=False)
    return folder


def predict(folder, *words):
    done = CliRunner().invoke(app, ["predict", str(folder / "run"), str(folder / "new.csv"), *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def test_the_usual_columns(folder, tmp_path):
    predict(folder, "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table) == ["row", "name", "prediction", "probability"]
    assert set(table["prediction"]) == {f"'{FORMULA}", "low"}
    assert table["name"][0] == "'@0"


def test_probabilities_of_every_class(folder, tmp_path):
    predict(folder, "--out", tmp_path / "p.csv", "--probabilities")
    table = pd.read_csv(tmp_path / "p.csv")
    every = table[[f"probability_{FORMULA}", "probability_low"]]
    assert every.sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-5)
    assert every.max(axis=1).to_numpy() == pytest.approx(table["probability"])
    assert (every.idxmax(axis=1) == "probability_" + table["prediction"].str.removeprefix("'")).all()


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (["--keep", "id,age"], ["row", "name", "id", "age", "prediction", "probability"]),
        (["--keep", "age", "--keep", "id"], ["row", "name", "age", "id", "prediction", "probability"]),
        (["--keep", "all"], ["row", "name", "id", "change", "age", "prediction", "probability"]),
    ],
)
def test_columns_are_kept(folder, tmp_path, asked, kept):
    predict(folder, "--out", tmp_path / "p.csv", *asked)
    table, given = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(folder / "new.csv")
    assert list(table) == kept
    assert table["age"].to_numpy() == pytest.approx(given["age"])
    assert (table["id"] == "'" + given["id"]).all()
    if "change" in table:
        assert table["change"].tolist() == given["change"].tolist()


def test_nothing_is_written_over(folder, tmp_path):
    (tmp_path / "p.csv").write_text("mine")
    with pytest.raises(HoldfastError, match="exists; choose another name, or pass --force"):
        predict(folder, "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "mine"
    predict(folder, "--out", tmp_path / "p.csv", "--force")
    assert len(pd.read_csv(tmp_path / "p.csv")) == 9
    with pytest.raises(HoldfastError, match="is a folder"):
        predict(folder, "--out", tmp_path, "--force")


def test_a_column_that_is_not_there_is_named(folder, tmp_path):
    with pytest.raises(HoldfastError, match=r"no column 'agee' to keep; its columns are 'id', 'change', 'age'"):
        predict(folder, "--keep", "agee")


def test_the_list_of_issues_runs_nothing_either(folder):
    assert CliRunner().invoke(app, ["issues", str(folder / "run")]).exit_code == 0
    table = pd.read_csv(folder / "run" / "issues.csv")
    assert set(table["given"]) == {f"'{FORMULA}", "low"}
    assert table["name"].str.startswith("'@").all()
