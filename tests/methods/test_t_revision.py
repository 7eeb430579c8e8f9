import pytest
import torch

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.methods import TRevision
from holdfast.types import Stage


def test_the_contract_holds():
    check_method(TRevision(), neutral=TRevision(torch.eye(3), revise=0))


def test_numbers_of_the_specification(on_tables, logits, labels, matrix):
    method = TRevision(matrix)
    nets, batch = on_tables(method, [logits], labels, epoch=0)
    assert method.loss(nets, batch).loss.item() == pytest.approx(0.725380, abs=1e-5)
    with torch.no_grad():
        method.change[0, 0], method.change[0, 1] = -0.1, 0.1
    assert method.loss(nets, batch).loss.item() == pytest.approx(0.702091, abs=1e-5)


def test_the_correction_learns_in_the_last_training_only(on_tables, trained, logits, labels, matrix):
    method = TRevision(matrix)
    nets, batch = on_tables(method, [logits], labels, epoch=0)
    trained(method, nets, batch)
    assert not method.change.grad.any()
    method = TRevision(matrix)
    nets, batch = on_tables(method, [logits], labels, epoch=29)
    trained(method, nets, batch)
    expected = torch.tensor([-0.084068, -0.374660, -0.186541])
    torch.testing.assert_close(method.change.grad[0], expected, atol=1e-5, rtol=0)


def test_three_trainings(flipped):
    method = TRevision(estimate=2, revise=0.5, pace=0.01)
    assert method.stages(10) == (Stage(0), Stage(2), Stage(6, 0.01))
    run = fit(flipped(300), method, "mlp", epochs=10, batch_size=50)
    assert len(run.history) == 10
    # What judges the epochs of a training is never trained on.
    assert (run.history["coverage"] == 0.9).all()
    assert method.change.abs().sum() > 0


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="revise"):
        TRevision(revise=1)
