"""``--config file.yaml``: the options of a command, in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.settings import IN_FILE
from holdfast.errors import HoldfastError

SUFFIXES = (".yaml", ".yml")


def take_options(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the options in a YAML file those of the command, unless they are given; any other file is returned."""
    if path is None or path.suffix.lower() not in SUFFIXES:
        return path
    names = {
        option.lstrip("-").replace("-", "_"): parameter
        for parameter in ctx.command.params
        for option in (parameter.opts if parameter.param_type_name == "option" else [str(parameter.name)])
    }
    found: dict[str, Any] = {}
    for key, value in _mapping(path).items():
        name = str(key).replace("-", "_")
        if name not in names or name in ("config", "help"):
            close = get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise HoldfastError(f"{path}: {ctx.info_name} has no option {str(key)!r}{hint}")
        if name == "set":
            ctx.meta[IN_FILE] = list(_settings(value, "", path))
        else:
            found[str(names[name].name)] = _value(value, key, path)
    ctx.default_map = {**(ctx.default_map or {}), **found}
    return None


OptionsFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="A YAML file with options, by their names.", show_default=False, is_eager=True,
        callback=take_options,
    ),
]  # fmt: skip
"""Of commands that take nothing else from a file."""


def check_yaml(path: Path | None) -> None:
    """A file that was no YAML file, where only such is taken."""
    if path is not None:
        raise HoldfastError(f"{path} must end in .yaml or .yml")


def _mapping(path: Path) -> Mapping[Any, Any]:
    import yaml  # slow to import, and only such files need it

    try:
        with path.open(encoding="utf-8") as file:
            found = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = "" if where is None else f" (line {where.line + 1})"
        raise HoldfastError(
            f"{path} is no YAML{line}: {getattr(error, 'problem', None) or 'it cannot be parsed'}"
        ) from None
    if not isinstance(found, Mapping):
        raise HoldfastError(f"{path} must hold options, one a line, such as epochs: 30")
    return found


def _settings(value: Any, prefix: str, path: Path) -> Iterator[str]:
    """``name=value`` of each setting; those of a stop rule or of a method stand under its name."""
    if isinstance(value, list):
        yield from map(str, value)
        return
    if not isinstance(value, Mapping):
        raise HoldfastError(f"{path}: set holds names and values, such as set: {{rate: 0.5}}, not {value!r}")
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _settings(inner, f"{prefix}{name}.", path)
        else:
            yield f"{prefix}{name}={inner if isinstance(inner, str) else repr(inner)}"


def _value(value: Any, key: Any, path: Path) -> Any:
    if isinstance(value, Mapping):
        raise HoldfastError(f"{path}: {key} takes one value, not {dict(value)!r}")
    return [str(each) for each in value] if isinstance(value, list) else value
