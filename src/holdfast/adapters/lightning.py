"""A session inside PyTorch Lightning: a callback beside the trainer, one changed line in the module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.errors import HoldfastError
from holdfast.session import Session

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:
    try:
        from pytorch_lightning import Callback, LightningModule, Trainer  # type: ignore[assignment]
    except ImportError:
        raise HoldfastError("Lightning is not installed; pip install 'holdfast[lightning]'") from None


class HoldfastCallback(Callback):
    """Begins a session with the trainer's optimizer, plans each epoch, keeps its state in checkpoints, leaves a run.

    The figures of each epoch go to the trainer's loggers, as ``holdfast/loss`` and so on.

    ``training_step`` returns ``session.loss(self.net(batch.x), batch)``; the trainer is given ``session.loader(...)``.

    Parameters
    ----------
    session: the session, whose epochs are ``max_epochs`` of the trainer.
    net: the network, or as many as the method trains; parts of the module.
    out: folder for ``session.save`` when the training has ended; None keeps nothing.
    """

    def __init__(self, session: Session, net: nn.Module | Sequence[nn.Module], out: str | Path | None = None) -> None:
        self.session = session
        self.net = net
        self.out = out

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(trainer.optimizers) != 1:
            raise HoldfastError(f"a session trains with one optimizer, and the module has {len(trainer.optimizers)}")
        if not trainer.max_epochs or trainer.max_epochs < 1:
            raise HoldfastError("say how many epochs there will be: Trainer(max_epochs=...)")
        if trainer.accumulate_grad_batches != self.session.accumulate:
            raise HoldfastError(
                f"the trainer accumulates {trainer.accumulate_grad_batches} batches; say so to the loader too: "
                f"session.loader(..., accumulate={trainer.accumulate_grad_batches})"
            )
        self.session.begin(self.net, trainer.optimizers[0], trainer.max_epochs)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning has counted the batches of a whole epoch; a plan may have fewer."""
        count, loop = self.session.open_epoch(), trainer.fit_loop
        if loop.max_batches == count:
            return
        loop.max_batches = count
        if loop._data_fetcher is not None:
            loop._data_fetcher.length = count
        if isinstance(trainer.val_check_interval, float):
            trainer.val_check_batch = max(1, int(count * trainer.val_check_interval))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        figures = {f"holdfast/{name}": value for name, value in self.session.figures.items() if name != "epoch"}
        for logger in trainer.loggers:
            logger.log_metrics(figures, trainer.global_step)
        if self.session.stopped:
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.out is not None:
            self.session.save(self.out)

    def state_dict(self) -> dict[str, Any]:
        return self.session.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.session.load_state_dict(state_dict)
