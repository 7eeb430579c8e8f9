"""Residual networks for small images."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import HoldfastError
from holdfast.nets.base import ConvNet, Norm, norm_layer


class ResNet(ConvNet):
    """Residual network of 6n + 2 layers for images of about 32x32.

    One convolution, then three stages of n blocks with w, 2 w and 4 w channels, the second and third at half
    the size of the one before. Shortcuts have no parameters (option A): they skip every second pixel and
    fill new channels with zeros.

    Parameters
    ----------
    depth: 6n + 2, such as 20 or 32.
    channels: of the images, at least 1.
    outputs: numbers in one output, at least 1.
    norm: "batch" or "group" (8 groups).
    width: w, at least 1.

    Shapes
    ------
    (B, channels, H, W) with H, W >= 8 -> (B, outputs); features (B, 4 w).

    Reference: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2; weights
    as in He et al., "Delving Deep into Rectifiers", ICCV 2015.
    """

    def __init__(self, depth: int, channels: int, outputs: int, norm: Norm = "batch", *, width: int = 16) -> None:
        if depth < 8 or depth % 6 != 2:
            raise HoldfastError(f"a ResNet for small images has 6n + 2 layers (20, 32, 44, ...), not {depth}")
        if width < 1:
            raise HoldfastError(f"a ResNet needs at least one channel, not {width}")
        layers = [_conv(channels, width), norm_layer(norm, width), nn.ReLU(inplace=True)]
        before = width
        for after in (width, 2 * width, 4 * width):
            for _ in range((depth - 2) // 6):
                layers.append(_Block(before, after, norm))
                before = after
        super().__init__(nn.Sequential(*layers), nn.Linear(4 * width, outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the convolutions anew, N(0, 2 / fan-in)."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def resnet20(channels: int, outputs: int, norm: Norm = "batch") -> ResNet:
    """ResNet of 20 layers; 269,722 parameters for three channels and ten outputs."""
    return ResNet(20, channels, outputs, norm)


def resnet32(channels: int, outputs: int, norm: Norm = "batch") -> ResNet:
    """ResNet of 32 layers; 464,154 parameters for three channels and ten outputs."""
    return ResNet(32, channels, outputs, norm)


class _Block(nn.Module):
    def __init__(self, before: int, after: int, norm: Norm) -> None:
        super().__init__()
        self.stride = 1 if before == after else 2
        self.extra = (after - before) // 2
        self.branch = nn.Sequential(
            _conv(before, after, self.stride),
            norm_layer(norm, after),
            nn.ReLU(inplace=True),
            _conv(after, after),
            norm_layer(norm, after),
        )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        if self.stride > 1:
            shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra, self.extra))
        return F.relu(self.branch(x) + shortcut)


def _conv(before: int, after: int, stride: int = 1) -> nn.Module:
    return nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
