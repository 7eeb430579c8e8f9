"""Label Studio: tasks with predictions and their scores, the page to label them on, and annotations back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from holdfast.errors import HoldfastError
from holdfast.exchange.items import QUESTION, ROW, RUN, Decided, Item
from holdfast.run import Run

SHOWN = "item"
"""The name of what is labelled."""


def tasks(found: Sequence[Item], run: Run) -> list[dict[str, Any]]:
    """One task a row, the suggestion as a prediction."""
    return [_task(item, run) for item in found]


def _task(item: Item, run: Run) -> dict[str, Any]:
    data: dict[str, Any] = {ROW: item.place, RUN: run.config.fingerprint, "name": item.name, "given": item.given}
    data |= {"trust": round(item.trust, 4), SHOWN: item.link if item.picture is not None else item.fields}
    kind, value = ("choices", [item.suggested]) if run.classes is not None else ("number", item.suggested)
    result = {"from_name": QUESTION, "to_name": SHOWN, "type": kind, "value": {kind: value}}
    return {"data": data, "predictions": [{"model_version": "holdfast", "score": item.score, "result": [result]}]}


def page(found: Sequence[Item], run: Run) -> str:
    """The labelling interface that the tasks are made for, as XML."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Header", value="given: $given, trust $trust")
    shows = "Image" if found[0].picture is not None else "Table"
    ElementTree.SubElement(view, shows, name=SHOWN, value=f"${SHOWN}")
    if run.classes is None:
        ElementTree.SubElement(view, "Number", name=QUESTION, toName=SHOWN)
    else:
        choices = ElementTree.SubElement(view, "Choices", name=QUESTION, toName=SHOWN, choice="single")
        for name in run.classes:
            ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def is_export(content: Any) -> bool:
    """Whether a file is what Label Studio exports as JSON."""
    return isinstance(content, list) and bool(content) and isinstance(content[0], dict) and "annotations" in content[0]


def decided(content: list[Any], run: Run) -> Iterator[Decided]:
    """What people have said in an export; skipped tasks and empty answers say nothing."""
    for task in content:
        data = task.get("data") or {}
        if data.get(RUN) != run.config.fingerprint or not isinstance(data.get(ROW), int):
            raise HoldfastError(f"task {task.get('id', '?')} was not made for this run (no {ROW} and {RUN} of it)")
        for annotation in task["annotations"]:
            for result in [] if annotation.get("was_cancelled") else annotation.get("result", []):
                if result.get("from_name") == QUESTION:
                    value = result["value"]
                    label = value["choices"][0] if "choices" in value else value.get("number")
                    yield Decided(data[ROW], _who(annotation), label)


def _who(annotation: dict[str, Any]) -> str:
    by = annotation.get("completed_by")
    return str(by.get("email") or by.get("id")) if isinstance(by, dict) else f"Label Studio user {by}"
