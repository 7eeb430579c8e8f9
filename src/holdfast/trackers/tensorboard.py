"""Figures for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError


class TensorBoard:
    """Scalars for TensorBoard, and the configuration as text.

    Parameters
    ----------
    folder: of the logs; None: ``tensorboard`` in the folder of the run.
    """

    name = "tensorboard"

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder
        self._writer: Any = None

    def open(self, config: Mapping[str, Any], out: Path | None, done: int) -> None:
        if self.folder is None and out is None:
            raise HoldfastError("TensorBoard logs need a folder; name one (tensorboard:logs), or pass out")
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise HoldfastError("TensorBoard is not installed; pip install 'holdfast[tensorboard]'") from None
        folder = Path(self.folder) if self.folder is not None else Path(out or "", "tensorboard")
        self._writer = SummaryWriter(str(folder), purge_step=done)
        self._writer.add_text("method", str(config.get("call", "")), done)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
