"""Rules that end a training before it memorises wrong labels; each works with any method."""

from holdfast.registry import by_name
from holdfast.stop.accuracy import TrainAccuracyStop as TrainAccuracyStop
from holdfast.stop.distance import DistanceStop as DistanceStop
from holdfast.stop.rule import StopRule as StopRule
from holdfast.stop.theory import TheoryStop as TheoryStop
from holdfast.stop.validation import NoisyValidationStop as NoisyValidationStop

STOPS = by_name(StopRule, globals())
"""Rules by the name that they have on the command line."""
