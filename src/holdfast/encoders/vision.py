"""Encoders of pictures of Hugging Face, from a folder or from the hub."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.encoders.base import ImageEncoder
from holdfast.encoders.hugging_face import found_from_anywhere, load_model, model_folder, settings_in, weights_in
from holdfast.errors import unreadable


class HuggingFaceVision(ImageEncoder):
    """Any model of pictures that ``transformers`` knows: what it pools, or the mean over its patches.

    Parameters
    ----------
    where: a folder, or a name on the hub such as facebook/dinov2-small.
    """

    def __init__(self, where: str) -> None:
        self._where = found_from_anywhere(where)
        self.name = f"image:{self._where}"
        said = settings_in(self.folder, "preprocessor_config.json")
        with unreadable(self.folder / "preprocessor_config.json", "is damaged"):
            if said.get("do_normalize", True):
                self.mean = tuple(float(value) for value in said.get("image_mean", self.mean))
                self.deviation = tuple(float(value) for value in said.get("image_std", self.deviation))
            else:
                self.mean, self.deviation = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
            side = _side(said, settings_in(self.folder, "config.json"))
        super().__init__(side)

    @cached_property
    def folder(self) -> Path:
        return model_folder(self._where)

    @property
    def weights(self) -> Sequence[Path]:
        return weights_in(self.folder)

    @cached_property
    def size(self) -> int:
        return self.encode(torch.zeros(1, 3, self.side, self.side, dtype=torch.uint8)).shape[1]

    def load(self) -> nn.Module:
        return _Pooled(load_model(self.folder))


class _Pooled(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        found = self.model(pixel_values=x)
        pooled: Tensor | None = getattr(found, "pooler_output", None)
        if pooled is None:
            hidden: Tensor = found.last_hidden_state
            pooled = hidden.mean((2, 3)) if hidden.dim() == 4 else hidden.mean(1)
        return pooled.flatten(1)


def _side(said: dict[str, Any], model: dict[str, Any]) -> int:
    """The side that a model was trained with."""
    for size in (said.get("crop_size"), said.get("size"), model.get("image_size")):
        if isinstance(size, int):
            return size
        if isinstance(size, dict) and size:
            return int(size.get("height") or next(iter(size.values())))
    return 224
