import pytest
import torch

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.methods import ConfidentLearning


def test_the_contract_holds():
    check_method(ConfidentLearning(), neutral=ConfidentLearning(0))


def test_wrong_labels_are_pruned_by_networks_that_have_not_seen_them(flipped):
    rows, method = flipped(1200, wrong=0.2), ConfidentLearning(3, each=4)
    run = fit(rows, method, "mlp", epochs=16, batch_size=40)
    right = rows.y == rows.truth
    assert right[method.kept].double().mean() > 0.95
    assert method.kept.double().mean() > 0.7
    assert run.history["coverage"].iloc[0] == pytest.approx(2 / 3, abs=0.01)
    assert run.history["coverage"].iloc[-1] == pytest.approx(float(method.kept.double().mean()), abs=1e-6)
    assert torch.allclose(method.expected.sum(1), torch.ones(1200), atol=1e-4)


def test_a_run_too_short_for_its_folds_still_ends(flipped):
    run = fit(flipped(200), ConfidentLearning(5), "mlp", epochs=3, batch_size=40)
    assert len(run.history) == 3


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="at least 2"):
        ConfidentLearning(1)
    with pytest.raises(HoldfastError, match="prune is one of"):
        ConfidentLearning(prune="all")
