"""Issues planted in pictures, texts, tables and vectors are found, and hardly anything else is."""

import numpy as np
import pandas as pd
import pytest
from planted import WORDS, pictures, precision_and_recall, recoloured, resized, table, texts
from sklearn.datasets import load_digits

import holdfast

ENOUGH = 0.9


def assert_found(check, kind, planted):
    precision, recall = precision_and_recall(check.rows(kind), planted)
    assert precision >= ENOUGH, (kind, precision, recall)
    assert recall >= ENOUGH, (kind, precision, recall)


def test_copies_of_pictures_are_found_resized_and_recoloured():
    x, y = pictures()
    count = len(x)
    copies = [*x[:20], *(resized(a) for a in x[20:60]), *(recoloured(a) for a in x[60:100])]
    whole = np.stack([*x, *copies]).transpose(0, 3, 1, 2)
    check = holdfast.check((np.ascontiguousarray(whole), np.concatenate([y, y[:100]])), encoder=None)
    assert_found(check, "duplicate", range(count, count + 20))
    assert_found(check, "near duplicate", range(count + 20, count + 100))
    assert check.rows("conflicting duplicate") == []


def test_texts_with_one_word_changed_are_near_duplicates():
    lines, y = texts()
    count, draw = len(lines), np.random.default_rng(1)
    changed = []
    for line in lines[30:90]:
        words = line.split()
        words[draw.integers(len(words))] = draw.choice(WORDS)
        changed.append(" ".join(words))
    frame = pd.DataFrame({"text": [*lines, *lines[:30], *changed], "label": [*y, *y[:90]]})
    check = holdfast.check(frame, label="label", encoder=None)
    # A word may have been exchanged for itself, which makes an exact copy.
    same = {count + 30 + k for k, line in enumerate(changed) if line == lines[30 + k]}
    assert_found(check, "duplicate", {*range(count, count + 30), *same})
    assert_found(check, "near duplicate", {*range(count + 30, count + 90)} - same)


def test_rows_of_a_table_copied_exactly_and_with_a_small_change():
    frame = table()
    count = len(frame)
    near = frame.iloc[40:100].copy()
    near["income"] += 0.01 * frame["income"].std() * np.random.default_rng(2).normal(size=60)
    check = holdfast.check(pd.concat([frame, frame.iloc[:40], near], ignore_index=True), label="label")
    assert_found(check, "duplicate", range(count, count + 40))
    assert_found(check, "near duplicate", range(count + 40, count + 100))


def test_whole_numbers_that_lie_near_by_nature_are_no_copies():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {name: draw.choice(list("abc"), 3000) for name in "pqrs"} | {"age": draw.integers(18, 80, 3000)}
    )
    frame["label"] = draw.choice(["x", "y"], 3000)
    check = holdfast.check(frame.drop_duplicates(["p", "q", "r", "s", "age"]), label="label")
    assert len(check.rows("near duplicate")) < 0.01 * 3000


@pytest.mark.parametrize("kind", ["vectors", "table", "pictures"])
def test_outliers_are_found(kind):
    draw, planted = np.random.default_rng(3), range(25)
    if kind == "vectors":
        x = draw.normal(size=(800, 12))
        x[:25] = 6 * draw.normal(size=(25, 12)) + 12 * draw.choice([-1, 1], size=(25, 1))
        check = holdfast.check((x, (x[:, 0] > 0).astype(int)))
    elif kind == "table":
        frame = table(1200)
        frame.loc[:24, "income"] = frame["income"].max() * draw.uniform(20, 60, 25)
        check = holdfast.check(frame, label="label")
    else:
        digits = load_digits()
        x = (digits.images * 15.9).astype(np.uint8)
        x[:25] = draw.integers(0, 2, size=(25, 8, 8)) * 255
        check = holdfast.check((x[:, None], digits.target))
    assert_found(check, "outlier", planted)


def test_an_outlier_of_its_label_alone_is_found():
    draw = np.random.default_rng(4)
    y = np.arange(600) % 2
    x = draw.normal(size=(600, 8)) + 25 * y[:, None]
    x[3] += 25 - 50 * y[3]
    assert 3 in holdfast.check((x, y), encoder=None).rows("outlier")


def test_copies_with_another_label_and_copies_in_the_test_file(tmp_path):
    frame = table(600)
    twins = frame.iloc[:15].assign(label=lambda t: np.where(t["label"] == "good", "bad", "good"))
    pd.concat([frame, twins]).to_csv(tmp_path / "train.csv", index=False)
    fresh = table(80, seed=9)
    pd.concat([frame.iloc[100:130], fresh]).to_csv(tmp_path / "test.csv", index=False)
    check = holdfast.check(tmp_path / "train.csv", label="label", test=tmp_path / "test.csv")
    assert_found(check, "conflicting duplicate", [*range(15), *range(600, 615)])
    assert_found(check, "also in test", range(100, 130))
    why = check.issues.set_index(["kind", "row"]).loc[("also in test", 104), "why"]
    assert why == "equals row 4 to test on"
