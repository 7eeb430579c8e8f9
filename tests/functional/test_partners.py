"""Partners of rows to mix, drawn often enough to see who may be one."""

import pytest
import torch

from holdfast.functional import beta_shares, cluster_partners, label_partners


def test_members_partners_and_beta_draws():
    source = torch.Generator().manual_seed(0)
    owner = torch.tensor([0, 0, 1, 0, 1, 2])
    chosen = torch.tensor([3, 2, 5])
    drawn = torch.stack([cluster_partners(owner, chosen, source)[:, 0] for _ in range(200)])
    assert set(drawn[:, 0].tolist()) == {0, 1}
    assert set(drawn[:, 1].tolist()) == {4}
    assert set(drawn[:, 2].tolist()) == {5}
    several = cluster_partners(owner, chosen, source, 3)
    assert set(several[0].tolist()) == {0, 1}
    assert several[1:].tolist() == [[4] * 3, [5] * 3]
    y = torch.tensor([0, 1, 0, 1, 1])
    partners = torch.stack([label_partners(y, source) for _ in range(300)])
    assert (y[partners] == y).all()
    assert set(partners[:, 1].tolist()) == {1, 3, 4}
    share = beta_shares((0.1, 1.0), 20_000, source)
    assert share.mean().item() == pytest.approx(0.1 / 1.1, abs=0.01)
    assert beta_shares((2.0, 2.0), 20_000, source).var().item() == pytest.approx(0.05, abs=0.005)
