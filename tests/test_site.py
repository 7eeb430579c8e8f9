"""What `make docs` will need: pages that are in the menu exist, the guides are in it, diagrams are as drawn."""

import runpy
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
MADE = {"reference", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
"""What site/stage.py puts beside the pages of docs/."""


def pages(nav):
    for entry in nav.values() if isinstance(nav, dict) else nav:
        if isinstance(entry, str):
            yield entry
        else:
            yield from pages(entry)


def test_the_menu_leads_to_pages():
    listed = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert len(set(listed)) == len(listed)
    for page in listed:
        assert page.split("/")[0] in MADE or (ROOT / "docs" / page).is_file(), page
    guides = {f"guides/{path.name}" for path in (ROOT / "docs" / "guides").glob("*.md")}
    assert guides | {"start.md", "compare.md", "which.md", "gallery.md"} <= set(listed)


def test_the_diagrams_are_those_that_their_script_draws():
    for draw in runpy.run_path(str(ROOT / "site" / "diagrams.py"))["ALL"]:
        path = ROOT / "docs" / f"{draw.__name__.replace('_', '-')}.svg"
        assert path.read_text() == str(draw()), f"make pictures draws {path.name} anew"
