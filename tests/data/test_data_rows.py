from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from holdfast.data import Rows
from holdfast.data.labels import MOST_NUMERIC_CLASSES
from holdfast.data.rows import as_rows
from holdfast.errors import HoldfastError


def rows(n: int = 10) -> Rows:
    y = torch.arange(n) % 2
    return Rows(torch.arange(n).float()[:, None], y, ("a", "b"), tuple(f"r{i}" for i in range(n)), 1 - y)


def test_take_keeps_every_part_of_a_row_together() -> None:
    some = rows().take(torch.tensor([7, 2]))
    assert some.x.flatten().tolist() == [7, 2]
    assert some.y.tolist() == [1, 0]
    assert some.truth.tolist() == [0, 1]
    assert some.names == ("r7", "r2")


def test_split_is_a_partition_and_repeats_with_its_seed() -> None:
    rest, share = rows().split(0.3, seed=1)
    assert len(share) == 3
    assert sorted(rest.names + share.names) == sorted(rows().names)
    assert rows().split(0.3, seed=1)[1].names == share.names
    assert {rows().split(0.3, seed=s)[1].names for s in range(5)} != {share.names}


def test_parts_are_put_together_again() -> None:
    whole = replace(rows(), source_index=torch.arange(10), reviewed=torch.arange(10) == 4, source={"path": "here"})
    rest, share = whole.split(0.3, seed=1)
    both = rest.followed_by(share)
    order = torch.cat([rest.source_index, share.source_index])
    again = whole.take(order)
    for name in ("x", "y", "truth", "source_index", "reviewed"):
        assert torch.equal(getattr(both, name), getattr(again, name)), name
    assert (both.names, both.source) == (again.names, whole.source)
    assert rest.followed_by(replace(share, names=None, reviewed=None)).names is None
    lazy = replace(rest, x=TensorDataset(rest.x)).followed_by(replace(share, x=TensorDataset(share.x)))
    assert [float(lazy.x[k][0]) for k in range(10)] == both.x[:, 0].tolist()


def test_parts_of_one_source_are_told_from_other_rows() -> None:
    whole = replace(rows(), source_index=torch.arange(10), source={"path": "here"})
    rest, share = whole.split(0.3, seed=1)
    assert rest.parted_from(share)
    assert not rest.parted_from(replace(share, source={"path": "there"}))
    assert not rest.parted_from(replace(share, source_index=None))
    assert not rest.parted_from(whole)
    assert not rest.parted_from(whole.split(0.3, seed=2)[1])
    alone, apart = rows().split(0.3, seed=1)
    assert not alone.parted_from(apart)


@pytest.mark.parametrize("fraction", [0.0, 1.0, 0.01])
def test_split_refuses_shares_that_leave_nothing(fraction: float) -> None:
    with pytest.raises(HoldfastError, match="share"):
        rows().split(fraction, seed=0)


@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (torch.zeros(0, 1), torch.zeros(0).long(), ("a", "b"), "no rows"),
        (torch.zeros(3, 1), torch.zeros(2).long(), ("a", "b"), "3 inputs but 2 labels"),
        (torch.tensor([[0.0], [torch.nan]]), torch.zeros(2).long(), ("a", "b"), r"1 row \(1\) hold NaN"),
        (torch.zeros(2, 1), torch.tensor([0, 2]), ("a", "b"), r"1 row \(1\) have a label outside the 2"),
        (torch.zeros(2, 1), torch.zeros(2).long(), ("a",), r"only one class \(a\)"),
        (torch.zeros(2, 1), torch.zeros(2).long(), None, "must be floats"),
        (torch.zeros(2, 1), torch.tensor([[0.0], [torch.inf]]), None, "NaN or infinite target"),
    ],
)
def test_rows_refuse_what_cannot_be_trained_on(x, y, classes, message) -> None:
    with pytest.raises(HoldfastError, match=message):
        Rows(x, y, classes)


def test_truth_has_the_shape_of_the_labels() -> None:
    with pytest.raises(HoldfastError, match="true labels of shape"):
        Rows(torch.zeros(2, 1), torch.tensor([0, 1]), ("a", "b"), truth=torch.tensor([0]))


def pair(y) -> tuple[np.ndarray, object]:
    return np.zeros((len(y), 2), dtype=np.float32), y


@pytest.mark.parametrize(
    "y",
    [
        np.arange(401.0),
        np.arange(401, dtype=np.float32),
        torch.arange(401.0),
        [float(k) for k in range(401)],
        np.arange(MOST_NUMERIC_CLASSES + 1.0),
        np.array([0.0, 1.0, 2.5]),
    ],
)
def test_float_labels_with_fractions_or_many_values_are_targets(y) -> None:
    found = as_rows(pair(y))
    assert found.classes is None
    assert found.y.shape == (len(y), 1)
    assert found.y.dtype == torch.float32
    assert found.y[:, 0].tolist() == [float(value) for value in y]


def test_few_whole_floats_and_any_integers_name_classes() -> None:
    digits = as_rows(pair(np.arange(100) % 10 / 1.0))
    assert digits.classes == tuple(f"{k}.0" for k in range(10))
    assert digits.y.tolist() == [k % 10 for k in range(100)]
    assert len(as_rows(pair(np.arange(float(MOST_NUMERIC_CLASSES)))).classes) == MOST_NUMERIC_CLASSES
    assert len(as_rows(pair(np.arange(401))).classes) == 401
    assert as_rows(pair(torch.arange(401))).y.tolist() == list(range(401))


def test_the_training_rows_decide_for_the_test_rows() -> None:
    numbers = as_rows(pair(np.arange(401.0)))
    few = as_rows(pair(np.array([3.0, 1.0, 3.0])), like=numbers)
    assert few.classes is None
    assert few.y.tolist() == [[3.0], [1.0], [3.0]]
    assert as_rows(pair(np.array([3, 1])), like=numbers).y.tolist() == [[3.0], [1.0]]
    digits = as_rows(pair(np.arange(10.0)))
    assert as_rows(pair(np.array([9.0, 2.0])), like=digits).y.tolist() == [9, 2]
    for strange in (np.array([0.5, 1.0]), np.arange(401.0)):
        with pytest.raises(HoldfastError, match="have a label outside the 10 classes"):
            as_rows(pair(strange), like=digits)


@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_no_class_is_called_nan_or_infinity(gap: float) -> None:
    with pytest.raises(HoldfastError, match=r"1 row \(1\) have a NaN or infinite target"):
        as_rows(pair(np.array([0.0, gap, 1.0])))


def test_infinities_that_cancel_are_found_and_large_numbers_pass() -> None:
    x = torch.zeros(4, 2)
    x[1, 0], x[3, 1] = torch.inf, -torch.inf
    with pytest.raises(HoldfastError, match=r"2 rows \(1, 3\) hold NaN or infinite"):
        Rows(x, torch.arange(4) % 2, ("a", "b"))
    large = Rows(torch.full((4, 2), 3e38), torch.arange(4) % 2, ("a", "b"))  # whose sum is infinite
    assert len(large) == 4


def test_a_fingerprint_is_of_the_bytes_however_they_lie_in_memory() -> None:
    x = torch.arange(60_000.0).reshape(3, 20_000)  # longer than the pieces that are looked at one by one
    y = torch.tensor([0, 1, 0])
    expected = Rows(x, y, ("a", "b")).fingerprint
    assert Rows(x.t().contiguous().t(), y, ("a", "b")).fingerprint == expected
    for row, column in ((0, 0), (1, 9_000), (2, 19_999)):
        other = x.clone()
        other[row, column] += 0.5
        assert Rows(other, y, ("a", "b")).fingerprint != expected
    assert Rows(x, y.flip(0) * 0, ("a", "b")).fingerprint != expected


def test_labels_that_are_no_class_are_found_by_row() -> None:
    like = as_rows((torch.zeros(3, 1), np.array(["b", "a", "b"])))
    assert like.y.tolist() == [1, 0, 1]
    assert as_rows((torch.zeros(2, 1), np.array(["a", "b"], dtype=object)), like).y.tolist() == [0, 1]
    with pytest.raises(HoldfastError, match=r"1 row \(1\) have a label outside the 2 classes"):
        as_rows((torch.zeros(2, 1), np.array(["a", None], dtype=object)), like)
