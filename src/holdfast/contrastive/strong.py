"""Strong views of images: fourteen operations, five of them drawn for each image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.augment import Augment
from holdfast.feed import as_float

Operation = Callable[[Tensor, Tensor], Tensor]
"""Images (B, C, H, W) in [0, 1] and strengths (B,), whole numbers from 1 to 9 -> images."""


@dataclass(frozen=True)
class Strong:
    """A view, then five times one of fourteen operations with probability one half, each at a random strength.

    Parameters
    ----------
    first: the weak view it starts from.
    rounds: how many operations are drawn.
    chance: the probability that a drawn one is applied.

    Shape: (B, C, H, W) -> that of the weak view, in [0, 1].

    Differs from the authors' code: the images of a batch to which one operation falls are worked on together; colours
    stay floats between operations, which Pillow rounds to bytes.

    Reference: Wang and Qi, "Contrastive Learning with Stronger Augmentations", 2021.
    """

    first: Augment
    rounds: int = 5
    chance: float = 0.5

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        x = as_float(self.first(x, generator))
        colours, count = tuple(COLOURS.values()), len(x)
        for _ in range(self.rounds):
            which = torch.randint(len(colours) + len(MOVES), (count,), generator=generator)
            strength = torch.randint(1, 10, (count,), generator=generator).float()
            sign = 2.0 * torch.randint(0, 2, (count,), generator=generator) - 1
            which = torch.where(torch.rand(count, generator=generator) < self.chance, which, -1)
            for number, operation in enumerate(colours):
                rows = (which == number).nonzero()[:, 0]
                if operation is not _same and len(rows):
                    x[rows] = operation(x[rows], strength[rows].to(x))
            # All that move pixels go through one interpolation.
            rows = (which >= len(colours)).nonzero()[:, 0]
            if len(rows):
                x[rows] = move(x[rows], which[rows] - len(colours), strength[rows], sign[rows])
        return x


def _same(x: Tensor, strength: Tensor) -> Tensor:
    return x


def auto_contrast(x: Tensor, strength: Tensor) -> Tensor:
    """Stretch each channel to the full range."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp_min(1e-6), x)


def brightness(x: Tensor, strength: Tensor) -> Tensor:
    """Towards black."""
    return x * _factor(strength)


def colour(x: Tensor, strength: Tensor) -> Tensor:
    """Towards grey."""
    return torch.lerp(_grey(x), x, _factor(strength))


def contrast(x: Tensor, strength: Tensor) -> Tensor:
    """Towards the mean brightness."""
    return torch.lerp(_grey(x).mean((2, 3), keepdim=True), x, _factor(strength))


def sharpness(x: Tensor, strength: Tensor) -> Tensor:
    """Towards a smoothed image; the border stays."""
    channels = x.shape[1]
    kernel = torch.ones(channels, 1, 3, 3).to(x) / 13
    kernel[:, :, 1, 1] *= 5
    smooth = x.clone()
    smooth[:, :, 1:-1, 1:-1] = F.conv2d(x, kernel, groups=channels)
    return torch.lerp(smooth, x, _factor(strength))


def equalize(x: Tensor, strength: Tensor) -> Tensor:
    """Make all levels of each channel equally common."""
    level = _levels(x).flatten(2).flatten(0, 1)
    count = torch.zeros(len(level), 256, dtype=torch.int64, device=x.device)
    count.scatter_add_(1, level, torch.ones_like(level))
    # The step leaves out the pixels of the highest level there is, as Pillow does.
    step = (level.shape[1] - count.gather(1, level.amax(1, keepdim=True))) // 255
    below = count.cumsum(1) - count
    table = torch.where(step > 0, (below + step // 2) // step.clamp_min(1), torch.arange(256, device=x.device))
    return (table.clamp_max(255).gather(1, level).view(x.shape) / 255).to(x)


def posterize(x: Tensor, strength: Tensor) -> Tensor:
    """Keep four to seven bits of each colour."""
    step = (2 ** (4 - (0.4 * strength).floor())).long().to(x.device)[:, None, None, None]
    return (_levels(x) // step * step / 255).to(x)


def solarize(x: Tensor, strength: Tensor) -> Tensor:
    """Turn over what is brighter than a threshold."""
    threshold = (256 - (25.6 * strength).floor())[:, None, None, None] / 255
    # Half a level of slack: a threshold is a level, and levels are rounded floats.
    return torch.where(x >= threshold.to(x) - 0.5 / 255, 1 - x, x)


COLOURS: Mapping[str, Operation] = MappingProxyType(
    {
        "auto contrast": auto_contrast,
        "brightness": brightness,
        "colour": colour,
        "contrast": contrast,
        "equalize": equalize,
        "identity": _same,
        "posterize": posterize,
        "sharpness": sharpness,
        "solarize": solarize,
    }
)
MOVES = ("rotate", "shear x", "shear y", "translate x", "translate y")


def move(x: Tensor, kind: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """Rotate by at most 30 degrees, or shear or translate by at most 0.3, black where nothing comes from.

    Shape: (B, C, H, W), kind (B,) places in ``MOVES``, strength (B,) from 1 to 9, sign (B,) -> (B, C, H, W).
    """
    share = 0.03 * strength * sign
    angle, shear_x, shear_y, across, down = (torch.where(kind == k, share, 0.0) for k in range(len(MOVES)))
    # Whole degrees: 100 times what others move by.
    angle = -torch.deg2rad(sign * (100 * angle.abs() + 1e-3).floor())
    aspect = x.shape[2] / x.shape[3]
    cos, sin = angle.cos(), angle.sin()
    rows = [
        torch.stack([cos, (sin + shear_x) * aspect, shear_x * aspect + 2 * across], 1),
        torch.stack([(shear_y - sin) / aspect, cos, shear_y / aspect + 2 * down], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1).to(x), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="nearest", align_corners=False)


def _factor(strength: Tensor) -> Tensor:
    return (0.09 * strength + 0.05)[:, None, None, None]


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    weight = torch.tensor((0.299, 0.587, 0.114)).to(x)
    return (x * weight[:, None, None]).sum(1, keepdim=True)


def _levels(x: Tensor) -> Tensor:
    return (255 * x).round().long()
