"""Tables on the screen: at most 80 columns wide where the screen is, one line for each row."""

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from holdfast.cli.compare import table_of
from holdfast.cli.issues import _shown


def lines_of(table):
    screen = Console(width=80)
    with screen.capture() as caught:
        screen.print(table)
    return caught.get().splitlines()


@pytest.mark.parametrize("numbers", [False, True])
def test_issues(numbers):
    label = [1234.5678] * 3 if numbers else ["a class with quite a long name, and more"] * 3
    more = {"low": [1.0] * 3, "high": [2.0] * 3} if numbers else {}
    table = pd.DataFrame(
        {"row": range(3), "name": ["folder/a long name of a file that goes on.png"] * 3, "given": label,
         "suggested": label, **more, "trust": [0.012345] * 3, "flag": [True] * 3, "held_out": [False] * 3,
         "why": ["label selected in 10% of its batches; gradient large in 90% of the run"] * 3}
    )  # fmt: skip
    shown = lines_of(_shown(table, narrow=True))
    assert max(map(len, shown)) <= 80
    assert len(shown) == 3 + 4
    assert all("0.01235" in line for line in shown[3:6])
    assert "why" in lines_of(_shown(table, narrow=False))[1]


def test_a_comparison():
    columns = pd.MultiIndex.from_product([["last10", "best", "purity", "coverage", "seconds"], ["mean", "std"]])
    cells = np.array([[0.8156, 0.0063, 0.9499, 0.0105, 0.989, 0.004, 1, 0, 1234.5, 0.1]] * 2)
    summary = pd.DataFrame(cells, index=["standard", "second-opinion"], columns=columns)
    shown = lines_of(table_of(summary, percent=True, narrow=True))
    assert max(map(len, shown)) <= 80
    row = next(line for line in shown if "second-opinion" in line)
    assert "81.56 ± 0.63" in row
    assert "1234.5" in row
