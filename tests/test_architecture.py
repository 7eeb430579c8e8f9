"""The rooms of the package, and the one direction in which they may import each other."""

import ast
import re
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "architecture.md"
ROOMS = [
    "errors", "kept", "memory", "trusted", "own_code", "json_kinds", "digits", "types", "version", "ranks", "files",
    "spreadsheet", "progress", "configurable", "settings", "registry", "trackers", "launch", "executors",
    "functional", "nets", "select", "theory", "encoders", "data", "task", "noise", "noise_model", "augment", "feed",
    "usual", "method", "stack", "methods", "losses", "stop", "reviewed", "evidence", "forecast",
    "checkpoint", "ledger", "issues", "config", "run_records", "run_folder", "review.log", "review.store",
    "review.answers", "review.calibrate", "saved_networks", "run", "networks",
    "cluster", "engine", "training", "fit", "session", "contract", "rebuild", "contrastive",
    "plots", "compare", "report", "audit", "review", "clean", "exchange", "diagnosis",
    "adapters", "cli", "__main__",
]  # fmt: skip
"""Each imports only rooms before it. A module of a folder may be a room of its own that stands before the folder's."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return _room(".".join(path.relative_to(PACKAGE).with_suffix("").parts))


def _room(module: str) -> str:
    own = ".".join(module.split(".")[:2])
    return own if own in ROOMS else module.split(".")[0]


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a module imports, at its top, inside of functions, or for types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = {f"{node.module}.{name.name}" for name in node.names}
            found |= names if node.module == "holdfast" else {str(node.module)}
    return {_room(name.removeprefix("holdfast.")) for name in found if name.startswith("holdfast.")} | {
        "holdfast" for name in found if name == "holdfast"
    }


def test_every_room_is_in_the_order():
    assert {room_of(path) for path in MODULES} == {*ROOMS, "__init__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    if room == "__init__":
        return
    allowed = {*ROOMS[: ROOMS.index(room)], room}
    assert imported_rooms(path) <= allowed


def test_the_rule_would_notice_a_way_back(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from holdfast.fit import fit\n    import holdfast\n")
    assert imported_rooms(bad) == {"fit", "holdfast"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_readable(path):
    assert len(path.read_text().splitlines()) <= 400


def test_types_that_hide_a_cycle_are_gone():
    for path in MODULES:
        for block in re.findall(r"^if TYPE_CHECKING:\n((?:    .*\n)+)", path.read_text(), re.MULTILINE):
            # The command line imports late what a command works with; the order of rooms holds there all the same.
            late = path.name == "__init__.py" or path.parent.name == "cli"
            assert late or "from holdfast" not in block, path


def test_only_the_contract_steps_an_optimizer():
    steps = [path.name for path in MODULES if re.search(r"optimizer\.step\(", path.read_text())]
    # A mentor is a network of its own, taught in one go.
    assert sorted(steps) == ["mentor_net.py", "method.py"]


def test_the_page_names_every_room():
    text = PAGE.read_text()
    for room in ROOMS:
        named = f"`{room}/`" if (PACKAGE / room).is_dir() else f"`{room.replace('.', '/')}.py`"
        assert named in text, room
