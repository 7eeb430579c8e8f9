"""The configuration of a run: all that it was made with, as JSON values that can be written, read and compared."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from holdfast.configurable import Configurable
from holdfast.data.recipe import check_recipe
from holdfast.data.rows import Rows
from holdfast.data.source import source_of
from holdfast.errors import HoldfastError
from holdfast.feed import task_for
from holdfast.json_kinds import fits
from holdfast.version import __version__

MOST = 1000
"""Numbers of an array that a configuration spells out; of a larger one it holds a digest."""
SAMPLES = 21
"""Points at which a schedule of one's own is written down."""
WHEREVER = ("call", "device", "devices", "strategy", "workers", "source", "recipe", "versions", "rows")
"""What may differ when a run goes on: where it trains, and what other fields stand for."""


@dataclass(frozen=True)
class RunConfig:
    """What a run was made with, as it stands in ``run.json``.

    A part such as a method is ``{"name": class, "settings": {...}}``; classes of one's own are ``module:name``.

    Attributes
    ----------
    call: the method as it is called in Python, for people to read.
    method, stop: how to train, and when to stop.
    evidence: whether networks that never saw a row's label were asked about it.
    net: the name or ``module:factory`` from which the network can be built again; None for a module of one's own.
    network, parameters: the class of the network and how many parameters it has.
    pretrained: the folder of the run that it started from.
    optimizer, schedule, augment: how it was optimised.
    source, recipe: where the rows were read from, and how further ones are prepared.
    fingerprint, reviewed: digests of the rows, and of which of them a person has reviewed; ``rows``, ``shape``,
        ``outputs``, ``classes`` and ``unlabelled`` describe them.
    versions: of the software.
    """

    call: str
    method: dict[str, Any]
    stop: dict[str, Any] | None
    evidence: bool
    net: str | None
    network: str
    parameters: int
    pretrained: str | None
    optimizer: dict[str, Any]
    schedule: dict[str, Any]
    augment: dict[str, Any] | list[dict[str, Any]] | None
    epochs: int
    batch_size: int
    seed: int
    precision: str
    device: str
    devices: int
    strategy: str
    workers: int
    rows: int
    shape: tuple[int, ...]
    outputs: int
    unlabelled: bool
    classes: tuple[str, ...] | None
    fingerprint: str
    reviewed: str | None
    source: dict[str, Any]
    recipe: dict[str, Any]
    versions: dict[str, str]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        """Read a configuration; ``HoldfastError`` where the text is none, or that of another version."""
        try:
            found = json.loads(text)
        except ValueError:  # an integer of thousands of digits is no JSONDecodeError
            raise HoldfastError("is damaged; train into another folder") from None
        except RecursionError:
            raise HoldfastError("is nested too deeply to be a run's; train into another folder") from None
        kinds = get_type_hints(cls)
        if not isinstance(found, dict) or found.keys() != kinds.keys():
            raise HoldfastError("was written by another version of Holdfast; train again")
        for name, kind in kinds.items():
            if not fits(found[name], kind):
                raise HoldfastError(f"is damaged: {name} cannot be {str(found[name])[:60]}; train into another folder")
        classes = found["classes"]
        made = cls(**{**found, "shape": tuple(found["shape"]), "classes": None if classes is None else tuple(classes)})
        if min(made.rows, made.outputs, *made.shape) < 1 or (classes is not None and len(classes) != made.outputs):
            raise HoldfastError("is damaged: rows, inputs and outputs do not fit each other; train into another folder")
        check_recipe(made.recipe)
        if made.source:
            source_of(made.source)
        return made

    def decisive(self) -> str:
        """What decides what is trained, as text to compare."""
        return json.dumps({name: value for name, value in asdict(self).items() if name not in WHEREVER})

    def differences(self, other: RunConfig) -> Iterator[str]:
        """What would train otherwise, in words: a setting, its value here, and its value there."""
        here, there = (json.loads(config.to_json()) for config in (self, other))
        for name in here:
            if name == "fingerprint" and here[name] != there[name]:
                yield "other data"
            elif name == "reviewed" and here[name] != there[name]:
                yield "other reviewed labels"
            elif name not in WHEREVER:
                yield from _differences(name, here[name], there[name])


def _differences(name: str, here: Any, there: Any) -> Iterator[str]:
    if isinstance(here, dict) and isinstance(there, dict) and here.get("name") == there.get("name"):
        for key in sorted({*here, *there}):
            inner = name if key == "settings" else f"{name} {key}"
            yield from _differences(inner, here.get(key), there.get(key))
    elif here != there:
        shown = [call_of(value) if isinstance(value, dict) and "name" in value else value for value in (here, there)]
        yield f"{name.replace('_', ' ')} {shown[0]}, not {shown[1]}"


def call_of(part: Mapping[str, Any]) -> str:
    """A part of a configuration as the call that makes it.

    >>> call_of({"name": "Ramp", "settings": {"epochs": 5, "power": 1.0}})
    'Ramp(epochs=5, power=1.0)'
    """
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in part.get("settings", {}).items())
    return f"{part['name']}({shown})"


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "name" in value:
        return call_of(value)
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, list) else repr(value)


def plain(value: Any) -> Any:
    """Any setting as JSON values: equal settings become equal values, in any process and on any day."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Configurable):
        return {"name": _name(type(value)), "settings": plain(value.settings())}
    if isinstance(value, (Tensor, np.ndarray)):
        return _array(np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value))
    if is_dataclass(value) and not isinstance(value, type):
        stored = {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.init}
        return {"name": _name(type(value)), "settings": stored}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, functools.partial):
        return {"name": _name(value.func), "settings": plain(value.keywords), "given": plain(value.args)}
    if callable(value):
        return _callable(value)
    return {"name": _name(type(value)), "settings": plain(vars(value)) if hasattr(value, "__dict__") else {}}


def optimizer_part(optimizer: Optimizer) -> dict[str, Any]:
    """Which optimizer it is, with the settings of each group of parameters."""
    groups = [
        {name: plain(value) for name, value in group.items() if name not in ("params", "initial_lr")}
        for group in optimizer.param_groups
    ]
    return {
        "name": _name(type(optimizer)),
        "settings": groups[0],
        **({"groups": groups[1:]} if len(groups) > 1 else {}),
    }


def schedule_part(schedule: Callable[[float], float]) -> dict[str, Any]:
    """A schedule by its settings, or one of one's own by the factors that it gives."""
    if hasattr(schedule, "__dataclass_fields__"):
        part: dict[str, Any] = plain(schedule)
        return part
    return {"name": "own", "settings": {"factors": [float(schedule(k / (SAMPLES - 1))) for k in range(SAMPLES)]}}


def rows_part(rows: Rows) -> dict[str, Any]:
    """The part of a configuration that says what was trained on."""
    return {
        "rows": len(rows),
        "shape": rows.shape,
        "outputs": task_for(rows).outputs,
        "unlabelled": rows.unlabelled,
        "classes": rows.classes,
        "fingerprint": rows.fingerprint,
        "reviewed": reviewed_part(rows.reviewed),
        "source": dict(rows.source),
        "recipe": dict(rows.recipe),
        "versions": {
            "holdfast": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _name(item: Any) -> str:
    """A class or function of the library or of torch by its name, of anybody else with its module."""
    module, name = item.__module__, getattr(item, "__qualname__", type(item).__qualname__)
    return name if module.split(".")[0] in ("holdfast", "torch", "builtins") else f"{module}:{name}"


def _callable(value: Any) -> dict[str, Any]:
    if not hasattr(value, "__qualname__"):
        return {"name": _name(type(value)), "settings": plain(vars(value))}
    code = getattr(value, "__code__", None)
    if code is None or "<" not in value.__qualname__:
        return {"name": _name(value), "settings": {}}
    # A lambda has a name that all lambdas share and an address that changes; what it does is what tells it apart.
    closed = [plain(cell.cell_contents) for cell in value.__closure__ or ()]
    constants = [constant for constant in code.co_consts if isinstance(constant, (bool, int, float, str, tuple))]
    text = repr((code.co_code, constants, code.co_names, closed, plain(value.__defaults__)))
    return {"name": _name(value), "settings": {"code": _digest(text.encode())}}


def _array(values: np.ndarray[Any, Any]) -> Any:
    if values.size <= MOST:
        return values.tolist()
    return {"shape": list(values.shape), "digest": _digest(np.ascontiguousarray(values).tobytes())}


def reviewed_part(reviewed: Tensor | None) -> str | None:
    """Which rows a person has reviewed, as a digest; None for none."""
    return None if reviewed is None or not bool(reviewed.any()) else _digest(reviewed.cpu().numpy().tobytes())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
