"""Methods that train more than once: cut short in any of their trainings they end as if they never had been."""

import pytest

from holdfast.methods import AUM, INCV, LDMI, Backward, ConfidentLearning, Forward, TRevision

STAGED = {
    "forward": (lambda: Forward(estimate=3), 6),
    "backward": (lambda: Backward(estimate=3), 6),
    "t-revision": (lambda: TRevision(estimate=2, revise=0.4), 8),
    "l-dmi": (lambda: LDMI(warmup=3, pace=0.1), 6),
    "incv": (lambda: INCV(rounds=2, each=2, ramp=2), 7),
    "aum": (lambda: AUM(each=2), 6),
    "confident-learning": (lambda: ConfidentLearning(each=2), 8),
}


@pytest.mark.parametrize("name", STAGED)
def test_cut_short_in_any_stage_it_goes_on_bit_for_bit(resumes, blobs, name):
    make, epochs = STAGED[name]
    starts = [stage.start for stage in make().stages(epochs)]
    assert len(starts) > 1
    for broken in sorted({epoch for start in starts[1:] for epoch in (start, start + 1)} | {1}):
        resumes(make, blobs, epochs, broken)
