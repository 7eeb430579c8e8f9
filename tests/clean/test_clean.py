"""``holdfast clean`` on real runs: from the file to the run and back to the file."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from finished_runs import digits_run, people_run, photos_run, prices_run
from typer.testing import CliRunner

import holdfast
from holdfast import HoldfastError, Method, Run, fit
from holdfast.clean import clean
from holdfast.cli import app
from holdfast.data import tables
from holdfast.data.source import Source
from holdfast.review.store import REVIEWS, Answer, Store

LABELS = {True: ("rich", "Rich ", '"rich"'), False: ("poor, or so",)}


def written(folder, name="people.csv"):
    """A file with quotes, gaps, blank lines, carriage returns, and labels of which one in eight is wrong."""
    rng = np.random.default_rng(0)
    rich = rng.random(240) < 0.5
    lines = ['age,note,"the label",id']
    for i, truth in enumerate(rich):
        age = (55 if truth else 30) + rng.normal(0, 4)
        says = truth ^ (i % 8 == 0)
        label = "" if i % 40 == 7 else ('"poor, or so"' if not says else ("rich" if i % 5 else '"rich"'))
        lines.append(f'{age:.3f},"said ""{i}""\r\nand more",{label},{i}')
        if i == 100:
            lines.append("")
    text = "\r\n".join(lines)
    data = text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder / name, data


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A run on that file, gzipped, a fifth of the rows held out; the folder."""
    folder = tmp_path_factory.mktemp("people")
    path, _ = written(folder, "people.csv.gz")
    rows, held_out = Source.at(path, "0.2", 0, label="the label", missing_labels="drop").load()
    assert len(rows) + len(held_out) == 234
    fit(rows, Method(), "mlp", test=held_out, epochs=10, batch_size=16, device="cpu", out=folder / "run")
    return folder


def labels_of(path):
    return tables.load(path)["the label"].to_numpy(dtype=object)


def test_everything_but_the_labels_stays_byte_for_byte(people, tmp_path):
    done = clean(people / "run", tmp_path / "clean.csv.gz", correct=0.5)
    before, after = (gzip.decompress((folder / name).read_bytes()) for folder, name in
                     ((people, "people.csv.gz"), (tmp_path, "clean.csv.gz")))  # fmt: skip
    parts = [data.replace(b'"poor, or so"', b"*").replace(b'"rich"', b"*").replace(b",rich,", b",*,")
             for data in (before, after)]  # fmt: skip
    assert parts[0] == parts[1]
    assert before != after
    table = Run.records(people / "run").issue_table().set_index("row").sort_index()
    given, now = labels_of(people / "people.csv.gz"), labels_of(tmp_path / "clean.csv.gz")
    judged = ~pd.isna(given)
    assert (judged == ~pd.isna(now)).all()
    assert now[judged].tolist() == table["suggested"].tolist()
    assert done.changed == (given[judged] != now[judged]).sum() == table["flag"].sum()
    assert done.pairs["rows"].sum() == done.changed
    # The rows held out belong to the file, and wrong labels are found among them.
    assert table.loc[table["flag"], "held_out"].any()
    wrong = np.arange(240)[judged] % 8 == 0
    assert (wrong & (given[judged] != now[judged])).sum() > 20


def test_nothing_to_correct_gives_the_same_bytes(people, tmp_path):
    clean(people / "run", tmp_path / "same.csv.gz", correct=0.0, drop=0.0)
    before, after = (
        gzip.decompress(path.read_bytes()) for path in (people / "people.csv.gz", tmp_path / "same.csv.gz")
    )
    assert before == after


def test_rows_are_dropped_and_marked(people, tmp_path):
    done = clean(people / "run", tmp_path / "fewer.csv", drop=0.5, mark=True)
    table = Run.records(people / "run").issue_table().set_index("row").sort_index()
    fewer = tables.load(tmp_path / "fewer.csv")
    assert len(fewer) == 240 - done.dropped == 240 - (table["trust"] < 0.5).sum()
    assert fewer["holdfast_trust"].isna().sum() == 6
    assert fewer["holdfast_trust"].dropna().to_numpy() == pytest.approx(table["trust"][table["trust"] >= 0.5], abs=1e-4)
    marked = clean(people / "run", tmp_path / "marked.csv", mark=True)
    assert marked.changed == 0
    suggested = tables.load(tmp_path / "marked.csv")["holdfast_suggested"].dropna()
    assert suggested.tolist() == table.loc[table["flag"], "suggested"].tolist()


def test_the_usual_rule_is_said_on_the_screen(people, tmp_path):
    done = CliRunner().invoke(app, ["clean", str(people / "run"), "--out", str(tmp_path / "c.csv")])
    assert done.exit_code == 0, done.output
    assert "labels below a trust of 0." in done.output
    assert all(len(line) <= 80 for line in done.output.splitlines() if "cleaned:" not in line)


def test_reviewed_rows_are_as_decided(people, tmp_path):
    made = Run.records(people / "run")
    table = made.issue_table()
    worst, best = int(table["trust"].idxmin()), int(table["trust"].idxmax())
    store = Store(people / "run" / REVIEWS, made.config.fingerprint)
    store.decide(worst, "Ada", Answer.keep, table["given"][worst])
    other = next(name for name in made.classes if name != table["given"][best])
    store.decide(best, "Ada", Answer.other, other)
    store.close()
    try:
        for name, rule in (("correct", {"correct": 0.5}), ("drop", {"drop": 0.5}), ("mark", {"mark": True})):
            done = clean(people / "run", tmp_path / f"{name}.csv", **rule)
            assert done.reviewed == 2
            now = tables.load(tmp_path / f"{name}.csv").set_index("id")["the label"]
            ids = tables.load(people / "people.csv.gz").dropna(subset="the label")["id"].to_numpy()
            assert now[ids[table["row"][worst]]] == table["given"][worst]
            assert now[ids[table["row"][best]]] == other
    finally:
        (people / "run" / REVIEWS).unlink()


def test_nothing_is_written_in_place_or_over(people, tmp_path):
    given = people / "people.csv.gz"
    with pytest.raises(HoldfastError, match="is where the data lies, which is never changed"):
        clean(people / "run", given, force=True)
    (tmp_path / "mine.csv").write_text("mine")
    with pytest.raises(HoldfastError, match="exists; choose another name, or pass --force"):
        clean(people / "run", tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == "mine"
    clean(people / "run", tmp_path / "mine.csv", force=True)
    assert len(tables.load(tmp_path / "mine.csv")) == 240
    with pytest.raises(HoldfastError, match=r"people.csv.gz is CSV and stays so; let clean.xlsx end in .csv"):
        clean(people / "run", tmp_path / "clean.xlsx")


@pytest.mark.parametrize(
    ("rule", "message"), [({"correct": 0.6}, "of at most 0.5"), ({"drop": 1.5}, "between 0 and 1")]
)
def test_thresholds_that_make_no_sense(people, tmp_path, rule, message):
    with pytest.raises(HoldfastError, match=message):
        clean(people / "run", tmp_path / "a.csv", **rule)


def test_a_file_that_has_changed_since_is_refused(tmp_path):
    path, data = written(tmp_path)
    rows, _ = Source.at(path, "0", 0, label="the label", missing_labels="drop").load()
    fit(rows, Method(), "mlp", epochs=1, batch_size=32, device="cpu", out=tmp_path / "run")
    path.write_bytes(data.replace(b",rich,", b',"poor, or so",', 1))
    with pytest.raises(HoldfastError, match="has changed since the run; train again"):
        clean(tmp_path / "run", tmp_path / "a.csv")
    path.unlink()
    with pytest.raises(HoldfastError, match="no longer at"):
        clean(tmp_path / "run", tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_labels_that_a_file_corrected_before_training_are_written(tmp_path):
    path, _ = written(tmp_path)
    options = {"label": "the label", "missing_labels": "drop"}
    rows, _ = Source.at(path, "0", 0, **options).load()
    flipped = [rows.classes[1 - k] if row < 3 else rows.classes[k] for row, k in enumerate(rows.y.tolist())]
    given = [rows.classes[k] for k in rows.y.tolist()]
    reviewed = np.arange(len(rows)) < 3
    pd.DataFrame({"row": range(len(rows)), "given": given, "label": flipped, "reviewed": reviewed}).to_csv(
        tmp_path / "cleaned.csv", index=False
    )
    corrected, _ = Source.at(path, "0", 0, tmp_path / "cleaned.csv", **options).load()
    fit(corrected, Method(), "mlp", epochs=2, batch_size=32, device="cpu", out=tmp_path / "run")
    done = clean(tmp_path / "run", tmp_path / "a.csv", mark=True)
    assert done.changed == 3
    assert tables.load(tmp_path / "a.csv")["the label"].dropna().tolist() == flipped


def test_numbers(tmp_path):
    run = prices_run(tmp_path)
    done = clean(tmp_path / "run", tmp_path / "clean.csv")
    before, after = pd.read_csv(tmp_path / "prices.csv"), pd.read_csv(tmp_path / "clean.csv")
    flagged = run.issue_table()["flag"].to_numpy()
    assert done.changed == flagged.sum() > 10
    assert (before["price"] != after["price"]).to_numpy().tolist() == flagged.tolist()
    assert after["price"].to_numpy() == pytest.approx(run.issue_table()["suggested"].to_numpy(), rel=1e-4)
    assert before.drop(columns="price").equals(after.drop(columns="price"))


def test_arrays(tmp_path):
    run, wrong = digits_run(tmp_path)
    done = clean(run, tmp_path / "clean.npz", correct=0.5)
    before, after = np.load(tmp_path / "digits.npz"), np.load(tmp_path / "clean.npz")
    assert np.array_equal(before["x_train"], after["x_train"])
    changed = before["y_train"] != after["y_train"]
    assert changed.sum() == done.changed
    assert (changed & wrong).sum() > 0.8 * wrong.sum()
    assert after["y_train"].dtype == before["y_train"].dtype


def test_images(tmp_path):
    run = photos_run(tmp_path)
    done = clean(run, tmp_path / "clean", correct=0.5)
    files = sorted(path.name for path in (tmp_path / "photos").rglob("*.png"))
    assert len([*(tmp_path / "clean").rglob("*.png")]) == len(files) == 40
    assert done.changed == len(pd.read_csv(tmp_path / "clean" / "holdfast.csv"))
    with pytest.raises(HoldfastError, match="never changed"):
        clean(run, tmp_path / "photos" / "inside", force=True)
    with pytest.raises(HoldfastError, match="exists"):
        clean(run, tmp_path / "clean")
    clean(run, tmp_path / "clean", drop=0.5, force=True)
    assert len([*(tmp_path / "clean").rglob("*.png")]) == 40 - run.issue_table()["flag"].sum()


def test_parquet_with_categories(tmp_path):
    people_run(tmp_path)  # its table, as another format
    frame = pd.read_csv(tmp_path / "people.csv").astype({"income": "category"})
    frame.to_parquet(tmp_path / "people.parquet")
    rows, _ = Source.at(tmp_path / "people.parquet", "0", 0, label="income").load()
    run = fit(rows, Method(), "mlp", epochs=6, batch_size=16, device="cpu", out=tmp_path / "second")
    clean(run, tmp_path / "clean.parquet", correct=0.5)
    after = pd.read_parquet(tmp_path / "clean.parquet")
    assert after["income"].dtype == frame["income"].dtype
    assert after["income"].tolist() == run.issue_table()["suggested"].tolist()
    assert after.drop(columns="income").equals(frame.drop(columns="income"))


def test_a_table_in_memory(tmp_path):
    people_run(tmp_path)
    frame = pd.read_csv(tmp_path / "people.csv").set_index(np.arange(240) * 3)
    rows = tables.build(frame.reset_index(drop=True), "the table", label="income")
    run = fit(replace(rows, source_index=torch.arange(240)), Method(), "mlp", epochs=6, batch_size=16, device="cpu")
    done = clean(run, data=frame, correct=0.5)
    assert done.data["income"].tolist() == run.issue_table()["suggested"].tolist()
    assert done.data.drop(columns="income").equals(frame.drop(columns="income"))
    with pytest.raises(HoldfastError, match="in memory; pass the table"):
        clean(run, tmp_path / "a.csv")
    with pytest.raises(HoldfastError, match="has changed since the run"):
        clean(run, data=frame.iloc[::-1])
    assert holdfast.clean is clean
