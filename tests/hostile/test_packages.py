"""The packages that Holdfast is tested with are those that are pinned, and what is packed is Holdfast alone."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    found = {}
    for line in (ROOT / "constraints.txt").read_text().split():
        match = PIN.fullmatch(line)
        assert match is not None, f"{line} is no pin"
        assert plain(match[1]) not in found, f"{line} is pinned twice"
        found[plain(match[1])] = match[2]
    return found


def installed() -> dict[str, str]:
    return {plain(each.metadata["Name"]): each.version for each in distributions()}


def test_what_is_installed_is_what_is_pinned():
    found, there = pins(), installed()
    other = {name: (there[name], pin) for name, pin in found.items() if name in there
             and Version(there[name]).public != Version(pin).public}  # fmt: skip
    assert not other, f"installed and pinned: {other}; make install"


def test_everything_that_is_needed_is_pinned_and_within_its_bounds():
    found = pins()
    extras = PROJECT["optional-dependencies"]["dev"]
    for requirement in map(Requirement, [*PROJECT["dependencies"], *extras]):
        pin = found.get(plain(requirement.name))
        assert pin is not None, f"{requirement.name} is not pinned in constraints.txt"
        assert requirement.specifier.contains(pin), f"{requirement} does not allow the pinned {pin}"


def test_every_dependency_has_a_lower_bound():
    for line in PROJECT["dependencies"]:
        assert any(each.operator == ">=" for each in Requirement(line).specifier), f"{line} has no lower bound"


def test_only_files_at_the_root_are_packed():
    """A pattern that is not anchored takes a LICENSE of any folder for ours."""
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"][
        "include"
    ]
    assert packed
    assert all(pattern.startswith("/") for pattern in packed)


def test_holdfast_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("holdfast ")
