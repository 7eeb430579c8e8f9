"""Choosing a few examples that stand for many: facility location, centrality and their weights."""

from typing import TYPE_CHECKING, Any

from holdfast.select.centrality import Centrality, central, centrality
from holdfast.select.distributed import distributed, greedi
from holdfast.select.facility import facility_location
from holdfast.select.medoids import k_medoids
from holdfast.select.selection import Selection
from holdfast.select.stochastic import stochastic_greedy
from holdfast.select.streaming import SieveStreaming, stream
from holdfast.select.weights import cluster_weights, nearest, radius_weights

if TYPE_CHECKING:
    from holdfast.select.estimator import FacilityLocation

__all__ = [
    "Centrality",
    "FacilityLocation",
    "Selection",
    "SieveStreaming",
    "central",
    "centrality",
    "cluster_weights",
    "distributed",
    "facility_location",
    "greedi",
    "k_medoids",
    "nearest",
    "radius_weights",
    "stochastic_greedy",
    "stream",
]


def __getattr__(name: str) -> Any:
    """``FacilityLocation`` on first use: scikit-learn takes a while to import."""
    if name != "FacilityLocation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.select.estimator import FacilityLocation

    return FacilityLocation
