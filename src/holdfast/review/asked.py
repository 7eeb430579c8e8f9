"""What a request asks for: every field checked before anything is done with it."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

from starlette.requests import Request

from holdfast.digits import number_in
from holdfast.errors import HoldfastError
from holdfast.review.links import checked_name
from holdfast.review.order import Order
from holdfast.review.queue import Filter, Queue
from holdfast.review.store import Label

MOST_ROWS = 200
"""Rows of one stroke."""
DIGITS = 12
"""Of the number of a row at most."""
Choice = TypeVar("Choice", Order, Queue)


async def body_of(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HoldfastError("the request is no JSON") from None
    if not isinstance(body, dict):
        raise HoldfastError("the request is no JSON object")
    return body


def reviewer_of(fields: dict[str, Any]) -> str:
    return checked_name(fields.get("reviewer"))


def filter_of(fields: Any) -> Filter:
    if not isinstance(fields, dict):
        raise HoldfastError("a filter is an object")
    try:
        low, high = float(fields.get("low", 0)), float(fields.get("high", 1))
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not 0 <= low <= high <= 1:
        raise HoldfastError("trust lies between 0 and 1, the lower bound first")
    queue = _choice(fields, "queue", Queue.open)
    if queue is Queue.open and str(fields.get("second", "")).lower() in ("true", "1"):
        queue = Queue.second
    order = _choice(fields, "order", Order.informative)
    return Filter(_class(fields, "given"), _class(fields, "suggested"), low, high, order, queue)


def _class(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name) or None
    if value is not None and not isinstance(value, str):
        raise HoldfastError("a class is named by its text")
    return value


def _choice(fields: dict[str, Any], name: str, usual: Choice) -> Choice:
    try:
        return type(usual)(fields.get(name) or usual)
    except ValueError:
        raise HoldfastError(f"{name} is one of {', '.join(type(usual))}") from None


def number_of(text: Any) -> int | None:
    """A number in a query or a path; None where there is none."""
    if text is None or text == "":
        return None
    number = number_in(text) if isinstance(text, str) else None
    if number is None or number >= 10**DIGITS:
        raise HoldfastError("a row, or a group, is named by its number")
    return number


def row_of(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 10**DIGITS:
        raise HoldfastError("a row is named by its number")
    return value


def rows_of(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) > MOST_ROWS:
        raise HoldfastError(f"rows are a list of at most {MOST_ROWS} numbers")
    return list(dict.fromkeys(row_of(row) for row in value))


def label_of(value: Any) -> Label | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value):
        try:
            return [float(v) for v in value]
        except OverflowError:
            raise HoldfastError("a label is too large a number") from None
    raise HoldfastError("a label is the name of a class or a list of numbers")
