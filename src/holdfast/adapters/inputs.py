"""Inputs of an estimator: arrays, sparse matrices and tables, checked and as numbers that a network reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import _check_sample_weight, check_X_y, validate_data
from torch import Tensor

from holdfast.data import columns
from holdfast.data.encode import fit_block, scaled
from holdfast.data.frames import as_frame, dense, is_sparse
from holdfast.encoders.named import usual_for_texts
from holdfast.errors import HoldfastError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Encoding:
    """How inputs become numbers, fitted once.

    Attributes
    ----------
    titles: the columns of a table in order; of an array x0, x1, ...
    fitted: how each is encoded, as ``holdfast.data.columns`` has it; of a sparse matrix, whose columns only mean
        something beside each other, one entry for all.
    dropped: columns that are left out, and why.
    """

    titles: tuple[str, ...]
    fitted: Sequence[Mapping[str, Any]]
    dropped: Mapping[str, str]

    @classmethod
    def fit(cls, x: Any, encoder: str | None) -> Encoding:
        """Of validated inputs; ``encoder`` reads texts beside their words: a name, "auto", or None."""
        if is_sparse(x):
            return cls((), [{"as": "vector", "name": "X", "size": x.shape[1], **fit_block(dense(x))}], {})
        frame = _frame(x, None)
        fitted, dropped = columns.fit(frame, usual_for_texts() if encoder == "auto" else encoder)
        if not fitted:
            why = "; ".join(f"{name!r} dropped: {reason}" for name, reason in dropped.items())
            raise HoldfastError(f"no column can be learned from ({why})")
        return cls(tuple(frame.columns), fitted, dropped)

    def __call__(self, x: Any) -> Tensor:
        """(N, D) numbers of validated inputs."""
        if not self.titles:
            values = dense(x) if is_sparse(x) else _frame(x, None).to_numpy(np.float32)
            return torch.from_numpy(scaled(values, self.fitted[0]))
        return torch.from_numpy(columns.encode(_frame(x, self.titles), self.fitted))

    @property
    def recipe(self) -> dict[str, Any]:
        """How further rows of a table are prepared, for the run; nothing where they came as no table."""
        if not self.titles:
            return {}
        return {"kind": "table", "label": None, "truth": None, "names": None, "columns": list(self.fitted)}


def validated(estimator: Any, x: Any, y: Any = None, *, reset: bool = True, **checks: Any) -> Any:
    """Inputs, and labels where there are such, as scikit-learn checks them; tables stay what they are."""
    if not _is_table(x):
        checked = {} if y is None and not reset else {"y": y}
        kept = {"dtype": np.float64, "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}
        return validate_data(estimator, x, reset=reset, **checked, **kept, **checks)
    validate_data(estimator, x, reset=reset, skip_check_array=True)
    frame = as_frame(x)
    assert frame is not None
    if not reset:
        return frame
    return frame, check_X_y(np.zeros((len(frame), 1)), y, estimator=estimator, **checks)[1]


def weights(given: Any, x: Any) -> Array | None:
    """How much each row counts; None: all the same."""
    return None if given is None else np.asarray(_check_sample_weight(given, x, dtype=np.float64))


def _is_table(x: Any) -> bool:
    return hasattr(x, "columns") and as_frame(x) is not None


def _frame(x: Any, titles: Sequence[str] | None) -> pd.DataFrame:
    """Inputs as a table, numbered from 0, under the titles that they had in training."""
    if is_sparse(x):
        x = dense(x)
    if not isinstance(x, pd.DataFrame):
        frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(x.shape[1])])
    else:
        frame = x.reset_index(drop=True).set_axis([str(name) for name in x.columns], axis=1)
    return frame if titles is None else frame.set_axis(list(titles), axis=1)
