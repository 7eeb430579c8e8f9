"""Corrupted inputs, and what PRL(G) makes of them."""

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.functional import Constant
from holdfast.methods import PRLG
from holdfast.noise import FEATURE_KINDS, corrupt_features


@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_as_many_rows_as_asked_for_and_no_others(kind):
    x = torch.randn(50, 2, 3, generator=torch.Generator().manual_seed(0))
    found = corrupt_features(kind, x, 0.3, seed=1)
    assert int(found.mask.sum()) == 15
    assert torch.equal(found.x[~found.mask], x[~found.mask])
    assert (found.x[found.mask] != x[found.mask]).flatten(1).any(1).all()
    assert torch.equal(found.x, corrupt_features(kind, x, 0.3, seed=1).x)
    assert not torch.equal(found.mask, corrupt_features(kind, x, 0.3, seed=2).mask)


def test_each_kind_by_its_definition():
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 0.1])
    swapped = corrupt_features("swapped", x, 0.5)
    assert torch.equal(swapped.x[swapped.mask].sort(0).values, x[swapped.mask].sort(0).values)
    uniform = corrupt_features("uniform", x, 0.5)
    inside = uniform.x[uniform.mask]
    assert (inside >= x.amin(0)).all()
    assert (inside <= x.amax(0)).all()
    assert float(inside[:, 0].std()) > 1.2 * float(x[:, 0].std())
    far = corrupt_features("far", x, 0.5)
    away = (far.x[far.mask] - x.mean(0)) / x.std(0)
    assert torch.equal(far.x[far.mask], far.x[far.mask][:1].expand(200, 3))
    assert float(away[0].square().mean().sqrt()) == pytest.approx(10, rel=1e-4)


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="did you mean swapped"):
        corrupt_features("swaped", torch.rand(4, 2), 0.5)
    with pytest.raises(HoldfastError, match="pass floats"):
        corrupt_features("far", torch.zeros(4, 2, dtype=torch.uint8), 0.5)
    with pytest.raises(HoldfastError, match="noise rate"):
        corrupt_features("far", torch.zeros(4, 2), 1.5)


def test_prl_by_gradients_withstands_inputs_that_are_far_away():
    """Section 3.2: a linear regression, a fifth of whose inputs an adversary has put in one far place."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 5, generator=source)
    y = x @ torch.randn(5, 1, generator=source)
    rows, test = Rows(x[:800], y[:800]), Rows(x[800:], y[800:])
    given = Rows(corrupt_features("far", rows.x, 0.2, seed=3).x, rows.y)
    scores = {}
    for name, method, data in (
        ("clean", Method(), rows), ("ordinary", Method(), given), ("prl-g", PRLG(0.3, ramp=0), given),
    ):  # fmt: skip
        torch.manual_seed(0)
        run = fit(
            data, method, nn.Linear(5, 1), test=test, epochs=60, batch_size=100, seed=0, device="cpu",
            optimizer=lambda p: torch.optim.SGD(p, 0.005), schedule=Constant(),
        )  # fmt: skip
        scores[name] = float(run.history["test"].iloc[-1])
    assert scores["clean"] > 0.99
    assert scores["ordinary"] < 0.9
    assert scores["prl-g"] > 0.98
