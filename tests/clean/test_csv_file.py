"""CSV in all its dialects: bytes that an edit does not touch stay, and it touches what it should."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from drawn_tables import drawn, edit_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError
from holdfast.clean.csv_file import edited
from holdfast.clean.edit import SUGGESTED, TRUST, Edit
from holdfast.data.formats import FileFormat, Kind

DELIMITERS = st.sampled_from(",;\t|")
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"])
QUOTING = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])


@st.composite
def dialects(draw):
    """(format, quoting, whether the last line ends, blank lines between)"""
    found = FileFormat(Kind.CSV, encoding=draw(ENCODINGS), delimiter=draw(DELIMITERS), line_end=draw(ENDS))
    # Python's writer does not quote a newline where lines end otherwise.
    quoting = csv.QUOTE_ALL if found.line_end == "\r" else draw(QUOTING)
    return found, quoting, draw(st.booleans()), draw(st.sampled_from(["", "{end}", "  {end}"]))


def written(table, dialect):
    """The bytes of a table in a dialect."""
    found, quoting, ends, blank = dialect
    out = io.StringIO()
    writer = csv.writer(out, delimiter=found.delimiter, lineterminator=found.line_end, quoting=quoting)
    writer.writerow(list(table.columns))
    gap = blank.format(end=found.line_end)
    for line in table.lines:
        out.write(gap)
        writer.writerow(line)
    text = out.getvalue()
    return (text if ends else text.removesuffix(found.line_end)).encode(found.encoding)


def parsed(data, dialect):
    found = dialect[0]
    text = data.decode(found.encoding)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=found.delimiter)
    return [line for line in lines if line and line != ["  "]]


@settings(max_examples=200, deadline=None)
@given(drawn(change=False), dialects())
def test_nothing_to_change_leaves_the_bytes(table, dialect):
    data = written(table, dialect)
    assert edited(data, dialect[0], table.edit) == data


@settings(max_examples=300, deadline=None)
@given(drawn(), dialects())
def test_labels_change_and_rows_go_and_nothing_else(table, dialect):
    data = written(table, dialect)
    before, after = parsed(data, dialect), parsed(edited(data, dialect[0], table.edit), dialect)
    kept = table.edit.kept(len(table))
    at = before[0].index(table.label)
    wanted = [[*line[:at], label, *line[at + 1 :]] for line, label in zip(before[1:], table.wanted, strict=True)]
    assert after == [before[0], *(line for line, stays in zip(wanted, kept, strict=True) if stays)]


@settings(max_examples=100, deadline=None)
@given(drawn(), dialects())
def test_bytes_around_a_changed_label_stay(table, dialect):
    """With every record that is touched cut out, the file is what it was."""
    assume(not table.edit.dropped.any() and "\n" not in "".join("".join(line) for line in table.lines))
    found = dialect[0]
    before, after = (
        data.decode(found.encoding).split(found.line_end)
        for data in (written(table, dialect), edited(written(table, dialect), found, table.edit))
    )
    assert len(before) == len(after)
    differing = sum(old != new for old, new in zip(before, after, strict=True))
    assert differing == sum(old != new for old, new in zip(table.columns[table.label], table.wanted, strict=True))


@settings(max_examples=150, deadline=None)
@given(drawn(change=False, mark=True), dialects())
def test_marks_are_columns_at_the_end(table, dialect):
    data = written(table, dialect)
    before, after = parsed(data, dialect), parsed(edited(data, dialect[0], table.edit), dialect)
    assert [line[: len(before[0])] for line in after] == before
    assert after[0][-2:] == [TRUST, SUGGESTED]
    trusts = ["" if trust is None else str(trust) for trust in table.edit.trusts(len(table))]
    assert [line[-2] for line in after[1:]] == trusts
    doubted = table.edit.rows[table.edit.doubted]
    assert [bool(line[-1]) for line in after[1:]] == [row in doubted for row in range(len(table))]


PLAIN = FileFormat(Kind.CSV, encoding="utf-8", delimiter=",")


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (edit_of([0, 1, 2], [0, 1, 0], [0, 0, 0]), "x,y\n1,low\n2,low\n3,low\n"),
        (edit_of([0, 1, 2], [0, 1, 0], [0, 1, 0], dropped=[1]), "x,y\n1,low\n3,low\n"),
        (edit_of([0, 1, 2], [0, 1, 0], [0, 1, 1], dropped=[0]), "x,y\n2,high\n3,high\n"),
    ],
)
def test_a_file_as_one_reads_it(edit, after):
    assert edited(b"x,y\n1,low\n2,high\n3,low\n", PLAIN, edit).decode() == after


def test_a_short_line_is_filled_up_before_marks():
    edit = edit_of([0, 1], [0, 1], [0, 1], trust=[0.25, 1.0], suggested=[1, 1], doubted=[True, False])
    data = edited(b"x,y,z\n1,low,a\n2,high\n", PLAIN, edit)
    assert data.decode() == f"x,y,z,{TRUST},{SUGGESTED}\n1,low,a,0.25,high\n2,high,,1.0,\n"


def test_numbers_are_written_as_the_column_has_them():
    edit = Edit("y", np.array([0, 1]), np.array([[1.5], [2.25]]), np.array([[1.5], [7.0]]), np.zeros(2, bool), None)
    assert edited(b"x;y\n1;1,5\n2;2,25\n", replace(PLAIN, delimiter=";"), edit) == b"x;y\n1;1,5\n2;7,00\n"


@pytest.mark.parametrize("edit", [edit_of([0, 3], [0, 1], [0, 1]), edit_of([0, 1], [0, 1], [0, 1])])
def test_rows_of_another_file_are_refused(edit):
    with pytest.raises(HoldfastError, match="not those that the run has judged"):
        edited(b"x,y\n1,low\n2,low\n", PLAIN, edit)


def test_a_mark_that_is_there_already_is_refused():
    with pytest.raises(HoldfastError, match=f"has a column '{TRUST}' already"):
        edited(f"y,{TRUST}\nlow,1\n".encode(), PLAIN, edit_of([0], [0], [0], trust=[1.0]))
