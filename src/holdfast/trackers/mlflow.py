"""Figures for MLflow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import write_text
from holdfast.trackers.base import flat

LONGEST = 500
"""Characters of a parameter that every version of MLflow takes."""


class MLflow:
    """Metrics and parameters of an MLflow run; a training that goes on goes on with its run there.

    Where MLflow keeps them is its own affair (``MLFLOW_TRACKING_URI``).

    Parameters
    ----------
    experiment: its name; None: MLflow's default.
    """

    name = "mlflow"

    def __init__(self, experiment: str | None = None) -> None:
        self.experiment = experiment
        self._client: Any = None
        self._run = ""

    def open(self, config: Mapping[str, Any], out: Path | None, done: int) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise HoldfastError("MLflow is not installed; pip install 'holdfast[mlflow]'") from None
        self._client = MlflowClient()
        noted = None if out is None else out / "mlflow.txt"
        if done and noted is not None and noted.exists():
            self._run = noted.read_text(encoding="utf-8").strip()
            return
        self._run = self._client.create_run(
            self._experiment_id(), run_name=None if out is None else out.name
        ).info.run_id
        for name, value in flat(config).items():
            self._client.log_param(self._run, name, str(value)[:LONGEST])
        if noted is not None:
            write_text(noted, f"{self._run}\n")

    def _experiment_id(self) -> str:
        if self.experiment is None:
            return "0"
        found = self._client.get_experiment_by_name(self.experiment)
        return str(self._client.create_experiment(self.experiment) if found is None else found.experiment_id)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            if not math.isnan(value):
                self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)
