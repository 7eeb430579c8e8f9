"""Code of the user's own, named ``module.path:Name``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from holdfast.errors import HoldfastError


def own_code(spec: str, what: str) -> Callable[..., Any]:
    """The function or class that a name stands for; ``what`` is what the user would call it.

    Modules of the working directory are found too. Naming code runs it.

    >>> own_code("math:hypot", "a function")(3, 4)
    5.0
    """
    path, _, name = spec.partition(":")
    if not path or not name:
        raise HoldfastError(f"{what} of your own is written module.path:Name, not {spec!r}")
    # At the end, so that no file beside the user's data hides an installed package.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = import_module(path)
    except ImportError as error:
        raise HoldfastError(f"cannot import {path}, which {spec} names: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        lacks = "is not a function or a class" if hasattr(module, name) else "does not exist"
        raise HoldfastError(f"{name} {lacks} in {getattr(module, '__file__', path)}, which {spec} names")
    return found  # type: ignore[no-any-return]
