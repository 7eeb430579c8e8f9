"""COCO annotation files: categories of annotations change, images go with their annotations, names are added."""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names
from holdfast.clean.text import Text
from holdfast.data import coco
from holdfast.data.formats import FileFormat
from holdfast.errors import HoldfastError

_INDENT = re.compile(r"\{\r?\n([ \t]+)\S")


def edited(data: bytes, found: FileFormat, edit: Edit) -> bytes:
    """The bytes of an annotation file after an edit: the same values in the same order but for what changed."""
    text = Text.decoded(data, str(found.encoding))
    document: dict[str, Any] = json.loads(text.body)
    held = coco.annotated(document, "the file")
    spelling: Spelling[coco.Id] = Spelling(edit, held.category, lambda name: _category(name, held), _no_number)
    images = [document["images"][place] for place in held.rows]
    if edit.marks:
        _mark(document["images"], images, edit, spelling)
    new = {images[row]["id"]: category for row, category in spelling.new().items()}
    kept = edit.kept(len(images)).tolist()
    gone = {image["id"] for image, stays in zip(images, kept, strict=True) if not stays}
    for annotation in document["annotations"]:
        annotation["category_id"] = new.get(annotation["image_id"], annotation["category_id"])
    document["images"] = [image for image in document["images"] if image["id"] not in gone]
    document["annotations"] = [each for each in document["annotations"] if each["image_id"] not in gone]
    return text.encoded(_written(document, text.body))


def _mark(every: list[dict[str, Any]], images: list[dict[str, Any]], edit: Edit, spelling: Spelling[coco.Id]) -> None:
    """Trust and suggested category beside each image; null where it was not judged."""
    for image in every:
        check_free_names(edit, list(image))
        image |= {TRUST: None, SUGGESTED: None}
    for image, trust, category in zip(images, edit.trusts(len(images)), spelling.suggested(), strict=True):
        image |= {TRUST: trust, SUGGESTED: category}


def _written(document: dict[str, Any], before: str) -> str:
    """JSON that is indented, spaced and escaped as the text before was, and ends as it did."""
    indent = _INDENT.match(before.lstrip())
    tight = re.search(r'":\S', before[:1000]) is not None
    separators = ("," if indent or tight else ", ", ":" if tight else ": ")
    escaped = before.isascii() or "\\u" in before
    written = json.dumps(document, ensure_ascii=escaped, indent=indent and indent.group(1), separators=separators)
    lines = written.replace("\n", "\r\n") if "\r\n" in before else written
    return lines + before[len(before.rstrip()) :]


def _category(name: str, held: coco.Annotated) -> coco.Id:
    """The category of a name, of a class that no image has."""
    found = next((category for category, other in held.names.items() if other == name), None)
    if found is None:
        raise HoldfastError(f"the file has no category {name!r}; add it there and train again")
    return found


def _no_number(value: float) -> coco.Id:
    raise HoldfastError("COCO annotations hold classes, not numbers")
