"""Parts of a run made again from its configuration: only what ships with Holdfast or torch, never somebody's code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch import nn, optim
from torch.optim import Optimizer

from holdfast.augment import CropFlip, PadCropFlip
from holdfast.config import RunConfig
from holdfast.errors import HoldfastError
from holdfast.functional import drop_rate, schedules
from holdfast.methods import METHODS
from holdfast.stack import Stack
from holdfast.stop import STOPS

PARTS: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        *(item for item in METHODS.values() if isinstance(item, type)),
        *STOPS.values(),
        *(schedules.Constant, schedules.Steps, schedules.HoldThenLinear, schedules.Cosine, schedules.OneCycle),
        *(drop_rate.Ramp, drop_rate.AuthorsRamp, PadCropFlip, CropFlip),
    )
}
"""Everything that a configuration may name, by the name of its class."""


def optimizer_of(config: RunConfig) -> Callable[[Iterable[nn.Parameter]], Optimizer]:
    """A maker of the optimizer, from torch's own."""
    name, settings = config.optimizer["name"], config.optimizer["settings"]
    kind = getattr(optim, name, None)
    if "groups" in config.optimizer or not (isinstance(kind, type) and issubclass(kind, Optimizer)):
        raise _not_ours(name)
    taken = inspect.signature(kind).parameters
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items() if name in taken
    }
    return partial(kind, **known)


def remake(part: Any) -> Any:
    """A part of a configuration, or a value of it, as it was."""
    if isinstance(part, list):
        return [remake(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    if "name" not in part:
        raise _not_ours("an array that is too long to be written down")
    settings = {name: remake(value) for name, value in part.get("settings", {}).items()}
    if part["name"] == Stack.__name__:
        return Stack(*settings["members"])
    if part["name"] not in PARTS or "given" in part:
        raise _not_ours(part["name"])
    try:
        return PARTS[part["name"]](**settings)
    except TypeError as error:
        raise HoldfastError(f"the configuration does not fit {part['name']}: {error}") from None


def _not_ours(name: str) -> HoldfastError:
    return HoldfastError(f"the run was made with {name}, which Holdfast cannot make again; start it from your own code")
