"""One file a method."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.method import Method
from holdfast.methods.crust import Crust

METHODS: Mapping[str, Callable[[], Method]] = MappingProxyType(
    {
        "standard": Method,
        "crust": Crust,
        "crust-paper": Crust.paper,
        "crust-authors": Crust.authors,
    }
)
"""What the command line calls the methods; nothing else looks names up."""

__all__ = ["METHODS", "Crust"]
