"""Trust: the mathematics against loops, and whether it means what it says on real digits with planted noise."""

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_predict

from holdfast import HoldfastError, find_label_issues
from holdfast.functional import target_trust as of_targets
from holdfast.functional.label_trust import ASSUMED, FEWEST, bayes, fit_transition, trust_at, trust_in
from holdfast.issues import label_trust, noise_of, target_trust
from holdfast.noise import realised_transition, symmetric


def simulated(n, classes=4, seed=0):
    """Evidence that is right as often as it says, labels drawn from it by a known matrix."""
    rng = np.random.default_rng(seed)
    evidence = rng.dirichlet(np.full(classes, 0.25), n)
    truth = (evidence.cumsum(1) > rng.random((n, 1))).argmax(1)
    matrix = (
        np.full((classes, classes), 0.02) + np.diag([0.8, 0.8, 0.6, 0.7]) + 0.25 * np.roll(np.eye(classes), 1, axis=1)
    )
    matrix /= matrix.sum(1, keepdims=True)
    given = (matrix[truth].cumsum(1) > rng.random((n, 1))).argmax(1)
    return torch.from_numpy(evidence), torch.from_numpy(given), truth, matrix


def trust_off(right, y, truth):
    """How far trust lies from the share of right labels, in ten bins."""
    right, correct = right.numpy(), y.numpy() == truth
    place = np.minimum((right * 10).astype(int), 9)
    apart = [abs(right[place == k].mean() - correct[place == k].mean()) * (place == k).mean() for k in np.unique(place)]
    return sum(apart)


@pytest.fixture(scope="module")
def digits():
    x, truth = load_digits(return_X_y=True)
    given = symmetric(torch.from_numpy(truth), 0.25, 10, seed=1).labels.numpy()
    model = LogisticRegression(max_iter=300, C=0.02)
    return given, truth, cross_val_predict(model, x / 16, given, cv=5, method="predict_proba")


def test_one_round_of_the_matrix_equals_loops():
    evidence, y, _, _ = simulated(50)
    start = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(4), 4))
    weight = torch.arange(50).double() % 3
    counts = np.full((4, 4), 0.1) + np.eye(4)
    for i in range(50):
        joint = [float(evidence[i, c] * start[c, y[i]]) for c in range(4)]
        for c in range(4):
            counts[c, y[i]] += float(weight[i]) * joint[c] / sum(joint)
    found = fit_transition(evidence, y, start, weight, rounds=1)
    np.testing.assert_allclose(found.numpy(), counts / counts.sum(1, keepdims=True))
    torch.testing.assert_close(bayes(evidence, y, start).sum(1), torch.ones(50, dtype=torch.float64))


def test_the_matrix_is_found_where_the_evidence_is_right():
    evidence, y, _, matrix = simulated(20_000)
    assert np.abs(fit_transition(evidence, y, rounds=200).numpy() - matrix).max() < 0.03


def test_trust_is_the_mean_over_how_sharp_evidence_may_be():
    evidence, y, _, _ = simulated(500)
    found = trust_in(evidence, y)
    parts = [trust_at(evidence**power / (evidence**power).sum(1, keepdim=True), y) for power in ASSUMED]
    torch.testing.assert_close(found.posterior, sum(part.posterior for part in parts) / len(parts))
    torch.testing.assert_close(found.transition.sum(1), torch.ones(4, dtype=torch.float64))


def test_trust_is_less_wrong_where_evidence_is_too_sharp_or_too_blunt():
    """The worst of both is what the mean over them guards against."""
    evidence, y, truth, _ = simulated(10_000)
    alone, mean = [], []
    for power in (0.5, 2.0):
        other = evidence**power / (evidence**power).sum(1, keepdim=True)
        alone.append(trust_off(trust_at(other, y).right(y), y, truth))
        mean.append(trust_off(trust_in(other, y).right(y), y, truth))
    assert max(mean) < max(alone) - 0.005


def test_a_label_of_fewer_than_five_rows_is_taken_as_right():
    evidence, y, _, _ = simulated(300)
    evidence = torch.cat([evidence, torch.zeros(300, 1).double()], 1)
    y[: FEWEST - 1] = 4
    found = trust_in(evidence, y)
    assert (found.right(y)[: FEWEST - 1] == 1).all()
    y[FEWEST - 1] = 4
    assert (trust_in(evidence, y).right(y)[:FEWEST] < 1).all()


def test_labels_of_real_digits(digits):
    given, truth, probs = digits
    table = find_label_issues(given, probs)
    assert table["trust"].is_monotonic_increasing
    table = table.sort_values("row")
    wrong = given != truth
    assert f1_score(wrong, table["flag"]) > 0.9
    flagged = table["flag"].to_numpy()
    assert (table["suggested"].astype(int).to_numpy() == truth)[flagged & wrong].mean() > 0.85
    assert (table["suggested"] == table["given"])[~flagged].all()
    assert (table["why"] != "").to_numpy()[flagged].all()
    place = np.minimum((table["trust"].to_numpy() * 5).astype(int), 4)
    gaps = [abs(table["trust"].to_numpy()[place == k].mean() - (~wrong)[place == k].mean()) for k in np.unique(place)]
    assert np.average(gaps, weights=np.bincount(place)[np.unique(place)]) < 0.05


def test_noise_of_real_digits(digits):
    given, truth, probs = digits
    y = torch.from_numpy(given)
    found = noise_of(label_trust(torch.from_numpy(probs), y), y, [str(k) for k in range(10)])
    rate, low, high = found.rate
    assert low < rate < high
    assert abs(rate - (given != truth).mean()) < 0.03
    assert found.classes["labels"].sum() == len(given)
    assert ((found.classes["low"] <= found.classes["wrong"]) & (found.classes["wrong"] <= found.classes["high"])).all()
    torch.testing.assert_close(found.transition.sum(1), torch.ones(10, dtype=torch.float64))
    realised = realised_transition(torch.from_numpy(truth), y, 10)
    assert ((found.low <= realised) & (realised <= found.high)).double().mean() > 0.9


def test_intervals_hold_the_truth_also_where_evidence_is_too_sharp_or_too_blunt():
    """Nine times in ten, and no wider than they must be."""
    covered, alone, widths = 0, 0, []
    for seed in range(10):
        for power in (0.6, 1.0, 1.6):
            evidence, y, truth, _ = simulated(3_000, seed=seed)
            other = (evidence.log() * power).softmax(1)
            rate, low, high = noise_of(trust_in(other, y), y, list("abcd")).rate
            wrong = (y.numpy() != truth).mean()
            covered += low <= wrong <= high
            alone += abs(rate - wrong) < 1.96 * np.sqrt(wrong * (1 - wrong) / len(y))
            widths.append(high - low)
    assert covered >= 27
    assert alone < 25
    assert np.mean(widths) < 0.2


def test_intervals_shrink_with_the_rows():
    widths = {}
    for n in (300, 9_000):
        for seed in range(8):
            evidence, y, _, _ = simulated(n, seed=seed)
            _, low, high = noise_of(trust_in(evidence, y), y, list("abcd")).rate
            widths.setdefault(n, []).append(high - low)
    assert np.mean(widths[9_000]) < 0.8 * np.mean(widths[300])


def test_clean_labels_are_left_alone():
    x, truth = load_digits(return_X_y=True)
    probs = cross_val_predict(LogisticRegression(max_iter=300, C=0.05), x / 16, truth, cv=5, method="predict_proba")
    assert find_label_issues(truth, probs)["flag"].mean() < 0.05


def test_wrong_targets_and_their_interval():
    rng = np.random.default_rng(0)
    expected = rng.normal(size=(2_000, 2)).astype(np.float32)
    y = expected + rng.normal(size=(2_000, 2)).astype(np.float32) * [0.1, 0.3]
    wrong = rng.random(2_000) < 0.15
    y[wrong] += rng.normal(size=(wrong.sum(), 2)) * 3
    found = target_trust(torch.from_numpy(expected), torch.from_numpy(y.astype(np.float32)))
    assert f1_score(wrong, found.right.numpy() < 0.5) > 0.9
    assert abs(float(1 - found.right.mean()) - 0.15) < 0.03
    np.testing.assert_allclose(found.margin.median(0).values.numpy(), [0.196, 0.588], rtol=0.15)
    inside = (np.abs(y - expected) <= found.margin.numpy())[~wrong].mean()
    assert 0.92 < inside < 0.98


def test_the_width_of_right_targets_is_found_where_many_are_wrong():
    source = torch.Generator().manual_seed(1)
    expected = torch.zeros(4_000, 1)
    y = torch.randn(4_000, 1, generator=source)
    wrong = torch.arange(4_000) % 5 < 2  # two in five, which widens the usual miss
    y[wrong] *= 12
    found = target_trust(expected, y)
    assert float(found.margin.median()) == pytest.approx(1.96, rel=0.15)
    # Four widths off is wrong, however wide the usual miss has become.
    assert float(target_trust(expected, y.index_fill(0, torch.tensor([1]), 4.5)).right[1]) < 0.5


def test_the_margin_follows_what_is_expected():
    """Dear things scatter more than cheap ones: a miss that is usual there is wrong here."""
    rng = np.random.default_rng(0)
    expected = rng.uniform(1, 20, (4_000, 1))
    y = expected * (1 + 0.1 * rng.standard_t(5, size=(4_000, 1)))
    assert (target_trust(torch.from_numpy(expected), torch.from_numpy(y)).right < 0.5).double().mean() < 0.01
    wrong = rng.random(4_000) < 0.2
    y[wrong] = rng.permutation(y[wrong])
    found = target_trust(torch.from_numpy(expected), torch.from_numpy(y))
    for low, high in ((1, 5), (5, 10), (10, 20)):
        there = (expected[:, 0] >= low) & (expected[:, 0] < high) & ~wrong
        assert 0.9 < (np.abs(y - expected) <= found.margin.numpy())[there].mean() < 0.99
    assert float(found.margin[expected[:, 0] > 15].mean()) > 4 * float(found.margin[expected[:, 0] < 3].mean())
    bins = np.minimum((found.right.numpy() * 5).astype(int), 4)
    apart = [abs(found.right.numpy()[bins == k].mean() - (~wrong)[bins == k].mean()) for k in np.unique(bins)]
    assert np.average(apart, weights=np.bincount(bins)[np.unique(bins)]) < 0.05


def test_one_step_equals_loops(monkeypatch):
    """Spread, density and odds of the first round, written out; 100 rows make one group."""
    monkeypatch.setattr(of_targets, "ROUNDS", 1)
    rng = np.random.default_rng(3)
    expected, y = rng.normal(size=100), rng.normal(size=100) * 3
    miss = sorted(abs(a - b) for a, b in zip(expected, y, strict=True))
    spread = miss[49] / 0.7407
    edges = np.quantile(y, [0, 0.25, 0.5, 0.75, 1])
    rights = []
    for a, b in zip(expected, y, strict=True):
        t = student.pdf((b - a) / spread, 4) / spread
        cell = min(int(np.searchsorted(edges, b, side="right")) - 1, 3)
        held = sum(min(int(np.searchsorted(edges, other, side="right")) - 1, 3) == cell for other in y) / 100
        anywhere = (0.9 * held + 0.1 / 4) / (edges[cell + 1] - edges[cell])
        odds = t / min(anywhere, 1 / (6 * spread)) * 9
        rights.append(odds / (1 + odds))
    found = target_trust(torch.from_numpy(expected)[:, None], torch.from_numpy(y)[:, None])
    np.testing.assert_allclose(found.right.numpy(), rights, rtol=1e-6)


def test_right_targets_are_left_alone():
    source = torch.Generator().manual_seed(0)
    expected = torch.zeros(3_000, 1)
    found = target_trust(expected, torch.randn(3_000, 1, generator=source))
    assert (found.right < 0.5).double().mean() < 0.01


@pytest.mark.parametrize(
    ("labels", "probs", "says"),
    [
        ([0, 1], [[0.5, 0.5]], "each row needs one"),
        ([0, 2], [[0.5, 0.5]] * 2, "row 1 has the label 2"),
        ([0, 0], [[0.5, 0.5], [0.9, 0.9]], "row 1 of pred_probs"),
        ([0, 0], [[0.5, 0.5], [np.nan, 0.9]], "row 1 of pred_probs"),
        (["a", "b"], [[0.5, 0.5]] * 2, "class numbers"),
        ([0], [0.5], "a column for each class"),
    ],
)
def test_mistakes_get_a_sentence(labels, probs, says):
    with pytest.raises(HoldfastError, match=says):
        find_label_issues(labels, probs)
