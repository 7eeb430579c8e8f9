"""Encoders by name, and which of them is taken where nobody names one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache

from holdfast.digits import number_in
from holdfast.encoders import efficientnet_lite, minilm
from holdfast.encoders.base import Encoder
from holdfast.encoders.efficientnet_lite import EfficientNetLite0
from holdfast.encoders.hugging_face import HuggingFaceText
from holdfast.encoders.minilm import MiniLM
from holdfast.encoders.timm_models import Timm
from holdfast.encoders.vision import HuggingFaceVision
from holdfast.errors import HoldfastError
from holdfast.own_code import own_code

ENCODERS: dict[str, Callable[[], Encoder]] = {MiniLM.kind: MiniLM, EfficientNetLite0.kind: EfficientNetLite0}
"""Those whose weights come with an installed package."""
FAMILIES: dict[str, Callable[[str], Encoder]] = {"text": HuggingFaceText, "image": HuggingFaceVision, "timm": Timm}
"""Those that are named after a colon: text:FOLDER_OR_HUB_NAME."""
SMALLEST = 32
"""Pixels on the short side of pictures that count as photographs where nobody names an encoder."""


@cache
def encoder_named(spec: str) -> Encoder:
    """The encoder of a name; loaded once in a process.

    Parameters
    ----------
    spec: minilm, lite0 (or lite0@96: with pictures of that side); text: or image: before a folder or a name on the hub;
        timm: before a name of timm; or ``module.path:Class`` for an ``Encoder`` of one's own, made without arguments.
    """
    name, _, side = spec.partition("@")
    if name == EfficientNetLite0.kind:
        return EfficientNetLite0(_side(spec, side) if side else efficientnet_lite.LARGEST)
    if spec in ENCODERS:
        return ENCODERS[spec]()
    family, _, rest = spec.partition(":")
    if family in FAMILIES and rest:
        return FAMILIES[family](rest)
    own = _own(spec)
    if own is None:
        known = ", ".join([*ENCODERS, *(f"{name}:NAME" for name in FAMILIES)])
        raise HoldfastError(f"no encoder is called {spec!r} (there are {known}, or module.path:Class)")
    return own()


def is_encoder(spec: str) -> bool:
    """Whether a name is that of an encoder rather than of a network to train."""
    return spec.partition("@")[0] in ENCODERS or spec.partition(":")[0] in FAMILIES or _own(spec) is not None


def runs_code(spec: str) -> bool:
    """Whether a name stands for a module of one's own."""
    return ":" in spec and spec.partition(":")[0] not in FAMILIES


def usual_for_texts() -> str | None:
    """The encoder of texts where nobody names one: MiniLM if it is installed."""
    return MiniLM.kind if _installed(minilm.PACKAGES) else None


def picture_encoder(choice: str | None, height: int, width: int, channels: int) -> str | None:
    """The encoder of pictures of a size, with their side in its name.

    Parameters
    ----------
    choice: a name, which is kept; "auto": EfficientNet-Lite0 for photographs, if it is installed; None: none.

    >>> picture_encoder("lite0", 480, 640, 3), picture_encoder("image:folder", 32, 32, 3)
    ('lite0@224', 'image:folder')
    """
    if choice == "auto":
        photographs = channels == 3 and min(height, width) >= SMALLEST
        choice = EfficientNetLite0.kind if photographs and _installed(efficientnet_lite.PACKAGES) else None
    return f"{choice}@{efficientnet_lite.LARGEST}" if choice == EfficientNetLite0.kind else choice


def _side(spec: str, text: str) -> int:
    side = number_in(text)
    if side is None or side % 32 or not 32 <= side <= efficientnet_lite.LARGEST:
        raise HoldfastError(f"{spec}: the side is a multiple of 32 pixels up to {efficientnet_lite.LARGEST}")
    return side


def _installed(packages: tuple[str, ...]) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in packages)


def _own(spec: str) -> type[Encoder] | None:
    """A class of one's own, or None where the name is something else."""
    path, colon, _ = spec.partition(":")
    if not colon or path in FAMILIES or not all(part.isidentifier() for part in path.split(".")):
        return None
    try:
        found = own_code(spec, "an encoder")
    except HoldfastError:
        return None  # what reads it next says why
    return found if isinstance(found, type) and issubclass(found, Encoder) else None
