"""Encoders of pictures of timm, by their names."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.encoders.base import ImageEncoder
from holdfast.errors import HoldfastError


class Timm(ImageEncoder):
    """Any model of timm with its pre-trained weights: what its classifier would see.

    Parameters
    ----------
    model: a name that ``timm.list_models`` knows, such as resnet50.
    """

    def __init__(self, model: str) -> None:
        self.name = f"timm:{model}"
        if ":" in model or "/" in model:  # a repository or a folder, whose weights may be a pickle
            raise HoldfastError(f"{self.name} is no name of timm.list_models; of anywhere else no weights are loaded")
        try:
            import timm
        except Exception as error:  # it imports torchvision, which may fail in more ways than by being absent
            raise HoldfastError(f"timm cannot be imported here ({error}); pip install timm torchvision") from None
        try:
            self._model: Any = timm.create_model(model, pretrained=True, num_classes=0)
        except Exception as error:
            raise HoldfastError(f"timm does not give {model}: {str(error).strip().splitlines()[0]}") from None
        said = self._model.pretrained_cfg
        self.mean, self.deviation = tuple(said["mean"]), tuple(said["std"])
        super().__init__(int(said["input_size"][-1]))

    @property
    def size(self) -> int:
        return int(self._model.num_features)

    @property
    def weights(self) -> Sequence[Path]:
        return []

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for values in self._model.state_dict().values():
            digest.update(values.contiguous().numpy().tobytes())
        return f"{self.name} {digest.hexdigest()[:16]} {self.settings}"

    def load(self) -> nn.Module:
        model: nn.Module = copy.deepcopy(self._model)
        return model
