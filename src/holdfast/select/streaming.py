"""Facility location in one pass over a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError, unreadable
from holdfast.select.cover import Array, Cover, Rows32, replayed
from holdfast.select.points import check_size, checked_points
from holdfast.select.selection import Selection, cluster_sizes

CHUNK = 4096
"""Rows of a file that are read at once."""
_DISTANCES = 2**24  # distances held at once: 64 MB


class SieveStreaming:
    """A summary of k points of a stream that is seen once, in memory that does not grow with its length.

    Sieve-streaming: for each guess v = (1 + epsilon)^i of the best value, from the largest value of a single
    point seen so far to 2k times that, one sieve keeps a point when it gains at least
    (v/2 - f(S)) / (k - |S|). The value is f(S) = sum_r max(0, d(r, e0) - d(r, S)) over a reference sample of
    the stream, with a phantom exemplar e0 that lies as far from r as the other sampled points do on average: it
    makes f monotone and non-negative. The best sieve reaches 1/2 - epsilon of the best f. Places it left
    empty are filled by greedy from what any sieve or the sample holds, and greedy from all of these afresh
    takes its place where that is worth more; both only raise f.

    Parameters
    ----------
    k: at least 1.
    epsilon: between 0 and 1; the number of sieves is about log(2k) / epsilon.
    reference: number of points in the sample, at least k; None is the larger of 2,000 and 4k.
    sample: positions in the stream and points of the reference, where it can be drawn beforehand; None keeps a
        reservoir, a uniform sample of what came so far.
    generator: draws the reservoir; None is a generator of seed 0.

    Shapes
    ------
    ``update`` takes chunks (c, d) of any size; memory is O(m·log(k)/epsilon + c·m + p·d) for m points of reference
    and p points held by any sieve, at most k·log(2k)/epsilon.

    Differs from the paper: sieves open once a chunk and not once a point, so that a sieve may see more of the
    stream; with a reservoir the value changes slowly while the stream passes, and the bound holds for a reference
    drawn beforehand; the phantom is not a vector but a distance to each point of the sample.

    Reference: Badanidiyuru, Mirzasoleiman, Karbasi and Krause, "Streaming Submodular Maximization: Massive Data
    Summarization on the Fly", KDD 2014, Algorithms 2 and 4.

    >>> sieve = SieveStreaming(2).update(torch.tensor([[0.0], [1.0], [9.0]]))
    >>> sieve.result().weight.sum()
    tensor(3.)
    """

    def __init__(
        self,
        k: int,
        *,
        epsilon: float = 0.1,
        reference: int | None = None,
        sample: tuple[Tensor, Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if k < 1:
            raise HoldfastError(f"cannot select {k} points of a stream; choose at least 1")
        if not 0 < epsilon < 1:
            raise HoldfastError(f"epsilon must lie between 0 and 1, not {epsilon:g}")
        if reference is not None and reference < k:
            raise HoldfastError(f"a reference of {reference} points cannot tell {k} picks apart; give it {k} or more")
        self.k = k
        self.epsilon = epsilon
        self.reference = reference or max(2000, 4 * k)
        self.seen = 0
        self._generator = generator or torch.Generator().manual_seed(0)
        self._given = sample
        self._waiting: list[Tensor] = []
        self._like: Rows32 | None = None

    def update(self, chunk: Tensor | Array) -> SieveStreaming:
        """Take the next rows of the stream."""
        if not len(chunk):
            return self
        rows = self._checked(chunk)
        if self._like is None:
            # The reference must be whole before any point is judged by it.
            self._waiting.append(rows.clone())
            self.seen += len(rows)
            if self._given is not None or self.seen >= self.reference:
                self._open()
        else:
            self._take(Rows32(rows, self._like).values)
        return self

    def result(self) -> Selection:
        """The k points, by their positions in the stream.

        ``weight``, ``gain`` and ``objective`` are those of the reference times n/m, and ``error_`` is the standard
        error of the objective; the sample also guided the choice, so that the truth is somewhat worse.
        ``points_`` holds the chosen points. ``assignment`` is empty, as the stream is gone: ``assign`` takes
        rows once more.
        """
        check_size(self.k, self.seen)
        if self._like is None:
            self._open()
        index, values = self._best()
        assert self._like is not None  # _open sets it
        self._values = values
        owner, best, gain = replayed(self._sample, values)
        share = self.seen / len(self._sample)
        gain[0] += len(best) * self._like.width()
        self.error_ = share * self._like.unit * float(best.std(dtype=np.float64)) * math.sqrt(len(best))
        self.points_ = torch.from_numpy(values[:, : self._width] * np.float64(self._like.unit)) + self._like.mean
        return Selection(
            torch.from_numpy(index),
            cluster_sizes(torch.from_numpy(owner), self.k) * share,
            torch.from_numpy(gain * share * self._like.unit),
            torch.empty(0, dtype=torch.int64),
            float(best.sum(dtype=np.float64)) * share * self._like.unit,
        )

    def assign(self, chunk: Tensor | Array) -> tuple[Tensor, Tensor, Tensor]:
        """After ``result``: for rows (c, d), position of the nearest pick, its distance, and gains of the picks.

        Gains (k,) of several chunks add up; the first is counted from c times twice the largest distance from the
        mean in the reference.
        """
        if self._like is None or not hasattr(self, "_values"):
            raise HoldfastError("rows are assigned to the picks of result(); call it first")
        owner, best, gain = replayed(Rows32(self._checked(chunk), self._like).values, self._values)
        gain[0] += len(best) * self._like.width()
        unit = self._like.unit
        return torch.from_numpy(owner), torch.from_numpy(best) * unit, torch.from_numpy(gain * unit)

    def _checked(self, chunk: Tensor | Array) -> Tensor:
        try:
            rows = checked_points(torch.from_numpy(np.array(chunk)) if isinstance(chunk, np.ndarray) else chunk)
        except HoldfastError as error:
            raise HoldfastError(f"in the chunk that starts at row {self.seen}: {error}") from None
        known = self._width if self._like is not None else (self._waiting[0].shape[1] if self._waiting else None)
        if known is not None and rows.shape[1] != known:
            raise HoldfastError(
                f"the chunk that starts at row {self.seen} has {rows.shape[1]} columns where those before it have "
                f"{known}; all chunks of a stream must agree"
            )
        return rows

    def _open(self) -> None:
        """Draw the reference, and pass what has waited through the sieves."""
        rows = torch.cat(self._waiting)
        self._width = rows.shape[1]
        self._waiting = []
        if self._given is None:
            # The first rows fill the reservoir; those that waited beside them may replace them as they pass.
            position, sample = torch.arange(min(len(rows), self.reference)), rows[: self.reference]
        else:
            position, sample = self._given[0], checked_points(self._given[1])
        self._like = Rows32(sample)
        self._sample, self._row = self._like.values, position.numpy().copy()
        self._best_so_far = np.zeros((0, self._padded(self._sample[:1]).shape[1]), np.float32)
        self._value = np.zeros(0)
        self._size = np.zeros(0, np.int64)
        self._picks = np.zeros((0, self.k), np.int64)
        self._power = np.zeros(0, np.int64)
        self._stored = np.zeros((0, self._sample.shape[1]), np.float32)
        self._stored_row = np.zeros(0, np.int64)
        self._top = 0.0
        self._phantom = self._far(self._sample)
        self.seen = 0
        self._take(Rows32(rows, self._like).values)

    def _take(self, values: Array) -> None:
        size = max(64, min(CHUNK, _DISTANCES // len(self._sample)))
        for low in range(0, len(values), size):
            self._pass(values[low : low + size])

    def _far(self, rows: Array) -> Array:
        """Mean distance of some rows to the reference."""
        size = max(64, _DISTANCES // len(self._sample))
        m = len(self._sample)
        parts = (self._padded(rows[low : low + size])[:, :m] for low in range(0, len(rows), size))
        return np.concatenate([part.mean(1, dtype=np.float64) for part in parts]).astype(np.float32)

    def _padded(self, rows: Array) -> Array:
        """Distances (c, m) to the reference, with columns of no meaning up to a whole number of blocks."""
        from holdfast.select import blocks

        m, d = self._sample.shape
        whole = np.zeros((-(-m // blocks.WIDTH) * blocks.WIDTH, d), np.float32)
        whole[:m] = self._sample
        tiles = np.ascontiguousarray(whole.reshape(-1, blocks.WIDTH, d).transpose(0, 2, 1))
        out = np.empty((len(rows), len(whole)), np.float32)
        blocks.all_distances(rows, tiles, out)
        return out

    def _refresh(self, values: Array) -> None:
        """Let the reservoir take rows of a chunk, and value the sieves by what it then holds."""
        m = len(self._sample)
        position = self.seen + np.arange(len(values))
        draw = torch.rand(len(values), generator=self._generator, dtype=torch.float64).numpy()
        slot = (draw * (position + 1)).astype(np.int64)
        taken = (slot < m) & (position >= self.reference)
        if not taken.any():
            return
        self._sample[slot[taken]] = values[taken]  # of two rows for one slot the later stays
        self._row[slot[taken]] = position[taken]
        changed = np.unique(slot[taken])
        fresh = self._sample[changed]
        self._phantom[changed] = self._far(fresh)
        for v in range(len(self._value)):
            best = self._phantom[changed]
            if self._size[v]:
                best = np.minimum(best, replayed(fresh, self._stored[self._picks[v, : self._size[v]]])[1])
            self._best_so_far[v, changed] = best
            self._value[v] = (self._phantom.astype(np.float64) - self._best_so_far[v, :m]).sum()

    def _pass(self, values: Array) -> None:
        from holdfast.select import blocks

        if self._given is None:
            self._refresh(values)
        m = len(self._sample)
        distance = self._padded(values)
        alone = np.maximum(self._phantom - distance[:, :m], 0).sum(1, dtype=np.float64)
        self._top = max(self._top, float(alone.max()))
        self._tend()
        before = self._size.copy()
        fresh = np.full_like(self._picks, -1)
        assert self._like is not None  # _open has set it
        target = (1 + self.epsilon) ** self._power.astype(np.float64) / self._like.unit
        blocks.sift(distance, self._best_so_far, self._value, self._size, fresh, target)
        new = (np.arange(self.k) >= before[:, None]) & (np.arange(self.k) < self._size[:, None])
        kept, place = np.unique(fresh[new], return_inverse=True)
        self._picks[new] = len(self._stored) + place
        self._stored = np.concatenate([self._stored, values[kept]])
        self._stored_row = np.concatenate([self._stored_row, self.seen + kept])
        self.seen += len(values)

    def _tend(self) -> None:
        """Open the sieves whose guess has come into range, and drop those below the best single point."""
        assert self._like is not None  # _open has set it
        top = self._top * self._like.unit
        if top <= 0:
            return
        step = math.log1p(self.epsilon)
        low = math.ceil(math.log(top) / step)
        high = math.floor(math.log(2 * self.k * top) / step)
        stay = self._power >= low
        power = np.concatenate([self._power[stay], np.setdiff1d(np.arange(low, high + 1), self._power)])
        opened = len(power) - int(stay.sum())
        padded = np.zeros(self._best_so_far.shape[1], np.float32)
        padded[: len(self._phantom)] = self._phantom
        self._best_so_far = np.concatenate([self._best_so_far[stay], np.tile(padded, (opened, 1))])
        self._value = np.concatenate([self._value[stay], np.zeros(opened)])
        self._size = np.concatenate([self._size[stay], np.zeros(opened, np.int64)])
        self._picks = np.concatenate([self._picks[stay], np.zeros((opened, self.k), np.int64)])
        self._power = power
        filled = np.arange(self.k) < self._size[:, None]
        used, place = np.unique(self._picks[filled], return_inverse=True)
        self._picks[filled] = place
        self._stored, self._stored_row = self._stored[used], self._stored_row[used]

    def _best(self) -> tuple[Array, Array]:
        """Positions in the stream and rows of the k points of largest value that the sieves lead to."""
        row, first = np.unique(np.concatenate([self._stored_row, self._row]), return_index=True)
        values = np.concatenate([self._stored, self._sample])[first]
        sieve = np.zeros(0, np.int64)
        if len(self._value):
            v = int(self._value.argmax())
            sieve = np.searchsorted(row, self._stored_row[self._picks[v, : self._size[v]]])
        chosen = [self._filled(values, sieve), self._filled(values, sieve[:0])]
        worth = [np.maximum(self._phantom - replayed(self._sample, values[c])[1], 0).sum() for c in chosen]
        picked = chosen[int(np.argmax(worth))]
        return row[picked], values[picked]

    def _filled(self, values: Array, picked: Array) -> Array:
        """Picks brought up to k by greedy on the reference."""
        assert self._like is not None  # _open has set it
        cover = Cover(self._sample, self._like.width())
        cover.serve(values[picked])
        rest = np.setdiff1d(np.arange(len(values)), picked)
        wanted = self.k - len(picked)
        if not wanted:
            return picked
        more = cover.greedy(values[rest], wanted, alone=not len(picked))
        return np.concatenate([picked, rest[more]])


def stream(
    source: str | Path | Iterable[Any],
    k: int,
    *,
    epsilon: float = 0.1,
    reference: int | None = None,
    generator: torch.Generator | None = None,
) -> Selection:
    """Facility location in one pass over chunks, or over a .npy file that may be larger than memory.

    Runs `SieveStreaming`. From a file the reference is drawn uniformly beforehand, and a second pass over it fills in
    ``assignment`` and the exact ``weight``, ``gain`` and ``objective``; from chunks these are estimates from a
    reservoir and ``assignment`` is empty.

    Parameters
    ----------
    source: path of a two-dimensional float .npy file, which is memory-mapped, or chunks (c, d) of rows.
    k: from 1 to the number of rows.
    epsilon, reference, generator: those of `SieveStreaming`.

    Shapes
    ------
    -> Selection of k; ``gain`` is counted from n times twice the largest distance from the mean in the reference.

    Differs from the paper: see `SieveStreaming`.

    Reference: Badanidiyuru, Mirzasoleiman, Karbasi and Krause, "Streaming Submodular Maximization: Massive Data
    Summarization on the Fly", KDD 2014.

    >>> stream([torch.tensor([[0.0], [1.0]]), torch.tensor([[9.0]])], 2).objective
    1.0
    """
    if not isinstance(source, str | Path):
        sieve = SieveStreaming(k, epsilon=epsilon, reference=reference, generator=generator)
        chunks: Iterable[Any] = source
        for chunk in chunks:
            sieve.update(chunk)
        return sieve.result()
    table = _mapped(Path(source))
    check_size(k, len(table))
    generator = generator or torch.Generator().manual_seed(0)
    sieve = SieveStreaming(k, epsilon=epsilon, reference=reference, generator=generator)
    size = min(sieve.reference, len(table))
    drawn = torch.randperm(len(table), generator=generator)[:size].sort().values
    sample = torch.from_numpy(np.array(table[drawn.numpy()]))
    sieve = SieveStreaming(k, epsilon=epsilon, sample=(drawn, sample))
    for block in _blocks(table):
        sieve.update(block)
    found = sieve.result()
    owners, distances, gains = zip(*(sieve.assign(block) for block in _blocks(table)), strict=True)
    assignment = torch.cat(owners)
    assignment[found.index] = torch.arange(k)
    objective = float(sum(float(d.sum(dtype=torch.float64)) for d in distances))
    return Selection(found.index, cluster_sizes(assignment, k), torch.stack(gains).sum(0), assignment, objective)


def _mapped(path: Path) -> Array:
    with unreadable(path, "cannot be read as a .npy file"):
        table: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind != "f" or not table.size:
        raise HoldfastError(f"{path} must hold one array of floats of shape (n, d); save it with numpy.save")
    return table


def _blocks(table: Array) -> Iterator[Array]:
    for low in range(0, len(table), CHUNK):
        yield table[low : low + CHUNK]
