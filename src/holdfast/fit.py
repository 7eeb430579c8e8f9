"""The one training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.optim import Adam, Optimizer

from holdfast import checkpoint
from holdfast.data.rows import Rows, as_rows
from holdfast.errors import Diverged, HoldfastError
from holdfast.feed import Augment, Feed, evaluate, inputs_of
from holdfast.functional.schedules import Cosine, Schedule
from holdfast.ledger import Ledger
from holdfast.method import Method, Plan
from holdfast.nets import build, reset_parameters
from holdfast.progress import Progress, Silent
from holdfast.run import Run, RunFolder, describe
from holdfast.task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
Watch = Callable[[int, nn.Module], Mapping[str, float]]


def adam(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Adam with its usual rate of 0.001."""
    return Adam(parameters, lr=1e-3)


@dataclass
class Training:
    """All that changes while a network trains, and how to save it."""

    fabric: Fabric
    nets: list[nn.Module]
    method: Method
    feed: Feed
    optimizer: Optimizer
    schedule: Schedule
    ledger: Ledger
    epochs: int
    history: list[dict[str, float]]
    stopped: bool = False

    def epoch(self, epoch: int, tick: Callable[[float], None]) -> tuple[float, Plan | None]:
        """Train for one epoch; the mean loss and what was trained on."""
        nets, method, feed = self.nets, self.method, self.feed
        method.before_epoch(nets, feed, epoch, self.epochs)
        plan = method.plan(nets, feed)
        self.ledger.plan(plan)
        steps, total = feed.steps(plan), torch.zeros((), device=feed.device)
        for number, batch in enumerate(feed.batches(plan, method.views)):
            self._set_rate((epoch + number / steps) / self.epochs)
            step = method.loss(nets, batch)
            self.optimizer.zero_grad()
            self.fabric.backward(step.loss)
            method.after_backward(nets)
            self.optimizer.step()
            method.after_step(nets)
            self.ledger.record(batch, step)
            total += step.loss.detach()
            tick((number + 1) / steps)
        self.stopped = method.stop(nets)
        return float(total) / steps, plan

    def _set_rate(self, share: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.schedule(share)

    def state(self) -> dict[str, Any]:
        return {
            "nets": [dict(net.state_dict()) for net in self.nets],
            "method": dict(self.method.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "ledger": self.ledger.state_dict(),
            "history": self.history,
            "stopped": self.stopped,
            "shuffle": self.feed.generator.get_state(),
            "random": checkpoint.random_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        for net, saved in zip(self.nets, state["nets"], strict=True):
            net.load_state_dict(saved)
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.ledger.load_state_dict(state["ledger"])
        self.history = state["history"]
        self.stopped = state["stopped"]
        self.feed.generator.set_state(state["shuffle"])
        checkpoint.set_random_state(state["random"])


def fit(
    data: Rows | tuple[Any, Any],
    method: Method | None = None,
    net: nn.Module | str = "auto",
    *,
    test: Rows | tuple[Any, Any] | None = None,
    epochs: int = 30,
    batch_size: int = 128,
    optimizer: MakeOptimizer = adam,
    schedule: Schedule | None = None,
    augment: Augment | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    workers: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Run:
    """Train a network on rows whose labels may be wrong.

    Parameters
    ----------
    data: ``Rows``, or a pair (inputs, labels) of arrays or tensors; float labels of two dimensions are targets.
    method: how to train; None is ordinary training.
    net: a module, a name (auto, mlp, cnn4, cnn9, resnet20, resnet32) or ``module.path:factory``.
    test: rows to score after each epoch. Their score is reported and never used.
    epochs, batch_size, optimizer, schedule, augment: how to optimise; the schedule follows the share of training
        done and falls along a cosine by default.
    seed: of the initial weights and everything random after them.
    device, precision: as lightning-fabric takes them, such as "cpu", "cuda", "32-true", "bf16-mixed".
    out: folder for the run: settings, history, ledger, model, and a checkpoint after each epoch. None keeps nothing.
    resume: go on from the checkpoint in ``out``, bit for bit as if never stopped; starts where there is none.
    watch: called after each epoch with its number and the predicting network; its values join the history.

    Returns
    -------
    Run: the trained network, the history of the epochs and the ledger of the rows.
    """
    if epochs < 1:
        raise HoldfastError(f"training needs at least one epoch, not {epochs}")
    rows = as_rows(data)
    held_out = None if test is None else as_rows(test, like=rows)
    method, schedule = method or Method(), schedule or Cosine()
    from lightning_fabric import Fabric  # slow to import, and only training needs it

    torch.manual_seed(seed)
    fabric = Fabric(accelerator=device, devices=1, precision=precision)  # type: ignore[arg-type]
    spec, nets = _networks(net, method.networks, rows)
    folder = None if out is None else RunFolder(Path(out))
    asked = describe(rows, method, spec, nets[0], epochs=epochs, batch_size=batch_size, seed=seed, precision=precision)
    saved = None if folder is None else folder.open(asked, resume=resume)

    training = _prepare(
        fabric, nets, method, rows, optimizer, schedule, epochs,
        batch_size=batch_size, augment=augment, seed=seed, workers=workers,
    )  # fmt: skip
    if saved is not None:
        training.restore(saved)
    writer = _tensorboard(folder, len(training.history)) if tensorboard else None

    with progress or Silent() as bar:
        for epoch in range(len(training.history), epochs):
            if training.stopped:
                break
            wall, cpu = time.perf_counter(), time.process_time()
            loss, plan = training.epoch(epoch, lambda share, e=epoch: bar.at(e + share, epochs))  # type: ignore[misc]
            if not math.isfinite(loss):
                raise _diverged(epoch, folder)
            seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
            line = {"epoch": float(epoch), "loss": loss, **_coverage(plan, rows, training.feed.task), **seconds}
            line |= _scores(training, held_out)
            if watch is not None:
                line |= watch(epoch, method.predictor(training.nets))
            training.history.append(line)
            bar.say(line)
            if folder is not None:
                folder.keep(training.state(), training.history)
            if writer is not None:
                for name, value in line.items():
                    writer.add_scalar(name, value, epoch)
    if writer is not None:
        writer.close()
    best = getattr(method.predictor(training.nets), "module", method.predictor(training.nets))
    run = Run(
        best,
        rows,
        training.history,
        training.ledger.arrays(),
        asked,
        out=None if folder is None else folder.path,
    )
    if folder is not None:
        folder.finish(run)
    return run


def _networks(net: nn.Module | str, count: int, rows: Rows) -> tuple[str | None, list[nn.Module]]:
    """The networks to train; all but a given first one start from weights of their own."""
    outputs = rows.y.shape[1] if rows.classes is None else len(rows.classes)
    if isinstance(net, str):
        return net, [build(net, rows.shape, outputs) for _ in range(count)]
    return None, [net] + [reset_parameters(net) for _ in range(count - 1)]


def _prepare(
    fabric: Fabric,
    nets: list[nn.Module],
    method: Method,
    rows: Rows,
    optimizer: MakeOptimizer,
    schedule: Schedule,
    epochs: int,
    **feeding: Any,
) -> Training:
    feed = Feed(rows, device=fabric.device, **feeding)
    nets = [fabric.to_device(net).train() for net in nets]
    method.begin(nets, feed)
    fabric.to_device(method)
    own = [parameter for parameter in method.parameters() if parameter.requires_grad]
    made = optimizer([*(p for net in nets for p in net.parameters()), *own])
    for group in made.param_groups:
        group.setdefault("initial_lr", group["lr"])
    wrapped: list[nn.Module] = [fabric.setup_module(net, move_to_device=False) for net in nets]
    engine = cast(Optimizer, fabric.setup_optimizers(made))
    ledger = Ledger(feed.y, feed.task)
    return Training(fabric, wrapped, method, feed, engine, schedule, ledger, epochs, [])


def _coverage(plan: Plan | None, rows: Rows, task: Task) -> dict[str, float]:
    """The share of rows trained towards their given labels and, where the truth is known, how many are right."""
    if plan is None:
        return {"coverage": 1.0}
    index = plan.index.cpu()
    if plan.target is not None:
        given = task.encode(rows.y[index])
        index = index[(plan.target.cpu()[index] == given).all(1)]
    line = {"coverage": len(index) / len(rows)}
    if rows.truth is not None:
        right = rows.y[index] == rows.truth[index]
        line["purity"] = float(right.reshape(len(index), -1).all(1).double().mean())
    return line


def _scores(training: Training, held_out: Rows | None) -> dict[str, float]:
    task, ledger = training.feed.task, training.ledger
    ledger.flush()
    line = {}
    if task.metric == "accuracy":
        line["train"] = float((ledger.prediction == training.feed.y).double().mean())
    if held_out is not None:
        net = training.method.predictor(training.nets)
        output = evaluate(net, inputs_of(held_out.x, training.feed.device))
        line["test"] = task.score(output, held_out.y.to(output.device))
    return line


def _diverged(epoch: int, folder: RunFolder | None) -> Diverged:
    kept = f"the checkpoint of epoch {epoch} is kept in {folder.path}" if folder and epoch else "nothing was kept"
    return Diverged(f"the loss is no longer a number in epoch {epoch + 1}; {kept}; lower the learning rate (--lr)")


def _tensorboard(folder: RunFolder | None, done: int) -> Any:
    if folder is None:
        raise HoldfastError("TensorBoard logs need a folder; pass out")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise HoldfastError("TensorBoard is not installed; pip install 'holdfast[tensorboard]'") from None
    return SummaryWriter(str(folder.path / "tensorboard"), purge_step=done)
