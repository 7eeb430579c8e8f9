"""Inputs that stay on disk: the same rows, batches and runs as from memory."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from holdfast import HoldfastError, Run, fit, read
from holdfast.cli import app
from holdfast.data import columns
from holdfast.data.display import Display
from holdfast.data.images import Pictures
from holdfast.data.large import large_table
from holdfast.data.on_disk import KeptPixels, Mapped
from holdfast.data.source import Source
from holdfast.encoders import cache_folder
from holdfast.feed import Feed, loaded


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    for label, colour in (("cat", 60), ("dog", 180)):
        (tmp_path / "data" / label).mkdir(parents=True)
        for k in range(40):
            pixels = np.clip(draw.normal(colour, 40, (12, 10, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / label / f"{k:02}.png")
    return tmp_path / "data"


def test_many_images_are_left_on_disk_and_few_are_not(folder, monkeypatch):
    assert isinstance(read(folder)[0].x, torch.Tensor)
    monkeypatch.setattr("holdfast.data.images.SMALL", 80 * 12 * 10 * 3 - 1)
    rows, _ = read(folder)
    assert isinstance(rows.x, Pictures)
    assert rows.shape == (3, 12, 10)


def test_before_the_first_batch_no_image_is_decoded(folder, monkeypatch):
    called = []
    pixels = __import__("holdfast.data.images", fromlist=["_pixels"])._pixels
    monkeypatch.setattr("holdfast.data.images._pixels", lambda *args: called.append(args) or pixels(*args))
    rows, _ = read(folder, on_disk=True)
    held = rows.take(torch.arange(0, 80, 2))
    assert not called
    assert len(held.x[3]) == 3
    assert len(called) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_from_memory(folder, workers):
    lying, held = read(folder, on_disk=True)[0], read(folder)[0]
    one, other = (Feed(rows, batch_size=16, seed=3, workers=workers) for rows in (lying, held))
    for a, b in zip(one.batches(), other.batches(), strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.index, b.index)


def test_a_run_is_bit_for_bit_that_from_memory(folder, tmp_path):
    runs = []
    for lying in (True, False):
        rows, test = Source.at(folder, "0.25", 0, on_disk=lying).load()
        runs.append(fit(rows, net="cnn4", test=test, epochs=2, evidence=True, out=tmp_path / f"run{lying}"))
    for name, value in runs[0].net.state_dict().items():
        assert torch.equal(value, runs[1].net.state_dict()[name]), name
    assert np.array_equal(runs[0].issues()["trust"], runs[1].issues()["trust"])
    again = Run.load(tmp_path / "runTrue").judged_rows()
    assert isinstance(again.x, Pictures)
    assert len(again) == 80


def test_a_run_finds_its_images_on_disk_however_large_that_is_by_then(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.data.images.SMALL", 1)
    rows, test = Source.at(folder, "0.25", 0).load()
    fit(rows, net="mlp", test=test, epochs=1, out=tmp_path / "run")
    monkeypatch.undo()
    assert isinstance(Run.load(tmp_path / "run").read_again().x, Pictures)


def test_other_sizes_or_names_are_other_data(folder, tmp_path):
    rows, _ = Source.at(folder, "0", 0, on_disk=True).load()
    fit(rows, net="mlp", epochs=1, out=tmp_path / "run")
    Image.fromarray(np.zeros((12, 10, 3), dtype=np.uint8)).save(folder / "cat/00.png")
    with pytest.raises(HoldfastError, match="has changed since"):
        Run.load(tmp_path / "run").read_again()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_one_sentence(folder, workers):
    whole = (folder / "dog/07.png").read_bytes()
    (folder / "dog/07.png").write_bytes(whole[: len(whole) // 2])
    rows, _ = read(folder, on_disk=True)
    with pytest.raises(HoldfastError, match=r"^[^\n]*dog/07.png [^\n]*--skip-broken$"):
        list(loaded(rows.x, list(torch.arange(80).split(20)), workers))
    kept, _ = read(folder, on_disk=True, skip_broken=True)
    assert len(kept) == 79
    assert "dog/07.png" not in kept.names
    assert kept.x[46].equal(read(folder, skip_broken=True)[0].x[46])


def test_images_are_decoded_once_and_changed_ones_anew(folder, monkeypatch):
    rows, _ = read(folder, on_disk=True)
    first = torch.stack(rows.x.__getitems__(range(80)))
    monkeypatch.setattr("holdfast.data.images._pixels", None)
    again, _ = read(folder, on_disk=True)
    assert torch.equal(torch.stack(again.x.__getitems__(range(80))), first)
    monkeypatch.undo()
    Image.fromarray(np.full((12, 10, 3), 5, dtype=np.uint8)).save(folder / "cat/00.png")
    assert read(folder, on_disk=True)[0].x[0].unique().tolist() == [5]


def test_what_is_half_written_is_not_taken(tmp_path):
    kept = KeptPixels(tmp_path / "kept", 3, (1, 2, 2))
    pixels = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
    kept.put(1, pixels)
    assert kept.get(0) is None
    assert np.array_equal(kept.get(1), pixels)
    raw = bytearray((tmp_path / "kept").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "kept").write_bytes(raw)
    assert kept.get(1) is None
    assert pickle.loads(pickle.dumps(kept)).get(2) is None


def test_parts_of_parts_and_both_together(folder):
    rows, _ = read(folder, on_disk=True)
    rows = Source.at(folder, "0", 0, on_disk=True).load()[0]
    most, few = rows.split(0.25, 0)
    both = most.followed_by(few)
    assert isinstance(both.x, Pictures)
    for i in (0, 30, 61, 79):
        assert both.x[i].equal(rows.x[rows.names.index(both.names[i])])
    assert most.fingerprint != few.fingerprint
    with pytest.raises(IndexError):
        both.x[80]


# Tables


@pytest.fixture
def table():
    draw = np.random.default_rng(1)
    count = 900
    a = draw.normal(size=count)
    return pd.DataFrame({
        "a": a,
        "b": np.where(draw.random(count) < 0.1, np.nan, draw.normal(5, 2, count)),
        "town": draw.choice(["Bern", "Genf", "Chur"], count),
        "note": [" ".join(draw.choice(["good", "bad", "late", "soon", "paid", "old"], 5)) for _ in range(count)],
        "vector": list(draw.normal(size=(count, 40)).astype(np.float32)),
        "key": [f"row-{k:04}" for k in range(count)],
        "same": 1,
        "label": np.where(a + 0.3 * draw.normal(size=count) > 0, "yes", "no"),
    })  # fmt: skip


@pytest.fixture
def parquet(table, tmp_path):
    (tmp_path / "parquet").mkdir()
    for k, start in enumerate((0, 250, 600)):
        part = table.iloc[start : (250, 600, 900)[k]]
        part.to_parquet(tmp_path / f"parquet/part-{k}.parquet", index=False, row_group_size=100)
    return tmp_path / "parquet"


def test_a_folder_of_parquet_files_is_the_table_that_one_file_would_be(parquet, table, tmp_path):
    table.to_parquet(tmp_path / "one.parquet", index=False)
    one, whole = read(tmp_path / "one.parquet", label="label")[0], read(parquet, label="label")[0]
    assert torch.equal(one.x, whole.x)
    assert torch.equal(one.y, whole.y)
    assert one.recipe == whole.recipe
    assert one.names == whole.names


def test_features_on_disk_are_those_in_memory_bit_for_bit(parquet):
    held, lying = read(parquet, label="label")[0], read(parquet, label="label", on_disk=True)[0]
    assert isinstance(lying.x, Mapped)
    assert lying.recipe == held.recipe
    assert torch.equal(lying.x[torch.arange(len(lying))], held.x)
    assert lying.names == held.names
    assert lying.summary.columns == held.summary.columns
    assert lying.shape == held.shape


def test_a_table_that_does_not_fit_is_left_on_disk(parquet, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_MEMORY", "250K")
    assert isinstance(read(parquet, label="label")[0].x, Mapped)
    with pytest.raises(HoldfastError, match="--max-memory"):
        read(parquet, label="label", on_disk=False)
    monkeypatch.setenv("HOLDFAST_MAX_MEMORY", "200K")
    with pytest.raises(HoldfastError, match="--max-memory"):
        read(parquet, label="label")


def test_hive_partitions_are_a_column(table, tmp_path):
    for year, part in ((2023, table.iloc[:300]), (2024, table.iloc[300:])):
        (tmp_path / f"h/year={year}").mkdir(parents=True)
        part.to_parquet(tmp_path / f"h/year={year}/0.parquet", index=False)
    for lying in (False, True):
        rows, _ = read(tmp_path / "h", label="label", on_disk=lying)
        assert any(spec["name"] == "year" for spec in rows.recipe["columns"])
        assert len(rows) == 900
    line = large_table(tmp_path / "h", True).rows.line(555)
    assert (line["year"], line["key"]) == (2024, "row-0555")


def test_what_was_killed_goes_on_behind_the_last_whole_row(parquet, monkeypatch):
    monkeypatch.setattr("holdfast.data.large.BATCH", 64)
    encode, calls = columns.encode, []

    def killed(frame, *args):
        calls.append(len(frame))
        if len(calls) == 7:
            raise KeyboardInterrupt
        return encode(frame, *args)

    monkeypatch.setattr("holdfast.data.columns.encode", killed)
    with pytest.raises(KeyboardInterrupt):
        read(parquet, label="label", on_disk=True)
    part = next((cache_folder() / "tables").glob("*.part"))
    with open(part, "ab") as file:
        file.write(b"half a row")
    before, calls[:] = list(calls), [0] * 8
    lying = read(parquet, label="label", on_disk=True)[0]
    assert sum(before[1:6]) + sum(calls[9:]) == 900
    assert torch.equal(lying.x[torch.arange(900)], read(parquet, label="label")[0].x)


def test_a_hugging_face_dataset_is_read_in_parts(table, tmp_path):
    datasets = pytest.importorskip("datasets")
    held = datasets.Dataset.from_pandas(table).cast_column("label", datasets.ClassLabel(names=["no", "yes"]))
    datasets.DatasetDict({"train": held.select(range(700)), "test": held.select(range(700, 900))}).save_to_disk(
        tmp_path / "hf"
    )
    one, other = (read(tmp_path / "hf", label="label", on_disk=lying) for lying in (True, False))
    for lying, whole in zip(one, other, strict=True):
        assert isinstance(lying.x, Mapped)
        assert torch.equal(lying.x[torch.arange(len(lying))], whole.x)
        assert torch.equal(lying.y, whole.y)
        assert lying.recipe == whole.recipe


def test_rows_without_a_label_are_dropped_from_disk_too(table, tmp_path):
    (tmp_path / "p").mkdir()
    table.loc[[3, 400], "label"] = None
    table.to_parquet(tmp_path / "p/0.parquet", index=False)
    with pytest.raises(HoldfastError, match="rows 3, 400"):
        read(tmp_path / "p", label="label", on_disk=True)
    one, other = (
        read(tmp_path / "p", label="label", on_disk=lying, missing_labels="drop")[0] for lying in (True, False)
    )
    assert torch.equal(one.place, other.place)
    assert torch.equal(one.y, other.y)
    assert one.names == other.names


def test_a_long_column_is_told_by_rows_spread_over_all_of_it(parquet, monkeypatch):
    monkeypatch.setattr("holdfast.data.large.HELD", 700)
    monkeypatch.setattr("holdfast.data.large.BATCH", 50)
    rows, _ = read(parquet, label="label", on_disk=True)
    specs = {spec["name"]: spec for spec in rows.recipe["columns"]}
    assert abs(specs["a"]["mean"]) < 0.5
    assert specs["town"]["values"] == ["Bern", "Chur", "Genf"]


def test_from_fit_to_report_and_predictions_on_disk(parquet, table, tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_MEMORY", "250K")
    out = tmp_path / "run"
    call = CliRunner().invoke
    done = call(app, ["fit", str(parquet), "--label", "label", "--out", str(out), "--epochs", "3", "--quiet"])
    assert done.exit_code == 0, (done.output, done.exception)
    monkeypatch.delenv("HOLDFAST_MAX_MEMORY")
    run = Run.load(out)
    rows = run.judged_rows()
    assert isinstance(rows.x, Mapped)
    shown = Display(rows)
    row = rows.names.index("row-0555")
    assert {field.name: field.value for field in shown.fields(row)}["town"] == table["town"][555]
    assert call(app, ["report", str(out)]).exit_code == 0
    table.drop(columns="label").to_parquet(tmp_path / "more.parquet")
    done = call(app, ["predict", str(out), str(tmp_path / "more.parquet"), "--out", str(tmp_path / "p.csv")])
    assert done.exit_code == 0, (done.output, done.exception)
    monkeypatch.setenv("HOLDFAST_MAX_MEMORY", "250K")
    done = call(app, ["predict", str(out), str(parquet), "--out", str(tmp_path / "q.csv")])
    assert done.exit_code == 0, (done.output, done.exception)
    one, other = (pd.read_csv(tmp_path / name) for name in ("p.csv", "q.csv"))
    assert one["prediction"].equals(other["prediction"])
    assert (one["prediction"] == table["label"]).mean() > 0.8


def test_damage_in_a_folder_of_parquet_files_is_one_sentence(parquet):
    (parquet / "part-1.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(HoldfastError, match="cannot be read"):
        read(parquet, label="label", on_disk=True)
