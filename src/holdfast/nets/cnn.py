"""Plain convolutional networks: a small fast one, and the nine-layer one of the Co-teaching papers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from holdfast.nets.base import ConvNet, Norm, norm_layer


class CNN4(ConvNet):
    """Four 3x3 convolutions, the first three followed by max pooling; made for training on a CPU.

    Parameters
    ----------
    channels: of the images, at least 1.
    outputs: numbers in one output, at least 1.
    width: output channels of each convolution.
    norm: "batch", "group" (8 groups, where they divide the channels) or None.

    Shapes
    ------
    (B, channels, H, W) with H, W >= 8 -> (B, outputs); features (B, width[-1]).

    >>> sum(p.numel() for p in CNN4(3, 10).parameters())
    159082
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        width: Sequence[int] = (32, 64, 96, 96),
        norm: Norm | None = "batch",
    ) -> None:
        layers: list[nn.Module] = []
        before = channels
        for i, after in enumerate(width):
            layers.append(nn.Conv2d(before, after, 3, padding=1, bias=norm is None))
            if i < 3:
                # Before the norm, which then has a quarter of the pixels to read: far faster on a CPU.
                layers.append(nn.MaxPool2d(2))
            layers += [norm_layer(norm, after), nn.ReLU(inplace=True)]
            before = after
        super().__init__(nn.Sequential(*layers), nn.Linear(before, outputs))


class CNN9(ConvNet):
    """The nine-layer network of Co-teaching and of much work after it.

    Three 3x3 convolutions of 128 channels, three of 256, each three followed by max pooling and dropout of
    whole channels; then 512, 256 and 128 without padding. Norm and LeakyReLU(0.01) follow each convolution.

    Parameters
    ----------
    channels: of the images, at least 1.
    outputs: numbers in one output, at least 1.
    dropout: probability of each channel to be dropped in training, in [0, 1).
    norm: "batch" or "group" (8 groups, where they divide the channels).
    width: channels of the first and the last convolutions; the others are its multiples.

    Shapes
    ------
    (B, channels, H, W) with H, W >= 28 -> (B, outputs); features (B, width).

    Differs from the authors' code: convolutions have no bias, which the norm would take away again, and
    dropout is off in evaluation. Their functional dropout ignored the mode: never active in the version of
    PyTorch they used (``dropout=0`` here), always active in later ones.

    Reference: Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels",
    NeurIPS 2018, Table 2.
    """

    def __init__(
        self, channels: int, outputs: int, dropout: float = 0.25, norm: Norm = "batch", width: int = 128
    ) -> None:
        layers: list[nn.Module] = []
        before = channels
        for after in (width, 2 * width):
            for _ in range(3):
                layers += _leaky(before, after, norm, padding=1)
                before = after
            layers += [nn.MaxPool2d(2), nn.Dropout2d(dropout)]
        for after in (4 * width, 2 * width, width):
            layers += _leaky(before, after, norm, padding=0)
            before = after
        super().__init__(nn.Sequential(*layers), nn.Linear(before, outputs))


def _leaky(before: int, after: int, norm: Norm, padding: int) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, 3, padding=padding, bias=False),
        norm_layer(norm, after),
        nn.LeakyReLU(0.01, inplace=True),
    ]
