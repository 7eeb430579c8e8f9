"""What can be set about a part that people choose by name: names, types, defaults, a line on each."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from holdfast.configurable import init_parameters
from holdfast.errors import HoldfastError

GIVEN = ("seed", "classes")
"""Parameters of functions that a command knows by itself."""
WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a word", types.NoneType: "none"}

PYTHON = "a value of Python"
"""The kind of what cannot be written on a command line."""


class Setting(NamedTuple):
    """One parameter."""

    name: str
    kind: str
    """What it may be, in words."""
    default: Any
    about: str
    """One sentence; empty where nothing is said of it."""
    hint: Any


def settings_of(make: Callable[..., Any]) -> dict[str, Setting]:
    """What can be set about a class, or about a function beside its data, by name.

    >>> def planted(rows, rate: float, *, exact: bool = False, seed: int = 0): ...
    >>> [(each.name, each.kind, each.default) for each in settings_of(planted).values()]
    [('exact', 'true or false', False)]
    """
    if isinstance(make, partial):
        inner, fixed = settings_of(make.func), make.keywords
        return {name: each._replace(default=fixed.get(name, each.default)) for name, each in inner.items()}
    if isinstance(make, type):
        taken = init_parameters(make)
        hints = {name: _hints(init).get(name) for name, (init, _) in taken.items()}
        return _described([each for _, each in taken.values()], hints, make.__mro__)
    own = inspect.signature(make).parameters.values()
    named = [each for each in own if each.kind is each.KEYWORD_ONLY and each.name not in GIVEN]
    return _described(named, _hints(make), [make])


def checked_settings(what: str, make: Callable[..., Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings that a part has, of types that it takes; a sentence with what it has instead where not."""
    known = settings_of(make)
    given = {name: written(value, known[name].hint) if name in known else value for name, value in given.items()}
    for name, value in given.items():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            listed = f"it has {', '.join(known)}" if known else "it has none"
            raise HoldfastError(f"{what} has no setting {name!r} ({listed}){hint}")
        if not fits(value, known[name].hint):
            raise HoldfastError(f"{what}: {name} is {known[name].kind}, not {value!r}")
    return given


def written(value: Any, hint: Any) -> Any:
    """A part of a type that is asked for, where it is written as the call that makes it; else the value as it is.

    Only dataclasses of that type are made so, and only of literals: nothing that is written runs.
    """
    if not isinstance(value, str) or not value.endswith(")"):
        return value
    kinds = [each for each in (get_args(hint) or (hint,)) if isinstance(each, type) and is_dataclass(each)]
    named = {kind.__name__: kind for each in kinds for kind in each.__subclasses__() or [each]}
    try:
        call = ast.parse(value, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in named):
            return value
        more = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        make = partial(named[call.func.id], *map(ast.literal_eval, call.args), **more)
    except (SyntaxError, ValueError):
        return value
    try:
        return make()
    except TypeError:
        return value


def fits(value: Any, hint: Any) -> bool:
    """Whether a value written on a command line is of a type; types that cannot be written there fit anything.

    >>> fits(1, float), fits(True, int), fits("auto", float | Literal["auto"]), fits("half", float)
    (True, False, True, False)
    """
    if get_origin(hint) in (Union, types.UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in WORDS:
        return isinstance(value, hint)
    if _is_list(hint):
        return isinstance(value, (list, tuple))
    return not _is_function(hint)


def kind_of(hint: Any) -> str:
    """A type in words.

    >>> kind_of(int | None), kind_of(Literal["hard", "soft"]), kind_of(list[float])
    ('a whole number or none', 'hard or soft', 'a list')
    """
    if get_origin(hint) in (Union, types.UnionType):
        kinds = dict.fromkeys(map(kind_of, get_args(hint)))
        return " or ".join(kind for kind in kinds if kind != PYTHON) or PYTHON
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if _is_list(hint):
        return "a list"
    return WORDS.get(hint, PYTHON)


def _is_list(hint: Any) -> bool:
    origin = get_origin(hint)
    return hint in (list, tuple) or (isinstance(origin, type) and issubclass(origin, Sequence))


def _is_function(hint: Any) -> bool:
    """What can be given in Python alone."""
    return get_origin(hint) is Callable or hint is Callable or getattr(hint, "_is_protocol", False)


def _hints(make: Any) -> dict[str, Any]:
    try:
        return get_type_hints(make)
    except NameError:  # a name that is only imported for types
        return {}


def _described(
    parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any], documented: Sequence[Any]
) -> dict[str, Setting]:
    about: dict[str, str] = {}
    for each in documented:
        about = {**_parameter_lines(each.__doc__ or ""), **about}
    return {
        each.name: Setting(
            each.name, kind_of(hints.get(each.name)), each.default, about.get(each.name, ""), hints.get(each.name)
        )
        for each in parameters
    }


def _parameter_lines(docstring: str) -> dict[str, str]:
    """The first sentence on each entry under Parameters, by its names."""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n|\Z)", inspect.cleandoc(docstring), re.DOTALL)
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
        names, _, text = " ".join(entry.split()).partition(": ")
        sentence = re.split(r"(?<=[^.]\.) ", text, maxsplit=1)[0].rstrip(".")
        found |= {name.strip(): sentence for name in names.split(",") if not sentence.startswith("see ``")}
    return found
