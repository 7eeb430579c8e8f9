"""Docstrings of Holdfast, read as the site's reference wants them: sections in the style of Google."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^ *>>> .*\n(?:^ *(?!>>>)\S.*\n)*)+", re.MULTILINE)
HEADED = re.compile(r"^([A-Z][A-Za-z ]*)\n-{3,}\n((?:.+\n?)+)", re.MULTILINE)


def _section(found: re.Match[str]) -> str:
    title, body = found[1], found[2].rstrip("\n")
    if title not in ("Parameters", "Attributes", "Returns", "Raises"):
        return f"**{title}**\n\n{body}\n"
    return f"{title}:\n" + "\n".join(f"    {line}" for line in body.split("\n")) + "\n"


class Plain(griffe.Extension):
    """Turns underlined sections into those that the parser knows, and doctests into code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = DOCTEST.sub(lambda found: f"```pycon\n{found[0]}```\n", obj.docstring.value + "\n")
            obj.docstring.value = HEADED.sub(_section, text).rstrip("\n")
