"""Votes of neighbours, against loops."""

import math

import pytest
import torch

from holdfast.functional.neighbours import neighbour_votes


def votes_by_loops(x, y, classes, voters, k):
    everywhere = [float((y == c).float().mean()) for c in range(classes)]
    table = []
    for i in range(len(x)):
        cosines = []
        for j in voters:
            if j != i:
                dot = sum(float(a) * float(b) for a, b in zip(x[i], x[j], strict=True))
                length = math.sqrt(sum(float(a) ** 2 for a in x[i])) * math.sqrt(sum(float(b) ** 2 for b in x[j]))
                cosines.append((dot / length, int(y[j])))
        near = sorted(cosines, reverse=True)[:k]
        table.append([(sum(label == c for _, label in near) + everywhere[c]) / (k + 1) for c in range(classes)])
    return torch.tensor(table)


@pytest.mark.parametrize("some", [False, True])
def test_votes_are_those_of_plain_loops(some):
    source = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 5, generator=source), torch.randint(3, (60,), generator=source)
    voters = torch.arange(0, 60, 2) if some else torch.arange(60)
    torch.testing.assert_close(neighbour_votes(x, y, 3, voters, k=7), votes_by_loops(x, y, 3, voters.tolist(), 7))


def test_own_labels_have_no_vote():
    """Changing the label of one row changes nothing in its own line but the share of all rows."""
    source = torch.Generator().manual_seed(1)
    x, y = torch.randn(50, 4, generator=source), torch.zeros(50, dtype=torch.int64)
    other = y.clone()
    other[17] = 1
    before, after = neighbour_votes(x, y, 2, k=5)[17], neighbour_votes(x, other, 2, k=5)[17]
    torch.testing.assert_close(after, before + torch.tensor([-1.0, 1.0]) / 50 / 6)


def test_few_rows_and_empty_ones():
    """Fewer rows than neighbours, and rows of zeros, which are like nothing."""
    votes = neighbour_votes(torch.zeros(4, 3), torch.tensor([0, 1, 1, 0]), 2)
    torch.testing.assert_close(votes.sum(1), torch.ones(4))
    assert votes.isfinite().all()
