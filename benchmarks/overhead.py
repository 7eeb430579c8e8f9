"""What Holdfast costs beside the same training without it, in CPU time of one thread.

Each row trains the same network on the same random data, bare and with Holdfast, by turns in this process, and prints
the ratio of the shortest times of both, which others on the machine have disturbed least. ``fit`` is ``holdfast.fit``
with ordinary training beside a plain loop, on the 4-layer network and 32x32 images; ``fit_mlp`` the same on 784-256-10
and as many rows as MNIST has, for five epochs. ``plain``, ``lightning`` and ``hf`` are ``holdfast.Session`` and its
adapters on the 4-layer network, beside the same loop, Lightning's ``Trainer`` or that of Hugging Face without it; null
where one of them is not installed. All of the call counts, with what it does before the first epoch. The last line is
one JSON object of these ratios.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import protocol
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset, TensorDataset

from holdfast import Method, fit
from holdfast.nets import CNN4, MLP

BATCH, RATE = 128, 0.01


class Case(NamedTuple):
    """What is trained: inputs, labels, the network and for how long."""

    x: Tensor
    y: Tensor
    net: Callable[[], nn.Module]
    epochs: int


def images(rows: int, epochs: int) -> Case:
    """The 4-layer network on images of CIFAR's size."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(rows, 3, 32, 32, generator=source)
    return Case(x, torch.arange(rows) % 10, lambda: CNN4(3, 10), epochs)


def digits(rows: int, epochs: int) -> Case:
    """784-256-10 on data of MNIST's size."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(rows, 784, generator=source)
    return Case(x, torch.arange(rows) % 10, lambda: MLP(784, 10, hidden=(256,)), epochs)


def plain_loop(case: Case) -> None:
    """The loop that everybody writes, with data in memory."""
    torch.manual_seed(0)
    net = case.net()
    optimizer = SGD(net.parameters(), RATE)
    for _ in range(case.epochs):
        for rows in torch.randperm(len(case.y)).split(BATCH):
            loss = F.cross_entropy(net(case.x[rows]), case.y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def with_fit(case: Case) -> None:
    """The same by ``holdfast.fit``."""
    torch.manual_seed(0)
    fit(
        (case.x, case.y), Method(), case.net(), epochs=case.epochs, batch_size=BATCH,
        optimizer=lambda parameters: SGD(parameters, RATE), device="cpu",
    )  # fmt: skip


def loop_of_pytorch(case: Case, ours: bool) -> None:
    """A loader and a loss: torch's, or those of a session."""
    import holdfast

    torch.manual_seed(0)
    net, data = case.net(), TensorDataset(case.x, case.y)
    optimizer = SGD(net.parameters(), RATE)
    session = holdfast.Session(data, Method(), epochs=case.epochs) if ours else None
    loader = DataLoader(data, BATCH, shuffle=True) if session is None else session.loader(BATCH)
    if session is not None:
        session.begin(net, optimizer)
    for _ in range(case.epochs):
        for batch in loader:
            loss = F.cross_entropy(net(batch[0]), batch[1]) if session is None else session.loss(net(batch.x), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def loop_of_lightning(case: Case, ours: bool) -> None:
    from lightning.pytorch import LightningModule, Trainer

    import holdfast

    data = TensorDataset(case.x, case.y)
    session = holdfast.Session(data, Method()) if ours else None

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = case.net()

        def training_step(self, batch, number):
            if session is None:
                return F.cross_entropy(self.net(batch[0]), batch[1])
            return session.loss(self.net(batch.x), batch)

        def configure_optimizers(self):
            return SGD(self.parameters(), RATE)

    module, callbacks = Module(), []
    if session is not None:
        from holdfast.adapters.lightning import HoldfastCallback

        callbacks = [HoldfastCallback(session, module.net)]
    trainer = Trainer(
        max_epochs=case.epochs, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, callbacks=callbacks,
    )  # fmt: skip
    trainer.fit(module, DataLoader(data, BATCH, shuffle=True) if session is None else session.loader(BATCH))


class Pictures(nn.Module):
    """The network as the Trainer of Hugging Face calls it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, pixels: Tensor, labels: Tensor | None = None) -> Any:
        from transformers.modeling_outputs import ImageClassifierOutput

        logits = self.net(pixels)
        return ImageClassifierOutput(None if labels is None else F.cross_entropy(logits, labels), logits)


class Items(Dataset[dict[str, Tensor]]):
    def __init__(self, case: Case) -> None:
        self.case = case

    def __len__(self) -> int:
        return len(self.case.y)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"pixels": self.case.x[row], "labels": self.case.y[row]}


def loop_of_hugging_face(case: Case, ours: bool) -> None:
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    net, rows = Pictures(case.net()), Items(case)
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, num_train_epochs=case.epochs, per_device_train_batch_size=BATCH, save_strategy="no", optim="sgd",
            learning_rate=RATE, max_grad_norm=0, disable_tqdm=True, report_to="none", use_cpu=True,
            logging_strategy="no",
        )  # fmt: skip
        if ours:
            from holdfast.adapters.hugging_face import HoldfastTrainer

            HoldfastTrainer(net, how, train_dataset=rows, method=Method()).train()
        else:
            Trainer(net, how, train_dataset=rows).train()


def framework_ratio(name: str, loop: Callable[[Case, bool], None], case: Case, turns: int) -> float | None:
    """The ratio of a framework with and without Holdfast; None, with a word, where there is none."""
    try:
        loop(case._replace(x=case.x[:BATCH], y=case.y[:BATCH], epochs=1), True)
    except (ImportError, AttributeError) as error:
        print(f"{name}: not measured ({error})", flush=True)
        return None
    return ratio(name, lambda: loop(case, False), lambda: loop(case, True), turns)


def ratio(name: str, bare: Callable[[], None], ours: Callable[[], None], turns: int) -> float:
    """The shortest time of ours in shortest times of the bare one; a first turn warms up."""
    pairs = [(_seconds(bare), _seconds(ours)) for _ in range(turns + 1)][1:]
    alone, own = (min(times) for times in zip(*pairs, strict=True))
    middle = statistics.median(ours / bare for bare, ours in pairs)
    print(
        f"{name}: {alone:.2f} s bare, {own:.2f} s with Holdfast, ratio {own / alone:.3f} (median {middle:.3f})",
        flush=True,
    )
    return round(own / alone, 3)


def _seconds(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, help="how often each is measured")
    options = parser.parse_args()
    protocol.prepare(options)
    warnings.filterwarnings("ignore")  # of frameworks, about how many workers load
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    turns = options.turns or (3 if options.quick else 7)
    cnn = images(2_000 if options.quick else 5_000, options.epochs or 2)
    mlp = digits(60_000, options.epochs or 5)
    figures: dict[str, float | None] = {}
    loops = {"plain": loop_of_pytorch, "lightning": loop_of_lightning, "hf": loop_of_hugging_face}
    for name, loop in loops.items():
        figures[name] = framework_ratio(name, loop, cnn, turns)
    figures["fit"] = ratio("fit", lambda: plain_loop(cnn), lambda: with_fit(cnn), turns)
    figures["fit_mlp"] = ratio("fit_mlp", lambda: plain_loop(mlp), lambda: with_fit(mlp), turns)
    protocol.close(figures)


if __name__ == "__main__":
    main()
