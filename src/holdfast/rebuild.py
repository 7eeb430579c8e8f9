"""Parts of a run made again from its configuration: only what ships with Holdfast or torch, never somebody's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch import nn, optim
from torch.optim import Optimizer

from holdfast.config import RunConfig
from holdfast.errors import HoldfastError
from holdfast.feed import Augments, CropFlip, PadCropFlip
from holdfast.functional import drop_rate, schedules
from holdfast.functional.schedules import Schedule
from holdfast.method import Method
from holdfast.methods import METHODS
from holdfast.stack import Stack
from holdfast.stop import STOPS
from holdfast.stop.rule import StopRule

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


def method_of(config: RunConfig) -> Method:
    made: Method = _made(config.method)
    return made


def stop_of(config: RunConfig) -> StopRule | None:
    made: StopRule | None = _made(config.stop)
    return made


def schedule_of(config: RunConfig) -> Schedule:
    made: Schedule = _made(config.schedule)
    return made


def augment_of(config: RunConfig) -> Augments | None:
    made: Augments | None = _made(config.augment)
    return made


def optimizer_of(config: RunConfig) -> Callable[[Iterable[nn.Parameter]], Optimizer]:
    """A maker of the optimizer, from torch's own."""
    name, settings = config.optimizer["name"], config.optimizer["settings"]
    kind = getattr(optim, name, None)
    if "groups" in config.optimizer or not (isinstance(kind, type) and issubclass(kind, Optimizer)):
        raise _not_ours(name)
    known = optimizer_settings(kind, settings)
    return partial(kind, **known)


def optimizer_settings(kind: type[Optimizer], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a group of parameters that the optimizer takes when it is made."""
    import inspect

    taken = inspect.signature(kind).parameters
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items() if name in taken
    }


def _made(part: Any) -> Any:
    """A part, or a value of it, as it was."""
    if isinstance(part, list):
        return [_made(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    if "name" not in part:
        raise _not_ours("an array that is too long to be written down")
    settings = {name: _made(value) for name, value in part.get("settings", {}).items()}
    if part["name"] == Stack.__name__:
        return Stack(*settings["members"])
    if part["name"] not in PARTS or "given" in part:
        raise _not_ours(part["name"])
    return PARTS[part["name"]](**settings)


def _not_ours(name: str) -> HoldfastError:
    return HoldfastError(f"the run was made with {name}, which Holdfast cannot make again; start it from your own code")
