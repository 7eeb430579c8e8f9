"""Inception-ResNet-v2, the network of the WebVision experiments."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import HoldfastError
from holdfast.nets.base import ConvNet, Norm, norm_layer


class InceptionResNetV2(ConvNet):
    """Inception blocks whose joined branches are scaled down and added to what went in.

    A stem at an eighth of the image's size, ten blocks there, a reduction, twenty blocks, a reduction, ten blocks, and
    a last convolution to 1,536 channels. Norm and ReLU follow each convolution but the one that widens a block's
    branches to the channels of its input.

    Parameters
    ----------
    channels: of the images, at least 1.
    outputs: numbers in one output, at least 1.
    blocks: in the three stages, at least 1 each.
    dropout: probability of each feature to be dropped in training, in [0, 1).
    norm: "batch" or "group" (8 groups).

    Shapes
    ------
    (B, channels, H, W) with H, W >= 75, made for 299 -> (B, outputs); features (B, 1536).

    Differs from the paper: numbers of blocks and channels are those of the network that its authors published, which is
    the one that later work means (the paper draws 5, 10 and 5 blocks, and another stem). There is no auxiliary head,
    and norms have torch's usual epsilon and momentum.

    Reference: Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual Connections on Learning",
    AAAI 2017, sections 3.2 and 3.3.
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        blocks: Sequence[int] = (10, 20, 10),
        dropout: float = 0.2,
        norm: Norm = "batch",
    ) -> None:
        if len(blocks) != 3 or min(blocks) < 1:
            raise HoldfastError(f"an Inception-ResNet has three stages of at least one block, not {tuple(blocks)}")
        make = _Parts(norm)
        super().__init__(
            nn.Sequential(
                *make.stem(channels),
                *(make.block35() for _ in range(blocks[0])),
                make.reduction_to_17(),
                *(make.block17() for _ in range(blocks[1])),
                make.reduction_to_8(),
                *(make.block8() for _ in range(blocks[2] - 1)),
                make.last_block8(),
                make.conv(2080, 1536, 1),
                # Dropping whole channels before they are averaged is dropping features after it.
                nn.Dropout2d(dropout),
            ),
            nn.Linear(1536, outputs),
        )


class _Parts:
    """The parts of the network, named by the side of what they see of an image of 299 pixels."""

    def __init__(self, norm: Norm) -> None:
        self.norm: Norm = norm

    def conv(
        self, before: int, after: int, size: int | tuple[int, int], stride: int = 1, pad: bool = True
    ) -> nn.Sequential:
        height, width = (size, size) if isinstance(size, int) else size
        padding = (height // 2, width // 2) if pad else (0, 0)
        return nn.Sequential(
            nn.Conv2d(before, after, (height, width), stride, padding, bias=False),
            norm_layer(self.norm, after),
            nn.ReLU(inplace=True),
        )

    def halve(self, before: int, after: int) -> nn.Sequential:
        return self.conv(before, after, 3, stride=2, pad=False)

    def stem(self, channels: int) -> list[nn.Module]:
        return [
            self.halve(channels, 32),
            self.conv(32, 32, 3, pad=False),
            self.conv(32, 64, 3),
            nn.MaxPool2d(3, 2),
            self.conv(64, 80, 1),
            self.conv(80, 192, 3, pad=False),
            nn.MaxPool2d(3, 2),
            _Branches(
                self.conv(192, 96, 1),
                nn.Sequential(self.conv(192, 48, 1), self.conv(48, 64, 5)),
                nn.Sequential(self.conv(192, 64, 1), self.conv(64, 96, 3), self.conv(96, 96, 3)),
                nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), self.conv(192, 64, 1)),
            ),
        ]

    def block35(self) -> nn.Module:
        branches = _Branches(
            self.conv(320, 32, 1),
            nn.Sequential(self.conv(320, 32, 1), self.conv(32, 32, 3)),
            nn.Sequential(self.conv(320, 32, 1), self.conv(32, 48, 3), self.conv(48, 64, 3)),
        )
        return _Block(branches, 128, 320, scale=0.17)

    def reduction_to_17(self) -> nn.Module:
        return _Branches(
            self.halve(320, 384),
            nn.Sequential(self.conv(320, 256, 1), self.conv(256, 256, 3), self.halve(256, 384)),
            nn.MaxPool2d(3, 2),
        )

    def block17(self) -> nn.Module:
        branches = _Branches(
            self.conv(1088, 192, 1),
            nn.Sequential(self.conv(1088, 128, 1), self.conv(128, 160, (1, 7)), self.conv(160, 192, (7, 1))),
        )
        return _Block(branches, 384, 1088, scale=0.1)

    def reduction_to_8(self) -> nn.Module:
        return _Branches(
            nn.Sequential(self.conv(1088, 256, 1), self.halve(256, 384)),
            nn.Sequential(self.conv(1088, 256, 1), self.halve(256, 288)),
            nn.Sequential(self.conv(1088, 256, 1), self.conv(256, 288, 3), self.halve(288, 320)),
            nn.MaxPool2d(3, 2),
        )

    def block8(self) -> nn.Module:
        return _Block(self._branches8(), 448, 2080, scale=0.2)

    def last_block8(self) -> nn.Module:
        """Neither scaled down nor followed by a ReLU."""
        return _Block(self._branches8(), 448, 2080, scale=1.0, relu=False)

    def _branches8(self) -> nn.Module:
        return _Branches(
            self.conv(2080, 192, 1),
            nn.Sequential(self.conv(2080, 192, 1), self.conv(192, 224, (1, 3)), self.conv(224, 256, (3, 1))),
        )


class _Branches(nn.Module):
    """Branches side by side, their channels joined."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class _Block(nn.Module):
    """A residual block: what the branches find, widened to the input's channels, scaled and added to it."""

    def __init__(self, branches: nn.Module, joined: int, channels: int, scale: float, relu: bool = True) -> None:
        super().__init__()
        self.branches = branches
        self.widen = nn.Conv2d(joined, channels, 1)
        self.scale = scale
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.scale * self.widen(self.branches(x))
        return F.relu(y, inplace=True) if self.relu else y
