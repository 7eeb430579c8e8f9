"""Robust training as scikit-learn estimators."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.optim import Adam

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate
from holdfast.fit import fit
from holdfast.method import Method
from holdfast.methods import DEFAULT, METHODS

Array = np.ndarray[Any, Any]


class _Robust(BaseEstimator):
    """What both estimators share: storing, scaling and training."""

    def __init__(
        self,
        method: str | Method = DEFAULT,
        net: str = "mlp",
        epochs: int = 30,
        batch_size: int | None = None,
        lr: float = 1e-3,
        device: str = "cpu",
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.net = net
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.device = device
        self.random_state = random_state

    def _train(self, x: Array, y: Tensor, classes: tuple[str, ...] | None) -> None:
        self.mean_ = x.mean(0)
        spread = x.std(0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        rows = Rows(self._scaled(x), y, classes)
        self.run_ = fit(
            rows,
            self._made(),
            self.net,
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=lambda parameters: Adam(parameters, lr=self.lr, fused=True),
            seed=self.random_state,
            device=self.device,
        )

    def _made(self) -> Method:
        if isinstance(self.method, Method):
            return copy.deepcopy(self.method)
        if self.method not in METHODS:
            raise HoldfastError(f"no method is called {self.method!r}; there are {', '.join(METHODS)}")
        return METHODS[self.method]()

    def _scaled(self, x: Array) -> Tensor:
        return torch.from_numpy(((x - self.mean_) / self.scale_).astype(np.float32))

    def _outputs(self, x: Any) -> Array:
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=np.float64)
        # In double precision a row's prediction does not depend on the rows predicted with it.
        net = copy.deepcopy(self.run_.net).cpu().double()
        output: Array = evaluate(net, iter([self._scaled(x).double()])).double().numpy()
        return output


class RobustClassifier(ClassifierMixin, _Robust):
    """A neural network classifier that withstands wrong labels.

    Parameters
    ----------
    method: a name of the command line (standard, prl-l, ...; ``holdfast methods`` lists them) or a ``Method``.
    net: mlp, or any name that ``holdfast.fit`` takes.
    epochs, lr: passes over the data and learning rate of Adam.
    batch_size: rows in a batch; None: 128, or fewer where there are few rows.
    device: cpu, cuda, ...
    random_state: seed of everything random.

    Attributes
    ----------
    classes_: the labels seen.
    run_: the ``Run``, with its history and ledger.

    >>> RobustClassifier(epochs=5).fit([[0.0], [1.0]] * 20, ["no", "yes"] * 20).classes_.tolist()
    ['no', 'yes']
    """

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        if len(self.classes_) < 2:
            raise HoldfastError(f"only one class ({self.classes_[0]}); a classifier needs at least two")
        number = torch.from_numpy(np.searchsorted(self.classes_, y))
        self._train(X, number, tuple(map(str, self.classes_)))
        return self

    def predict_proba(self, X: Any) -> Array:
        output = self._outputs(X)
        shifted = np.exp(output - output.max(1, keepdims=True))
        proba: Array = shifted / shifted.sum(1, keepdims=True)
        return proba

    def predict(self, X: Any) -> Array:
        best = self._outputs(X).argmax(1)
        predicted: Array = self.classes_[best]
        return predicted


class RobustRegressor(RegressorMixin, _Robust):
    """A neural network regressor that withstands wrong targets; parameters as ``RobustClassifier``."""

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        target = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        # The middle half sets the scale: wrong targets may lie anywhere.
        low, self.centre_, high = np.percentile(target, (25, 50, 75), axis=0)
        spread = np.where(high > low, high - low, target.std(0))
        self.spread_ = np.where(spread > 0, spread, 1.0)
        scaled = ((target - self.centre_) / self.spread_).astype(np.float32)
        self._train(X, torch.from_numpy(scaled), None)
        return self

    def predict(self, X: Any) -> Array:
        output = self._outputs(X)
        predicted: Array = output * self.spread_ + self.centre_
        return predicted[:, 0] if self._flat else predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
