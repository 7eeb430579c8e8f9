"""Holdfast trains neural networks on data whose labels are partly wrong, and finds the wrong labels.

Methods are in ``holdfast.methods`` and stop rules in ``holdfast.stop``; both can be had from here by name as well.
"""

from typing import TYPE_CHECKING, Any

from holdfast import losses, methods, stop
from holdfast.audit import check
from holdfast.clean import clean
from holdfast.compare import compare
from holdfast.contract import check_method
from holdfast.data import Rows, read
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.fit import fit
from holdfast.functional.reduce import robust_mean
from holdfast.issues import find_label_issues
from holdfast.method import Method, Weigh
from holdfast.run import Run
from holdfast.stack import Stack
from holdfast.stop import StopRule
from holdfast.task import Classification, Regression, Task
from holdfast.types import Batch, Epoch, Plan, Stage, Step, Verdict
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.session import Session

__all__ = [
    "Batch",
    "Classification",
    "Epoch",
    "Feed",
    "HoldfastError",
    "Method",
    "Plan",
    "Regression",
    "Rows",
    "Run",
    "Session",
    "Stack",
    "Stage",
    "Step",
    "StopRule",
    "Task",
    "Verdict",
    "Weigh",
    "__version__",
    "check",
    "check_method",
    "clean",
    "compare",
    "find_label_issues",
    "fit",
    "losses",
    "methods",
    "read",
    "robust_mean",
    "stop",
]


def __getattr__(name: str) -> Any:
    """Methods and stop rules by their own names (``holdfast.Crust``), and what not every user needs."""
    if name == "Session":
        from holdfast.session import Session

        return Session
    for room in (methods, stop):
        found = getattr(room, name, None)
        if isinstance(found, type):
            return found
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
