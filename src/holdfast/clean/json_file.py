"""JSON Lines and arrays of JSON objects, edited as text: values of labels change, objects go, names are added."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import JSONDecoder
from typing import NamedTuple

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names, number_like
from holdfast.clean.text import Text
from holdfast.data.formats import FileFormat, Kind

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = JSONDecoder()


class Record(NamedTuple):
    """One object of the text: where it begins and ends, where the value of its label lies, and all of its names."""

    start: int
    label: tuple[int, int] | None
    end: int
    names: tuple[str, ...]


def edited(data: bytes, found: FileFormat, edit: Edit) -> bytes:
    """The bytes of a file of JSON objects after an edit; without any they are the same bytes."""
    text = Text.decoded(data, str(found.encoding))
    body = text.body
    records = list(_records(body, edit.label))
    for names in {record.names for record in records}:
        check_free_names(edit, names)
    cells = [None if record.label is None else body[slice(*record.label)] for record in records]
    spelling = Spelling(edit, cells, json.dumps, number_like(cells))
    new, kept = spelling.new(), edit.kept(len(records))
    beside = [""] * len(records)
    if edit.marks:
        marks = zip(edit.trusts(len(records)), spelling.suggested(), strict=True)
        beside = [f', "{TRUST}": {json.dumps(trust)}, "{SUGGESTED}": {cell or "null"}' for trust, cell in marks]
    pieces = []
    for row, record in enumerate(records):
        label = record.label or (record.end, record.end)
        piece = body[record.start : label[0]] + new.get(row, body[slice(*label)]) + body[label[1] : record.end]
        closing = len(piece[:-1].rstrip())
        more = beside[row] if record.names else beside[row].removeprefix(", ")
        pieces.append(piece[:closing] + more + piece[closing:])
    joined = _lines if found.kind is Kind.JSON_LINES else _array
    return text.encoded(joined(body, records, pieces, kept.tolist()))


def _lines(body: str, records: list[Record], pieces: list[str], kept: list[bool]) -> str:
    """The text with its objects replaced; the line of one that goes is taken out."""
    parts, done = [], 0
    for record, piece, stays in zip(records, pieces, kept, strict=True):
        if stays:
            parts += [body[done : record.start], piece]
            done = record.end
        else:
            parts.append(body[done : record.start])
            end = re.compile(r"[ \t]*(?:\r\n|\n|\r|\Z)").match(body, record.end)
            done = record.end if end is None else end.end()
    parts.append(body[done:])
    whole = "".join(parts)
    return whole if body.endswith(("\n", "\r")) or all(kept) else whole.rstrip("\r\n")


def _array(body: str, records: list[Record], pieces: list[str], kept: list[bool]) -> str:
    """The text with its objects replaced; one that goes takes along what parts it from the one before."""
    starts = [records[0].start, *(record.end for record in records[:-1])]
    between = [body[start : record.start] for start, record in zip(starts, records, strict=True)]
    stay = [row for row, stays in enumerate(kept) if stays]
    parts = [f"{between[row] if at else ''}{pieces[row]}" for at, row in enumerate(stay)]
    return body[: records[0].start] + "".join(parts) + body[records[-1].end :]


def _records(body: str, label: str) -> Iterator[Record]:
    """The objects of a text, one after the other or as the items of an array."""
    at = _SPACE.match(body).end()  # type: ignore[union-attr]
    if body.startswith("[", at):
        at += 1
    while True:
        at = _skip(body, at)
        if at >= len(body) or body[at] == "]":
            return
        record = _record(body, at, label)
        yield record
        at = _skip(body, record.end)
        if body.startswith(",", at):
            at += 1


def _record(body: str, start: int, label: str) -> Record:
    """The object that begins at a place; of a name that comes twice the last counts, as for every reader."""
    found, names, at = None, [], _skip(body, start + 1)
    while body[at] != "}":
        name, at = _DECODER.raw_decode(body, at)
        begin = _skip(body, _skip(body, at) + 1)
        value, at = _DECODER.raw_decode(body, begin)
        names.append(name)
        if name == label:
            found = None if value is None else (begin, at)
        at = _skip(body, at)
        if body[at] == ",":
            at = _skip(body, at + 1)
    return Record(start, found, at + 1, tuple(names))


def _skip(body: str, at: int) -> int:
    return _SPACE.match(body, at).end()  # type: ignore[union-attr]
