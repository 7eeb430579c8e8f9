"""CSV files for people: nothing in them runs, and what we read back is what it was."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spreadsheet import escaped, read_back, unescaped, write_csv

STARTS = "=+-@\t\r\n"


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-"])
def test_formulas_are_escaped(cell):
    assert escaped(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-3.5", "+1", "-1e-9", "-.5", "plain", "a=b", "", "'tis", 3, -2.5, None])
def test_numbers_and_words_stay(cell):
    assert escaped(cell) is cell


@given(st.text() | st.text("'" + STARTS + "1.5a"))
def test_what_is_escaped_comes_back(cell):
    written = escaped(cell)
    assert unescaped(written) == cell
    assert written[:1] not in tuple(STARTS) or written.lstrip("+-").replace(".", "").replace("e", "")[:1].isdigit()


@given(st.lists(st.text("'=+-@\t ,;\"ab1", min_size=1), min_size=1, max_size=5))
def test_a_table_comes_back_from_its_file(cells):
    file = io.StringIO()
    write_csv(pd.DataFrame({"=name": cells, "number": range(len(cells))}), file)
    lines = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert lines[0] == ["'=name", "number"]
    assert all(not line[0].startswith(("=", "@", "\t")) for line in lines)
    file.seek(0)
    again = read_back(pd.read_csv(file, dtype={"'=name": object}, keep_default_na=False))
    assert again["=name"].tolist() == cells
    assert again["number"].tolist() == list(range(len(cells)))


def test_a_file_is_written_aside(tmp_path):
    write_csv(pd.DataFrame({"label": ["-3.5", "=x"]}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "label\n-3.5\n'=x\n"
    assert len(list(tmp_path.iterdir())) == 1
