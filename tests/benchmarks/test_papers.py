"""The page of the four papers: made from the results, and no line of it empty."""

import importlib
import re
import shlex
import sys
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from holdfast.contrastive import CONTRASTIVE, Contrastive
from holdfast.registry import lookup

ROOT = Path(__file__).parents[2]
PAPERS = ("crust", "prl", "early", "sane")


@pytest.fixture(scope="module")
def papers():
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return importlib.import_module("papers")


@pytest.fixture(scope="module")
def lines(papers):
    return lru_cache(papers.lines)


def test_the_page_is_what_its_script_makes(papers):
    assert papers.PAGE.read_text() == papers.page(), "run python benchmarks/papers.py"


@pytest.mark.parametrize("paper", PAPERS)
def test_no_line_is_empty_and_every_file_is_there(lines, paper):
    for line in lines(paper):
        assert all(cell.strip() for cell in line), line
        assert "nan" not in line.ours
        if line.file == "-":
            assert line.ours in ("out of scope", "too costly, says the paper", "a step of a proof", "a drawing"), line
            continue
        path, _, names = line.file.partition(": ")
        assert (ROOT / path).exists(), line
        text = (ROOT / path).read_text() if names else ""
        for name in filter(None, names.split(", ")):
            assert re.search(rf"\b(def|class) {name}\b", text), f"{path} has no {name}"
        for name in re.findall(r"(?:tests|benchmarks)/[\w/.]+", line.command):
            assert (ROOT / name.rstrip(".")).exists(), line


def test_what_is_said_of_imagenet_can_be_asked_for(papers):
    for words in papers.NAMES.values():
        name, *rest = shlex.split(words)
        settings = [value for key, value in pairwise(rest) if key == "--set"]
        assert isinstance(lookup("method", name, CONTRASTIVE, settings)(), Contrastive)
        assert {word for word in rest if word.startswith("--")} <= {"--set", "--lars", "--lr"}


def numbered(items, word):
    """The numbers that some lines name: '1, 2 and 4 to 6' are five."""
    found = set()
    for item in items:
        for part in re.findall(rf"\b{word}s? ((?:[\dA-C.]+(?:, | and | to )?)+)", item):
            for span in re.split(r", | and ", part.strip(" ,").removesuffix(" and")):
                first, _, last = span.partition(" to ")
                found |= {first} if not last else {str(n) for n in range(int(first), int(last) + 1)}
    return found


@pytest.mark.parametrize(
    ("paper", "word", "all_of"),
    [
        ("crust", "Table", "1 2 3"), ("crust", "Figure", "1"), ("crust", "Equation", range(1, 45)),
        ("crust", "Algorithm", "1"), ("crust", "Theorem", "4.1"), ("crust", "Corollary", "A.1 A.3"),
        ("crust", "Lemma", "A.2 A.4"), ("prl", "Table", range(1, 7)), ("prl", "Figure", "1 2 3"),
        ("prl", "Algorithm", range(1, 5)), ("prl", "Theorem", range(1, 5)), ("prl", "Lemma", "1 2 3"),
        ("prl", "Equation", range(1, 5)), ("prl", "Corollary", "1"), ("prl", "Assumption", range(1, 5)),
        ("early", "Figure", range(1, 7)), ("early", "Table", "1"),
        ("early", "Theorem", "2.2 2.3 2.4 3.2 3.3 6.7 6.8 6.12 6.13"), ("sane", "Table", range(1, 7)),
        ("sane", "Algorithm", "1"), ("sane", "Equation", range(1, 10)), ("sane", "Theorem", range(1, 9)),
    ],
)  # fmt: skip
def test_every_table_figure_and_statement_has_a_line(lines, paper, word, all_of):
    items = [line.item.replace("Equation 6.75", "") for line in lines(paper)]
    items = [item[0].upper() + item[1:] for item in items if item]
    items = [re.sub(r"\b([a-z])(?=(quation|heorem|able|igure|ssumption))", lambda m: m[1].upper(), i) for i in items]
    wanted = set(all_of.split()) if isinstance(all_of, str) else {str(n) for n in all_of}
    assert wanted <= numbered(items, word)


def test_figures_are_those_of_the_results(papers, tmp_path):
    row = {"part": "cifar", "noise": "derangement", "rate": 0.4}
    found = [row | {"method": "crust", "last10": 50.0}, row | {"method": "crust", "last10": 52.0}]
    pd.DataFrame(found).to_csv(tmp_path / "crust_table1.csv", index=False)
    line = next(line for line in papers.lines("crust", tmp_path) if line.item.endswith("derangement 40%, small"))
    assert line.ours == "CRUST 51.00 ± 1.41, default not run, ordinary not run"
    # Without results every figure says so, and none is empty.
    for paper in PAPERS:
        for line in papers.lines(paper, tmp_path / "nothing"):
            assert line.ours.strip()
            assert not re.search(r"\d\.\d\d\b", line.ours), line
