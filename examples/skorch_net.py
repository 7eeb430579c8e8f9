"""A skorch network with Holdfast in it: the batches of an epoch, and their loss."""

from __future__ import annotations

from pathlib import Path

from accelerate import Accelerator
from plain_loop import data, network
from skorch import NeuralNetClassifier
from skorch.hf import AccelerateMixin
from torch import Tensor, nn, optim

import holdfast


class HoldfastNet(AccelerateMixin, NeuralNetClassifier):
    """``fit`` trains by a session, here with Accelerate's processes and accumulation; both may be left out."""

    def get_iterator(self, dataset, training=False):
        return self if training else super().get_iterator(dataset, training=False)

    def __iter__(self):
        return ((batch.x, batch) for batch in self.loader)

    def get_loss(self, y_pred, y_true, X=None, training=False):
        return self.session.loss(y_pred, y_true) if training else super().get_loss(y_pred, y_true, X, training)

    def train_step(self, batch, **given):  # skorch's clears gradients before the last pass of a step
        with self.accelerator.accumulate(self.module_):
            step = self.train_step_single(batch, **given)
            self.optimizer_.step()
            self.optimizer_.zero_grad()
        return step


def train(
    x: Tensor, y: Tensor, out: Path, epochs: int = 15, batch_size: int = 32, accumulate: int = 1, method: str = "prl-l"
) -> tuple[nn.Module, holdfast.Session]:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    settings = {"optimizer": optim.Adam, "train_split": None, "criterion": lambda: nn.functional.cross_entropy}
    net = HoldfastNet(network(), accelerator=accelerator, unwrap_after_train=False, lr=0.001, **settings).initialize()
    session = net.session = holdfast.Session((x, y), method, epochs=epochs)
    net.loader = session.loader(batch_size, accumulate=accumulate)
    session.begin(net.module_, net.optimizer_)
    accelerator.register_for_checkpointing(session)
    if kept := sorted(out.glob("epoch-*")):
        accelerator.load_state(str(kept[-1]))
    for epoch in range(session.epoch, epochs):
        net.partial_fit(x.numpy(), y.numpy(), epochs=1)
        accelerator.save_state(str(out / "part"))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            (out / "part").rename(out / f"epoch-{epoch:03}")
    session.save(out / "run")
    return accelerator.unwrap_model(net.module_), session


if __name__ == "__main__":
    print(train(*data()[:2], Path("skorch_net"))[1].issues().head())
