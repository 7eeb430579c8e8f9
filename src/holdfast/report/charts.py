"""Charts as SVG text that takes its colours from the page, so that they suit light and dark alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 34


def curves(lines: Mapping[str, Sequence[float]], *, y: str) -> Markup:
    """Lines over the epochs; values that are no numbers are left out."""
    values = np.concatenate([np.asarray(line, dtype=float) for line in lines.values()])
    values = values[np.isfinite(values)]
    if not len(values):
        return Markup("")
    low, high = _room(float(values.min()), float(values.max()))
    length = max(map(len, lines.values()))
    parts = [_axes(low, high, 1, max(length, 2), x="epoch")]
    for k, line in enumerate(lines.values()):
        points = " ".join(
            f"{_x(e + 1, 1, max(length, 2)):.1f},{_y(v, low, high):.1f}" for e, v in enumerate(line) if np.isfinite(v)
        )
        parts.append(Markup('<polyline class="line c{}" points="{}"/>').format(k, points))
    return _figure(parts, list(lines), y)


def intervals(names: Sequence[str], values: Sequence[Sequence[float]]) -> Markup:
    """A bar for each name, with its interval: values are (estimate, low, high), all shares."""
    high = max(0.05, max(v[2] for v in values))
    rows, room, width = [], 130, WIDTH - 130 - 60
    for k, (name, (estimate, least, most)) in enumerate(zip(names, values, strict=True)):
        at = 8 + 24 * k
        a, b, c = (room + width * min(v, high) / high for v in (least, estimate, most))
        rows.append(
            Markup(
                '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
                '<rect class="bar c0" x="{}" y="{}" width="{:.1f}" height="14" rx="2"/>'
                '<line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>'
                '<text class="tick" x="{:.1f}" y="{}">{}</text>'
            ).format(
                room - 8, at + 12, _short(name), room, at, b - room, a, c, at + 7, at + 7, c + 6, at + 12,
                f"{estimate:.1%}",
            )
        )  # fmt: skip
    tall = 16 + 24 * len(names)
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="wrong labels by class">{}</svg>').format(
        WIDTH, tall, Markup("").join(rows)
    )


def _counts(most: int) -> list[int]:
    """Round numbers of rows up to the largest, with room for their names on a root scale.

    >>> _counts(7_733), _counts(1_111), _counts(1)
    ([0, 2000, 5000, 7733], [0, 300, 700, 1111], [0, 1])
    """
    between = (round(n, 1 - len(str(n))) for n in (round(most * share) for share in (0.25, 0.6)))
    kept = [0, most]
    kept += [n for n in between if all(abs(n**0.5 - k**0.5) > 0.1 * most**0.5 for k in kept)]
    return sorted(kept)


def histogram(trust: NDArray[Any], threshold: float) -> Markup:
    """How many rows have which trust, on a root scale, since most are near one; flagged rows in another colour."""
    count, edges = np.histogram(trust, bins=40, range=(0, 1))
    high = float(np.sqrt(max(1, count.max())))
    most = int(max(1, count.max()))
    marks = [(float(np.sqrt(n)), f"{n:,}") for n in _counts(most)]
    parts = [_axes(0, high, 0, 1, x="trust in the given label", marks=marks)]
    for n, left, right in zip(count, edges[:-1], edges[1:], strict=True):
        if n:
            top = _y(float(np.sqrt(n)), 0, high)
            parts.append(
                Markup('<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    "c1" if right <= threshold + 1e-9 else "c0",
                    _x(left, 0, 1), top, _x(right, 0, 1) - _x(left, 0, 1) - 1, HEIGHT - BOTTOM - top,
                )
            )  # fmt: skip
    at = _x(threshold, 0, 1)
    parts.append(Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(at, at, TOP, HEIGHT - BOTTOM))
    return _figure(parts, ["trusted", f"flagged (below {threshold:g})"], "rows by trust")


def _figure(parts: Sequence[Markup], legend: Sequence[str], label: str) -> Markup:
    keys = Markup("").join(
        Markup('<span><i class="c{}"></i>{}</span>').format(k, name) for k, name in enumerate(legend)
    )
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg><p class="legend">{}</p>').format(
        WIDTH, HEIGHT, label, Markup("").join(parts), keys
    )


def _axes(
    low: float, high: float, first: float, last: float, *, x: str, marks: Sequence[tuple[float, str]] | None = None
) -> Markup:
    marks = marks if marks is not None else [(v, f"{v:.3g}") for v in np.linspace(low, high, 5)]
    lines = [
        Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text class="tick" x="{}" y="{:.1f}" '
               'text-anchor="end">{}</text>').format(
            LEFT, WIDTH - RIGHT, _y(v, low, high), _y(v, low, high), LEFT - 6, _y(v, low, high) + 4, text
        )
        for v, text in marks
    ]  # fmt: skip
    across = np.unique(np.linspace(first, last, 6).round() if last > 1 else np.linspace(first, last, 6))
    lines += [
        Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
            _x(v, first, last), HEIGHT - BOTTOM + 16, f"{v:.0f}" if last > 1 else f"{v:.1f}"
        )
        for v in across
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(
        Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(middle, HEIGHT - 4, x)
    )
    return Markup("").join(lines)


def _x(value: float, first: float, last: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (value - first) / (last - first)


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)


def _room(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
