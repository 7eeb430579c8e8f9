"""What the package shows to the world, pinned so that it changes on purpose."""

import subprocess
import sys

import holdfast
from holdfast.methods import METHODS


def test_the_entries_at_the_root():
    assert holdfast.__all__ == [
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
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


def test_the_names_of_the_command_line_make_methods():
    assert list(METHODS) == [
        "standard",
        "crust",
        "crust-paper",
        "crust-authors",
        "prl-l",
        "prl-g",
        "co-prl-l",
        "spl",
        "co-teaching",
        "co-teaching-plus",
        "decoupling",
        "bootstrap",
        "min-sgd",
        "norm-clip",
        "individual-clip",
        "huber",
        "sever",
        "forward",
        "backward",
        "t-revision",
        "l-dmi",
        "incv",
        "aum",
        "confident-learning",
        "gce",
        "sce",
        "elr",
        "elr-plus",
        "jocor",
        "divide-mix",
        "mentor-net",
        "d2l",
        "self-label-refinery",
    ]
    assert all(isinstance(make(), holdfast.Method) for make in METHODS.values())


def test_the_core_imports_no_adapter_and_nothing_slow_that_it_may_not_need():
    slow = ("sklearn", "numba", "matplotlib", "lightning_fabric", "holdfast.adapters")
    script = f"import sys, holdfast.cli; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
