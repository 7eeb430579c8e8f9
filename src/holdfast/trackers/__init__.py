"""Trackers: one file each. They take ``log(values, step)`` after every epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.registry import lookup
from holdfast.trackers.base import Tracker as Tracker
from holdfast.trackers.csv import CSV as CSV
from holdfast.trackers.mlflow import MLflow as MLflow
from holdfast.trackers.tensorboard import TensorBoard as TensorBoard
from holdfast.trackers.wandb import WandB as WandB

TRACKERS: Mapping[str, Callable[..., Tracker]] = {each.name: each for each in (CSV, TensorBoard, MLflow, WandB)}


def trackers_of(given: Iterable[Tracker | str]) -> list[Tracker]:
    """Trackers, or their names with what they take after a colon: a file, a folder, an experiment or a project."""
    return [_named(each) if isinstance(each, str) else each for each in given]


def _named(text: str) -> Tracker:
    name, _, where = text.partition(":")
    make = lookup("tracker", name, TRACKERS, ())
    return TRACKERS[name](where) if where else make()


@contextmanager
def opened(
    trackers: Sequence[Tracker], config: Mapping[str, Any], out: Path | None, done: int
) -> Iterator[Callable[[Mapping[str, float], int], None]]:
    """One ``log(values, step)`` for all of them, which are closed at the end, however that comes."""
    begun: list[Tracker] = []
    try:
        for tracker in trackers:
            tracker.open(config, out, done)
            begun.append(tracker)

        def log(values: Mapping[str, float], step: int) -> None:
            for tracker in begun:
                tracker.log(values, step)

        yield log
    finally:
        for tracker in begun:
            tracker.close()
