"""ResNet-18 and ResNet-50, for small images and with ImageNet's stem."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.nets.base import ConvNet, Norm, norm_layer


class ResNetWide(ConvNet):
    """Residual network of four stages of 64, 128, 256 and 512 channels for images of about 32x32.

    The ImageNet network with a 3x3 convolution of stride one for its stem and no pooling after it; or, ``large``, with
    the stem that it has for images of 224: a 7x7 convolution and a maximum over 3x3, each of stride two.

    Parameters
    ----------
    blocks: how many in each stage.
    deep: three convolutions a block, the last four times as wide, in place of two.
    channels: of the images, at least 1.
    outputs: numbers in one output, at least 1.
    norm: "batch" or "group" (8 groups).
    large: ImageNet's stem.

    Shapes
    ------
    (B, channels, H, W) with H, W >= 8, large 32 -> (B, outputs); features (B, 512), deep (B, 2048).

    Reference: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        deep: bool,
        channels: int,
        outputs: int,
        norm: Norm = "batch",
        *,
        large: bool = False,
    ) -> None:
        first = _conv(channels, 64, 7, 2) if large else _conv(channels, 64, 3)
        layers = [first, norm_layer(norm, 64), nn.ReLU(inplace=True)]
        if large:
            layers.append(nn.MaxPool2d(3, 2, padding=1))
        before, spread = 64, 4 if deep else 1
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            for block in range(count):
                layers.append(_Block(before, width, spread, 2 if stage and block == 0 else 1, norm))
                before = width * spread
        super().__init__(nn.Sequential(*layers), nn.Linear(before, outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the convolutions anew, N(0, 2 / fan-out)."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


def resnet18(channels: int, outputs: int, norm: Norm = "batch", *, large: bool = False) -> ResNetWide:
    """11,173,962 parameters for three channels and ten outputs; large, 11,689,512 for three and a thousand."""
    return ResNetWide((2, 2, 2, 2), False, channels, outputs, norm, large=large)


def resnet50(channels: int, outputs: int, norm: Norm = "batch", *, large: bool = False) -> ResNetWide:
    """23,520,842 parameters for three channels and ten outputs; large, 25,557,032 for three and a thousand."""
    return ResNetWide((3, 4, 6, 3), True, channels, outputs, norm, large=large)


class _Block(nn.Module):
    def __init__(self, before: int, width: int, spread: int, stride: int, norm: Norm) -> None:
        super().__init__()
        after = width * spread
        # A deep block halves the image in its 3x3 convolution, not in the first.
        shapes = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
        if spread == 1:
            shapes = [(before, width, 3, stride), (width, width, 3, 1)]
        parts: list[nn.Module] = []
        for ins, outs, side, step in shapes:
            parts += [_conv(ins, outs, side, step), norm_layer(norm, outs), nn.ReLU(inplace=True)]
        self.branch = nn.Sequential(*parts[:-1])
        same = stride == 1 and before == after
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(_conv(before, after, 1, stride), norm_layer(norm, after))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.branch(x) + self.shortcut(x))


def _conv(before: int, after: int, side: int, stride: int = 1) -> nn.Module:
    return nn.Conv2d(before, after, side, stride=stride, padding=side // 2, bias=False)
