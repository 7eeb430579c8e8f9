import pytest
import torch

from holdfast.functional import next_by_lot, row_lots


def test_lots_belong_to_rows_and_epochs():
    state = torch.get_rng_state()
    one = row_lots(1000, 3, 5)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, row_lots(1000, 3, 5))
    for other in (row_lots(1000, 3, 6), row_lots(1000, 4, 5)):
        assert not torch.equal(one, other)
        assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 0.1
    assert not torch.equal(row_lots(5, 0, 0), torch.rand(5, generator=torch.Generator().manual_seed(0)).double())


@pytest.mark.parametrize("size", [1, 2, 7])
def test_partners_are_a_ring_that_does_not_depend_on_the_order(size):
    lots = row_lots(size, 0, 0)
    partner = next_by_lot(lots)
    assert sorted(partner.tolist()) == list(range(size))
    assert size == 1 or (partner != torch.arange(size)).all()
    ranked = sorted(range(size), key=lambda i: lots[i].item())
    assert all(partner[a] == b for a, b in zip(ranked, ranked[1:] + ranked[:1], strict=True))
    turned = next_by_lot(lots.flip(0))
    assert torch.equal(size - 1 - turned.flip(0), partner)
