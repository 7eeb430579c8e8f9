"""Parts of training that can say how they were made: methods and stop rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from holdfast.errors import HoldfastError


class Configurable(nn.Module):
    """A module whose ``__init__`` stores each parameter under its own name.

    It is a module so that its buffers and parameters are moved and saved without further words.
    """

    def settings(self) -> dict[str, Any]:
        """Every parameter of the call that makes this object, by name."""
        missing = [name for name in init_parameters(type(self)) if not hasattr(self, name)]
        if missing:
            raise HoldfastError(
                f"{type(self).__name__} takes {missing[0]!r} and keeps it under another name; "
                f"__init__ must store it as self.{missing[0]}"
            )
        return {name: getattr(self, name) for name in init_parameters(type(self))}

    def __repr__(self) -> str:
        """The call that makes this object: parameters that differ from their defaults."""
        shown = [
            f"{name}={getattr(self, name, '?')!r}"
            for name, (_, parameter) in init_parameters(type(self)).items()
            if _differ(getattr(self, name, "?"), parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def init_parameters(cls: type) -> dict[str, tuple[Callable[..., None], inspect.Parameter]]:
    """What ``__init__`` takes by name, and which one does: one that passes ``**more`` on takes what its base takes."""
    found: dict[str, tuple[Callable[..., None], inspect.Parameter]] = {}
    for owner in cls.__mro__:
        if "__init__" not in owner.__dict__:
            continue
        passes_on = False
        init = owner.__dict__["__init__"]
        for parameter in list(inspect.signature(init).parameters.values())[1:]:
            if parameter.kind is parameter.VAR_KEYWORD:
                passes_on = True
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                found.setdefault(parameter.name, (init, parameter))
        if not passes_on:
            break
    return found


def _differ(value: Any, default: Any) -> bool:
    try:
        return bool(value != default)
    except (RuntimeError, ValueError):  # arrays and tensors compare element by element
        return True
