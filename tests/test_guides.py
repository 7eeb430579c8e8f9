"""Every guide runs from top to bottom and prints what its page shows."""

import os
import subprocess
import sys
from pathlib import Path

import guides
import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    DOCS / "start.md",
    pytest.param(DOCS / "compare.md", marks=pytest.mark.slow),
    *sorted((DOCS / "guides").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_prints_what_it_shows(page):
    done = subprocess.run(
        [sys.executable, "-W", "error", guides.__file__, str(page)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\nprint('two')\n```\n\n```text\ntwo\n```\n", None),
        ("```python\nprint('3 of 40')\n```\n\n```text\n4 of 41\n```\n", None),
        ("```python\nprint('two')\n```\n\n```text\nthree\n```\n", "its code prints"),
        ("```python\nprint('12 of 40')\n```\n\n```text\n36 of 40\n```\n", "other numbers"),
        ("```python\nprint('two')\n```\n", "shows 0 lines"),
        ("```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\ntoo many\n```\n", "shows 2 lines"),
        ("```console\n$ echo one\none\n$ echo two\nthree\n```\n", "echo two"),
        ("```console\n$ false\n```\n", "ends with 1"),
    ],
)
def test_a_page_that_shows_something_else_is_refused(page, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(page)
    if complaint is None:
        guides.follow(path, write=False)
        return
    with pytest.raises(guides.Differs, match=complaint):
        guides.follow(path, write=False)
    if complaint != "ends with 1":
        guides.follow(path, write=True)
        guides.follow(path, write=False)


def test_a_picture_that_is_not_beside_its_page_is_missed(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = tmp_path / "page.md"
    path.write_text("```python\nfrom pathlib import Path\nPath('a.png').write_bytes(b'1')\n```\n\n![a](a.png)\n")
    with pytest.raises(guides.Differs, match="not beside"):
        guides.follow(path, write=False)
    guides.follow(path, write=True)
    assert (tmp_path / "a.png").read_bytes() == b"1"
