"""Robust training as a scikit-learn estimator, in a pipeline and under a grid search."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from holdfast.adapters.sklearn import RobustClassifier

x, y = load_digits(return_X_y=True)
x, held_x, y, held_y = train_test_split(x, y, random_state=0)
rng = np.random.default_rng(0)
given = np.where(rng.random(len(y)) < 0.3, rng.integers(0, 10, len(y)), y)

search = GridSearchCV(RobustClassifier(epochs=10), {"method": ["standard", "second-opinion"]}, cv=3).fit(x, given)
print(f"best by cross-validation on the given labels: {search.best_params_['method']}")
print(f"accuracy on right labels: {search.score(held_x, held_y):.3f}")
