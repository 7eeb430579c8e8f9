"""What a tracker is: somewhere that the figures of each epoch go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Tracker(Protocol):
    """Somewhere that the figures of each epoch go.

    What is made with its settings alone can travel to the process that trains; it is opened there.
    """

    def open(self, config: Mapping[str, Any], out: Path | None, done: int) -> None:
        """Before the first epoch: what the run is made with, its folder, and how many epochs are done already."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """The figures of an epoch, counted from 0."""

    def close(self) -> None:
        """After the last epoch."""


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration as one level of names.

    >>> flat({"seed": 0, "method": {"name": "GCE", "settings": {"q": 0.7}}})
    {'seed': 0, 'method.name': 'GCE', 'method.settings.q': 0.7}
    """
    found: dict[str, Any] = {}
    for name, value in config.items():
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
        found |= inner
    return found
