"""The sources of the site: docs/ as it is, the changelog beside it, and a reference made from the docstrings.

Pages link to files of the whole repository, which a forge shows and a site does not have. Whatever a page links to is
put beside the pages here, and the link is changed; a link to nothing stays as it is, and the build refuses it.

    python site/stage.py FOLDER
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

import holdfast
from holdfast import contract, losses, method, methods, select, stop, task, types
from holdfast.adapters import hugging_face, lightning

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages outside of docs/ that the site has too."""
LINK = re.compile(r"(\]\(|src=\"|href=\")(?!https?:|mailto:|#)([^)#\"\s]+)")
WIDE = ("papers.md",)
"""Pages of wide tables: they get the room of the menus beside them."""
FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def place(path: Path) -> Path:
    """Where a file of the repository stands on the site."""
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT)


def linked(page: Path, text: str, stage: Path) -> str:
    """The text of a page with links that hold on the site; what they lead to outside of docs/ joins the site."""

    def moved(found: re.Match[str]) -> str:
        target = (page.parent / found[2]).resolve()
        if not target.is_relative_to(ROOT) or not target.is_file():
            return found[0]
        at = place(target)
        if not target.is_relative_to(DOCS) and target.name not in PAGES:
            (stage / at).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, stage / at)
        return found[1] + os.path.relpath(at, place(page).parent)

    parts, done = [], 0
    for fence in FENCE.finditer(text):  # code is shown as it is
        parts += [LINK.sub(moved, text[done : fence.start()]), fence[0]]
        done = fence.end()
    return "".join([*parts, LINK.sub(moved, text[done:])])


def entry(item: Any, name: str) -> str:
    """One class or function, under the name that users import it by."""
    return f"::: {item.__module__}.{item.__qualname__}\n    options: {{heading: {name}, toc_label: {name}}}\n"


def public(room: ModuleType, kind: type = object) -> dict[str, Any]:
    """The classes and functions that a room shows, by their whole names."""
    names = getattr(room, "__all__", [name for name in vars(room) if not name.startswith("_")])
    found = {f"{room.__name__}.{name}": getattr(room, name) for name in names}
    here = {
        name: item for name, item in found.items() if str(getattr(item, "__module__", "")).startswith(room.__name__)
    }
    classes = {name: item for name, item in here.items() if isinstance(item, type) and issubclass(item, kind)}
    return classes if kind is not object else classes | {n: item for n, item in here.items() if isfunction(item)}


def reference(stage: Path) -> None:
    """A page for what stands at the root, for each room that users reach into, and for the command line."""
    pages = {
        "holdfast": ("What `import holdfast` has", public(holdfast)),
        "methods": ("Methods", public(methods, holdfast.Method)),
        "stop": ("Stop rules", public(stop, stop.StopRule)),
        "losses": ("Losses", public(losses, losses.Criterion)),
        "select": ("Selection", public(select)),
        "adapters": ("Lightning and Hugging Face", public(lightning, lightning.Callback) | public(hugging_face)),
        "own": ("For a method of your own", public(types) | public(method) | public(contract) | public(task)),
    }
    (stage / "reference").mkdir()
    for name, (title, items) in pages.items():
        text = "\n".join(entry(item, shown) for shown, item in items.items())
        (stage / "reference" / f"{name}.md").write_text(f"# {title}\n\n{text}")
    command = [sys.executable, "-m", "typer", "holdfast.cli", "utils", "docs", "--name", "holdfast"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    text = re.sub(r"</?span[^>]*>", "`", shown.stdout.replace("# `holdfast`", "# Command line", 1))
    (stage / "reference" / "command-line.md").write_text(text)


def main(stage: Path) -> None:
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(DOCS, stage)
    for page in [*DOCS.rglob("*.md"), *(ROOT / name for name in PAGES)]:
        head = "---\nhide: [navigation, toc]\n---\n\n" if page.name in WIDE else ""
        (stage / place(page)).write_text(head + linked(page, page.read_text(), stage))
    reference(stage)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
