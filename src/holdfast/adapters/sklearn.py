"""Robust training as scikit-learn estimators."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.optim import Adam

from holdfast.adapters.class_weights import ClassWeights
from holdfast.adapters.inputs import Array, Encoding, validated, weights
from holdfast.data.rows import Rows
from holdfast.data.scale import scaled_targets, unscaled
from holdfast.encoders.named import is_encoder
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate
from holdfast.fit import fit
from holdfast.method import Method
from holdfast.methods import DEFAULT, METHODS
from holdfast.registry import made


class _Robust(BaseEstimator):
    """What both estimators share: storing, encoding and training."""

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

    @property
    def label_issues_(self) -> pd.DataFrame:
        """Which labels are wrong, least trusted first: row, given and suggested label, trust, flag, why."""
        check_is_fitted(self)
        table: pd.DataFrame = self.run_.issues().drop(columns=["name", "held_out"])
        return table

    @property
    def noise_rate_(self) -> float:
        """The share of labels that are wrong, by estimate."""
        check_is_fitted(self)
        rate: float = self.run_.wrong_labels().rate
        return rate

    def _train(self, method: Method, x: Any, y: Tensor, classes: tuple[str, ...] | None, weight: Array | None) -> None:
        encoder = self.net if is_encoder(self.net) else "auto" if self.net == "auto" else None
        self.encoding_ = Encoding.fit(x, encoder)
        rows = scaled_targets(
            Rows(
                self.encoding_(x), y, classes, recipe=self.encoding_.recipe,
                weight=None if weight is None else torch.from_numpy(weight),
            )
        )  # fmt: skip
        self.run_ = fit(
            rows if classes is not None else replace(rows, y=rows.y.float()),
            method,
            "auto" if is_encoder(self.net) else self.net,
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=partial(Adam, lr=self.lr, fused=True),
            seed=self.random_state,
            device=self.device,
        )

    def _outputs(self, x: Any) -> Array:
        check_is_fitted(self)
        inputs = self.encoding_(validated(self, x, reset=False))
        # In double precision a row's prediction does not depend on the rows predicted with it.
        net = copy.deepcopy(self.run_.net).cpu().double()
        output: Array = evaluate(net, iter([inputs.double()])).double().numpy()
        return output

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class RobustClassifier(ClassifierMixin, _Robust):
    """A neural network classifier that withstands wrong labels.

    ``X`` is an array, a sparse matrix, or a table (pandas, polars, Arrow) with numbers, categories, texts and gaps,
    which is encoded as ``holdfast fit`` encodes a file.

    Parameters
    ----------
    method: a name of the command line (standard, prl-l, ...; ``holdfast methods`` lists them) or a ``Method``.
    net: mlp, or any name that ``holdfast.fit`` takes; that of an encoder, such as minilm, reads columns of text.
    epochs, lr: passes over the data and learning rate of Adam.
    batch_size: rows in a batch; None: 128, or fewer where there are few rows.
    device: cpu, cuda, ...
    random_state: seed of everything random.
    class_weight: how much the rows of each class count in the loss, by label, or "balanced".

    Attributes
    ----------
    classes_: the labels seen.
    label_issues_: which labels are wrong, least trusted first.
    noise_rate_: the share of labels that are wrong, by estimate.
    encoding_: how columns are encoded; its ``dropped`` says which are not, and why.
    run_: the ``Run``, with its history and ledger.

    >>> RobustClassifier(epochs=5).fit([[0.0], [1.0]] * 20, ["no", "yes"] * 20).classes_.tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        method: str | Method = DEFAULT,
        net: str = "mlp",
        epochs: int = 30,
        batch_size: int | None = None,
        lr: float = 1e-3,
        device: str = "cpu",
        random_state: int = 0,
        class_weight: dict[Any, float] | str | None = None,
    ) -> None:
        super().__init__(method, net, epochs, batch_size, lr, device, random_state)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train.

        ``sample_weight`` says how much each row counts in the loss of the network, and ``class_weight`` each class that
        a row is trained towards, with every method. The networks that are asked about labels before, and so
        ``label_issues_``, do not heed them, and boosted trees do not join a network that does.
        """
        X, y = validated(self, X, y)
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        if len(self.classes_) < 2:
            raise HoldfastError(f"only one class ({self.classes_[0]}); a classifier needs at least two")
        number = torch.from_numpy(np.searchsorted(self.classes_, y))
        method = made("method", copy.deepcopy(self.method), METHODS)
        if self.class_weight is not None:
            own = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            method = ClassWeights(method, torch.from_numpy(own))
        self._train(method, X, number, tuple(map(str, self.classes_)), weights(sample_weight, X))
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

    @property
    def label_issues_(self) -> pd.DataFrame:
        """The same, with labels as they were given."""
        table = super().label_issues_
        label = dict(zip(map(str, self.classes_), self.classes_, strict=True))
        return table.assign(**{name: table[name].map(label) for name in ("given", "suggested")})


class RobustRegressor(RegressorMixin, _Robust):
    """A neural network regressor that withstands wrong targets; parameters and inputs as ``RobustClassifier``."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; ``sample_weight`` as in ``RobustClassifier.fit``."""
        X, y = validated(self, X, y, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        target = np.array(y, dtype=np.float64).reshape(len(y), -1)
        method = made("method", copy.deepcopy(self.method), METHODS)
        self._train(method, X, torch.from_numpy(target), None, weights(sample_weight, X))
        return self

    def predict(self, X: Any) -> Array:
        predicted = unscaled(torch.from_numpy(self._outputs(X)), self.run_.config.recipe).numpy()
        return predicted[:, 0] if self._flat else predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
