import pytest
import torch
import torch.nn.functional as F

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.methods import LDMI
from holdfast.methods.l_dmi import dmi
from holdfast.types import Stage


def test_the_contract_holds():
    check_method(LDMI(), neutral=LDMI(warmup=2, hold_out=0))
    check_method(LDMI(official=True))


@pytest.mark.parametrize(("official", "expected"), [(True, 1.668899), (False, 5.833102)])
def test_numbers_of_the_specification(on_tables, logits, labels, official, expected):
    method = LDMI(warmup=0, official=official)
    nets, batch = on_tables(method, [logits], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(expected, abs=1e-5)


def test_gradient_and_relabelling(on_tables, trained, logits, labels):
    method = LDMI(warmup=0, official=True)
    nets, batch = on_tables(method, [logits], labels)
    _, (grad,) = trained(method, nets, batch)
    torch.testing.assert_close(grad[0], torch.tensor([-0.600410, 0.609157, -0.008747]), atol=1e-5, rtol=0)
    turned = batch._replace(y=(batch.y + 1) % 3)
    assert method.loss(nets, turned).loss.item() == pytest.approx(1.668899, abs=1e-5)


def test_noise_changes_the_loss_by_a_constant(logits, labels, matrix):
    given, matrix = F.one_hot(labels, 3).double(), torch.tensor(matrix).double()
    change = dmi(logits.double(), given @ matrix, torch.ones(4)) - dmi(logits.double(), given, torch.ones(4))
    assert change.item() == pytest.approx(0.867501, abs=1e-5)


def test_a_batch_without_a_class_teaches_nothing(on_tables, trained, logits):
    method = LDMI(warmup=0)
    nets, batch = on_tables(method, [logits], torch.tensor([0, 0, 1, 1]))
    step, (grad,) = trained(method, nets, batch)
    assert step.loss.item() == pytest.approx(6.907755, abs=1e-5)
    assert not grad.any()


def test_it_goes_on_slowly_from_ordinary_training(flipped):
    method = LDMI(warmup=4, pace=0.01)
    assert method.stages(8) == (Stage(0), Stage(4, 0.01))
    run = fit(flipped(600), method, "mlp", epochs=8, batch_size=100)
    assert run.history["loss"].iloc[-1] > run.history["loss"].iloc[3]  # another loss
    assert run.history["train"].iloc[-1] > 0.5


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="pace"):
        LDMI(pace=0)
