"""One ordered column in place of one-hot ones."""

import pytest
import torch
import torch.nn.functional as F

from holdfast.functional.ordered import PRIOR, one_hot_columns, ordered
from holdfast.functional.trees import tree_opinions, trees_of_folds
from holdfast.nets.trees import as_tensors

EVERY = torch.ones(1200, dtype=torch.bool)


def table(n=1200):
    """Columns of six and four categories between numbers and a flag; the label hangs on every second of the six."""
    source = torch.Generator().manual_seed(0)
    first, second = (torch.randint(k, (n,), generator=source) for k in (6, 4))
    number, flag = torch.randn(n, 1, generator=source), (torch.rand(n, 1, generator=source) < 0.3).float()
    x = torch.cat([number, F.one_hot(first), F.one_hot(second), flag, number.abs()], 1).float()
    return x, first, (first % 2 + (torch.rand(n, generator=source) < 0.1)) % 2


def test_runs_of_one_hot_columns_are_found():
    x, _, _ = table()
    assert [run.tolist() for run in one_hot_columns(x)] == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10]]
    x[0, 1:7] = 0  # a row with none of them
    assert len(one_hot_columns(x)) == 2
    x[0, 1:3] = 1  # a row with two: the run ends between them, and what is left of it is too short
    assert [run.tolist() for run in one_hot_columns(x)] == [[2, 3, 4, 5, 6], [7, 8, 9, 10]]
    x[0, 8] = 0.5
    assert [run.tolist() for run in one_hot_columns(x)] == [[2, 3, 4, 5, 6]]


def test_categories_are_in_the_order_of_their_labels():
    x, category, y = table()
    columns = ordered(x, y, one_hot_columns(x), EVERY)
    usual = y.double().mean()
    shares = torch.stack([
        (y[category == k].double().sum() + PRIOR * usual) / ((category == k).sum() + PRIOR) for k in range(6)
    ])  # fmt: skip
    ranks = [1 + sum(int(other < share) for other in shares) for share in shares]
    assert columns.code[1:7].tolist() == ranks
    assert columns.place.tolist() == [0, *[1] * 6, *[2] * 4, 3, 4]
    seen = columns.of(x)
    assert torch.equal(seen[:, [0, 3, 4]], x[:, [0, 11, 12]])
    assert torch.equal(seen[:, 1], columns.code[1:7][category])


@pytest.mark.parametrize("numbers", [False, True])
def test_trees_of_few_leaves_part_the_categories_at_once(numbers):
    """Every second category: with a column for each, thresholds need three splits for what is one here."""
    x, category, y = table()
    noise = torch.randn(len(y), 2, generator=torch.Generator().manual_seed(1))
    given = 4 * torch.stack([y, -y], 1) + noise if numbers else y
    fold = torch.arange(len(x)) % 2
    for number, trained in enumerate(trees_of_folds(x, given, fold, 2)):
        assert trained.columns is not None
        root = trained.library.grown(trained.models[0]).rounds[0][0][0]
        assert root["feature_idx"] == 1
        left = [k for k in range(6) if trained.columns.code[1 + k] <= root["num_threshold"]]
        assert left == ([1, 3, 5] if numbers else [0, 2, 4])
        found = as_tensors(trained)(x)
        expected = trained.expected(x.numpy())
        torch.testing.assert_close(found if numbers else found.softmax(1), expected, atol=1e-5, rtol=1e-5)
        own = fold == number
        right = (expected[own, 0] > 2) if numbers else expected[own].argmax(1).bool()
        assert (right == (category[own] % 2).bool()).float().mean() > 0.99


def test_labels_of_a_fold_do_not_put_its_categories_in_order():
    x, _, y = table()
    fold = torch.arange(len(x)) % 4
    before, after = (tree_opinions(x, given, fold, 2) for given in (y, torch.where(fold == 2, 1 - y, y)))
    assert torch.equal(before[fold == 2], after[fold == 2])
    assert not torch.equal(before[fold != 2], after[fold != 2])


def test_gaps_stay_in_their_own_column():
    x, _, y = table()
    x[::3, 0] = torch.nan
    trained = trees_of_folds(x, y, torch.arange(len(x)) % 2, 2)[0]
    assert trained.columns is not None
    seen = trained.columns.of(x)
    assert seen[::3, 0].isnan().all()
    assert not seen[:, 1:].isnan().any()
    torch.testing.assert_close(as_tensors(trained)(x).softmax(1), trained.expected(x.numpy()), atol=1e-5, rtol=0)


def test_a_wrong_target_however_large_does_not_change_the_order():
    x, category, y = table()
    targets = (category.double() + 0.1 * y)[:, None].float()
    runs = one_hot_columns(x)
    code = ordered(x, targets, runs, EVERY).code
    targets[0] = 1e9
    assert torch.equal(ordered(x, targets, runs, EVERY).code[1:7], code[1:7])
    assert code[1:7].tolist() == [1, 2, 3, 4, 5, 6]
