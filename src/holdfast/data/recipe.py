"""Recipes: how rows of a kind are read, as JSON values; what each must hold, since a run brings its own."""

# Annotations are read when this is imported: as texts, none would say that a key is not required.
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from holdfast.errors import HoldfastError
from holdfast.json_kinds import fits

LARGEST = 1 << 24
"""Numbers of one input: a photograph of 2,300 by 2,300 pixels."""


class Encoding(TypedDict):
    """Features of a pre-trained network, centred and scaled."""

    name: str
    size: NotRequired[int]
    mean: NotRequired[list[float]]
    scale: NotRequired[float]


class Column(TypedDict):
    """Any column of a table that is learned from."""

    name: str


class Number(Column):
    median: float
    mean: float
    scale: float
    gaps: bool
    written: NotRequired[dict[str, Any]]


class Category(Column):
    values: list[str]
    other: bool
    missing: bool


class Text(Column):
    words: list[str]
    idf: list[float]
    encoder: NotRequired[Encoding]


class Vector(Column):
    size: int
    mean: list[float]
    scale: float


class Table(TypedDict):
    label: str
    truth: str | None
    classes: list[str] | None
    labels: dict[str, Any]
    names: str | None
    columns: list[dict[str, Any]]
    dropped: dict[str, str]


class Picture(TypedDict):
    size: list[int]
    channels: int
    classes: list[str] | None
    encoder: NotRequired[Encoding]
    tuned: NotRequired[str]


class Array(TypedDict):
    shape: list[int]
    bytes: bool
    classes: list[str] | None


KINDS: dict[str, Any] = {"table": Table, "image": Picture, "array": Array}
COLUMNS: dict[str, Any] = {"number": Number, "category": Category, "text": Text, "vector": Vector}


def check_recipe(recipe: Mapping[str, Any]) -> None:
    """An error for a recipe that no reader has written; an empty one is that of rows in memory.

    >>> check_recipe({"kind": "array", "shape": [3], "bytes": False, "classes": ["a", "b"]})
    """
    if "kind" not in recipe:
        return
    kind = KINDS.get(recipe["kind"]) if isinstance(recipe["kind"], str) else None
    if kind is None or not fits(dict(recipe), kind):
        raise HoldfastError("does not say how its rows are read; train again")
    for column in recipe.get("columns", ()) if recipe["kind"] == "table" else ():
        known = COLUMNS.get(column["as"]) if isinstance(column.get("as"), str) else None
        same = len(column.get("words", ())) == len(column.get("idf", ())) if known is Text else True
        if known is None or not fits(column, known) or not same:
            raise HoldfastError(f"does not say how the column {str(column.get('name'))[:40]!r} is read; train again")
    sizes = {"image": [recipe.get("channels"), *recipe.get("size", ())], "array": recipe.get("shape", ())}
    total = 1
    for size in sizes.get(recipe["kind"], ()):
        total *= max(0, int(size))
    if not 1 <= total <= LARGEST:
        raise HoldfastError("has inputs of an impossible size; train again")
