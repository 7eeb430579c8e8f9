"""Data that does not fit in memory: any map-style torch dataset, loaded by worker processes if you like."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset

import holdfast


class Waves(Dataset[torch.Tensor]):
    """Sine or square waves, made when they are asked for."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, row: int) -> torch.Tensor:
        time = torch.linspace(0, 6.28, 50) * (1 + row % 7 / 7)
        return torch.sin(time) if row % 2 else torch.sign(torch.sin(time))


given = torch.arange(400) % 2
given[::9] = 1 - given[::9]  # one label in nine is wrong
rows = holdfast.Rows(Waves(), given, ("square", "sine"), truth=torch.arange(400) % 2)
run = holdfast.fit(rows, net="mlp", epochs=15)
print(run.history[["loss", "coverage", "purity"]].tail(3))
