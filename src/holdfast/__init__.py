"""Holdfast trains neural networks on data whose labels are partly wrong, and finds the wrong labels."""

__version__ = "0.1.0"

from holdfast.check import check_method
from holdfast.compare import compare
from holdfast.data import Rows, read
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.fit import fit
from holdfast.functional.reduce import robust_mean
from holdfast.issues import find_label_issues
from holdfast.method import Batch, Epoch, Method, Plan, Stack, Stage, Step, Verdict, Weigh
from holdfast.methods import (
    AUM,
    D2L,
    ELR,
    GCE,
    INCV,
    LDMI,
    PRLG,
    PRLL,
    SCE,
    SPL,
    Backward,
    Bootstrap,
    ConfidentLearning,
    CoPRLL,
    CoTeaching,
    CoTeachingPlus,
    Crust,
    Decoupling,
    DivideMix,
    ELRPlus,
    Forward,
    Huber,
    IndividualClip,
    JoCoR,
    MentorNet,
    MinSGD,
    NormClip,
    SelfLabelRefinery,
    Sever,
    TRevision,
)
from holdfast.run import Run
from holdfast.stop import DistanceStop, NoisyValidationStop, TheoryStop, TrainAccuracyStop
from holdfast.task import Classification, Regression, Task

__all__ = [
    "AUM",
    "D2L",
    "ELR",
    "GCE",
    "INCV",
    "LDMI",
    "PRLG",
    "PRLL",
    "SCE",
    "SPL",
    "Backward",
    "Batch",
    "Bootstrap",
    "Classification",
    "CoPRLL",
    "CoTeaching",
    "CoTeachingPlus",
    "ConfidentLearning",
    "Crust",
    "Decoupling",
    "DistanceStop",
    "DivideMix",
    "ELRPlus",
    "Epoch",
    "Feed",
    "Forward",
    "HoldfastError",
    "Huber",
    "IndividualClip",
    "JoCoR",
    "MentorNet",
    "Method",
    "MinSGD",
    "NoisyValidationStop",
    "NormClip",
    "Plan",
    "Regression",
    "Rows",
    "Run",
    "SelfLabelRefinery",
    "Sever",
    "Stack",
    "Stage",
    "Step",
    "TRevision",
    "Task",
    "TheoryStop",
    "TrainAccuracyStop",
    "Verdict",
    "Weigh",
    "check_method",
    "compare",
    "find_label_issues",
    "fit",
    "read",
    "robust_mean",
]
