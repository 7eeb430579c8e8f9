import pytest

from holdfast import HoldfastError
from holdfast.functional import AuthorsRamp, Ramp, keep_count


def test_schedules_of_the_specification():
    assert [1 - Ramp(10)(0.45, t) for t in (0, 1, 2, 3, 10, 50)] == pytest.approx([1, 0.955, 0.91, 0.865, 0.55, 0.55])
    assert [AuthorsRamp(10)(0.45, t) for t in (0, 1, 2, 3, 9, 30)] == pytest.approx([0, 0.05, 0.1, 0.15, 0.45, 0.45])
    assert AuthorsRamp(10, 2)(0.45, 9) == pytest.approx(0.2025)
    assert AuthorsRamp(10, 2)(0.45, 10) == 0.45
    assert AuthorsRamp(10, 0.5)(0.45, 9) == pytest.approx(0.670820, abs=1e-6)
    assert Ramp(9, 2)(0.3, 3) == pytest.approx(0.3)
    assert Ramp(9, 2)(0.3, 2) == pytest.approx(0.3 * 4 / 9)
    assert Ramp(0)(0.3, 0) == 0.3


def test_a_rate_becomes_a_count_in_one_place():
    assert [keep_count(0.9, 10), keep_count(0.8, 5), keep_count(0.99, 10), keep_count(0, 7)] == [1, 1, 1, 7]
    assert [keep_count(0.9, 10, official=True), keep_count(0.8, 5, official=True)] == [0, 0]


@pytest.mark.parametrize("make", [lambda: Ramp(-1), lambda: Ramp(5, 0), lambda: AuthorsRamp(1)])
def test_senseless_ramps_are_refused(make):
    with pytest.raises(HoldfastError, match="ramp needs"):
        make()
