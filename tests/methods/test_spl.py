import pytest
import torch

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.functional import AuthorsRamp
from holdfast.methods import SPL


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(
    "method", [SPL(), SPL(0.4, ramp=0), SPL(0.4, ramp=0, forwards="one"), SPL(0.2, ramp=0, forwards="two")], ids=repr
)
def test_the_contract_holds(method, regression):
    check_method(method, neutral=SPL(0.0), regression=regression)


@pytest.mark.parametrize(("rate", "loss", "kept"), [(0.25, 0.499083, {0, 2, 3}), (0.5, 0.291694, {0, 2})])
@pytest.mark.parametrize("forwards", ["one", "two"])
def test_numbers_of_the_specification(on_tables, logits, labels, rate, loss, kept, forwards):
    method = SPL(rate, forwards=forwards)
    nets, batch = on_tables(method, [logits], labels)
    step = method.loss(nets, batch)
    assert step.loss.item() == pytest.approx(loss, abs=1e-5)
    assert set(step.weight.nonzero()[:, 0].tolist()) == kept


def test_against_a_loop(on_tables, trained):
    source = torch.Generator().manual_seed(0)
    table, y = torch.randn(50, 4, generator=source), torch.randint(0, 4, (50,), generator=source)
    for epoch, rate in ((0, 0.0), (3, 0.12), (10, 0.4), (25, 0.4)):
        method = SPL(0.4)
        nets, batch = on_tables(method, [table], y, epoch)
        step, (grad,) = trained(method, nets, batch)
        p = table.softmax(1)
        losses = [-p[i, y[i]].log().item() for i in range(50)]
        kept = sorted(range(50), key=lambda i: losses[i])[: int((1 - rate) * 50 + 1e-9)]
        assert step.loss.item() == pytest.approx(sum(losses[i] for i in kept) / len(kept), abs=1e-5)
        for i in range(50):
            expected = (p[i] - torch.eye(4)[y[i]]) / len(kept) if i in kept else torch.zeros(4)
            torch.testing.assert_close(grad[i], expected)


def test_ties_keep_the_first_rows(on_tables):
    method = SPL(0.5, ramp=0)
    nets, batch = on_tables(method, [torch.zeros(4, 3)], torch.tensor([0, 1, 2, 0]))
    assert method.loss(nets, batch).weight.tolist() == [1, 1, 0, 0]


def test_any_ramp_may_be_given(on_tables, logits, labels):
    method = SPL(0.5, ramp=AuthorsRamp(3))
    on_tables(method, [logits], labels, epoch=1)
    assert method.drop_rate == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": 1.0}, r"\[0, 1\), not 1"),
        ({"rate": -0.1}, r"\[0, 1\), not -0.1"),
        ({"rate": "high"}, "or \"auto\", not 'high'"),
        ({"rate": 0.2, "forwards": "three"}, "forwards is one of auto, one, two"),
        ({"rate": 0.2, "ramp": -1}, "at least 0"),
    ],
)
def test_settings_are_checked_when_made(settings, words):
    with pytest.raises(HoldfastError, match=words):
        SPL(**settings)
