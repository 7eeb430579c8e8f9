"""What is asked first, and how many wrong labels are said to remain."""

import numpy as np
import torch

from holdfast.review.order import crowding, remaining, telling


def test_crowded_rows_come_before_lonely_ones():
    source = torch.Generator().manual_seed(0)
    crowd = torch.randn(200, 8, generator=source) * 0.1 + torch.ones(8)
    lonely = torch.randn(20, 8, generator=source)
    points = torch.nn.functional.normalize(torch.cat([crowd, lonely]), dim=1)
    place = crowding(points, np.arange(220))
    assert place[:200].min() > place[200:].max() - 0.05
    assert 0 <= place.min() <= place.max() <= 1


def test_doubt_comes_first():
    trust = np.array([0.01, 0.5, 0.99, 0.3])
    assert np.argsort(-telling(trust, np.zeros(4))).tolist()[:2] == [1, 3]


def planted(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    trust = rng.beta(0.4, 0.4, n)
    return rng, trust, rng.random(n) > trust


def test_the_estimate_holds_the_truth_whatever_is_reviewed():
    covered = 0
    for seed in range(20):
        rng, trust, wrong = planted(seed=seed)
        reviewed = rng.random(len(trust)) < rng.choice([0, 0.05, 0.5])
        found = remaining(trust, reviewed, wrong & reviewed)
        covered += found.low <= wrong[~reviewed].sum() <= found.high
    assert covered >= 18


def test_reviews_correct_a_run_that_is_mistaken():
    rng, trust, wrong = planted()
    mistaken = np.clip(trust * 1.5, 0, 1)
    none = np.zeros(len(trust), dtype=bool)
    reviewed = rng.random(len(trust)) < 0.4
    true = wrong[~reviewed].sum()
    before = remaining(mistaken, none, none).estimate * (~reviewed).mean()
    after = remaining(mistaken, reviewed, wrong & reviewed)
    assert abs(after.estimate - true) < 0.5 * abs(before - true)


def test_nothing_remains_when_all_is_reviewed():
    _, trust, wrong = planted()
    assert tuple(remaining(trust, np.ones(len(trust), dtype=bool), wrong)) == (0, 0, 0)
