"""Holdfast trains neural networks on data whose labels are partly wrong, and finds the wrong labels."""

__version__ = "0.1.0"

from holdfast.check import check_method
from holdfast.compare import compare
from holdfast.data import Rows, read
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.fit import fit
from holdfast.method import Batch, Method, Plan, Stack, Step, Weigh
from holdfast.methods import Crust
from holdfast.run import Run
from holdfast.task import Classification, Regression, Task

__all__ = [
    "Batch",
    "Classification",
    "Crust",
    "Feed",
    "HoldfastError",
    "Method",
    "Plan",
    "Regression",
    "Rows",
    "Run",
    "Stack",
    "Step",
    "Task",
    "Weigh",
    "check_method",
    "compare",
    "fit",
    "read",
]
