"""A run: what training leaves behind, in memory and in a folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from holdfast.config import RunConfig
from holdfast.data.encode import code_of
from holdfast.data.held import held_inputs
from holdfast.data.on_disk import OnDisk
from holdfast.data.rows import Rows, shape_of
from holdfast.data.scale import unscaled
from holdfast.data.source import code_in, is_file, read_again, source_of
from holdfast.data.tune import tuned_in
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of
from holdfast.functional.label_trust import Trust
from holdfast.issues.find import FLAGGED, REVIEWED, answered, ledger_table, ledger_trust, ranked, with_held_out
from holdfast.issues.noise import Noise, Rate, Review, WrongLabels, noise_after, noise_of, rate_by_trust
from holdfast.kept import Kept
from holdfast.nets.trees import as_they_were
from holdfast.review.answers import Answers, answers_at
from holdfast.review.calibrate import Wrong, calibrate
from holdfast.run_folder import HeldOut, RunFolder
from holdfast.saved_networks import rebuilt
from holdfast.task import Task, task_of
from holdfast.trusted import LINKS, Trusted, check_trusted

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
    reviewers: those who had reviewed rows before the run; ``reviewer`` of the ledger has their numbers, from 1.
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
        trust: Trusted = None,
    ) -> None:
        self._net = net
        self.trust = trust
        self.rows = rows
        self.test_rows = test_rows
        self.names = rows.names if rows is not None else names
        self.history = pd.DataFrame(list(history))
        self.config = config
        self.out = out
        self.stopped = stopped
        self._ledger = dict(ledger)
        self._held_out = held_out
        self.reviewers = rows.reviewers if rows is not None else ()
        self._noise: Noise | None = None

    @classmethod
    def load(cls, folder: str | Path, net: nn.Module | None = None, *, trust: Collection[str] = ()) -> Run:
        """Read a finished run from its folder; a network that was given as a module must be given again.

        Parameters
        ----------
        trust: code that the run may name and run, by its ``module:factory``, and pickles by their path. A run is a file
            like any other: what it names is not trusted because it says so. "links" follows links out of its folder of
            images, if it was trained so.
        """
        run = cls.records(folder, trust=trust)
        run.read_network(net)
        return run

    @classmethod
    def records(cls, folder: str | Path, *, trust: Collection[str] = ()) -> Run:
        """Read what a finished run has written down: configuration, history and ledger, but no network."""
        stored = RunFolder(Path(folder))
        config = stored.config()
        ledger, names, reviewers = stored.ledger()
        run = cls(
            None, None, stored.history(), ledger, config, Path(folder), names, stored.stopped(),
            stored.held_out(ledger), trust=trust,
        )  # fmt: skip
        run.reviewers = reviewers
        return run

    def read_network(self, net: nn.Module | None = None) -> None:
        """Read the network of a run that was opened by its records; one that was given as a module must be given."""
        assert self.out is not None
        check_trusted(code_of(self.config.recipe, self.config.net if net is None else None), self.trust, self.out)
        weights = RunFolder(self.out).weights()
        self.net = as_they_were(net or rebuilt(self.out, self.config, weights), weights)

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
            check_trusted(code_in(source_of(self.config.source)), self.trust, self.out)
        links = self.trust is None or LINKS in self.trust
        return read_again(self.config.source, self.config.fingerprint, held_out, follow_links=links)

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
        if isinstance(held, Tensor | OnDisk) and not tuned:
            found = shape_of(held)
            if found != self.config.shape:
                raise HoldfastError(
                    f"the inputs have the shape {found}, but the run was trained on {self.config.shape}"
                )
            held = held if isinstance(held, OnDisk) or held.dtype == torch.uint8 else held.float()
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
        the suggested value has an interval of 95 %, low and high. Where reviewers have answered since (``holdfast
        review``), rows that they have settled are as decided, and the trust in all others is calibrated by the answers.
        """
        return ranked(self.answered_table())

    def answered_table(self) -> pd.DataFrame:
        """The same in the order of the rows, those held out last, with the likeliest other label of each (rival)."""
        table = self.issue_table()
        answers = self._answers(table)
        if answers is None:
            return table
        calibrated = calibrate(table["trust"].to_numpy(), answers.reviewed, answers.wrong)
        return answered(table, calibrated.trust, answers.rows, answers.labels())

    def issue_table(self) -> pd.DataFrame:
        """The same as the run alone has it, without what reviewers have answered since."""
        return self._issue_table.copy()

    @cached_property
    def _issue_table(self) -> pd.DataFrame:
        classes, judged = None if self.classes is None else list(self.classes), self._judged
        table = ledger_table(judged, classes, self.config.recipe, None if classes is None else self._label_trust)
        if "source_index" in judged:
            table["row"] = judged["source_index"].numpy()
        names = None if self.names is None else [*self.names, *((self._held_out and self._held_out.names) or ())]
        table.insert(1, "name", "" if names is None else np.asarray(names, dtype=object))
        if "reviewed" in judged:
            reviewed = judged["reviewed"].numpy()
            table.loc[reviewed, ["trust", "flag"]] = [1.0, False]
            table.loc[reviewed, "why"] = REVIEWED
            for name in [name for name in table.columns if name.startswith("suggested")]:
                table.loc[reviewed, name] = table.loc[reviewed, name.replace("suggested", "given")]
        return table

    def likely_classes(self, most: int = 9) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(N, K) the likeliest classes of each row of ``issue_table`` as numbers, and their probabilities; none of a
        regression."""
        if self.classes is None:
            raise HoldfastError("a regression has no classes; run.issue_table() says what values are expected")
        posterior = self._label_trust.posterior
        few = posterior.value if isinstance(posterior, Kept) else posterior
        share, number = few.topk(min(most, len(self.classes)), dim=1)
        if isinstance(posterior, Kept):
            number = posterior.number.gather(1, number)
        return number.int().numpy(), share.float().numpy()

    def earlier_reviews(self) -> pd.DataFrame:
        """What was known of the labels before the run, in the order of ``issue_table``.

        Returns
        -------
        DataFrame: reviewed (whether a person had settled the label), reviewers (their names) and, where the run was
        trained with corrected labels, original: what the data has, a column for each of several targets.
        """
        judged = self._judged
        rows = len(judged["given"])
        number = judged["reviewer"].numpy() if "reviewer" in judged else np.zeros(rows, dtype=np.int64)
        names = np.array(["", *self.reviewers], dtype=object)
        reviewed = judged["reviewed"].numpy() if "reviewed" in judged else np.zeros(rows, dtype=bool)
        known = pd.DataFrame({"reviewed": reviewed, "reviewers": names[number]})
        if "original" not in judged:
            return known
        original = judged["original"].numpy()
        if self.classes is not None:
            return known.assign(original=np.asarray(self.classes, dtype=object)[original])
        columns = ["original"] if original.shape[1] == 1 else [f"original_{k}" for k in range(original.shape[1])]
        return pd.concat([known, pd.DataFrame(original, columns=columns)], axis=1)

    def answers(self) -> Answers | None:
        """What reviewers have answered since the run; None where nobody has."""
        return answers_at(self.out, self.config.fingerprint, self.issue_table(), self.classes is not None)

    def noise(self) -> Noise:
        """How many labels are wrong, in all and of each class, and how they go wrong, with bootstrap intervals.

        Answers of reviewers count as in ``issues``.
        """
        if self.classes is None:
            raise HoldfastError("a regression has no transition matrix; run.issues() says which targets are wrong")
        table, own = self.issue_table(), self._own_noise()
        answers = self._answers(table)
        if answers is None:
            return own
        found = calibrate(table["trust"].to_numpy(), answers.reviewed, answers.wrong)
        true = torch.full((len(table),), -1)
        true[torch.from_numpy(answers.rows)] = torch.tensor([self.classes.index(str(k)) for k in answers.labels()])
        judged, right = self._judged, torch.from_numpy(found.trust)
        return noise_after(
            own, self._label_trust, judged["given"], right, true, _share(found.total, len(table)), found.left
        )

    def _own_noise(self) -> Noise:
        """As the run alone has it."""
        assert self.classes is not None
        if self._noise is None:
            judged = self._judged
            self._noise = noise_of(self._label_trust, judged["given"], self.classes, judged.get("reviewed"))
        return self._noise

    def wrong_labels(self) -> WrongLabels:
        """How many labels are wrong, by estimate, and how many are flagged: what the commands say of the run."""
        table = self.issue_table()
        trust = table["trust"].to_numpy()
        rate = rate_by_trust(trust) if self.classes is None else self._own_noise().rate
        answers = self._answers(table)
        if answers is None:
            return WrongLabels(*rate, flagged=int(table["flag"].sum()), rows=len(table))
        found = calibrate(trust, answers.reviewed, answers.wrong)
        review = Review(int(answers.reviewed.sum()), int(answers.wrong.sum()), found.left, rate)
        after, flagged = _share(found.total, len(table)), int((found.trust < FLAGGED).sum())
        return WrongLabels(*after, flagged=flagged, rows=len(table), review=review)

    def _answers(self, table: pd.DataFrame) -> Answers | None:
        """What reviewers have answered since the run; None where no label is settled."""
        found = answers_at(self.out, self.config.fingerprint, table, self.classes is not None)
        return found if found is not None and found.reviewed.any() else None

    @cached_property
    def _label_trust(self) -> Trust:
        """What is known of the true class of each row."""
        return ledger_trust(self._judged, self.config.outputs)

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


load = Run.load
"""``holdfast.load("run")``: a finished run, from its folder."""


def _share(wrong: Wrong, rows: int) -> Rate:
    """A number of labels as a part of all."""
    return wrong.estimate / rows, wrong.low / rows, wrong.high / rows
