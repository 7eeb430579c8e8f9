"""What two or more methods share: small pure functions on tensors."""

from holdfast.functional.capture import output_layer, penultimate
from holdfast.functional.reduce import keep_count, smallest, weighted_mean
from holdfast.functional.schedules import Constant, Cosine, HoldThenLinear, OneCycle, Schedule, Steps

__all__ = [
    "Constant",
    "Cosine",
    "HoldThenLinear",
    "OneCycle",
    "Schedule",
    "Steps",
    "keep_count",
    "output_layer",
    "penultimate",
    "smallest",
    "weighted_mean",
]
