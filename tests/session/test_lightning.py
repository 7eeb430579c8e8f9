"""What Lightning does by itself, with a session: validation, schedules, precision, stopping, resuming."""

import pandas as pd
import pytest
import torch
from framework_support import assert_same, small_net, weights
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import holdfast
from holdfast import HoldfastError, Session
from holdfast.adapters.lightning import HoldfastCallback

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec.*"),
    pytest.mark.filterwarnings(
        "ignore:.*(many workers|Checkpoint directory|dirpath has changed|smaller than the logging interval).*"
    ),
]


class Module(LightningModule):
    def __init__(self, session, net):
        super().__init__()
        self.net, self.session, self.validated, self.rates = net, session, [], []

    def training_step(self, batch, number):
        return self.session.loss(self.net(batch.x), batch)

    def validation_step(self, batch, number):
        self.validated.append(self.trainer.current_epoch)
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def on_train_epoch_start(self):
        self.rates.append(self.optimizers().param_groups[0]["lr"])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def trained(rows, method, epochs=4, accumulate=1, of_trainer=1, ckpt=None, callbacks=(), **settings):
    session = Session(rows, method, **settings.pop("session", {}))
    module = Module(session, small_net())
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        logger=settings.pop("logger", False), enable_checkpointing=bool(callbacks), num_sanity_val_steps=0,
        accumulate_grad_batches=of_trainer, callbacks=[*callbacks, HoldfastCallback(session, module.net)], **settings,
    )  # fmt: skip
    validation = DataLoader(TensorDataset(rows.x, rows.y), batch_size=len(rows))
    trainer.fit(module, session.loader(40, accumulate=accumulate), validation, ckpt_path=ckpt)
    return module, session, trainer


def test_an_epoch_with_fewer_batches_is_an_epoch(blobs):
    """Else Lightning would neither validate after it nor move the schedule."""
    module, session, trainer = trained(blobs, holdfast.methods.Crust(0.5, warmup=1))
    assert session.run().ledger["trained"].sum() == 240 + 3 * 120
    assert trainer.global_step == 6 + 3 * 3
    assert trainer.num_training_batches == 3
    assert module.validated == [0, 1, 2, 3]
    assert module.rates == [0.3 * 0.5**epoch for epoch in range(4)]


def test_the_first_epoch_may_have_fewer_batches_too(blobs):
    module, _, trainer = trained(blobs, holdfast.methods.Crust(0.5, warmup=0), epochs=2)
    assert trainer.global_step == 6
    assert module.validated == [0, 1]


def test_gradients_are_clipped_when_they_are_there(blobs):
    """Lightning hands both passes to the optimizer as a closure."""
    module, _, _ = trained(blobs, holdfast.methods.NormClip(0.05), epochs=1)
    run = holdfast.fit(
        blobs, holdfast.methods.NormClip(0.05), small_net(), epochs=1, batch_size=40, device="cpu",
        schedule=lambda _: 1.0, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.3),
    )  # fmt: skip
    assert_same(weights(run.net), weights(module.net), rtol=1e-4, atol=1e-6)


def test_a_checkpoint_made_after_validation_goes_on_exactly(blobs, tmp_path):
    """Lightning saves there before the epoch has ended, and the session's state is whole all the same."""

    def keep(folder):
        return ModelCheckpoint(tmp_path / folder, filename="{epoch}", monitor="loss", save_top_k=-1)

    whole, session, _ = trained(blobs, holdfast.methods.Crust(0.5, warmup=1), callbacks=[keep("whole")])
    kept = tmp_path / "whole" / "epoch=1.ckpt"
    again, resumed, _ = trained(blobs, holdfast.methods.Crust(0.5, warmup=1), callbacks=[keep("again")], ckpt=kept)
    assert resumed.run().history["epoch"].tolist() == [0, 1, 2, 3]
    assert_same(weights(whole.net), weights(again.net))
    assert resumed.issues().equals(session.issues())


def test_going_on_without_the_sessions_state_is_noticed(blobs, tmp_path):
    trained(blobs, "standard", epochs=2, callbacks=[ModelCheckpoint(tmp_path, save_last=True)])
    state = torch.load(tmp_path / "last.ckpt", weights_only=False)
    state["callbacks"].pop("HoldfastCallback")
    torch.save(state, tmp_path / "bare.ckpt")
    with pytest.raises(HoldfastError, match=r"about to begin epoch 2 .* this session has seen 0"):
        trained(blobs, "standard", epochs=3, callbacks=[ModelCheckpoint(tmp_path)], ckpt=tmp_path / "bare.ckpt")


def test_a_stop_rule_stops_the_trainer(blobs):
    stop = {"session": {"stop": holdfast.stop.DistanceStop()}}
    _, session, trainer = trained(blobs, "standard", epochs=40, **stop)
    assert session.stopped
    assert trainer.current_epoch == session.epoch < 40


def test_mixed_precision(blobs):
    half, session, _ = trained(blobs, "prl-l", precision="bf16-mixed")
    full, _, _ = trained(blobs, "prl-l")
    assert session.run().ledger["loss"].notna().all()
    assert_same(weights(full.net), weights(half.net), rtol=0.2, atol=0.05)


def test_the_figures_of_an_epoch_go_to_the_loggers(blobs, tmp_path):
    _, session, _ = trained(blobs, "prl-l", epochs=2, logger=CSVLogger(tmp_path, "", ""))
    table = pd.read_csv(tmp_path / "metrics.csv").dropna(subset=["holdfast/loss"])
    assert table["step"].tolist() == [6, 12]
    for name in ("loss", "noise_rate", "drop_rate"):
        assert table[f"holdfast/{name}"].tolist() == pytest.approx(session.run().history[name].tolist())


def test_trainer_and_loader_must_accumulate_alike(blobs):
    with pytest.raises(HoldfastError, match=r"accumulates 4 batches; say so to the loader too"):
        trained(blobs, "standard", of_trainer=4)
