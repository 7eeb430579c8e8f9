"""Holdfast trains neural networks on data whose labels are partly wrong, and finds the wrong labels.

Here is what most users type. Methods are in ``holdfast.methods``, stop rules in ``holdfast.stop``, what a method of
one's own is made of in ``holdfast.method`` and ``holdfast.types``. Everything is imported when it is first asked for.
"""

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:  # what type checkers and editors see; _HOMES says the same to Python, and a test compares them
    from holdfast import losses, methods, stop
    from holdfast.adapters.sklearn import RobustClassifier, RobustRegressor
    from holdfast.audit.check import check
    from holdfast.clean.clean import clean
    from holdfast.compare import compare
    from holdfast.data import Rows, read
    from holdfast.fit import fit
    from holdfast.issues import find_label_issues
    from holdfast.method import Method
    from holdfast.run import Run, load
    from holdfast.session import Session
    from holdfast.stack import Stack
    from holdfast.version import __version__

__all__ = [
    "HoldfastError",
    "Method",
    "RobustClassifier",
    "RobustRegressor",
    "Rows",
    "Run",
    "Session",
    "Stack",
    "__version__",
    "check",
    "clean",
    "compare",
    "find_label_issues",
    "fit",
    "load",
    "losses",
    "methods",
    "read",
    "stop",
]

_HOMES = {
    "Method": "method",
    "RobustClassifier": "adapters.sklearn",
    "RobustRegressor": "adapters.sklearn",
    "Rows": "data",
    "Run": "run",
    "Session": "session",
    "Stack": "stack",
    "__version__": "version",
    "check": "audit.check",
    "clean": "clean.clean",
    "compare": "compare",
    "find_label_issues": "issues",
    "fit": "fit",
    "load": "run",
    "read": "data",
}
_MOVED = {
    "Batch": "types",
    "Classification": "task",
    "Epoch": "types",
    "Feed": "feed",
    "Plan": "types",
    "Regression": "task",
    "Stage": "types",
    "Step": "types",
    "StopRule": "stop",
    "Task": "task",
    "Verdict": "types",
    "Weigh": "method",
    "check_method": "contract",
    "robust_mean": "functional",
}
_GONE_IN = "0.2"
"""The version without the names that have moved; methods and stop rules, which were here by their own names, are among
them."""


class _Package(ModuleType):
    """Importing the module ``holdfast.fit`` must not hide the function ``holdfast.fit``."""

    def __setattr__(self, name: str, value: Any) -> None:
        hides = name in _HOMES and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if hides else value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            found = getattr(import_module(f"holdfast.{_HOMES[name]}"), name)
            globals()[name] = found
            return found
        if not name.startswith("_"):
            if name in _MOVED:
                return _moved(name, _MOVED[name])
            if find_spec(f"holdfast.{name}") is not None:
                return import_module(f"holdfast.{name}")
            for room in ("methods", "stop"):
                if isinstance(getattr(import_module(f"holdfast.{room}"), name, None), type):
                    return _moved(name, room)
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def _moved(name: str, home: str) -> Any:
    warnings.warn(
        f"holdfast.{name} is now holdfast.{home}.{name}; the old name goes in version {_GONE_IN}",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(f"holdfast.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
