import pytest
import torch

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.functional import total_variation
from holdfast.methods import Backward, Forward


@pytest.mark.parametrize("kind", [Forward, Backward])
def test_the_contract_holds(kind, matrix):
    check_method(kind(), neutral=kind(torch.eye(3)))
    check_method(kind(matrix))


@pytest.mark.parametrize(("kind", "mean"), [(Forward, 0.784742), (Backward, 0.414022)])
def test_numbers_of_the_specification(on_tables, logits, labels, kind, mean, matrix):
    method = kind(matrix)
    nets, batch = on_tables(method, [logits], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(mean, abs=1e-5)


def fast(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def test_the_matrix_is_estimated_and_training_starts_again(flipped):
    rows, method = flipped(), Forward(estimate=4)
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    begun = [p.clone() for p in net.parameters()]
    test = Rows(rows.x, rows.truth, rows.classes)
    run = fit(rows, method, net, epochs=12, batch_size=50, test=test, seed=1, optimizer=fast)
    true = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]])
    # The identity, which it starts from, misplaces 0.4 of each class.
    assert float(total_variation(method.matrix, true).max()) < 0.2
    for kept, first in zip(method.initial.parameters(), begun, strict=True):
        assert torch.equal(kept, first)
    # A tenth of the rows is held out of the first training alone.
    assert run.history["coverage"][3] == pytest.approx(0.9, abs=0.01)
    assert run.history["coverage"][4] == 1
    plain = fit(rows, Method(), "mlp", epochs=12, batch_size=50, test=test, seed=1)
    assert run.last >= plain.last - 0.02


def test_mistakes_are_named(on_tables, logits, labels):
    with pytest.raises(HoldfastError, match="3 x 3"):
        on_tables(Forward(torch.eye(4)), [logits], labels)
    with pytest.raises(HoldfastError, match="at least one epoch"):
        Forward(estimate=0)
    with pytest.raises(HoldfastError, match=r"\[0, 1\)"):
        Forward(hold_out=1)
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(Backward(), [torch.zeros(3, 1)], torch.zeros(3, 1))
