"""What the package shows to the world, pinned so that it changes on purpose."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.contrastive import CONTRASTIVE, Contrastive
from holdfast.methods import METHODS
from holdfast.methods.catalogue import catalogue, markdown


def test_the_entries_at_the_root():
    assert holdfast.__all__ == [
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
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)
    assert holdfast.Crust is holdfast.methods.Crust
    assert holdfast.DistanceStop is holdfast.stop.DistanceStop
    with pytest.raises(AttributeError, match="no attribute 'Crusty'"):
        _ = holdfast.Crusty


@pytest.mark.parametrize(("module", "base"), [("methods", holdfast.Method), ("contrastive", Contrastive)])
def test_every_file_of_a_method_is_registered(module, base):
    """A class with a name of its own in any file of the folder is found on the command line."""
    folder = Path(holdfast.__file__).parent / module
    named = set()
    for path in folder.glob("*.py"):
        found = vars(importlib.import_module(f"holdfast.{module}.{path.stem}"))
        named |= {
            item
            for item in found.values()
            if isinstance(item, type)
            and issubclass(item, base)
            and "name" in vars(item)
            and item is not holdfast.Method
        }
    registered = {item for item in (METHODS if module == "methods" else CONTRASTIVE).values() if isinstance(item, type)}
    assert named == registered - {holdfast.Method}
    assert all(isinstance(make(), base) for make in registered)


def test_the_page_of_methods_is_made_from_the_classes():
    page = Path(__file__).parents[1] / "docs" / "methods.md"
    assert markdown() in page.read_text(), "holdfast methods --markdown makes the table of docs/methods.md"
    assert len(catalogue()) == len(METHODS)


def test_the_core_imports_no_adapter_and_nothing_slow_that_it_may_not_need():
    slow = ("sklearn", "numba", "matplotlib", "lightning_fabric", "holdfast.adapters", "holdfast.session")
    script = f"import sys, holdfast.cli; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
