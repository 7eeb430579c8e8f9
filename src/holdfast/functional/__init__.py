"""What two or more methods share: small pure functions on tensors."""

from holdfast.functional.capture import output_layer, penultimate
from holdfast.functional.posterior import anchor_rows, clean_posterior, flip_matrix, label_posterior
from holdfast.functional.reduce import keep_count, smallest, weighted_mean
from holdfast.functional.schedules import Constant, Cosine, HoldThenLinear, OneCycle, Schedule, Steps

__all__ = [
    "Constant",
    "Cosine",
    "HoldThenLinear",
    "OneCycle",
    "Schedule",
    "Steps",
    "anchor_rows",
    "clean_posterior",
    "flip_matrix",
    "keep_count",
    "label_posterior",
    "output_layer",
    "penultimate",
    "smallest",
    "weighted_mean",
]
