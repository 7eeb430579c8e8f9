"""Loops over the few classes that are kept of each row, compiled by numba: they are no work for whole matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

TINY = np.float32(1e-9)
"""That of a label which is held to be impossible, so that its place is not an empty one."""


@njit(cache=True, nogil=True, error_model="numpy")
def keep_largest(whole: Any, y: Any, bars: Any, value: Any, number: Any) -> None:
    """Write the largest probabilities of each row, if above its bar, and that of its label, the largest first."""
    kept = value.shape[1]
    for i in range(len(whole)):
        row, own, count, least, bar = whole[i], y[i], 1, 0, bars[i]
        value[i, 0], number[i, 0] = max(row[own], TINY), own
        for c in range(len(row)):
            p = row[c]
            if p <= bar or c == own:
                continue
            if count < kept:
                value[i, count], number[i, count] = p, c
                count += 1
            else:
                value[i, least], number[i, least] = p, c
            if count == kept:
                least = _least(value[i], kept)
                bar = value[i, least]
        for k in range(count, kept):
            value[i, k], number[i, k] = 0, own
        _sort(value[i], number[i], count)


@njit(cache=True, nogil=True, error_model="numpy")
def _least(value: Any, count: int) -> int:
    """The place of the smallest but the first, which is the label's."""
    at = 1
    for k in range(2, count):
        if value[k] < value[at]:
            at = k
    return at


@njit(cache=True, nogil=True, error_model="numpy")
def _sort(value: Any, number: Any, count: int) -> None:
    """The largest first."""
    for k in range(1, count):
        v, c, at = value[k], number[k], k
        while at > 0 and value[at - 1] < v:
            value[at], number[at] = value[at - 1], number[at - 1]
            at -= 1
        value[at], number[at] = v, c


@njit(cache=True, nogil=True, error_model="numpy")
def add_outputs(rows: Any, whole: Any, cut: float, value: Any, number: Any) -> None:
    """Add what is expected of rows to what is kept of each: classes that are kept gain, and a larger one takes the
    place of the smallest. The first place is the label's and stays."""
    kept = value.shape[1]
    place = np.full(whole.shape[1], -1)
    for i in range(len(rows)):
        own, p = value[rows[i]], whole[i]
        names = number[rows[i]]
        for k in range(kept - 1, -1, -1):
            place[names[k]] = k
        for k in range(kept):
            if place[names[k]] == k:
                own[k] += p[names[k]]
        least = _least(own, kept)
        for c in range(len(p)):
            if p[c] > cut and p[c] > own[least] and place[c] < 0:
                # A place that was empty has the label's number and no part of it.
                if place[names[least]] == least:
                    place[names[least]] = -1
                own[least], names[least], place[c] = p[c], c, least
                least = _least(own, kept)
        for k in range(kept):
            place[names[k]] = -1


@njit(cache=True, nogil=True, error_model="numpy")
def take_out_noise(
    value: Any, number: Any, starts: Any, columns: Any, says: Any, floor: float, stays: float, rounds: int
) -> None:
    """Replace what is expected of the kept classes of each row by what the true class has to be for that: the
    probabilities, none below zero, that a network which takes over noise by the sparse matrix S turns into these."""
    kept = value.shape[1]
    place = np.full(len(starts) - 1, -1)
    where, ends = np.empty(kept, np.int64), np.zeros(kept + 1, np.int64)
    right, expected, stay = np.empty(kept), np.empty(kept), np.empty(kept)
    # What each class turns into besides itself, of those that are kept, and what each is turned into.
    others, parts, turned = np.empty(kept * kept, np.int64), np.empty(kept * kept), np.empty(kept)
    for i in range(len(value)):
        count = 0
        for k in range(kept):
            if value[i, k] > floor:
                place[number[i, k]] = count
                where[count] = k
                count += 1
        for k in range(count):
            name, used, stay[k], turned[k] = number[i, where[k]], ends[k], 0.0, 0.0
            for at in range(starts[name], starts[name + 1]):
                other = place[columns[at]]
                if other == k:
                    stay[k] = says[at]
                elif other >= 0:
                    others[used], parts[used] = other, says[at]
                    used += 1
            ends[k + 1] = used
            right[k] = expected[k] = value[i, where[k]]
        for k in range(count):
            for at in range(ends[k], ends[k + 1]):
                turned[others[at]] += right[k] * parts[at]
        for _ in range(rounds):
            most = 0.0
            for k in range(count):
                moved = max(0.0, (expected[k] - turned[k]) / stay[k]) - right[k]
                right[k] += moved
                most = max(most, abs(moved))
                for at in range(ends[k], ends[k + 1]):
                    turned[others[at]] += moved * parts[at]
            if most < floor:
                break
        total = 0.0
        for k in range(count):
            place[number[i, where[k]]] = -1
            total += max(right[k], floor)
        for k in range(kept):
            value[i, k] = max(floor, stays * value[i, k]) if value[i, k] > 0 else 0
        for k in range(count):
            value[i, where[k]] = max(max(right[k], floor) / total, stays * expected[k])


@njit(cache=True, nogil=True, error_model="numpy")
def number_pairs(number: Any, value: Any, order: Any, ends: Any, least: float, pair: Any, true: Any, given: Any) -> int:
    """Number the pairs of given and possible true class that occur, label by label; how many there are."""
    known = np.full(len(ends), -1)
    count, at = 0, 0
    for label in range(len(ends)):
        first = count
        for place in range(at, ends[label]):
            i = order[place]
            for k in range(number.shape[1]):
                c = number[i, k]
                if value[i, k] <= least and (c != label or value[i, k] == 0):
                    pair[i, k] = -1
                    continue
                if known[c] < first:
                    known[c] = count
                    true[count], given[count] = c, label
                    count += 1
                pair[i, k] = known[c]
        at = ends[label]
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def count_pairs(value: Any, pair: Any, flips: Any, weight: Any, counts: Any) -> None:
    """Add up how often each pair is expected to have occurred; ``weight`` may be empty."""
    kept = value.shape[1]
    joint = np.empty(kept, np.float32)
    for i in range(len(value)):
        total = np.float32(0)
        for k in range(kept):
            joint[k] = value[i, k] * flips[pair[i, k]] if pair[i, k] >= 0 else np.float32(0)
            total += joint[k]
        share = (weight[i] if len(weight) else 1.0) / total
        for k in range(kept):
            if pair[i, k] >= 0:
                counts[pair[i, k]] += joint[k] * share


@njit(cache=True, nogil=True, error_model="numpy")
def add_posteriors(value: Any, pair: Any, flips: Any, part: float, posterior: Any) -> float:
    """Add a part of the posterior of each row to what there is; the summed logarithm of how likely labels are."""
    kept = value.shape[1]
    joint = np.empty(kept, np.float32)
    likely = 0.0
    for i in range(len(value)):
        total = np.float32(0)
        for k in range(kept):
            joint[k] = value[i, k] * flips[pair[i, k]] if pair[i, k] >= 0 else np.float32(0)
            total += joint[k]
        likely += np.log(total)
        for k in range(kept):
            posterior[i, k] += part * joint[k] / total
    return likely
