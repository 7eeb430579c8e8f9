"""Numbers that people believe: what a run says of itself is so of the network that it has saved."""

import numpy as np
import pytest
import torch

from holdfast import Rows, Run, compare, fit
from holdfast.compare import figures
from holdfast.methods import METHODS
from holdfast.stop import STOPS


@pytest.fixture(scope="module")
def noisy():
    """Rows on which the score moves from epoch to epoch, test rows with wrong labels and the truth beside them."""
    source = torch.Generator().manual_seed(3)
    truth = torch.arange(400) % 3
    centres = torch.tensor([[0.0, 1.0], [1.0, -0.5], [-1.0, -0.5]])
    x = centres[truth] + 0.7 * torch.randn(400, 2, generator=source)
    wrong = torch.rand(400, generator=source) < 0.25
    rows = Rows(x, torch.where(wrong, (truth + 1) % 3, truth), ("a", "b", "c"), truth=truth)
    return rows.take(torch.arange(200)), rows.take(torch.arange(200, 400))


def accuracy(run, rows, labels):
    return float((run.predict(rows.x) == np.asarray(rows.classes)[labels]).mean())


@pytest.mark.parametrize("method", METHODS)
def test_the_score_is_that_of_the_saved_network(noisy, tmp_path, method):
    rows, test = noisy
    run = fit(rows, method, "mlp", test=test, epochs=5, batch_size=20, out=tmp_path / "run")
    saved = Run.load(tmp_path / "run")
    for each in (run, saved):
        assert each.score == pytest.approx(accuracy(saved, test, test.y), abs=1e-9)
        assert each.true_score == pytest.approx(accuracy(saved, test, test.truth), abs=1e-9)
        by_truth = f"{each.true_score:.4f} by true labels"
        assert each.scored == f"{each.score:.4f} by labels that may be wrong themselves, {by_truth}"


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("method", ["standard", "ema-refinement", "co-teaching", "second-opinion"])
def test_the_score_is_that_of_the_epoch_that_a_stop_rule_kept(noisy, tmp_path, stop, method):
    rows, test = noisy
    run = fit(rows, method, "mlp", test=test, stop=stop, epochs=8, batch_size=20, out=tmp_path / "run")
    saved = Run.load(tmp_path / "run")
    assert run.score == saved.score == pytest.approx(accuracy(saved, test, test.y), abs=1e-9)
    assert run.score == run.history["test"][run.best_epoch]


def test_a_comparison_tells_the_score_of_the_saved_networks(noisy, tmp_path):
    rows, test = noisy
    summary = compare(rows, ["standard", "prl-l"], "mlp", test=test, seeds=2, epochs=3, out=tmp_path)
    for method in ("standard", "prl-l"):
        runs = [Run.load(tmp_path / f"{method}-{seed}") for seed in range(2)]
        scores = [accuracy(run, test, test.y) for run in runs]
        assert summary.loc[method, ("score", "mean")] == pytest.approx(np.mean(scores))
        true = [accuracy(run, test, test.truth) for run in runs]
        assert summary.loc[method, ("true_score", "mean")] == pytest.approx(np.mean(true))


def test_without_true_labels_there_is_no_such_score(noisy):
    rows, test = noisy
    run = fit(rows, "standard", "mlp", test=(test.x, np.asarray(test.classes)[test.y]), epochs=1)
    assert run.true_score is None
    assert "true_score" not in figures(run)
