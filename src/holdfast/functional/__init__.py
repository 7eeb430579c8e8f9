"""What two or more methods share: small pure functions on tensors."""

from holdfast.functional.by_heart import by_heart
from holdfast.functional.capture import output_layer, penultimate
from holdfast.functional.confident import confident_suspects
from holdfast.functional.corruption import confident_joint, stray_labels, wrong_labels, wrong_targets
from holdfast.functional.dimension import local_dimension
from holdfast.functional.divergence import divergence
from holdfast.functional.forget import AuthorsRamp, Forget, Ramp
from holdfast.functional.lots import next_by_lot, row_lots
from holdfast.functional.mixture import Mixture, fit_mixture, small_component
from holdfast.functional.partners import beta_shares, cluster_partners, label_partners
from holdfast.functional.persample import gradient_matrix, gradient_norms
from holdfast.functional.posterior import anchor_rows, clean_posterior, flip_matrix, label_posterior, rivals
from holdfast.functional.reduce import keep_count, keep_smallest, robust_mean, smallest, weighted_mean
from holdfast.functional.schedules import Constant, Cosine, HoldThenLinear, OneCycle, Schedule, Steps
from holdfast.functional.transition import (
    backward_losses,
    forward_losses,
    total_variation,
    transition_by_anchors,
    transition_by_joint,
)

__all__ = [
    "AuthorsRamp",
    "Constant",
    "Cosine",
    "Forget",
    "HoldThenLinear",
    "Mixture",
    "OneCycle",
    "Ramp",
    "Schedule",
    "Steps",
    "anchor_rows",
    "backward_losses",
    "beta_shares",
    "by_heart",
    "clean_posterior",
    "cluster_partners",
    "confident_joint",
    "confident_suspects",
    "divergence",
    "fit_mixture",
    "flip_matrix",
    "forward_losses",
    "gradient_matrix",
    "gradient_norms",
    "keep_count",
    "keep_smallest",
    "label_partners",
    "label_posterior",
    "local_dimension",
    "next_by_lot",
    "output_layer",
    "penultimate",
    "rivals",
    "robust_mean",
    "row_lots",
    "small_component",
    "smallest",
    "stray_labels",
    "total_variation",
    "transition_by_anchors",
    "transition_by_joint",
    "weighted_mean",
    "wrong_labels",
    "wrong_targets",
]
