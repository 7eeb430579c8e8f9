"""Pictures of runs, drawn without a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch import Tensor

from holdfast.files import written_aside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")


def curves(histories: Mapping[str, Sequence[pd.DataFrame]], path: Path, *, title: str, metric: str) -> None:
    """Score, coverage and purity by epoch: the mean of the seeds as a line, their range as a band."""
    from matplotlib.figure import Figure  # slow to import, and training alone never draws

    panels = [
        ("test", f"test {metric}"),
        ("purity", "right labels among the trusted"),
        ("coverage", "share of labels trusted"),
    ]
    shown = [panel for panel in panels if any(panel[0] in h for runs in histories.values() for h in runs)]
    figure = Figure(figsize=(4.6 * max(1, len(shown)), 3.6), layout="constrained")
    axes = figure.subplots(1, max(1, len(shown)), squeeze=False)[0]
    for axis, (column, label) in zip(axes, shown, strict=False):
        for colour, (name, runs) in zip(COLOURS * 4, histories.items(), strict=False):
            _band(axis, [h[column] for h in runs if column in h], name, colour)
        axis.set_xlabel("epoch")
        axis.set_ylabel(label)
        tidy(axis)
    axes[0].legend(frameon=False)
    figure.suptitle(title)
    save(figure, path)


def residuals(predicted: np.ndarray[Any, Any], given: np.ndarray[Any, Any], path: Path, *, title: str) -> None:
    """What a regression misses by: residuals over predictions, and how often each size occurs.

    Shape: predicted (N, q), given (N, q).
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    # More points than this only blacken the picture.
    some = np.random.default_rng(0).permutation(len(given))[:4000]
    missed = given - predicted
    low, high = np.percentile(missed, (1, 99))
    room = 0.6 * (high - low) or 1.0
    bins = np.linspace(low - room, high + room, 60).tolist()
    for k, colour in zip(range(given.shape[1]), COLOURS * 8, strict=False):
        name = f"target {k}" if given.shape[1] > 1 else None
        left.scatter(predicted[some, k], missed[some, k], s=5, alpha=0.4, color=colour, label=name, linewidths=0)
        right.hist(missed[:, k].clip(bins[0], bins[-1]), bins, color=colour, histtype="step", linewidth=1.4)
    left.set(xlabel="predicted", ylabel="given less predicted", ylim=(bins[0], bins[-1]))
    right.set(xlabel="given less predicted (the outer bars hold all beyond)", ylabel="rows")
    for axis in (left, right):
        tidy(axis)
    left.axhline(0, color="black", linewidth=0.8)
    if given.shape[1] > 1:
        figure.legend(loc="outside right center", frameon=False, markerscale=2.5)
    figure.suptitle(title)
    save(figure, path)


def heat_map(matrix: Tensor, path: Path | str, names: Sequence[str] | None = None, *, title: str = "") -> None:
    """How labels go wrong: a transition matrix as a picture, true classes down, given classes across.

    Shares are written into the cells of up to twenty classes.

    Shape: matrix (C, C).
    """
    from matplotlib.figure import Figure

    share = matrix.detach().cpu().numpy()
    classes = len(share)
    names = [str(k) for k in range(classes)] if names is None else list(names)
    side = min(12.0, 2.0 + 0.55 * classes)
    figure = Figure(figsize=(side + 1.0, side), layout="constrained")
    axis = figure.subplots()
    shown = axis.imshow(share, vmin=0, vmax=1, cmap="Blues")
    # With many classes each label would cover the next.
    ticks = range(0, classes, max(1, classes // 25))
    axis.set_xticks(ticks, [names[k] for k in ticks])
    if max(map(len, names)) > 3:
        axis.tick_params("x", rotation=60)
    axis.set_yticks(ticks, [names[k] for k in ticks])
    axis.set(xlabel="given label", ylabel="true class", title=title)
    if classes <= 20:
        for i in range(classes):
            for j in range(classes):
                if share[i, j] >= 0.005:
                    colour, text = "white" if share[i, j] > 0.5 else "black", f"{share[i, j]:.2f}".removeprefix("0")
                    axis.text(j, i, text, ha="center", va="center", color=colour, size=8)
    figure.colorbar(shown, ax=axis, shrink=0.8, label="share of the true class")
    save(figure, Path(path))


def tidy(axis: Axes) -> None:
    """How every picture looks: a faint grid and no frame above and on the right."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG aside and rename it."""
    with written_aside(path) as aside:
        figure.savefig(aside, dpi=144, format="png", facecolor="white")


def _band(axis: Axes, series: Sequence[pd.Series[float]], name: str, colour: str) -> None:
    if not series:
        return
    values = np.full((len(series), max(map(len, series))), np.nan)
    for row, line in zip(values, series, strict=True):
        row[: len(line)] = line
    # Epochs in which no run has a value (purity before the first selection) are left out.
    at = np.flatnonzero(~np.isnan(values).all(0))
    if not len(at):
        return
    values = values[:, at]
    axis.plot(at + 1, np.nanmean(values, 0), color=colour, label=name, linewidth=1.8)
    if len(series) > 1:
        axis.fill_between(at + 1, np.nanmin(values, 0), np.nanmax(values, 0), color=colour, alpha=0.18, linewidth=0)
