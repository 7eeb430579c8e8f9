"""Argilla: records with suggestions and their scores, and responses back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.exchange.items import QUESTION, ROW, RUN, Decided, Item
from holdfast.run import Run

FIELD = "item"
"""The field of a record that shows the row."""


def records(found: Sequence[Item], run: Run) -> list[dict[str, Any]]:
    """One record a row, as ``dataset.records.from_json`` takes them: a field, the suggestion, and how to find it."""
    if run.classes is None:
        raise HoldfastError("Argilla asks no question about numbers; use --to label-studio")
    return [_record(item, run) for item in found]


def _record(item: Item, run: Run) -> dict[str, Any]:
    about = {ROW: item.place, RUN: run.config.fingerprint, "given": item.given, "trust": round(item.trust, 4)}
    return {
        "id": f"{run.config.fingerprint}-{item.place}",
        "fields": {FIELD: item.text if item.picture is None else item.link},
        "metadata": about,
        "suggestions": {QUESTION: {"value": item.suggested, "score": item.score, "agent": "holdfast"}},
        "responses": {},
        "vectors": {},
    }


def is_export(content: Any) -> bool:
    """Whether a file is what Argilla exports as JSON."""
    return isinstance(content, list) and bool(content) and isinstance(content[0], dict) and "responses" in content[0]


def decided(content: list[Any], run: Run) -> Iterator[Decided]:
    """What people have said in an export."""
    for record in content:
        about = record.get("metadata") or {}
        if about.get(RUN) != run.config.fingerprint or ROW not in about:
            raise HoldfastError(f"record {record.get('id', '?')} was not made for this run (no {ROW} and {RUN} of it)")
        for response in (record["responses"] or {}).get(QUESTION, []):
            if response.get("value") is not None and response.get("status", "submitted") == "submitted":
                yield Decided(int(about[ROW]), f"Argilla user {response.get('user_id')}", response["value"])
