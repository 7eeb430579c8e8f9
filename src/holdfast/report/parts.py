"""Parts that pages about labels share: the environment of their templates, cards of rows, noise by class."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pandas as pd

from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.issues.noise import Noise
from holdfast.report import charts

MOST_CLASSES = 20
"""Classes that a heat map or a chart of bars can show."""
PICTURE = 160
"""Pixels on the long side of a picture in the gallery, so that the file stays small."""


def pages() -> Any:
    """The templates, every value in them escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # only a page needs it

    loader = PackageLoader("holdfast.report", "")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def class_chart(noise: Noise) -> Any:
    """The share of wrong labels of each class, those with the most first."""
    table = noise.classes.sort_values("wrong", ascending=False).head(MOST_CLASSES)
    return charts.intervals(table["class"].tolist(), table[["wrong", "low", "high"]].to_numpy().tolist())


def matrix_cells(noise: Noise, names: tuple[str, ...]) -> list[tuple[str, list[tuple[float, float, float]]]] | None:
    """Transition matrix by true class, each cell with its interval; None where there are too many classes to show."""
    if len(names) > MOST_CLASSES or noise.low is None or noise.high is None:
        return None
    cells = zip(noise.transition.tolist(), noise.low.tolist(), noise.high.tolist(), strict=True)
    return [(name, list(zip(*line, strict=True))) for name, line in zip(names, cells, strict=True)]


def confusions(table: pd.DataFrame, most: int = 10) -> list[tuple[str, str, int]]:
    """The commonest confusions among the flagged rows: given, suggested, how many."""
    counts = table[table["flag"]].groupby(["given", "suggested"], sort=False).size().nlargest(most)
    return [(str(pair[0]), str(pair[1]), int(count)) for pair, count in counts.items()]  # type: ignore[index]


def card_of(line: Mapping[Any, Any], display: Display | None) -> dict[str, Any]:
    """What there is to see of a row whose label is suspect."""
    position = int(line["position"])
    card: dict[str, Any] = {
        "row": line["row"],
        "name": line["name"],
        "given": label_text(line, "given"),
        "suggested": label_text(line, "suggested"),
        "trust": line["trust"],
        "why": line["why"],
        "picture": None,
        "texts": [],
        "fields": [],
        "problem": "",
    }
    if display is None:
        return card
    try:
        if display.pictures:
            picture = base64.b64encode(display.png(position, PICTURE)).decode()
            card["picture"] = f"data:image/png;base64,{picture}"
    except HoldfastError as error:
        card["problem"] = str(error)
    card["texts"] = display.texts(position)
    card["fields"] = display.fields(position, 6)
    return card


def label_text(line: Mapping[Any, Any], which: str) -> str:
    """The label of a row of the table of issues as people read it; several targets in one line."""
    if which in line:
        label = line[which]
        text = f"{label:.5g}" if isinstance(label, float) else str(label)
        return f"{text} ({line['low']:.5g} to {line['high']:.5g})" if which == "suggested" and "low" in line else text
    values = [value for name, value in line.items() if name.startswith(f"{which}_")]
    return ", ".join(f"{value:.4g}" for value in values)
