"""Figures in a CSV file, a line for each epoch and figure."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.digits import number_in
from holdfast.errors import HoldfastError, unreadable
from holdfast.files import written_aside

HEAD = ("step", "name", "value")


class CSV:
    """Figures in a CSV file with the columns step, name and value; each epoch writes it anew and renames it.

    Parameters
    ----------
    path: of the file; None: ``figures.csv`` in the folder of the run.
    """

    name = "csv"

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = path
        self._lines: list[tuple[str, str, str]] = []
        self._file = Path()

    def open(self, config: Mapping[str, Any], out: Path | None, done: int) -> None:
        if self.path is None and out is None:
            raise HoldfastError("figures in CSV need a file; name one (csv:figures.csv), or a folder for the run")
        self._file = Path(self.path) if self.path is not None else Path(out or "", "figures.csv")
        self._lines = []
        if not self._file.exists():
            return
        if not done:
            raise HoldfastError(f"{self._file} exists; choose another name for the figures")
        with unreadable(self._file), open(self._file, newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        if (
            not lines
            or tuple(lines[0]) != HEAD
            or any(len(line) != 3 or number_in(line[0]) is None for line in lines[1:])
        ):
            raise HoldfastError(f"{self._file} holds no figures of a run; choose another name for them")
        # Those of epochs that were not finished are logged again.
        self._lines = [(step, name, value) for step, name, value in lines[1:] if int(step) < done]

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._lines += [(str(step), name, repr(float(value))) for name, value in values.items()]
        with written_aside(self._file) as aside, open(aside, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([HEAD, *self._lines])

    def close(self) -> None:
        pass
