"""Wrong labels and targets made on purpose, to measure what a method can bear."""

from holdfast.noise.features import FEATURE_KINDS, FeatureNoise, corrupt_features
from holdfast.noise.kinds import KINDS, corrupt
from holdfast.noise.labels import Noise, asymmetric, derangement, pairflip, realised_transition, symmetric
from holdfast.noise.maps import (
    CIFAR10_PAIRS,
    CIFAR100_NEXT,
    MNIST_PAIRS,
    next_class,
    pair_matrix,
    symmetric_matrix,
)
from holdfast.noise.part_dependent import flip_rates, instance, instance_probabilities
from holdfast.noise.targets import TARGET_KINDS, TargetNoise, linadv, mixture, signflip, target_pairflip, uninoise

__all__ = [
    "CIFAR10_PAIRS",
    "CIFAR100_NEXT",
    "FEATURE_KINDS",
    "KINDS",
    "MNIST_PAIRS",
    "TARGET_KINDS",
    "FeatureNoise",
    "Noise",
    "TargetNoise",
    "asymmetric",
    "corrupt",
    "corrupt_features",
    "derangement",
    "flip_rates",
    "instance",
    "instance_probabilities",
    "linadv",
    "mixture",
    "next_class",
    "pair_matrix",
    "pairflip",
    "realised_transition",
    "signflip",
    "symmetric",
    "symmetric_matrix",
    "target_pairflip",
    "uninoise",
]
