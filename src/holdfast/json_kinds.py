"""Whether values of a JSON file are of the kind that annotations ask for: files are checked before they are used."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; tuples are lists in JSON, and a whole number is a number too.

    Parameters
    ----------
    kind: a class, None, Any, a union, ``dict[str, ...]``, ``list[...]``, ``tuple[..., ...]`` or a ``TypedDict``.

    >>> fits([1, 2], tuple[int, ...]), fits(["a"], list[int]), fits(3, float), fits(True, int)
    (True, False, True, False)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind is None or kind is NoneType:
        return value is None
    if origin in (UnionType, Union):
        return any(fits(value, each) for each in inner)
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        known = isinstance(value, dict) and kind.__required_keys__ <= value.keys()
        return known and all(fits(value[name], each) for name, each in hints.items() if name in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(each, inner[1]) for each in value.values())
    if origin in (tuple, list):
        return isinstance(value, list) and all(fits(each, inner[0]) for each in value)
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind
