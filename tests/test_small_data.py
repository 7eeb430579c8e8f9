"""The default where there is little to go by: few rows, many classes, a class of three rows, one rare class of two."""

import pytest
import torch
from sklearn.metrics import f1_score

from holdfast import Method, Rows, fit
from holdfast.noise import symmetric


def clusters(counts, sizes, apart, seed=0, rate=0.0):
    """Rows around a centre for each class, with wrong labels; classes of fewer than five rows keep theirs."""
    source = torch.Generator().manual_seed(seed)
    centres = apart * torch.randn(len(counts), sizes, generator=source)

    def drawn(numbers):
        truth = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(numbers))
        return centres[truth] + torch.randn(len(truth), sizes, generator=source), truth

    x, truth = drawn(counts)
    y = symmetric(truth, rate, len(counts), seed=seed + 1).labels
    rare = torch.tensor(counts)[truth] < 5
    names = tuple(f"class {k}" for k in range(len(counts)))
    # No wrong label names a rare class either: three right ones among fifty could not be told.
    y = torch.where(rare | (torch.tensor(counts)[y] < 5), truth, y)
    return Rows(x, y, names, truth=truth), Rows(*drawn([40] * len(counts)), names)


def trained(rows, test, method=None):
    plain = Rows(rows.x, rows.y, rows.classes)
    return fit(plain, method, test=test, device="cpu")


def recall(run, test, number):
    own = test.y == number
    return float((torch.as_tensor(run.probabilities(test.x[own])).argmax(1) == number).double().mean())


def test_a_thousand_rows_of_fifty_classes():
    rows, test = clusters([20] * 50, 20, 1.2, rate=0.1)
    run, ordinary = trained(rows, test), trained(rows, test, Method())
    table = run.issue_table()
    assert f1_score((rows.y != rows.truth).numpy(), table["flag"]) > 0.85
    assert abs(run.wrong_labels().rate - 0.1) < 0.05
    assert run.history["test"].iloc[-1] > ordinary.history["test"].iloc[-1] + 0.02


@pytest.mark.parametrize("rate", [0.0, 0.15])
def test_a_class_of_three_rows_is_not_taken_for_wrong_labels(rate):
    rows, test = clusters([300, 300, 3, 300], 10, 1.5, rate=rate)
    run = trained(rows, test)
    table = run.issue_table()
    three = (rows.y == 2).numpy()
    assert three.sum() == 3
    assert (table["trust"][three] == 1).all()
    assert not table["flag"][three].any()
    assert recall(run, test, 2) > 0.25
    if rate:
        assert f1_score((rows.y != rows.truth).numpy(), table["flag"]) > 0.9
    else:
        assert table["flag"].mean() < 0.02


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_class_of_one_row_in_twenty_is_not_lost(rate):
    rows, test = clusters([950, 50], 10, 0.7, rate=rate)
    run, ordinary = trained(rows, test), trained(rows, test, Method())
    table = run.issue_table()
    flag, given = table["flag"].to_numpy(), rows.y.numpy()
    if rate:
        assert f1_score((rows.y != rows.truth).numpy(), flag) > 0.85
    else:
        assert flag.mean() < 0.02
    right = (rows.y == 1) & (rows.truth == 1)
    assert flag[right.numpy()].mean() < 0.25  # of the rare class's right labels
    assert given[~flag].sum() > 0
    assert recall(run, test, 1) > recall(ordinary, test, 1) - 0.15


def test_sixty_rows():
    rows, test = clusters([20] * 3, 5, 1.5, rate=0.1)
    run = trained(rows, test)
    assert run.history["test"].iloc[-1] > 0.85
    assert run.issue_table()["flag"].mean() < 0.25
