import math

import pytest
import torch
from torch import nn
from torch.optim import SGD

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.methods import SelfLabelRefinery
from holdfast.methods.self_label_refinery import trust_at
from holdfast.theory import Shallow, nearest_labels, separation, softplus_slopes
from holdfast.theory.early import Setting
from holdfast.theory.refinery import corrupted_crops, refinement
from holdfast.types import Batch


@pytest.mark.parametrize("method", [SelfLabelRefinery(), SelfLabelRefinery(0.99, ramp=0)], ids=repr)
@pytest.mark.parametrize("regression", [False, True])
def test_the_contract_holds(method, regression):
    check_method(method, neutral=SelfLabelRefinery(0.0), regression=regression)


def test_labels_are_refined_by_the_prediction_for_the_other_view(on_tables, logits, labels):
    method = SelfLabelRefinery(0.6, ramp=0)
    nets, batch = on_tables(method, [logits], labels)
    turned = batch.x.roll(1, 0)
    step = method.loss(nets, Batch((batch.x, turned), *batch[1:]))
    total, targets = 0.0, []
    for i in range(4):
        other = logits[(i - 1) % 4].softmax(0)
        target = 0.4 * torch.eye(3)[labels[i]] + 0.6 * other
        targets.append(target)
        total -= (target * logits[i].log_softmax(0)).sum() / 4
    torch.testing.assert_close(step.loss, total)
    step.loss.backward()
    wanted = torch.stack([logits[i].softmax(0) - targets[i] for i in range(4)]) / 4
    torch.testing.assert_close(nets[0].table.grad, wanted)


def test_trust_rises_along_half_a_cosine():
    assert trust_at(0.0, 0.8, 0.5) == 0
    assert trust_at(0.125, 0.8, 0.5) == pytest.approx(0.4 * (1 - math.cos(math.pi / 4)))
    assert trust_at(0.5, 0.8, 0.5) == trust_at(1.0, 0.8, 0.5) == pytest.approx(0.8)
    assert trust_at(0.0, 0.8, 0.0) == 0.8


class Scalar(nn.Module):
    """The network of the theorem with outputs of one column."""

    def __init__(self):
        super().__init__()
        self.inner = Shallow(12, 1000)

    def forward(self, x):
        return self.inner(x.double())[:, None].float()


def test_refined_labels_recover_all_true_ones_of_the_corrupted_data_set_and_given_ones_do_not():
    """Theorem 2 of SANE, with the method itself in the loop that trains everything else."""
    wrong, radius, trust = 0.06, 0.01, 0.9
    data, positive = corrupted_crops(4, 40, 12, labels=torch.tensor([-1.0, 1.0, -1.0, 1.0]), radius=radius, wrong=wrong)
    at = Setting(
        n=160, d=12, k=1000, clusters=4, separation=separation(data.centre, softplus_slopes), radius=radius,
        wrong=wrong, gap=2.0,
    )  # fmt: skip
    promised = refinement(at, trust)
    assert all(c.holds for c in promised.conditions if "wrong" in c.what or "trust" in c.what)
    rows = Rows(data.x.float(), data.y.float()[:, None])

    def other_crop(x, generator):
        return positive.float()[torch.cdist(x, rows.x).argmin(1)]

    net, method = Scalar(), SelfLabelRefinery(trust, ramp=0.2)
    run = fit(
        rows, method, net, epochs=math.ceil(promised.iterations), batch_size=160, device="cpu",
        augment=[lambda x, generator: x, other_crop],
        optimizer=lambda parameters: SGD(parameters, lr=promised.rate * 160 / 2), schedule=lambda share: 1.0,
    )  # fmt: skip
    values = torch.tensor([-1.0, 1.0]).double()
    labels = method.refined([run.net], positive.float(), rows.y, trust)[:, 0].double()
    assert int((data.y != data.truth).sum()) == 8
    assert torch.equal(nearest_labels(labels, values), data.truth)
    assert not torch.equal(nearest_labels(data.y, values), data.truth)
    given = float((data.y - data.truth).norm()) / math.sqrt(160)
    assert float((labels - data.truth).norm()) / math.sqrt(160) <= promised.label_error(trust, given)


def test_wrong_labels_are_learnt_less_than_by_ordinary_training():
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(300) % 3
    x = torch.randn(300, 20, generator=source) + 1.5 * torch.eye(20)[truth]
    wrong = torch.rand(300, generator=source) < 0.3
    rows = Rows(x, torch.where(wrong, (truth + 1) % 3, truth), tuple("abc"), truth=truth)

    def memorised(method):
        torch.manual_seed(0)
        noise = lambda x, generator: x + 0.1 * torch.randn(x.shape, generator=generator)  # noqa: E731
        run = fit(rows, method, "mlp", epochs=40, batch_size=30, augment=noise, device="cpu")
        return float((run.net(rows.x).argmax(1)[wrong] == rows.y[wrong]).float().mean())

    assert memorised(SelfLabelRefinery(0.95, ramp=0.3)) < memorised(Method()) - 0.1


def test_a_broken_run_goes_on_bit_for_bit(resumes, blobs):
    resumes(lambda: SelfLabelRefinery(0.9), blobs)


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match=r"must lie in \[0, 1\], not 2 and 0.5"):
        SelfLabelRefinery(2)
