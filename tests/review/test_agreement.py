"""Agreement beyond chance, and pace."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from holdfast.review.agreement import Pace, agreements, kappa
from holdfast.review.store import Answer, Decision, Decisions, Store


@pytest.mark.parametrize("seed", range(10))
def test_kappa_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    first = rng.choice(["cat", "dog", "owl"], 60, p=[0.6, 0.3, 0.1])
    second = np.where(rng.random(60) < rng.random(), first, rng.choice(["cat", "dog", "elk"], 60))
    found = kappa(zip(first.tolist(), second.tolist(), strict=True))
    assert found == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)


def test_kappa_says_nothing_where_chance_says_all():
    assert kappa([("cat", "cat")] * 5) is None
    assert kappa([]) is None


def test_pairs_of_reviewers(tmp_path):
    store = Store(tmp_path / "reviews.sqlite", "f")
    rng = np.random.default_rng(0)
    said = {name: rng.choice(["cat", "dog"], 20) for name in ("Ada", "Bob", "Cleo")}
    for row in range(20):
        for name in ("Ada", "Bob") if row % 2 else ("Bob", "Cleo", "Ada"):
            store.decide(row, name, Answer.other, str(said[name][row]))
    found = agreements(Decisions(store), range(20))
    assert [(line["first"], line["second"], line["rows"]) for line in found] == [
        ("Ada", "Bob", 20), ("Ada", "Cleo", 10), ("Bob", "Cleo", 10),
    ]  # fmt: skip
    assert found[0]["kappa"] == pytest.approx(cohen_kappa_score(said["Ada"], said["Bob"]))
    assert found[1]["kappa"] == pytest.approx(cohen_kappa_score(said["Ada"][::2], said["Cleo"][::2]))
    store.close()


def test_pace_does_not_count_pauses():
    pace = Pace()
    for k in range(30):
        pace.hear(Decision(k, k, "Ada", Answer.keep, "cat", 1000.0 + 3 * k))
    assert pace.per_minute("Ada") == pytest.approx(20, rel=0.05)
    for k in range(30, 60):
        pace.hear(Decision(k, k, "Ada", Answer.keep, "cat", 9000.0 + 3 * k))
    assert pace.per_minute("Ada") == pytest.approx(20, rel=0.05)
    assert pace.per_minute("Bob") is None
