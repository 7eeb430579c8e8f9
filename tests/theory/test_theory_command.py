"""``holdfast diagnose`` on a real run."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast import HoldfastError
from holdfast.cli import app


@pytest.fixture(scope="module")
def run(blobs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnose")
    table = pd.DataFrame(blobs.x.numpy(), columns=["a", "b"])
    table["kind"] = [blobs.classes[k] for k in blobs.y]
    table.to_csv(folder / "blobs.csv", index=False)
    asked = f"fit {folder / 'blobs.csv'} --label kind --out {folder / 'run'} --epochs 4 --quiet --stop distance"
    result = CliRunner().invoke(app, asked.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "run"


def test_a_run_is_diagnosed_from_its_folder_alone(run):
    result = CliRunner().invoke(app, ["diagnose", str(run), "--examples", "12"], catch_exceptions=False)
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    assert "Distance from the start." in words
    assert "conditions of the theorems hold" in words
    assert (run / "diagnosis.html").stat().st_size > 50_000


def test_data_that_moved_is_told(run):
    data = run.parent / "blobs.csv"
    data.rename(run.parent / "moved.csv")
    try:
        with pytest.raises(HoldfastError, match="no longer at"):
            CliRunner().invoke(app, ["diagnose", str(run)], catch_exceptions=False)
    finally:
        (run.parent / "moved.csv").rename(data)
