"""CSV and its dialects, edited as text: cells of labels change, lines go, cells are added; nothing else is touched."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names, number_like
from holdfast.clean.text import Text
from holdfast.data.formats import FileFormat


class Line(NamedTuple):
    """One record of the text, which may span several lines: where it begins and ends, and its label lies."""

    start: int
    label: tuple[int, int] | None
    stop: int
    """Before its line end."""
    end: int


def edited(data: bytes, found: FileFormat, edit: Edit) -> bytes:
    """The bytes of a CSV file after an edit; without any they are the same bytes."""
    text = Text.decoded(data, str(found.encoding))
    delimiter = str(found.delimiter)
    header, at = _header(text.body, delimiter, edit)
    lines = list(_lines(text.body, delimiter, at, header.end))
    cells = [_cell(text.body, line) for line in lines]
    spelling = Spelling(edit, cells, lambda name: _quoted(name, delimiter), number_like(cells))
    new, kept = spelling.new(), edit.kept(len(lines))
    beside = _beside(text.body, header, lines, edit, spelling, delimiter)
    parts, done = [text.body[: header.stop], beside[0]], header.stop
    for row, line in enumerate(lines):
        if not kept[row]:
            parts.append(text.body[done : line.start])
            done = line.end
            continue
        if row in new and line.label is not None:
            parts += [text.body[done : line.label[0]], new[row]]
            done = line.label[1]
        parts += [text.body[done : line.stop], beside[row + 1]]
        done = line.stop
    parts.append(text.body[done:])
    whole = "".join(parts)
    if not kept.all() and not text.body.endswith(("\n", "\r")):
        whole = re.sub(r"(\r\n|\n|\r)\Z", "", whole)
    return text.encoded(whole)


def _header(body: str, delimiter: str, edit: Edit) -> tuple[Line, int]:
    """The record of the names, and the place of the label among them."""
    first = next(_lines(body, delimiter, 0, 0))
    names = pd.read_csv(io.StringIO(body[first.start : first.end]), sep=delimiter, index_col=False).columns.map(str)
    check_free_names(edit, list(names))
    return first, int(names.get_loc(edit.label))  # type: ignore[arg-type]


def _lines(body: str, delimiter: str, at: int, begin: int) -> Iterator[Line]:
    """The records from a place on, as pandas parts them: blank lines are none, quotes hide delimiters and line ends."""
    apart = re.escape(delimiter)
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"[^{apart}\r\n]*+|[^"{apart}\r\n][^{apart}\r\n]*+|)'
    record = re.compile(
        rf"(?:(?:{field}{apart}){{{at}}}(?P<label>{field})(?:{apart}{field})*+|{field}(?:{apart}{field})*+)"
        r"(?P<end>\r\n|\n|\r|\Z)"
    )
    blank = re.compile(rf"[{' ' if delimiter == chr(9) else ' ' + chr(9)}]*(?:\r\n|\n|\r|\Z)")
    while begin < len(body):
        if empty := blank.match(body, begin):
            begin = empty.end()
            continue
        match = record.match(body, begin)
        if match is None:  # a quote that is never closed, which no reader has let through
            return
        label = None if match["label"] is None else match.span("label")
        yield Line(begin, label, match.start("end"), match.end())
        begin = match.end()


def _cell(body: str, line: Line) -> str | None:
    return None if line.label is None else body[line.label[0] : line.label[1]]


def _quoted(name: str, delimiter: str) -> str:
    """A cell that says a name, in quotes where it needs them."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"' if any(sign in name for sign in ('"', "\r", "\n", delimiter)) else name


def _beside(
    body: str, header: Line, lines: list[Line], edit: Edit, spelling: Spelling[str], delimiter: str
) -> list[str]:
    """What is added at the end of each record, that of the names first."""
    if not edit.marks:
        return [""] * (len(lines) + 1)
    width = _width(body, header, delimiter)
    added = [f"{delimiter}{TRUST}{delimiter}{SUGGESTED}"]
    for line, trust, suggested in zip(lines, edit.trusts(len(lines)), spelling.suggested(), strict=True):
        missing = delimiter * (width - _width(body, line, delimiter))
        added.append(f"{missing}{delimiter}{'' if trust is None else trust}{delimiter}{suggested or ''}")
    return added


def _width(body: str, line: Line, delimiter: str) -> int:
    """How many fields a record has."""
    quoted = r"(?:^|(?<=" + re.escape(delimiter) + r'))"[^"]*+(?:""[^"]*+)*+"'
    return re.sub(quoted, "", body[line.start : line.stop]).count(delimiter) + 1
