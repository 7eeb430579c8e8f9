"""Models that become less simple step by step: a linear one, a network of one layer, and trees for numbers; and a model
of one's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.functional.held_out import Array, spread_over
from holdfast.functional.trees import threads_for

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""How weakly a linear model is held back, step by step: the inverse of the penalty."""
TREES, ROUNDS = 10, 20
"""Trees added at each step, and steps at most."""
EPOCHS = 12
"""Of a network at most; each is one step."""


class Linear:
    """Logistic regression, or ridge regression of targets, with a weaker penalty at each step."""

    name = "a linear model"
    steps = len(PENALTIES)

    def __init__(self, classes: int | None) -> None:
        self.classes = classes
        self._at = 0
        self._model: Any = None

    def advance(self, x: Any, y: Array) -> None:
        from sklearn.linear_model import LogisticRegression, Ridge  # slow to import

        weak = PENALTIES[self._at]
        self._at += 1
        if self.classes is None:
            self._model = Ridge(alpha=1 / weak)
        else:
            self._model = self._model or LogisticRegression(max_iter=100, tol=1e-3, warm_start=True)
            self._model.C = weak
        with warnings.catch_warnings():
            # A fit that is cut short, or hardly determined, is judged by held-out rows like any other.
            warnings.simplefilter("ignore")
            self._model.fit(x, y)

    def expected(self, x: Any) -> Array:
        if self.classes is None:
            values: Array = np.asarray(self._model.predict(x)).reshape(x.shape[0], -1)
            return values
        return spread_over(self._model.predict_proba(x), self._model.classes_, self.classes)


class Network:
    """A network of one hidden layer, an epoch at each step."""

    name = "a small network"
    steps = EPOCHS

    def __init__(self, classes: int | None) -> None:
        self.classes = classes
        self._model: Any = None

    def advance(self, x: Any, y: Array) -> None:
        from sklearn.neural_network import MLPClassifier, MLPRegressor  # slow to import

        batch = min(128, x.shape[0], max(16, x.shape[0] // 64))
        if self.classes is None:
            self._model = self._model or MLPRegressor(hidden_layer_sizes=(128,), batch_size=batch, random_state=0)
            self._model.partial_fit(x, y if y.shape[1] > 1 else y[:, 0])
            return
        self._model = self._model or MLPClassifier(hidden_layer_sizes=(128,), batch_size=batch, random_state=0)
        self._model.partial_fit(x, y, classes=np.arange(self.classes))

    def expected(self, x: Any) -> Array:
        if self.classes is None:
            values: Array = np.asarray(self._model.predict(x)).reshape(x.shape[0], -1)
            return values
        probabilities: Array = self._model.predict_proba(x)
        return probabilities


class TargetTrees:
    """Boosted trees for targets, some more at each step; gaps and categories as they are."""

    steps = ROUNDS

    def __init__(self, categorical: Array) -> None:
        self._categorical = categorical
        self._models: list[Any] = []

    def advance(self, x: Array, y: Array) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import

        if not self._models:
            settings = {"warm_start": True, "early_stopping": False, "random_state": 0}
            self._models = [
                HistGradientBoostingRegressor(max_iter=0, categorical_features=self._categorical, **settings)
                for _ in range(y.shape[1])
            ]
        with threads_for(x):
            for model, values in zip(self._models, y.T, strict=True):
                model.max_iter += TREES
                model.fit(x, values)

    def expected(self, x: Array) -> Array:
        with threads_for(x):
            return np.stack([model.predict(x) for model in self._models], axis=1)


class Own:
    """A model of the user's, of scikit-learn's kind, as those of LightGBM, XGBoost and CatBoost are: fitted once."""

    steps = 1

    def __init__(self, model: Any, classes: int | None) -> None:
        from sklearn.base import clone  # slow to import

        self.classes = classes
        try:
            self._model = clone(model)
        except TypeError as error:
            raise HoldfastError(f"model is {model!r}; it must be a model of scikit-learn's kind ({error})") from error
        self._asked = "predict" if classes is None else "predict_proba"
        if not hasattr(self._model, "fit") or not hasattr(self._model, self._asked):
            raise HoldfastError(f"model is {model!r}, which has no fit and {self._asked}")
        self._known: Array = np.zeros(0, dtype=int)

    def advance(self, x: Any, y: Array) -> None:
        if self.classes is None:
            given = y if y.shape[1] > 1 else y[:, 0]
        else:  # numbered from 0 without gaps, as some models ask
            self._known, given = np.unique(y, return_inverse=True)
        try:
            self._model.fit(x, given)
        except ValueError as error:
            why = str(error).partition("\n")[0]
            raise HoldfastError(f"{type(self._model).__name__} cannot be trained on this data: {why}") from error

    def expected(self, x: Any) -> Array:
        found: Array = np.asarray(getattr(self._model, self._asked)(x), dtype=float).reshape(x.shape[0], -1)
        return found if self.classes is None else spread_over(found, self._known, self.classes)
