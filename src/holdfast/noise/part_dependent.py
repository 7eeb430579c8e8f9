"""Label noise that depends on the input: part-dependent noise (PDN)."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.noise.labels import Array, Noise, checked_labels, noise_of
from holdfast.noise.maps import check_rate

_ROWS = 4096


def instance(x: Tensor, y: Tensor, rate: float, classes: int, *, seed: int = 0) -> Noise:
    """Labels mistaken for the class that a random linear map of the input favours.

    Each example has its own flip rate, q_i ~ N(rate, 0.1²) truncated to [0, 1], and
    p_i = q_i softmax(x_i W[y_i]) over the other classes, 1 - q_i for the true one, with W standard normal.

    Parameters
    ----------
    x: inputs; bytes are scaled to [0, 1]. They are flattened and standardised: images (N, channels, H, W)
        by channel, anything else by feature. For large inputs the softmax is nearly one-hot, as intended.
    y: clean labels, 0 to classes - 1.
    rate: in [0, 1]. Truncation moves the mean flip rate inwards (0.1 becomes 0.129); 0 leaves all clean.
    classes: C, at least 2.
    seed: of the flip rates, W and the labels.

    Shapes
    ------
    x (N, ...), y (N,) -> Noise. W is drawn class by class, and inputs become floats some rows at a time.

    Reference: Xia et al., "Part-dependent Label Noise: Towards Instance-dependent Label Noise",
    NeurIPS 2020, Algorithm 2.
    """
    check_rate(rate)
    clean = checked_labels(y, classes)
    if len(x) != len(clean):
        raise HoldfastError(f"{len(x)} inputs but {len(clean)} labels; each row needs one of both")
    noisy = clean.copy()
    if rate == 0 or len(clean) == 0:
        return noise_of(clean, noisy, classes)
    rng = np.random.default_rng(seed)
    q = flip_rates(len(clean), rate, rng)
    u = torch.from_numpy(rng.random(len(clean)))
    x = x.detach().cpu()
    mean, scale = _statistics(x)
    for c in range(classes):
        weights = torch.from_numpy(rng.standard_normal((x[0].numel(), classes), dtype=np.float32))
        for rows in torch.split(torch.from_numpy(np.flatnonzero(clean == c)), _ROWS):
            inputs = ((_floats(x[rows]) - mean) / scale).flatten(1)
            p = instance_probabilities(inputs, weights, c, q[rows])
            noisy[rows.numpy()] = _draw(p, u[rows])
    return noise_of(clean, noisy, classes)


def instance_probabilities(x: Tensor, weights: Tensor, y: int, q: Tensor) -> Tensor:
    """Label probabilities for examples of one class: q softmax(x W) over the others, 1 - q for their own.

    Parameters
    ----------
    x: standardised inputs.
    weights: the map W of class ``y``.
    y: the true class of all these examples.
    q: flip rates in [0, 1].

    Shapes
    ------
    x (n, d), weights (d, C), q (n,) -> (n, C) float64, rows summing to 1.
    """
    scores = (x @ weights).double()
    scores[:, y] = -torch.inf
    p = q.double()[:, None] * scores.softmax(1)
    p[:, y] = 1 - q.double()
    return p


def flip_rates(n: int, rate: float, rng: np.random.Generator, std: float = 0.1) -> Tensor:
    """Flip rates drawn from a normal distribution around ``rate`` truncated to [0, 1]; (n,) float64."""
    low, high = ndtr((0 - rate) / std), ndtr((1 - rate) / std)
    drawn: Array = rate + std * ndtri(rng.uniform(low, high, size=n))
    return torch.from_numpy(drawn.clip(0, 1))


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation by channel of images, by feature of other inputs, without a float copy."""
    total = torch.zeros(x.shape[1:], dtype=torch.float64)
    square = torch.zeros_like(total)
    for rows in torch.split(x, _ROWS):
        total += _floats(rows).sum(0, dtype=torch.float64)
    mean = _by_channel(total / len(x)).float()
    for rows in torch.split(x, _ROWS):
        square += (_floats(rows) - mean).square().sum(0, dtype=torch.float64)
    variance = _by_channel(square / len(x))
    scale = variance.sqrt()
    scale[scale < 1e-8] = 1
    return mean, scale.float()


def _by_channel(average: Tensor) -> Tensor:
    return average.mean((1, 2), keepdim=True) if average.ndim == 3 else average


def _floats(x: Tensor) -> Tensor:
    return x.float() / 255 if x.dtype == torch.uint8 else x.float()


def _draw(p: Tensor, u: Tensor) -> Array:
    """The class at which the running sum of label probabilities passes a uniform number."""
    steps = p.cumsum(1)
    drawn: Array = (steps[:, :-1] <= u[:, None]).sum(1).numpy()
    return drawn
