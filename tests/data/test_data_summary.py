"""What is said of data before anything is trained on it."""

import numpy as np
import pandas as pd

from holdfast.data import read, tables


def lines_of(frame, **options):
    return list(tables.build(frame, "the table", label="label", **options).summary.lines())


def test_many_columns_and_classes_are_told_in_few_lines():
    rng = np.random.default_rng(0)
    names = [f"measurement number {i} of the day" for i in range(500)]
    frame = pd.DataFrame(rng.normal(size=(600, 500)), columns=names)
    frame.iloc[3, 7] = np.nan
    frame["nothing"] = None
    frame["label"] = [f"class {i % 100}" for i in range(600)]
    lines = lines_of(frame)
    assert len(lines) < 12
    assert max(map(len, lines)) <= 80
    assert "columns: 500 numbers, 1 dropped" in lines
    assert "  nothing                       dropped: no value in any row" in lines
    assert any(line.endswith("number, 1 gap") for line in lines)
    assert "  and 499 more" in lines
    assert "and 88 more" in " ".join(" ".join(lines).split())


def test_many_columns_without_anything_to_tell_are_only_counted():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 30))).add_prefix("x").assign(label=["a", "b"] * 25)
    assert lines_of(frame)[-1] == "columns: 30 numbers"


def test_long_names_are_cut_and_nothing_reaches_the_terminal():
    frame = pd.DataFrame({"a\x1b[31m" * 30: range(12), "label": ["x\x1b]0;owned\x07", "y" * 300] * 6})
    lines = lines_of(frame)
    assert max(map(len, lines)) <= 80
    assert not any("\x1b" in line or "\x07" in line for line in lines)


def test_numbers_to_predict_and_rows_left_out(tmp_path):
    frame = pd.DataFrame({"a": range(80), "label": [np.nan if i % 40 == 7 else i / 2 for i in range(80)]})
    lines = lines_of(frame, missing="drop")
    assert "targets: numbers from 0 to 39.5" in lines
    assert "skipped: 2 without a label (rows 7, 47)" in lines
    np.savez(tmp_path / "a.npz", x_train=np.ones((4, 2)) * np.arange(4)[:, None], y_train=np.array([0, 1, 1, 1]))
    rows, _ = read(tmp_path / "a.npz")
    assert list(rows.summary.lines()) == ["data: arrays; 4 rows", "classes: 1 3, 0 1"]
