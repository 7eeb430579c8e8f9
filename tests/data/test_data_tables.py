import gzip
import json
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError

WORDS = ["good", "bad", "phone", "battery", "screen", "works", "broke", "never", "always", "fast"]


def frame(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "key": [f"k{i:03d}" for i in range(n)],
            "age": [np.nan if i % 10 == 3 else float(i) for i in range(n)],
            "flat": [0.1] * n,
            "colour": [None if i % 8 == 5 else ["red", "green", "blue"][i % 3] for i in range(n)],
            "member": [i % 4 == 0 for i in range(n)],
            "note": [" ".join(rng.choice(WORDS, 6)) + f" x{i}x" for i in range(n)],
            "kind": ["cat" if i % 2 else "dog" for i in range(n)],
        }
    )


def write(path: Path, table: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, sep="\t" if ".tsv" in path.name else ",", index=False)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz", "a.parquet", "A.CSV"])
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    first, test = read(write(tmp_path / "first.csv", frame()), label="kind")
    rows, _ = read(write(tmp_path / name, frame()), label="kind")
    assert test is None
    assert torch.equal(rows.x, first.x)
    assert rows.x.dtype == torch.float32
    assert torch.equal(rows.y, first.y)
    assert rows.classes == ("cat", "dog")


def test_numbers_are_standardised_and_gaps_filled_with_the_median_and_marked(tmp_path: Path) -> None:
    table = frame()[["age", "flat", "kind"]]
    rows, _ = read(write(tmp_path / "a.csv", table), label="kind")
    age = table["age"].to_numpy()
    filled = np.where(np.isnan(age), np.nanmedian(age), age)
    expected = (filled - filled.mean()) / filled.std()
    assert rows.x.shape == (40, 2)
    np.testing.assert_allclose(rows.x[:, 0], expected, rtol=1e-5, atol=1e-6)
    assert rows.x[:, 1].tolist() == np.isnan(age).astype(float).tolist()
    assert rows.recipe["dropped"] == {"flat": "the same in every row"}


def test_words_are_one_hot_with_a_column_for_missing_ones(tmp_path: Path) -> None:
    table = frame()[["colour", "member", "kind"]]
    rows, _ = read(write(tmp_path / "a.csv", table), label="kind")
    colours = [table["colour"].eq(c).astype(float).tolist() for c in ("blue", "green", "red")]
    assert rows.x[:, :3].T.tolist() == colours
    assert rows.x[:, 3].tolist() == table["colour"].isna().astype(float).tolist()
    assert rows.x[:, 5].tolist() == table["member"].astype(float).tolist()
    assert rows.x[:, :4].sum(1).eq(1).all()


def test_identifiers_are_dropped_with_a_reason_and_name_the_rows(tmp_path: Path) -> None:
    table = frame()
    table.insert(0, "Unnamed: 0", range(40))
    table["empty"] = None
    rows, _ = read(write(tmp_path / "a.csv", table.drop(columns="Unnamed: 0")), label="kind")
    assert set(rows.recipe["dropped"]) == {"key", "empty", "flat"}
    assert "own value" in rows.recipe["dropped"]["key"]
    assert rows.names[3] == "k003"
    counted, _ = read(write(tmp_path / "b.csv", table), label="kind")
    assert "counts the rows" in counted.recipe["dropped"]["Unnamed: 0"]
    assert torch.equal(counted.x, rows.x)


def test_text_is_tfidf_over_words_of_two_rows_or_more(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = frame()[["note", "kind"]]
    rows, _ = read(write(tmp_path / "a.csv", table), label="kind")
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(table["note"]).toarray()
    assert rows.recipe["columns"][0]["words"] == sorted(WORDS)
    np.testing.assert_allclose(rows.x.numpy(), expected, atol=1e-6)


def test_recipe_survives_json_and_encodes_alike(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", frame())
    rows, _ = read(path, label="kind")
    recipe = json.loads(json.dumps(rows.recipe))
    again, _ = read(path, recipe=recipe)
    assert torch.equal(again.x, rows.x)
    assert torch.equal(again.y, rows.y)
    assert again.classes == rows.classes
    assert again.recipe == rows.recipe
    part, _ = read(write(tmp_path / "b.csv", frame()[8:10]), recipe=recipe)
    assert torch.equal(part.x, rows.x[8:10])
    x, names = read_inputs(write(tmp_path / "c.csv", frame()[8:10].drop(columns="kind")), recipe)
    assert torch.equal(x, rows.x[8:10])
    assert names == ("k008", "k009")


def test_unseen_words_are_zero_and_new_gaps_take_the_median(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path / "a.csv", frame()[["age", "member", "colour", "kind"]]), label="kind")
    new = pd.DataFrame({"age": [None], "member": [None], "colour": ["mauve"]})
    x, _ = read_inputs(write(tmp_path / "b.csv", new), rows.recipe)
    spec = rows.recipe["columns"][0]
    assert x[0, 0] == pytest.approx((spec["median"] - spec["mean"]) / spec["scale"])
    assert x[0, 1:].tolist() == [1, 0, 0, 0, 0, 0, 0]


def test_rare_words_beyond_the_cap_share_one_column(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(100) for _ in range(2 if i < 63 else 1) for _ in range(3)]
    table = pd.DataFrame({"w": words, "y": ["a", "b"] * (len(words) // 2) + ["a"] * (len(words) % 2)})
    rows, _ = read(write(tmp_path / "a.csv", table), label="y")
    assert rows.x.shape[1] == 64
    assert rows.x.sum(1).eq(1).all()
    assert rows.x[:, 63].sum() == 3 * 37
    x, _ = read_inputs(write(tmp_path / "b.csv", pd.DataFrame({"w": ["never seen"]})), rows.recipe)
    assert x[0].nonzero().tolist() == [[63]]


def test_parquet_dates_decimals_and_categories(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=20, freq="D", tz="Europe/Paris"),
            "day": [pd.Timestamp("2020-01-01").date() + pd.Timedelta(days=i) for i in range(20)],
            "lasts": pd.to_timedelta(range(20), unit="h"),
            "cost": [Decimal(i) / 4 for i in range(20)],
            "size": pd.Categorical(["s", "m"] * 10),
            "count": pd.array([None, *range(19)], dtype="Int64"),
            "y": [0, 1] * 10,
        }
    )
    rows, _ = read(write(tmp_path / "a.parquet", table), label="y")
    assert [spec["as"] for spec in rows.recipe["columns"]] == ["number"] * 4 + ["category", "number"]
    line = (np.arange(20) - 9.5) / np.arange(20).std()
    np.testing.assert_allclose(rows.x[:, :4], np.repeat(line[:, None], 4, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        ([1, 10, 2, 10], None, ("1", "2", "10")),
        ([1.0, 10.0, 2.0, 10.0], None, ("1", "2", "10")),
        ([0.5, 1, 2, 3], None, None),
        ([0.5, 1, 0.5, 1], "classification", ("0.5", "1")),
        ([1, 2, 3, 1], "regression", None),
        ([True, False, True, False], None, ("False", "True")),
        (["b", "a", "10", "a"], None, ("10", "a", "b")),
    ],
)
def test_labels_decide_the_task_unless_told(tmp_path: Path, values, task, classes) -> None:
    path = write(tmp_path / "a.csv", pd.DataFrame({"x": range(4), "y": values}))
    rows, _ = read(path, label="y", task=task)
    assert rows.classes == classes
    if classes is None:
        assert rows.y.dtype == torch.float32
        assert rows.y.flatten().tolist() == values
    else:
        assert rows.y.dtype == torch.int64
        assert [classes[k] for k in rows.y] == [f"{v:g}" if isinstance(v, float) else str(v) for v in values]


def test_many_whole_numbers_are_targets(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path / "a.csv", pd.DataFrame({"x": range(51), "y": range(51)})), label="y")
    assert rows.y.shape == (51, 1)
    rows, _ = read(write(tmp_path / "b.csv", pd.DataFrame({"x": range(50), "y": range(50)})), label="y")
    assert len(rows.classes) == 50


def test_truth_is_set_apart_from_the_features(tmp_path: Path) -> None:
    table = frame()[["age", "kind"]].assign(real=["owl"] * 2 + ["cat"] * 38)
    path = write(tmp_path / "a.csv", table)
    rows, _ = read(path, label="kind", truth="real")
    assert rows.classes == ("cat", "dog", "owl")
    assert rows.truth.tolist() == [2, 2] + [0] * 38
    assert [spec["name"] for spec in rows.recipe["columns"]] == ["age"]
    again, _ = read(path, recipe=rows.recipe)
    assert torch.equal(again.truth, rows.truth)


def test_missing_labels_are_an_error_or_dropped(tmp_path: Path) -> None:
    table = frame()[["age", "kind"]]
    table.loc[[4, 9, 11, 30], "kind"] = None
    path = write(tmp_path / "a.csv", table)
    message = r"column 'kind' has 4 missing values \(rows 4, 9, 11, \.\.\.\); drop them or pass --missing drop"
    with pytest.raises(HoldfastError, match=message):
        read(path, label="kind")
    rows, _ = read(path, label="kind", missing_labels="drop")
    assert len(rows) == 36
    assert rows.names[4] == "5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"pass --label .*; its columns are 'age', 'Label'"),
        ({"label": "lable"}, r"no column 'lable' \(did you mean 'Label'\?\); its columns are 'age', 'Label'"),
        ({"label": "zzz"}, r"no column 'zzz'; its columns are 'age', 'Label'"),
        ({"label": "Label", "truth": "zzz"}, "no column 'zzz'"),
        (
            {"label": "Label", "task": "regression"},
            r"'Label' must hold numbers .* rows 0, 1, 2, \.\.\. do not",
        ),
    ],
)
def test_wrong_columns_are_named(tmp_path: Path, options, message: str) -> None:
    path = write(tmp_path / "a.csv", pd.DataFrame({"age": range(4), "Label": list("abab")}))
    with pytest.raises(HoldfastError, match=message):
        read(path, **options)


@pytest.mark.slow
def test_of_many_columns_the_nearest_are_named(tmp_path: Path) -> None:
    wide = pd.DataFrame({**{f"pixel{k}": range(4) for k in range(2000)}, "income": list("abab")})
    path = write(tmp_path / "wide.csv", wide)
    message = r"no column 'incme' \(did you mean 'income'\?\); of its 2,001 columns the nearest are 'income', "
    with pytest.raises(HoldfastError, match=message) as caught:
        read(path, label="incme")
    assert str(caught.value).count("'pixel") == 4
    rows, _ = read(path, label="income")
    with pytest.raises(HoldfastError, match=r"lacks the column 'pixel7' and 1,992 more; of its 8 ") as caught:
        read_inputs(write(tmp_path / "few.csv", wide[[*(f"pixel{k}" for k in range(7)), "income"]]), rows.recipe)
    assert len(str(caught.value)) < 200


def test_infinite_and_wild_numbers_are_named(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1.0, 2, np.inf, -np.inf], "y": list("abab")})
    with pytest.raises(HoldfastError, match=r"column 'a' is infinite in rows 2, 3;"):
        read(write(tmp_path / "a.csv", table), label="y")
    with pytest.raises(HoldfastError, match=r"column 'a' spans too wide a range"):
        read(write(tmp_path / "b.csv", table.assign(a=[1e300, -1e300, 0, 1])), label="y")
    rows, _ = read(write(tmp_path / "c.csv", table.assign(a=range(4))), label="y")
    with pytest.raises(HoldfastError, match=r"column 'a' is beyond all bounds in row 1"):
        read_inputs(write(tmp_path / "d.csv", pd.DataFrame({"a": [1, 1e300]})), rows.recipe)
    with pytest.raises(HoldfastError, match=r"'a' held numbers .* row 1 here \(row 1: 'two'\)"):
        read_inputs(write(tmp_path / "e.csv", pd.DataFrame({"a": [1, "two"]})), rows.recipe)
    with pytest.raises(HoldfastError, match=r"lacks the column 'a'; its columns are 'b'"):
        read_inputs(write(tmp_path / "f.csv", pd.DataFrame({"b": [1]})), rows.recipe)


def test_labels_outside_the_recipe_are_named(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path / "a.csv", frame()), label="kind")
    other = frame()
    other.loc[7, "kind"] = "owl"
    with pytest.raises(HoldfastError, match=r"label 'owl' \(row 7\), which is none of the 2 classes \(cat, dog\)"):
        read(write(tmp_path / "b.csv", other), recipe=rows.recipe)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"y": list("abab")}), "no column besides 'y' can be learned from$"),
        (
            pd.DataFrame({"k": [f"i{i}" for i in range(12)], "y": list("abab") * 3}),
            "'k' dropped: almost every",
        ),
        (pd.DataFrame({"v": [{"k": 1}, {"k": 2}], "y": ["a", "b"]}), "'v' dropped: it holds dict values"),
        (pd.DataFrame({"v": [1, 2], "y": ["a", "a"]}), r"only one class \(a\)"),
        (pd.DataFrame({"v": [1, 2], "y": ["a", None]}), r"1 missing value \(row 1\)"),
        (pd.DataFrame({"v": [], "y": []}), "holds no rows"),
    ],
)
def test_tables_that_cannot_be_learned_from(tmp_path: Path, table: pd.DataFrame, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        read(write(tmp_path / "a.parquet", table), label="y")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    plain = frame().to_csv(index=False).encode()
    write(tmp_path / "whole.parquet", frame())
    damaged = {
        "empty.csv": (b"", "is empty"),
        "head.csv": (b"a,b\n", "holds no rows"),
        "cut.csv.gz": (cut(gzip.compress(plain)), "cut short or damaged"),
        "empty.parquet": (b"", "is empty"),
        "cut.parquet": (cut((tmp_path / "whole.parquet").read_bytes()), "cannot be read"),
        "ragged.csv": (b"a,y\n1,2\n3,4,5\n", "line 3"),
        "long.csv": (b"a,y\n1,2,3\n3,4,5\n", "not a well-formed table"),
        "twice.csv": (b"a,a,y\n1,2,0\n3,4,1\n", None),
    }
    for name, (content, message) in damaged.items():
        path = tmp_path / name
        path.write_bytes(content)
        if message is None:
            assert read(path, label="y")[0].x.shape == (2, 2)
            continue
        with pytest.raises(HoldfastError, match=message) as caught:
            read(path, label="y")
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([["a", "b"], ["c"]], "lists of something else than numbers"),
        (["a", ["c"]], "mixes lists or objects with other values"),
        ([[1.0], 5], "mixes lists or objects with other values"),
        ([{"a": 1}, {"b": 2}], "holds dict values"),
    ],
)
def test_what_cannot_be_learned_from_is_dropped_with_a_reason(tmp_path: Path, values, why: str) -> None:
    lines = [json.dumps({"v": values[i % 2], "n": i % 7, "y": "pq"[i % 3 > 0]}) for i in range(12)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    rows, _ = read(tmp_path / "a.jsonl", label="y")
    assert why in rows.recipe["dropped"]["v"]
    assert rows.x.shape == (12, 1)


def test_labels_in_lists_and_files_without_bounds_are_named(tmp_path: Path) -> None:
    contents = {
        '{"v": 1, "y": ["p"]}\n{"v": 2, "y": ["q"]}\n': "'y' holds lists or objects; labels are words or numbers",
        "[" * 100_000: "nested too deeply",
        f'{{"v": {"9" * 400}, "y": "p"}}\n{{"v": 1, "y": "q"}}\n': "numbers beyond all bounds|int too large",
        "[]": "holds no rows",
    }
    for content, message in contents.items():
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(HoldfastError, match=message):
            read(tmp_path / "a.json", label="y")


@pytest.mark.skipif(not os.environ.get("HOLDFAST_DATA"), reason="HOLDFAST_DATA names no folder of public data")
def test_adult_census() -> None:
    rows, _ = read(Path(os.environ["HOLDFAST_DATA"]) / "adult.csv.gz", label="income >50K")
    assert len(rows) == 32561
    assert rows.y.bincount().tolist() == [24720, 7841]
    assert torch.isfinite(rows.x).all()
