import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Rows
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.methods import IndividualClip
from holdfast.methods.individual_clip import clip_weights


@pytest.mark.parametrize("regression", [False, True])
def test_the_contract_holds(regression):
    check_method(IndividualClip(0.5), neutral=IndividualClip(float("inf")), regression=regression)


def test_numbers_of_the_specification():
    gradients = torch.tensor([[3, 4], [0.6, 0.8], [1, 0], [0, -0.5]])
    weight = clip_weights(gradients.norm(dim=1), 1.0)
    torch.testing.assert_close((weight[:, None] * gradients).mean(0), torch.tensor([0.55, 0.275]), atol=1e-5, rtol=0)


def test_a_line_through_the_origin():
    x, y = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([[1.5], [2.0], [6.0], [3.0]])
    net = nn.Linear(1, 1, bias=False)
    nn.init.ones_(net.weight)
    for limit, slope in ((5.0, -0.25), (100.0, -2.75)):
        method = IndividualClip(limit)
        feed = Feed(Rows(x, y), batch_size=4)
        method.begin([net], feed)
        net.zero_grad()
        method.loss([net], next(iter(feed.batches()))).loss.backward()
        assert net.weight.grad.item() == pytest.approx(slope, abs=1e-5)


def test_the_limit_is_positive():
    with pytest.raises(HoldfastError, match="must be positive, not -1"):
        IndividualClip(-1)
