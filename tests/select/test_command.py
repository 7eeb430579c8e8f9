"""The command that selects from a file, as it is typed."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.errors import HoldfastError
from holdfast.select import facility_location

RUNNER = CliRunner()


@pytest.fixture
def file(tmp_path):
    np.save(tmp_path / "e.npy", np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32))
    np.save(tmp_path / "g.npy", np.arange(300) % 3)
    return tmp_path / "e.npy"


def run(*words):
    return RUNNER.invoke(app, ["select", *map(str, words)])


def test_rows_weights_and_gains_are_written(file, tmp_path):
    done = run(file, "--k", 0.1, "--out", tmp_path / "i.csv")
    assert done.exit_code == 0, done.output
    table, want = pd.read_csv(tmp_path / "i.csv"), facility_location(np.load(file), 30)
    assert table.row.tolist() == want.index.tolist()
    assert table.weight.sum() == 300
    np.testing.assert_allclose(table.gain, want.gain)
    assert "30 of 300 rows" in done.output


@pytest.mark.parametrize("way", ["swaps", "central", "stochastic", "stream"])
def test_ways(file, tmp_path, way):
    done = run(file, "--k", 12, "--way", way, "--out", tmp_path / "i.csv", "--quiet")
    assert done.exit_code == 0, done.output
    assert pd.read_csv(tmp_path / "i.csv").row.nunique() == 12


def test_groups_and_metric(file, tmp_path):
    done = run(file, "--k", 5, "--groups", tmp_path / "g.npy", "--metric", "cosine", "--out", tmp_path / "i.csv")
    assert done.exit_code == 0, done.output
    assert (pd.read_csv(tmp_path / "i.csv").row % 3).value_counts().tolist() == [5, 5, 5]


def test_mistakes_are_named(file, tmp_path):
    (tmp_path / "old.csv").write_text("mine")
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    for words, message in (
        ((file, "--out", tmp_path / "i.txt"), "must end in .csv"),
        ((file, "--out", tmp_path / "old.csv"), "exists; choose another"),
        ((tmp_path / "none.npy", "--out", tmp_path / "i.csv"), "does not exist"),
        ((tmp_path / "bad.npy", "--out", tmp_path / "i.csv"), "bad.npy is no .npy or .npz file"),
        ((tmp_path / "object.npy", "--out", tmp_path / "i.csv"), "no .npy or .npz file of plain numbers"),
        ((file, "--k", 999, "--out", tmp_path / "i.csv"), "cannot select 999 of 300"),
        ((file, "--way", "central", "--metric", "cosine", "--out", tmp_path / "i.csv"), "Euclidean metric only"),
    ):
        done = run(*words)
        assert done.exit_code != 0
        assert isinstance(done.exception, HoldfastError)
        assert message in str(done.exception)
    assert (tmp_path / "old.csv").read_text() == "mine"
