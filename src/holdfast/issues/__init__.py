"""Which labels are wrong: scores, trust, suggestions, and how many there are."""

from holdfast.functional.label_trust import Trust, label_trust
from holdfast.functional.target_trust import TargetTrust, target_trust
from holdfast.issues.find import find_label_issues
from holdfast.issues.noise import Noise, WrongLabels, noise_of
from holdfast.issues.scorers import (
    area_under_margin,
    confident_joint,
    gradient_norm,
    neighbour_vote,
    probability_margin,
    selection_frequency,
    self_confidence,
)

__all__ = [
    "Noise",
    "TargetTrust",
    "Trust",
    "WrongLabels",
    "area_under_margin",
    "confident_joint",
    "find_label_issues",
    "gradient_norm",
    "label_trust",
    "neighbour_vote",
    "noise_of",
    "probability_margin",
    "selection_frequency",
    "self_confidence",
    "target_trust",
]
