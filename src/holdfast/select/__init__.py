"""Choosing a few examples that stand for many: facility location, centrality and their weights."""

from holdfast.select.centrality import central, centrality
from holdfast.select.facility import facility_location
from holdfast.select.weights import Selection, cluster_weights, nearest, radius_weights

__all__ = [
    "Selection",
    "central",
    "centrality",
    "cluster_weights",
    "facility_location",
    "nearest",
    "radius_weights",
]
