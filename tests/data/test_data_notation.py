"""Numbers and dates as people write them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data import columns
from holdfast.data.notation import notation_of, parsed
from holdfast.errors import HoldfastError


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["3,14", "2"], [3.14, 2]),
        (["12,345.67", "3"], [12345.67, 3]),
        (["1,200", "999"], [1200, 999]),
        (["0,123", "1,500"], [0.123, 1.5]),
        (["1.234,5", "-2.000,25"], [1234.5, -2000.25]),
        (["1\u202f234,5", "12"], [1234.5, 12]),
        (["1'234.5", "7"], [1234.5, 7]),
        (["12.3%", "4 %"], [12.3, 4]),
        (["$1,200.50", "-$3", "5 €"], [1200.5, -3, 5]),
        (["12", " ", "-"], [12, np.nan, np.nan]),
        (["1.5e3", ".5"], [1500, 0.5]),
    ],
)
def test_numbers(texts, numbers):
    values = pd.Series(texts)
    np.testing.assert_allclose(parsed(values, notation_of(values)), numbers)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["1970-01-02", "1969-12-31T12:00:00Z"], [1, -0.5]),
        (["31.12.1970", "01.02.1970"], [364, 31]),
        (["12/31/1970", "02/01/1970"], [364, 31]),
        (["31/12/1970", "01/02/1970"], [364, 31]),
        (["Dec 31, 1970", "Feb 1, 1970"], [364, 31]),
        (["31-Dec-1970", "01-Feb-1970"], [364, 31]),
        (["1970/02/01 06:00", "1970/02/02 18:00"], [31.25, 32.75]),
        (["1970-01-03", "0000-00-00"], [2, np.nan]),
    ],
)
def test_dates_are_days_since_1970(texts, days):
    values = pd.Series(texts)
    np.testing.assert_allclose(parsed(values, notation_of(values)), days)


@pytest.mark.parametrize(
    "texts",
    [
        ["01067", "10115"],  # codes
        ["1.2.3", "1.10.0"],
        ["10-20", "20-30"],
        ["12:30", "13:45"],
        ["2024-13-45", "2024-01-01"],
        ["3,14", "three"],
        ["1,2,3", "4,5,6"],
        ["red", "blue"],
        [" ", "-"],
    ],
)
def test_words_stay_words(texts):
    assert notation_of(pd.Series(texts)) is None


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.sampled_from([(",", "."), (".", ","), (" ", ",")]))
def test_what_is_written_is_read(cents, marks):
    thousands, decimal = marks
    texts = [f"{c / 100:,.2f}".replace(",", "_").replace(".", decimal).replace("_", thousands) for c in cents]
    values = pd.Series(texts)
    np.testing.assert_allclose(parsed(values, notation_of(values)), np.array(cents) / 100)


def test_further_rows_are_read_by_the_notation_of_the_training():
    train = pd.DataFrame({"a": ["1,5", "2,5", "4", None], "when": ["01.02.2020", "02.02.2020", "05.02.2020", "-"]})
    fitted, dropped = columns.fit(train)
    assert not dropped
    whole = columns.encode(train, fitted)
    # The month would come first if these rows were looked at alone, and whole numbers are no words.
    further = pd.DataFrame({"a": [4, 4], "when": ["05.02.2020", None]})
    block = columns.encode(further, fitted)
    assert block[0].tolist() == whole[2].tolist()
    assert block[1, 3] == 1
    with pytest.raises(HoldfastError, match=r"'a' held numbers in the training data but not in row 1 here"):
        columns.encode(pd.DataFrame({"a": ["1,5", "x"], "when": ["05.02.2020"] * 2}), fitted)
    with pytest.raises(HoldfastError, match="'when' held dates in the training data but not in row 0"):
        columns.encode(pd.DataFrame({"a": [1], "when": ["soon"]}), fitted)


def test_thousands_may_appear_after_the_training():
    fitted, _ = columns.fit(pd.DataFrame({"a": [100, 200, 900]}))
    plain = columns.encode(pd.DataFrame({"a": [1200.0, 900]}), fitted)
    assert (columns.encode(pd.DataFrame({"a": ["1,200", "900"]}), fitted) == plain).all()
