import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_regression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from holdfast import HoldfastError
from holdfast.adapters.sklearn import RobustClassifier, RobustRegressor
from holdfast.methods import Crust

NOT_BIT_FOR_BIT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a row of weight two is drawn once, a row twice in two batches"
    for kind in ("dense", "sparse")
}
"""scikit-learn excuses its own stochastic estimators from these."""


@parametrize_with_checks(
    [RobustClassifier(), RobustRegressor()], expected_failed_checks=lambda estimator: NOT_BIT_FOR_BIT
)
@pytest.mark.slow
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def noisy_digits():
    x, y = load_digits(return_X_y=True)
    x, held_x, y, held_y = train_test_split(x, y, random_state=0)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < 0.4
    given = np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y)
    return x, np.array([f"digit {k}" for k in given]), held_x, np.array([f"digit {k}" for k in held_y])


@pytest.mark.slow
def test_string_labels_and_wrong_ones(noisy_digits):
    x, y, held_x, held_y = noisy_digits
    scores = {
        m: RobustClassifier(m, epochs=80, batch_size=84, lr=3e-3).fit(x, y).score(held_x, held_y)
        for m in ("standard", "ema-refinement")
    }
    assert scores["ema-refinement"] > scores["standard"] + 0.05
    assert scores["ema-refinement"] > 0.8


@pytest.mark.slow
def test_grid_search_over_methods(noisy_digits):
    x, y, *_ = noisy_digits
    grid = {"robustclassifier__method": ["standard", Crust(), Crust(fraction=0.6)]}
    search = GridSearchCV(make_pipeline(StandardScaler(), RobustClassifier(epochs=8)), grid, cv=2).fit(x, y)
    assert len(search.cv_results_["mean_test_score"]) == 3
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert clone(search.best_estimator_) is not search.best_estimator_


@pytest.mark.slow
def test_regression_with_wrong_targets():
    x, y = make_regression(400, 5, noise=1.0, random_state=0)
    wrong = np.random.default_rng(0).random(len(y)) < 0.2
    given = np.where(wrong, y + 20 * y.std(), y)
    scores = {
        m: RobustRegressor(m, epochs=60, lr=0.01).fit(x[:300], given[:300]).score(x[300:], y[300:])
        for m in ("standard", "ema-refinement")
    }
    assert scores["ema-refinement"] > 0.9 > scores["standard"]


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="no method is called 'crusty'"):
        RobustClassifier("crusty").fit([[0.0], [1.0]] * 8, [0, 1] * 8)
    with pytest.raises(HoldfastError, match="only one class"):
        RobustClassifier().fit([[0.0], [1.0]], ["a", "a"])


@pytest.mark.slow
def test_a_regressor_that_drops_large_residuals():
    x, y = make_regression(600, 5, noise=1.0, random_state=0)
    given = np.where(np.arange(600) % 5 == 0, y + 2000, y)
    scores = {
        m: RobustRegressor(m, epochs=40, batch_size=37, lr=3e-3).fit(x, given).score(x, y)
        for m in ("standard", "prl-l")
    }
    assert scores["prl-l"] > 0.8 > 0 > scores["standard"]
