"""What the package shows to the world, pinned so that it changes on purpose, and what has moved."""

import ast
import importlib
import warnings
from pathlib import Path

import pytest

import holdfast
from holdfast.contrastive import CONTRASTIVE, Contrastive
from holdfast.methods import METHODS
from holdfast.methods.catalogue import catalogue, markdown

MOVED = {
    "Batch": "types",
    "Classification": "task",
    "Crust": "methods",
    "DistanceStop": "stop",
    "Epoch": "types",
    "Feed": "feed",
    "Plan": "types",
    "Regression": "task",
    "SecondOpinion": "methods",
    "Stage": "types",
    "Step": "types",
    "StopRule": "stop",
    "Task": "task",
    "Verdict": "types",
    "Weigh": "method",
    "check_method": "contract",
    "robust_mean": "functional",
}


def test_the_entries_at_the_root():
    assert holdfast.__all__ == [
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
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)
    assert set(holdfast.__all__) <= set(dir(holdfast))
    with pytest.raises(AttributeError, match="no attribute 'Crusty'"):
        _ = holdfast.Crusty


def test_type_checkers_see_what_python_finds():
    tree = ast.parse(Path(holdfast.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    rooms = [name for name, home in seen.items() if home == "holdfast"]
    assert rooms == ["losses", "methods", "stop"]
    assert {name: home for name, home in seen.items() if name not in rooms} == {
        name: f"holdfast.{home}" for name, home in holdfast._HOMES.items()
    }
    assert {*seen, "HoldfastError"} == set(holdfast.__all__)


def test_a_module_does_not_hide_the_function_of_its_name():
    for name in ("fit", "clean", "compare"):
        module = importlib.import_module(f"holdfast.{name}")
        assert getattr(holdfast, name) is getattr(module, name)
        assert callable(getattr(holdfast, name))


def test_a_run_is_opened_by_its_folder(blobs, tmp_path):
    run = holdfast.fit(blobs, holdfast.Method(), epochs=1, out=tmp_path, device="cpu")
    again = holdfast.load(tmp_path)
    assert (again.predict(blobs.x) == run.predict(blobs.x)).all()


@pytest.mark.parametrize(("name", "home"), MOVED.items())
def test_what_moved_is_found_with_a_warning(name, home):
    place = f"holdfast.{home}"
    with pytest.warns(DeprecationWarning, match=rf"^holdfast\.{name} is now {place}\.{name}; .* goes in version 0.2$"):
        found = getattr(holdfast, name)
    assert found is getattr(importlib.import_module(place), name)


def test_the_list_of_what_moved_is_whole():
    rooms = {"Crust", "SecondOpinion", "DistanceStop"}
    assert {name: home for name, home in MOVED.items() if name not in rooms} == holdfast._MOVED


def test_the_new_places_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in holdfast.__all__:
            getattr(holdfast, name)
        assert holdfast.noise is importlib.import_module("holdfast.noise")


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
