"""Wrong labels made on purpose, to measure what a method can bear."""

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

__all__ = [
    "CIFAR10_PAIRS",
    "CIFAR100_NEXT",
    "KINDS",
    "MNIST_PAIRS",
    "Noise",
    "asymmetric",
    "corrupt",
    "derangement",
    "flip_rates",
    "instance",
    "instance_probabilities",
    "next_class",
    "pair_matrix",
    "pairflip",
    "realised_transition",
    "symmetric",
    "symmetric_matrix",
]
