"""A folder of images: another folder in which each image lies under its class, and a list of what was moved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling
from holdfast.data.folders import labelled_files, training_root
from holdfast.errors import HoldfastError
from holdfast.spreadsheet import write_csv

LIST = "holdfast.csv"
"""What became of the images, in the new folder."""


def write(path: Path, out: Path, edit: Edit, follow_links: bool = False) -> None:
    """Lay out a folder of images after an edit: hard links to the same files, or copies on another file system.

    The list has a line for each image that was moved or dropped, and for every image where rows are marked.
    """
    root = training_root(path)
    files = labelled_files(root, path, follow_links)
    depth = len(root.relative_to(path).parts)
    cells = [label for _, label in files]
    spelling = Spelling(edit, cells, lambda name: name, _no_number)
    new, kept = spelling.new(), edit.kept(len(files)).tolist()
    taken = {name for name, _ in files}
    places: dict[str, str | None] = {}
    for row, (name, _) in enumerate(files):
        places[name] = (_moved(name, depth, new[row], taken) if row in new else name) if kept[row] else None
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path).as_posix()
        place = places.get(name, name)
        if place is not None:
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            _link(file, out / place)
    _write_list(out / LIST, places, edit, spelling)


def _moved(name: str, depth: int, other: str, taken: set[str]) -> str:
    """The place of an image under another class; where its name is taken there, it says where it came from.

    Parameters
    ----------
    depth: of the folder that is its class, from 0.
    """
    parts = list(Path(name).parts)
    label, parts[depth] = parts[depth], other
    place, count = Path(*parts), 0
    while place.as_posix() in taken:
        count += 1
        more = "" if count == 1 else f"_{count}"
        place = Path(*parts).with_stem(f"{Path(name).stem}_from_{label}{more}")
    taken.add(place.as_posix())
    return place.as_posix()


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:
        shutil.copy2(file, place)


def _write_list(path: Path, places: dict[str, str | None], edit: Edit, spelling: Spelling[str]) -> None:
    if path.exists():
        raise HoldfastError(f"the folder of images holds a {path.name} already; move it away")
    table: dict[str, list[Any]] = {"image": list(places), "now": ["" if to is None else to for to in places.values()]}
    table["what"] = [_what(name, to) for name, to in places.items()]
    if edit.marks:
        table |= {TRUST: edit.trusts(len(places)), SUGGESTED: spelling.suggested()}
    frame = pd.DataFrame(table)
    write_csv(frame if edit.marks else frame[frame["what"] != "kept"], path)


def _what(name: str, to: str | None) -> str:
    if to is None:
        return "dropped"
    return "kept" if name == to else "moved"


def _no_number(value: float) -> str:
    raise HoldfastError("a folder of images holds classes, not numbers")
