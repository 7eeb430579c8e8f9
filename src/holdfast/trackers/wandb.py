"""Figures for Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import write_text


class WandB:
    """History and configuration of a run of Weights & Biases; a training that goes on goes on with its run there.

    Whether it is online, and who logs in, is its own affair (``WANDB_MODE``).

    Parameters
    ----------
    project: its name; None: W&B's default.
    """

    name = "wandb"

    def __init__(self, project: str | None = None) -> None:
        self.project = project
        self._run: Any = None

    def open(self, config: Mapping[str, Any], out: Path | None, done: int) -> None:
        try:
            import wandb
        except ImportError:
            raise HoldfastError("Weights & Biases is not installed; pip install 'holdfast[wandb]'") from None
        noted = None if out is None else out / "wandb.txt"
        before = noted.read_text(encoding="utf-8").strip() if done and noted is not None and noted.exists() else None
        self._run = wandb.init(project=self.project, config=dict(config), id=before, resume="allow" if before else None)
        if noted is not None:
            write_text(noted, f"{self._run.id}\n")

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()
