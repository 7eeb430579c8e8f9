"""What answers about some rows say of the others."""

import numpy as np
import pytest
from scipy.special import expit

from holdfast.review.calibrate import Calibration, Tally, calibrate
from holdfast.review.order import telling

NOBODY = np.zeros(0, dtype=bool)


def labels(seed, offset, slope, rows=5000):
    """Trust of a run, and which labels are wrong: the run is off by an offset and a slope of its log odds."""
    rng = np.random.default_rng(seed)
    odds = np.where(rng.random(rows) < 0.2, rng.normal(-2, 2, rows), rng.normal(4, 2, rows))
    return expit(odds), rng.random(rows) < expit(-(offset + slope * odds))


def first(order, count):
    asked = np.zeros(len(order), dtype=bool)
    asked[np.argsort(order, kind="stable")[:count]] = True
    return asked


def test_without_answers_trust_is_that_of_the_run():
    trust, _ = labels(0, 0.0, 1.0)
    found = Calibration.of(np.zeros(0), NOBODY)
    np.testing.assert_allclose(found.trust(trust), trust, atol=1e-12)
    wrong = found.wrong(trust)
    assert wrong.low < wrong.estimate < wrong.high
    assert wrong.estimate == pytest.approx((1 - trust).sum())


def test_settled_labels_are_certain_and_others_follow_them():
    trust = np.full(600, 0.3)
    asked = np.arange(600) < 300
    found = calibrate(trust, asked, asked & (np.arange(600) % 10 == 0))
    assert set(found.trust[asked]) == {0.0, 1.0}
    assert found.trust[~asked] == pytest.approx(0.9, abs=0.03)
    assert found.left.estimate == pytest.approx(30, abs=8)
    assert found.total.estimate == found.left.estimate + 30


@pytest.mark.parametrize(("offset", "slope"), [(1.0, 1.0), (-1.0, 1.0), (0.0, 0.6), (0.0, 1.6)])
@pytest.mark.parametrize(("asked_for", "most"), [("telling", 0.9), ("at random", 0.5)])
def test_a_run_that_is_off_is_corrected(offset, slope, asked_for, most):
    """By more than half where rows of any trust were asked about; doubtful rows alone say less of all others."""
    trust, wrong = labels(3, offset, slope)
    order = -telling(trust) if asked_for == "telling" else np.random.default_rng(1).random(5000)
    asked = first(order, 600)
    found = calibrate(trust, asked, wrong)
    true, own = wrong[~asked].sum(), (1 - trust)[~asked].sum()
    assert abs(found.left.estimate - true) < most * abs(own - true) + 2 * np.sqrt(true)  # and chance
    assert found.left.low <= true <= found.left.high


def test_intervals_hold_what_is_left():
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        trust, wrong = labels(seed, rng.normal(0, 0.5), np.exp(rng.normal(0, 0.3)))
        asked = first(-telling(trust), 200)
        left = calibrate(trust, asked, wrong).left
        held.append(left.low <= wrong[~asked].sum() <= left.high)
    assert np.mean(held) >= 0.9


def test_answers_about_doubtful_rows_leave_trusted_ones_alone():
    trust = np.concatenate([np.full(200, 0.5), np.full(9000, 0.9995)])
    asked = np.arange(9200) < 150
    found = calibrate(trust, asked, asked)  # all of them wrong
    assert found.trust[180] < 0.15
    assert found.trust[-1] == pytest.approx(0.9995, abs=0.0005)


def test_the_order_of_the_run_stays():
    rng = np.random.default_rng(0)
    trust, asked = rng.random(4000), rng.random(4000) < 0.1
    found = Calibration.of(trust[asked], rng.random(asked.sum()) < 0.5 + 0.4 * np.sin(12 * trust[asked]))
    after = found.trust(np.linspace(0.001, 0.999, 999))
    assert (np.diff(after) >= -1e-12).all()


def test_certain_labels_stay_certain_and_may_be_answered_about():
    trust = np.array([0.0, 1.0, 1.0, 0.5])
    found = calibrate(trust, np.array([False, False, True, False]), np.array([False, False, True, False]))
    assert found.trust[:3].tolist() == [0.0, 1.0, 0.0]
    assert np.isfinite(found.left).all()


def test_a_tally_follows_each_answer():
    trust, wrong = labels(1, 0.5, 0.8, rows=2000)
    trust[:3] = 0.0, 1.0, 1.0
    rng, reviewed, said = np.random.default_rng(0), np.zeros(2000, dtype=bool), wrong.copy()
    tally = Tally(trust, reviewed, said)
    for step in range(600):
        row = int(rng.integers(300)) if step % 3 else int(rng.integers(2000))  # some are answered again, or opened
        reviewed[row], said[row] = rng.random() < 0.8, wrong[row] ^ (rng.random() < 0.1)
        tally.set(row, bool(reviewed[row]), bool(said[row]))
        if step % 100 == 0:
            assert tally.left() == pytest.approx(calibrate(trust, reviewed, said).left.estimate, rel=1e-3)
    assert Tally(trust, reviewed, said).left() == pytest.approx(tally.left())
    assert Tally(trust, np.ones(2000, dtype=bool), said).left() == 0


def test_all_settled_leaves_none():
    found = calibrate(np.full(50, 0.7), np.ones(50, dtype=bool), np.arange(50) < 9)
    assert found.left == (0.0, 0.0, 0.0)
    assert found.total == (9.0, 9.0, 9.0)


def test_a_million_rows_are_quick():
    import time

    trust = np.random.default_rng(0).random(1_000_000)
    start = time.process_time()
    calibrate(trust, trust < 0.002, trust < 0.001)
    assert time.process_time() - start < 3
