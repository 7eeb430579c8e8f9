import pytest
import torch

from holdfast.data import Rows
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
