"""Progress: a bar for people, silence for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """What the loop tells while it runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def at(self, epochs: float, of: int) -> None:
        """So many epochs are done, parts included."""

    def say(self, line: Mapping[str, float]) -> None:
        """An epoch ended with these figures."""

    def phase(self, text: str) -> None:
        """What the work is about from now on."""


class Silent:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def at(self, epochs: float, of: int) -> None:
        pass

    def say(self, line: Mapping[str, float]) -> None:
        pass

    def phase(self, text: str) -> None:
        pass


MakeProgress = Callable[[str, str], Progress]
"""(title, what is counted) -> a bar."""


def silent(title: str, unit: str) -> Progress:
    """No bar."""
    return Silent()


class Bar:
    """One line that grows: epochs (or what else is counted) done, loss and test score of the last one, time left."""

    def __init__(self, title: str, unit: str = "epochs", console: Console | None = None) -> None:
        self._bar = RichProgress(
            TextColumn(f"{title:12}"),
            BarColumn(),
            TextColumn(f"{{task.completed:5.1f}}/{{task.total:.0f}} {unit}"),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            refresh_per_second=5,
        )
        self._line = self._bar.add_task(title, total=1, said="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def at(self, epochs: float, of: int) -> None:
        self._bar.update(self._line, completed=epochs, total=of)

    def say(self, line: Mapping[str, float]) -> None:
        figures = {name: line[name] for name in ("loss", "train", "test") if name in line}
        # Without labels there is nothing to agree with.
        shown = [f"{name} {value:.3f}" for name, value in figures.items() if name == "loss" or not math.isnan(value)]
        self._bar.update(self._line, said="  ".join(shown))

    def phase(self, text: str) -> None:
        self._bar.update(self._line, said=text)


class Count:
    """So many of so many runs, on a bar or none."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._total = total
        self._ended = 0

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__(None, None, None)

    def one(self, name: str, outcome: object) -> None:
        """A run has ended."""
        self._ended += 1
        self._bar.at(self._ended, self._total)
