"""A session inside the Trainer of Hugging Face, and its issues beside the rows of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn
from torch.optim import Optimizer
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

from holdfast import checkpoint
from holdfast.errors import HoldfastError
from holdfast.method import Method
from holdfast.session import Loader, Session, SessionBatch
from holdfast.stop.rule import StopRule

STATE = "holdfast.safetensors"
"""The state of the session in the folder of a checkpoint."""
KEY = "holdfast"
"""What a batch says of its rows, beside the inputs of the model."""


class HoldfastTrainer(Trainer):
    """The ``Trainer`` with a method of Holdfast: ``HoldfastTrainer(model, args, method=PRLL(), train_dataset=...)``.

    Everything else is as the ``Trainer`` has it: evaluation, logging, mixed precision, several processes, checkpoints.
    ``trainer.session`` has the issues, and figures of each epoch are logged (``holdfast_loss``). The model predicts one
    class or number a row, by its ``logits``.

    Parameters
    ----------
    method, stop, evidence, label, classes: as ``Session`` takes them.
    out: folder for ``session.save`` when training has ended; None keeps nothing.
    """

    def __init__(
        self,
        *given: Any,
        method: Method | str,
        stop: StopRule | str | None = None,
        evidence: Any = None,
        label: str | None = None,
        classes: Sequence[str] | None = None,
        out: str | Path | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*given, **settings)
        self._check_arguments()
        if self.train_dataset is None:
            raise HoldfastError("HoldfastTrainer needs its rows from the start; pass train_dataset")
        args, rows, collate = self.args, self.train_dataset, self.data_collator
        if hasattr(rows, "features") and args.remove_unused_columns:
            rows = self._remove_unused_columns(rows, description="training")
        else:
            collate = self._get_collator_with_removed_columns(collate, description="training")
        seed = args.data_seed or args.seed
        self.session = Session(rows, method, stop=stop, evidence=evidence, label=label, classes=classes, seed=seed)
        if self.session.method.networks > 1:
            raise HoldfastError(f"{self.session.method!r} trains two networks, and a Trainer has one model")
        loader = self.session.loader(
            args.per_device_train_batch_size,
            collate_fn=collate,
            accumulate=args.gradient_accumulation_steps,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory and args.device.type != "cpu",
        )
        self._batches = InputsBesideRows(loader, rows)
        self.add_callback(_Epochs(self, out))

    def _check_arguments(self) -> None:
        args, saving = self.args, getattr(self.args.save_strategy, "value", self.args.save_strategy)
        if saving not in ("no", "epoch"):
            raise HoldfastError(
                f"the state of a session is whole at the end of an epoch, and save_strategy is {saving!r}; pass "
                "save_strategy='epoch' (or 'no') to TrainingArguments"
            )
        if args.n_gpu > 1:
            raise HoldfastError("one process would train on several GPUs; start one for each (torchrun, accelerate)")
        if args.auto_find_batch_size:
            raise HoldfastError("a session cannot begin anew with smaller batches; leave auto_find_batch_size out")
        if self.compute_loss_func is not None or args.label_smoothing_factor:
            raise HoldfastError("the method makes the loss; leave compute_loss_func and label_smoothing_factor out")

    def get_train_dataloader(self) -> Any:
        return self._batches

    def create_optimizer(self, *given: Any, **settings: Any) -> Optimizer:
        optimizer: Optimizer = super().create_optimizer(*given, **settings)
        steps = len(self._batches) / self.args.gradient_accumulation_steps
        asked = self.args.num_train_epochs if self.args.max_steps <= 0 else self.args.max_steps / steps
        self.session.begin(self.model, optimizer, math.ceil(asked))
        return optimizer

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *given: Any, **settings: Any) -> Any:
        """Batches of ``session.loader`` are the method's; those of an evaluation are not."""
        if KEY not in inputs:
            return super().compute_loss(model, inputs, *given, **settings)
        x = {name: part for name, part in inputs.items() if name != KEY}
        self.session.wrap(model)
        inside = self.session.method.looks_inside
        return self.session.loss(None if inside else model(**x), SessionBatch(x, **inputs[KEY]))

    def train(self, resume_from_checkpoint: str | bool | None = None, *given: Any, **settings: Any) -> Any:
        folder: Any = resume_from_checkpoint
        if resume_from_checkpoint is True:
            folder = get_last_checkpoint(self.args.output_dir)
        if folder:
            self.session.load_state_dict(checkpoint.load(Path(folder) / STATE))
        return super().train(resume_from_checkpoint, *given, **settings)

    def _init_training_state(self, *given: Any, **settings: Any) -> tuple[int, int]:
        """The Trainer divides its steps by those of a whole epoch; plans may have had fewer."""
        done, steps = super()._init_training_state(*given, **settings)
        return (self.session.epoch, 0) if self.session.epoch else (done, steps)

    def _save_checkpoint(self, model: Any, trial: Any, *given: Any, **settings: Any) -> None:
        # First, since the Trainer takes a folder that holds its own last file for whole.
        folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        state = self.session.state_dict()
        if self.args.should_save:
            checkpoint.save(folder / STATE, state)
        super()._save_checkpoint(model, trial, *given, **settings)


class InputsBesideRows:
    """Batches as a model takes them, a dict of its inputs, with what a session must know of their rows in one entry."""

    def __init__(self, loader: Loader, dataset: Any) -> None:
        self.loader = loader
        self.dataset = dataset
        self.batch_size = loader.batch_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.loader:
            if not isinstance(batch.x, dict):
                raise HoldfastError("a collator of the Trainer makes a dict of the inputs of the model, by their names")
            known = {name: part for name, part in batch._asdict().items() if name != "x" and part is not None}
            yield {**batch.x, KEY: known}

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)


class _Epochs(TrainerCallback):
    """Ends the epochs of a session where those of the Trainer end, and logs their figures."""

    def __init__(self, trainer: HoldfastTrainer, out: str | Path | None) -> None:
        self.trainer = trainer
        self.session = trainer.session
        self.out = out

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        due = control.should_log  # the Trainer's own line, for which it would take ours
        self.trainer.log({f"holdfast_{name}": value for name, value in self.session.figures.items() if name != "epoch"})
        control.should_log = due
        if self.session.stopped:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.session.net()
        if self.out is not None:
            self.session.save(self.out)


def with_issues(dataset: Any, issues: pd.DataFrame) -> Any:
    """A dataset of Hugging Face with what a session says of each row: trust, flag and suggested label.

    Parameters
    ----------
    dataset: the rows that were trained on, in their order, with any further columns.
    issues: ``session.issues()``, in any order.
    """
    if len(dataset) != len(issues):
        raise HoldfastError(f"{len(issues)} rows were judged, and the dataset has {len(dataset)}; pass the same rows")
    table = issues.sort_values("row")
    columns = ["trust", "flag", *(name for name in table.columns if name.startswith("suggested"))]
    taken = [name for name in columns if f"holdfast_{name}" in dataset.column_names]
    if taken:
        raise HoldfastError(f"the dataset has a column 'holdfast_{taken[0]}' already; remove it first")
    for name in columns:
        dataset = dataset.add_column(f"holdfast_{name}", table[name].tolist())
    return dataset
