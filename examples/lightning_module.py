"""PyTorch Lightning with Holdfast in it: a loader, a loss and a callback."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from plain_loop import data, network
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import holdfast
from holdfast.adapters.lightning import HoldfastCallback


class Digits(LightningModule):
    def __init__(self, session: holdfast.Session) -> None:
        super().__init__()
        self.net = network()
        self.session = session

    def training_step(self, batch: holdfast.session.SessionBatch, number: int) -> Tensor:
        return self.session.loss(self.net(batch.x), batch)  # was cross_entropy(self.net(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.001)


def train(
    x: Tensor, y: Tensor, out: Path, epochs: int = 15, batch_size: int = 32, accumulate: int = 1, method: str = "prl-l"
) -> tuple[nn.Module, holdfast.Session]:
    session = holdfast.Session(TensorDataset(x, y), method)
    loader = session.loader(batch_size, accumulate=accumulate)  # was DataLoader(TensorDataset(x, y), ...)
    module = Digits(session)
    keep = ModelCheckpoint(out, save_last=True, every_n_epochs=1)
    trainer = Trainer(
        max_epochs=epochs, accumulate_grad_batches=accumulate, accelerator="cpu", logger=False,
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[keep, HoldfastCallback(session, module.net, out / "run")],
    )  # fmt: skip
    last = out / "last.ckpt"
    trainer.fit(module, loader, ckpt_path=last if last.exists() else None)
    return module.net, session


if __name__ == "__main__":
    images, given, truth = data()
    net, session = train(images, given, Path("lightning_module"))
    found = session.issues().query("flag")["row"].tolist()
    print(f"accuracy by true labels {(net(images).argmax(1) == truth).float().mean():.3f}")
    print(f"{len(found)} labels flagged, {(truth != given)[found].float().mean():.0%} of them wrong indeed")
