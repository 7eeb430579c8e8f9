"""Holdfast trains neural networks on data whose labels are partly wrong, and finds the wrong labels."""

__version__ = "0.1.0"

from holdfast.check import check_method
from holdfast.compare import compare
from holdfast.data import Rows, read
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.fit import fit
from holdfast.functional.reduce import robust_mean
from holdfast.method import Batch, Method, Plan, Stack, Step, Weigh
from holdfast.methods import (
    D2L,
    ELR,
    GCE,
    PRLG,
    PRLL,
    SCE,
    SPL,
    Bootstrap,
    CoPRLL,
    CoTeaching,
    CoTeachingPlus,
    Crust,
    Decoupling,
    DivideMix,
    ELRPlus,
    Huber,
    IndividualClip,
    JoCoR,
    MentorNet,
    MinSGD,
    NormClip,
    Sever,
)
from holdfast.run import Run
from holdfast.task import Classification, Regression, Task

__all__ = [
    "D2L",
    "ELR",
    "GCE",
    "PRLG",
    "PRLL",
    "SCE",
    "SPL",
    "Batch",
    "Bootstrap",
    "Classification",
    "CoPRLL",
    "CoTeaching",
    "CoTeachingPlus",
    "Crust",
    "Decoupling",
    "DivideMix",
    "ELRPlus",
    "Feed",
    "HoldfastError",
    "Huber",
    "IndividualClip",
    "JoCoR",
    "MentorNet",
    "Method",
    "MinSGD",
    "NormClip",
    "Plan",
    "Regression",
    "Rows",
    "Run",
    "Sever",
    "Stack",
    "Step",
    "Task",
    "Weigh",
    "check_method",
    "compare",
    "fit",
    "read",
    "robust_mean",
]
