import pytest
import torch

from holdfast.functional import cyclic_partners, row_uniforms


def test_uniforms_belong_to_rows_and_epochs():
    state = torch.get_rng_state()
    one = row_uniforms(1000, 3, 5)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, row_uniforms(1000, 3, 5))
    for other in (row_uniforms(1000, 3, 6), row_uniforms(1000, 4, 5)):
        assert not torch.equal(one, other)
        assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 0.1
    assert not torch.equal(row_uniforms(5, 0, 0), torch.rand(5, generator=torch.Generator().manual_seed(0)).double())


@pytest.mark.parametrize("size", [1, 2, 7])
def test_partners_are_a_ring_that_does_not_depend_on_the_order(size):
    uniforms = row_uniforms(size, 0, 0)
    partner = cyclic_partners(uniforms)
    assert sorted(partner.tolist()) == list(range(size))
    assert size == 1 or (partner != torch.arange(size)).all()
    ranked = sorted(range(size), key=lambda i: uniforms[i].item())
    assert all(partner[a] == b for a, b in zip(ranked, ranked[1:] + ranked[:1], strict=True))
    turned = cyclic_partners(uniforms.flip(0))
    assert torch.equal(size - 1 - turned.flip(0), partner)
