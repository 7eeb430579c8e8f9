"""What the user's own models, which have never seen the label of a row, say of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.few import few
from holdfast.kept import Probabilities
from holdfast.noise_model import noise_model
from holdfast.task import Classification
from holdfast.types import Evidence

OFF = 0.01
"""How far the probabilities of a row may be from adding up to one."""


def opinions(given: Any, feed: Feed) -> Evidence:
    """Evidence about the true labels from out-of-fold predictions.

    Shape: given (N, C) probabilities of the classes, or (N, q) expected values.
    """
    found = torch.as_tensor(np.asarray(given), dtype=torch.float32)
    wanted = (len(feed), feed.task.outputs)
    if tuple(found.shape) != wanted:
        raise HoldfastError(f"evidence needs a line for each row of the dataset: {wanted}, not {tuple(found.shape)}")
    if not bool(found.isfinite().all()):
        raise HoldfastError("evidence has values that are no numbers; every row needs what some model expects of it")
    kept: Probabilities = found
    if isinstance(feed.task, Classification):
        odd = (found < 0).any(1) | ((found.sum(1) - 1).abs() > OFF)
        if bool(odd.any()):
            raise HoldfastError(
                f"evidence holds probabilities, and row {int(odd.nonzero()[0])} does not add up to one; pass outputs "
                "through a softmax first"
            )
        kept = few(found, feed.y)
    held_out = kept.to(feed.device)
    return Evidence(held_out, noise_model(feed.task).join(held_out, held_out, None, feed.y, feed.reviewed))
