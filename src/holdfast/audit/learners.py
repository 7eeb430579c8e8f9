"""Models for vectors, texts and small pictures, from simple to less so: a linear one, and a network of one layer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from holdfast.functional.held_out import Array, spread_over

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""How weakly a linear model is held back, step by step: the inverse of the penalty."""
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
            # The penalty of ridge regression is on the scale of the number of rows.
            self._model = Ridge(alpha=max(1e-6, 1 / weak), solver="auto").fit(x, y)
            return
        if self._model is None:
            self._model = LogisticRegression(max_iter=100, tol=1e-3, warm_start=True)
        self._model.C = weak
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that is cut short is a simpler one, which held-out rows judge
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
            self._model = self._model or MLPRegressor((128,), batch_size=batch, random_state=0)
            self._model.partial_fit(x, y if y.shape[1] > 1 else y[:, 0])
            return
        self._model = self._model or MLPClassifier((128,), batch_size=batch, random_state=0)
        self._model.partial_fit(x, y, classes=np.arange(self.classes))

    def expected(self, x: Any) -> Array:
        if self.classes is None:
            values: Array = np.asarray(self._model.predict(x)).reshape(x.shape[0], -1)
            return values
        probabilities: Array = self._model.predict_proba(x)
        return probabilities
