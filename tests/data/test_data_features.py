"""Features of one's own: a .npy file beside the data, or a column of lists."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from holdfast import HoldfastError, Run
from holdfast.cli.commands import app
from holdfast.data import read, read_inputs
from holdfast.data.display import Display
from holdfast.data.encode import fit_block


@pytest.fixture
def data(tmp_path):
    """Labels in a table whose text says nothing, and features that say all."""
    draw = np.random.default_rng(0)
    label = np.arange(60) % 2
    features = draw.normal(size=(60, 4)) + 5 * label[:, None]
    np.save(tmp_path / "features.npy", 100 * features)
    pd.DataFrame({"text": [f"one of many texts {i}" for i in range(60)], "label": label}).to_csv(
        tmp_path / "table.csv", index=False
    )
    return tmp_path


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, HoldfastError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_features_of_a_file_are_learned_from_instead_of_the_columns(data):
    out = data / "run"
    command(
        "fit", data / "table.csv", "--label", "label", "--features", data / "features.npy", "--out", out,
        "--epochs", 10, "--quiet",
    )  # fmt: skip
    run = Run.load(out)
    assert run.config.shape == (4,)
    assert run.best == 1
    assert Display(run.training_rows()).texts(0)[0][1].startswith("one of many")
    assert Display(run.training_rows()).fields(0) == []
    with pytest.raises(HoldfastError, match="pass --features"):
        command("predict", out, data / "table.csv")
    predicted = data / "predicted.csv"
    command("predict", out, data / "table.csv", "--features", data / "features.npy", "--out", predicted)
    assert (pd.read_csv(predicted)["prediction"] == np.arange(60) % 2).all()


def test_features_are_centred_and_scaled_by_what_the_training_rows_have(data):
    rows, _ = read(data / "table.csv", label="label", features=data / "features.npy")
    assert torch.allclose(rows.x.mean(0), torch.zeros(4), atol=1e-5)
    assert rows.x.square().sum(1).mean() == pytest.approx(4, rel=1e-3)
    assert fit_block(np.random.default_rng(0).normal(size=(500, 90)))["scale"] == pytest.approx(3, rel=0.02)
    np.save(data / "two.npy", np.load(data / "features.npy")[:2])
    pd.read_csv(data / "table.csv").head(2).to_csv(data / "two.csv", index=False)
    x, _ = read_inputs(data / "two.csv", rows.recipe, features=data / "two.npy")
    assert torch.equal(x, rows.x[:2])


def test_a_table_of_labels_alone_has_features(data):
    pd.DataFrame({"label": np.arange(60) % 2}).to_csv(data / "labels.csv", index=False)
    with pytest.raises(HoldfastError, match="no column besides"):
        read(data / "labels.csv", label="label")
    assert read(data / "labels.csv", label="label", features=data / "features.npy")[0].shape == (4,)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros((59, 4)), "has 59 rows of features, but"),
        (np.full((60, 4), np.nan), r"NaN or infinite features \(row 0\)"),
        (np.zeros(60), r"features are numbers of shape"),
        (np.full((60, 2), "a"), r"features are numbers of shape"),
    ],
)
def test_features_that_do_not_fit_are_refused(data, values, said):
    np.save(data / "bad.npy", values)
    with pytest.raises(HoldfastError, match=said):
        read(data / "table.csv", label="label", features=data / "bad.npy")


def test_features_of_the_training_rows_alone_cannot_test_on_a_file(data):
    with pytest.raises(HoldfastError, match="share to hold out"):
        command(
            "fit", data / "table.csv", "--label", "label", "--features", data / "features.npy", "--out", data / "run",
            "--test", data / "table.csv", "--quiet",
        )  # fmt: skip


def test_a_column_of_lists_is_features(tmp_path):
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(30, 5)).astype(np.float32)
    frame = pd.DataFrame({"embedding": list(vectors), "age": np.arange(30.0) % 7, "label": np.arange(30) % 2})
    frame.to_parquet(tmp_path / "table.parquet")
    rows, _ = read(tmp_path / "table.parquet", label="label")
    assert rows.shape == (6,)
    assert np.corrcoef(rows.x[:, 2].numpy(), vectors[:, 2])[0, 1] == pytest.approx(1)
    x, _ = read_inputs(tmp_path / "table.parquet", rows.recipe)
    assert torch.equal(x, rows.x)
    frame["embedding"] = [*vectors[:-1], vectors[-1, :4]]
    frame.to_parquet(tmp_path / "table.parquet")
    with pytest.raises(HoldfastError, match="lists of 5 values, but not in row 29"):
        read(tmp_path / "table.parquet", label="label")
    frame["embedding"] = [*vectors[:-1], None]
    frame.to_parquet(tmp_path / "table.parquet")
    with pytest.raises(HoldfastError, match="but none in row 29"):
        read(tmp_path / "table.parquet", label="label")
    frame["embedding"] = [["a", "b"]] * 30
    frame.to_parquet(tmp_path / "table.parquet")
    rows, _ = read(tmp_path / "table.parquet", label="label")
    assert rows.recipe["dropped"]["embedding"] == "it holds lists of something else than numbers"
