"""The theory behind robust training: its data, its network, and what its theorems ask for and promise."""

from holdfast.theory.clusters import Clustered, SignalSpace, clusterable, corrupted_clusters, nearest_labels
from holdfast.theory.covariance import (
    Separation,
    by_quadrature,
    probit_slopes,
    relu_slopes,
    separation,
    softplus_slopes,
)
from holdfast.theory.jacobian import Jacobian, Spectrum, spectrum
from holdfast.theory.shallow import Shallow, descend

__all__ = [
    "Clustered",
    "Jacobian",
    "Separation",
    "Shallow",
    "SignalSpace",
    "Spectrum",
    "by_quadrature",
    "clusterable",
    "corrupted_clusters",
    "descend",
    "nearest_labels",
    "probit_slopes",
    "relu_slopes",
    "separation",
    "softplus_slopes",
    "spectrum",
]
