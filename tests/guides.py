"""Runs the code of a page as its reader would, from top to bottom in an empty folder, and holds what is printed against
what the page shows.

Blocks of ``python`` share their names, like cells of a notebook; what they print stands in the ``text`` block that
follows. Blocks of ``console`` have commands after ``$`` and below each what it prints. Pictures that the code names are
those that it writes. Words must be the same; numbers may differ by a tenth or by three, since processors round
differently, and those in drawn tables and of seconds, a last column of them included, may be any.

    python tests/guides.py docs/guides/table.md           compare
    python tests/guides.py --write docs/guides/table.md   write outputs and pictures into the page
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt

NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e-?\d+)?")
SECONDS = re.compile(r"\d+(?:\.\d+)? s\b")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)/]+)\)")


class Block(NamedTuple):
    """A fence of a page, and the lines that it takes, its marks included."""

    language: str
    text: str
    first: int
    end: int


class Differs(Exception):
    """A page does not show what its code prints."""


def blocks(page: str) -> list[Block]:
    fences = [token for token in MarkdownIt().parse(page) if token.type == "fence"]
    return [Block(t.info.strip(), t.content, *t.map) for t in fences if t.map is not None]


def words(line: str) -> str:
    """A line without what may differ between machines."""
    line = NUMBER.sub("#", SECONDS.sub("# s", line))
    return re.sub(r"[─━┄═-]{3,}", "---", " ".join(line.split()))


def near(shown: str, printed: str) -> bool:
    a, b = (float(text.replace(",", "")) for text in (shown, printed))
    return abs(a - b) <= max(0.1 * abs(a), 3 if "." not in shown else 0.03)


def untimed(lines: Iterable[str]) -> list[str]:
    """Lines without the numbers below a heading that ends with seconds."""
    kept: list[str] = []
    timed = False
    for line in lines:
        kept.append(re.sub(r" [\d.]+ *$", "", line) if timed else line)
        timed = timed or line.rstrip().endswith(" seconds")
    return kept


def compare(shown: str, printed: str, where: str) -> None:
    ours, theirs = (untimed(line for line in text.split("\n") if line.strip()) for text in (shown, printed))
    for expected, found in zip(ours, theirs, strict=False):
        if words(expected) != words(found):
            raise Differs(f"{where} shows\n    {expected}\nand its code prints\n    {found}")
        pairs = zip(*(NUMBER.findall(SECONDS.sub("", line)) for line in (expected, found)), strict=True)
        if "│" not in expected and not all(near(a, b) for a, b in pairs):
            raise Differs(f"{where} shows other numbers than its code prints:\n    {expected}\n    {found}")
    if len(ours) != len(theirs):
        raise Differs(f"{where} shows {len(ours)} lines, and its code prints {len(theirs)}:\n{printed}")


def run_python(code: str, names: dict[str, Any], where: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, where, "exec"), names)
    return out.getvalue()


def run_command(command: str) -> str:
    ways = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": ways, "COLUMNS": "100"}
    done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise Differs(f"{command} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of a console, and what stands below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def trimmed(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.rstrip().split("\n")) if text.strip() else ""


def follow(page: Path, *, write: bool) -> None:
    """Run a page in the working folder."""
    text = page.read_text()
    lines, found = text.split("\n"), blocks(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    changes: list[tuple[int, int, str]] = []
    for at, block in enumerate(found):
        where = f"{page.name}:{block.first + 1}"
        if block.language == "python":
            printed = trimmed(run_python(block.text, names, where))
            after = found[at + 1] if at + 1 < len(found) else None
            beside = (
                after is not None and after.language == "text" and not "".join(lines[block.end : after.first]).strip()
            )
            if not write:
                compare(after.text if beside and after else "", printed, where)
            elif beside and after:
                changes.append((after.first, after.end, f"```text\n{printed}```"))
            elif printed:
                changes.append((block.end, block.end, f"\n```text\n{printed}```"))
        elif block.language == "console":
            whole = ""
            for command, shown in commands(block.text):
                printed = trimmed(run_command(command))
                whole += f"$ {command}\n{printed}"
                if not write:
                    compare(shown, printed, f"{where} ({command})")
            changes.append((block.first, block.end, f"```console\n{whole}```"))
    code = "".join(block.text for block in found)
    for name in [name for name in PICTURE.findall(text) if name in code]:
        if write:
            (page.parent / name).write_bytes(Path(name).read_bytes())
        elif not (page.parent / name).is_file():
            raise Differs(f"{name} is not beside {page.name}; run with --write")
    if write:
        for first, end, new in reversed(changes):
            lines[first:end] = new.split("\n")
        page.write_text("\n".join(lines))


def main(arguments: list[str]) -> None:
    write = "--write" in arguments
    for page in [Path(each).resolve() for each in arguments if each != "--write"]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            follow(page, write=write)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Differs as differs:
        sys.exit(str(differs))
