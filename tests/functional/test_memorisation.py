"""Memorised labels, where it is known how many."""

import pytest
import torch

from holdfast.functional import memorised_fraction


@pytest.mark.parametrize("learnt", [0.0, 0.3, 0.8])
def test_the_share_that_withheld_rows_do_not_have(learnt):
    source = torch.Generator().manual_seed(0)
    understood = torch.rand(20_000, generator=source) < 0.3
    fits = understood | (torch.rand(20_000, generator=source) < learnt)
    fits[-4_000:] = understood[-4_000:]
    share = 1 - 0.3 / (0.3 + 0.7 * learnt)
    found = memorised_fraction(fits[:-4_000], fits[-4_000:])
    assert share - 0.06 < found <= max(0.0, share)


def test_few_rows_show_little():
    fits = torch.ones(100, dtype=torch.bool)
    assert memorised_fraction(fits, fits[:0]) == 0
    assert memorised_fraction(fits, ~fits[:3]) < 0.4 < memorised_fraction(fits, ~fits)
    assert memorised_fraction(~fits, fits) == 0
    assert memorised_fraction(fits[:0], fits) == 0
