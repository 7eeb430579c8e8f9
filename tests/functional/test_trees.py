"""Opinions of boosted trees about rows that they were not trained on."""

import torch

from holdfast.functional.trees import tree_opinions


def stripes(n=400):
    source = torch.Generator().manual_seed(0)
    x = torch.rand(n, 3, generator=source)
    return x, (x[:, 0] * 3).long(), torch.arange(n) % 4


def test_opinions_are_probabilities_and_right():
    x, y, fold = stripes()
    opinions = tree_opinions(x, y, fold, 3)
    torch.testing.assert_close(opinions.sum(1), torch.ones(400))
    assert (opinions.argmax(1) == y).float().mean() > 0.95


def test_the_labels_of_a_fold_have_no_say_in_it():
    x, y, fold = stripes()
    before = tree_opinions(x, y, fold, 3)
    after = tree_opinions(x, torch.where(fold == 2, 2 - y, y), fold, 3)
    assert torch.equal(before[fold == 2], after[fold == 2])
    assert not torch.equal(before[fold != 2], after[fold != 2])


def test_classes_that_a_fold_does_not_know():
    """A class of three rows, one that no row has, and a fold that leaves one class only."""
    x, y, fold = stripes()
    y = torch.zeros_like(y)
    y[:3] = 2
    opinions = tree_opinions(x, y, fold, 4)
    torch.testing.assert_close(opinions.sum(1), torch.ones(400))
    assert (opinions[:, [1, 3]] == 0).all()
    lone = tree_opinions(x, torch.where(fold == 0, 1, 0), fold, 2)
    assert (lone[fold == 0, 0] == 1).all()


def test_further_rows_are_asked_of_all_trees():
    x, y, fold = stripes()
    both = tree_opinions(x, y, fold, 3, x[:50])
    torch.testing.assert_close(both[:400], tree_opinions(x, y, fold, 3))
    assert both.shape == (450, 3)
    torch.testing.assert_close(both[400:].sum(1), torch.ones(50))
    one = tree_opinions(x, y, torch.where(fold == 1, 1, 0), 3, x[:50])
    assert not torch.equal(one[400:], both[400:])
