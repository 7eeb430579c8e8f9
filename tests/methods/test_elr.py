import pytest
import torch

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.methods import ELR


@pytest.mark.parametrize("method", [ELR(), ELR(7, memory=0.9)], ids=repr)
@pytest.mark.parametrize("neutral", [ELR(0), ELR(memory=1.0)], ids=repr)
def test_the_contract_holds(method, neutral):
    check_method(method, neutral=neutral)


def test_numbers_of_the_specification(on_tables, trained, logits, labels):
    method = ELR()
    nets, batch = on_tables(method, [logits], labels)
    step, (grad,) = trained(method, nets, batch)
    assert step.loss.item() == pytest.approx(0.179981, abs=1e-5)
    torch.testing.assert_close(method.ema[0], torch.tensor([0.235679, 0.052587, 0.011734]), atol=1e-5, rtol=0)
    inner = (logits.softmax(1) * method.ema).sum(1)
    torch.testing.assert_close(inner, torch.tensor([0.194826, 0.115682, 0.165369, 0.123773]), atol=1e-5, rtol=0)
    torch.testing.assert_close(grad[0], torch.tensor([-0.083496, 0.067047, 0.016449]), atol=1e-5, rtol=0)
    assert method.loss(nets, batch).loss.item() == pytest.approx(-0.221298, abs=1e-5)


def test_only_rows_that_are_visited_are_remembered(on_tables, logits, labels):
    method = ELR()
    nets, batch = on_tables(method, [logits], labels)
    method.loss(nets, type(batch)(*(part[[2, 0]] for part in batch)))
    assert method.ema.any(1).tolist() == [True, False, True, False]
    torch.testing.assert_close(method.ema[2], 0.3 * logits[2].softmax(0))


def test_a_prediction_that_is_sure_for_ever_stays_finite(on_tables):
    method = ELR(memory=0.0)
    nets, batch = on_tables(method, [torch.tensor([[300.0, 0.0], [0.0, 300.0]])], torch.tensor([0, 0]))
    for _ in range(3):
        step = method.loss(nets, batch)
        step.loss.backward()
    assert torch.isfinite(step.loss)
    assert torch.isfinite(nets[0].table.grad).all()


def test_the_memory_survives_a_checkpoint(resumes, blobs):
    resumes(ELR, blobs)


def test_wrong_labels_are_not_memorised(blobs):
    wrong = blobs.y != blobs.truth
    method = ELR()
    run = fit(blobs, method, "mlp", epochs=30, batch_size=24)
    believed = method.ema.argmax(1)
    assert (believed == blobs.truth)[wrong].float().mean() > 0.9
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.95


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(ELR(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="at least 0, not -1"):
        ELR(-1)
    with pytest.raises(HoldfastError, match=r"memory must lie in \[0, 1\], not 2"):
        ELR(memory=2)
