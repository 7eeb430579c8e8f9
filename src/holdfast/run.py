"""A run: what training leaves behind, in memory and in a folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from holdfast.config import RunConfig
from holdfast.data.encode import code_of
from holdfast.data.held import held_inputs
from holdfast.data.rows import Rows
from holdfast.data.scale import unscaled
from holdfast.data.source import code_in, is_file, read_again, source_of
from holdfast.data.tune import tuned_in
from holdfast.encoders.tuned import network
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of
from holdfast.issues.find import ledger_table, ledger_trust, ranked, with_held_out
from holdfast.issues.noise import Noise, WrongLabels, noise_of, rate_by_trust
from holdfast.nets import PROJECTED
from holdfast.nets.trees import as_they_were, network_weights
from holdfast.run_folder import HeldOut, RunFolder
from holdfast.task import Task, task_of
from holdfast.trusted import Trust, check_trusted

LAST = 10
"""Epochs whose mean score stands for the end of a run."""


class Run:
    """A trained network with the history of its epochs and the ledger of its rows.

    Attributes
    ----------
    net: the network that predicts.
    history: one line an epoch: loss, coverage of the plan, scores, seconds.
    ledger: one line a row: times seen and selected, mean trust, loss, margin and gradient norm, last prediction.
    config: what it was made with, as written to ``run.json``.
    stopped: why a stop rule ended the training; empty where none did.
    """

    def __init__(
        self,
        net: nn.Module | None,
        rows: Rows | None,
        history: Sequence[Mapping[str, float]],
        ledger: Mapping[str, Tensor],
        config: RunConfig,
        out: Path | None = None,
        names: Sequence[str] | None = None,
        stopped: str = "",
        held_out: HeldOut | None = None,
        test_rows: Rows | None = None,
        trust: Trust = None,
    ) -> None:
        self._net = net
        self._trust = trust
        self.rows = rows
        self.test_rows = test_rows
        self.names = rows.names if rows is not None else names
        self.history = pd.DataFrame(list(history))
        self.config = config
        self.out = out
        self.stopped = stopped
        self._ledger = dict(ledger)
        self._held_out = held_out
        self._noise: Noise | None = None

    @classmethod
    def load(cls, folder: str | Path, net: nn.Module | None = None, *, trust: Collection[str] = ()) -> Run:
        """Read a finished run from its folder; a network that was given as a module must be given again.

        Parameters
        ----------
        trust: code that the run may name and run, by its ``module:factory``, and pickles by their path. A run is a file
            like any other: what it names is not trusted because it says so.
        """
        run = cls.records(folder, trust=trust)
        check_trusted(code_of(run.config.recipe, run.config.net if net is None else None), trust, folder)
        weights = RunFolder(Path(folder)).weights()
        run.net = as_they_were(net or _rebuild(Path(folder), run.config, weights), weights)
        return run

    @classmethod
    def records(cls, folder: str | Path, *, trust: Collection[str] = ()) -> Run:
        """Read what a finished run has written down: configuration, history and ledger, but no network."""
        stored = RunFolder(Path(folder))
        config = stored.config()
        ledger, names = stored.ledger()
        return cls(
            None, None, stored.history(), ledger, config, Path(folder), names, stored.stopped(), stored.held_out(),
            trust=trust,
        )  # fmt: skip

    @property
    def net(self) -> nn.Module:
        if self._net is None:
            raise HoldfastError("this run was opened without its network; open it with Run.load")
        return self._net

    @net.setter
    def net(self, net: nn.Module) -> None:
        self._net = net

    def training_rows(self) -> Rows:
        """The rows that it was trained on: those it holds, or those at the place they were read from."""
        return self.rows if self.rows is not None else self._found_again(None)

    def judged_rows(self) -> Rows:
        """The rows of ``issue_table`` in its order: the training rows, and after them test rows of the same data."""
        if self._held_out is None:
            return self.training_rows()
        if self.rows is not None and self.test_rows is not None:
            return self.rows.followed_by(self.test_rows)
        return self.read_again()

    def read_again(self) -> Rows:
        """The same rows as they lie where they were read from; an error where they have changed since."""
        return self._found_again(None if self._held_out is None else self._held_out.fingerprint)

    def _found_again(self, held_out: str | None) -> Rows:
        if self.config.source:
            check_trusted(code_in(source_of(self.config.source)), self._trust, self.out)
        return read_again(self.config.source, self.config.fingerprint, held_out)

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.config.classes

    @property
    def task(self) -> Task:
        count = None if self.classes is None else len(self.classes)
        return task_of(torch.empty(0, 0 if self.config.unlabelled else self.config.outputs), count)

    @property
    def ledger(self) -> pd.DataFrame:
        flat = {}
        for name, value in self._ledger.items():
            columns = value.cpu().numpy()
            if columns.ndim == 1:
                flat[name] = columns
            else:
                flat |= {f"{name}_{k}": columns[:, k] for k in range(columns.shape[1])}
        return pd.DataFrame(flat)

    @property
    def last(self) -> float:
        """Mean test score of the last ten epochs."""
        return float(self._test.iloc[-LAST:].mean())

    @property
    def best(self) -> float:
        """Test score of the best epoch: chosen by looking at the test, so only for comparison with ``last``."""
        return float(self._test.max())

    @property
    def best_epoch(self) -> int:
        """The epoch, from zero, whose network this is: the last, or the one that a stop rule took for the best."""
        judged = self.history.get("best")
        return len(self.history) - 1 if judged is None else int(judged.to_numpy().nonzero()[0].max(initial=0))

    @property
    def score(self) -> float:
        """Test score of the network that the run returns."""
        return float(self._test.iloc[self.best_epoch])

    @property
    def true_score(self) -> float | None:
        """The same by true labels; None where they are not known."""
        true = self.history.get("test_true")
        return None if true is None else float(true.iloc[self.best_epoch])

    @property
    def scored(self) -> str:
        """The same in words, with the labels that it is held against: a share held out has wrong ones like the rest."""
        test = str(self.config.source.get("test", 0))
        own = f"the labels of {Path(test).name}, right or wrong"
        by = own if is_file(test) else "labels that may be wrong themselves"
        known = "" if self.true_score is None else f", {self.true_score:.4f} by true labels"
        return f"{self.score:.4f} by {by}{known}"

    @property
    def joined(self) -> str:
        """Whether boosted trees predict together with the network, in words; empty where they do not."""
        if "trees" not in self.history:
            return ""
        share, what = float(self.history["trees"].iloc[-1]), "labels" if self.classes is not None else "targets"
        return (
            f"held-out {what} are predicted better with boosted trees; they join the network, their share {share:.0%}"
        )

    @property
    def _test(self) -> pd.Series[float]:
        if "test" not in self.history:
            raise HoldfastError("this run had no test rows; pass test")
        return self.history["test"]

    def outputs(self, x: Any) -> Tensor:
        """(N, q) raw outputs of the network for anything that ``fit`` takes, with labels or without.

        It is prepared as the training rows were: columns of a table, texts and images by the encoder.
        """
        device = next(self.net.parameters()).device
        held, tuned = held_inputs(x, self.config.recipe), tuned_in(self.config.recipe) is not None
        if isinstance(held, Tensor) and not tuned:
            if tuple(held.shape[1:]) != self.config.shape:
                raise HoldfastError(
                    f"the inputs have the shape {tuple(held.shape[1:])}, but the run was trained on {self.config.shape}"
                )
            held = held if held.dtype == torch.uint8 else held.float()
        return evaluate(self.net, inputs_of(held, device)).cpu()

    def probabilities(self, x: Any) -> Tensor:
        """(N, C) probabilities of the classes."""
        if self.classes is None:
            raise HoldfastError("a regression has no probabilities; use predict")
        return self.outputs(x).softmax(1)

    def predict(self, x: Any) -> np.ndarray[Any, Any]:
        """Class names, or (N, q) values in the units of the file that was read."""
        predicted = self.task.predict(self.outputs(x))
        if self.classes is None:
            return unscaled(predicted, self.config.recipe).numpy()
        names: np.ndarray[Any, Any] = np.asarray(self.classes)[predicted.numpy()]
        return names

    def issues(self) -> pd.DataFrame:
        """Which labels are wrong, least trusted first.

        Returns
        -------
        DataFrame: row, name, given and suggested label, trust (the probability that the given label is right), flag
        (likelier wrong than right), held_out (whether it is a test row, part of the same data) and why. Of a regression
        the suggested value has an interval of 95 %, low and high.
        """
        return ranked(self.issue_table())

    def issue_table(self) -> pd.DataFrame:
        """The same in the order of the rows, those held out last, with the likeliest other label of each (rival)."""
        classes, judged = None if self.classes is None else list(self.classes), self._judged
        table = ledger_table(judged, classes, self.config.recipe)
        if "source_index" in judged:
            table["row"] = judged["source_index"].numpy()
        names = None if self.names is None else [*self.names, *((self._held_out and self._held_out.names) or ())]
        table.insert(1, "name", "" if names is None else np.asarray(names, dtype=object))
        if "reviewed" in judged:
            reviewed = judged["reviewed"].numpy()
            table.loc[reviewed, ["trust", "flag"]] = [1.0, False]
            table.loc[reviewed, "why"] = "reviewed"
            for name in [name for name in table.columns if name.startswith("suggested")]:
                table.loc[reviewed, name] = table.loc[reviewed, name.replace("suggested", "given")]
        return table

    def noise(self) -> Noise:
        """How many labels are wrong, in all and of each class, and how they go wrong, with bootstrap intervals."""
        if self.classes is None:
            raise HoldfastError("a regression has no transition matrix; run.issues() says which targets are wrong")
        if self._noise is None:
            judged = self._judged
            self._noise = noise_of(ledger_trust(judged), judged["given"], self.classes)
        return self._noise

    def wrong_labels(self) -> WrongLabels:
        """How many labels are wrong, by estimate, and how many are flagged: what the commands say of the run."""
        table = self.issue_table()
        rate = rate_by_trust(table["trust"].to_numpy()) if self.classes is None else self.noise().rate
        return WrongLabels(*rate, flagged=int(table["flag"].sum()), rows=len(table))

    @property
    def _judged(self) -> dict[str, Tensor]:
        """What is known of each row, those held out last, or an error where the ledger tells too little."""
        if "expected" not in self._ledger:
            raise HoldfastError("the ledger of this run is from an older version and tells too little; train again")
        ledger = {name: value.cpu() for name, value in self._ledger.items()}
        return with_held_out(ledger, {} if self._held_out is None else self._held_out.arrays)

    def __repr__(self) -> str:
        end = f", {self.task.metric} {self.score:.4f}" if "test" in self.history else ""
        return f"Run({self.config.call}, {len(self.history)} epochs{end})"


def pretrained_body(path: Path, rows: Rows) -> tuple[str | None, dict[str, Tensor]]:
    """The kind of network that a run trained, without what it has for a head, and its weights."""
    config = RunFolder(path).config()
    if config.shape != rows.shape:
        raise HoldfastError(f"the run in {path} saw inputs of shape {config.shape}, these have {rows.shape}")
    return config.net and config.net.removesuffix(PROJECTED), network_weights(RunFolder(path).weights())


def _rebuild(path: Path, config: RunConfig, weights: Mapping[str, Tensor]) -> nn.Module:
    if config.net is None:
        raise HoldfastError(
            f"the run in {path} trained a network of your own ({config.network}); pass it to Run.load, or train "
            "with a name or module.path:factory"
        )
    if ":" not in config.net:
        # Without memory first: the sizes that a run claims are held against the weights that it has.
        with torch.device("meta"):
            shapes = {name: value.shape for name, value in _named(path, config).state_dict().items()}
        if shapes != {name: value.shape for name, value in network_weights(weights).items()}:
            raise HoldfastError(f"the weights in {path} are not those of {config.net} for its inputs; train again")
    return _named(path, config)


def _named(path: Path, config: RunConfig) -> nn.Module:
    try:
        return network(str(config.net), config.shape, config.outputs)
    except RuntimeError as error:
        raise HoldfastError(f"the network of the run in {path} cannot be made again ({error}); train again") from None
