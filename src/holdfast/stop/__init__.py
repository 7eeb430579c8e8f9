"""Rules that end a training before it learns wrong labels by heart; each stacks with any method."""

from __future__ import annotations

from holdfast.method import Method
from holdfast.stop.accuracy import TrainAccuracyStop
from holdfast.stop.distance import DistanceStop
from holdfast.stop.theory import TheoryStop
from holdfast.stop.validation import NoisyValidationStop

__all__ = ["STOPS", "DistanceStop", "NoisyValidationStop", "TheoryStop", "TrainAccuracyStop"]

STOPS: dict[str, type[Method]] = {
    "distance": DistanceStop,
    "validation": NoisyValidationStop,
    "accuracy": TrainAccuracyStop,
    "theory": TheoryStop,
}
"""Rules by the name they have on the command line."""
