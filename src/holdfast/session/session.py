"""A session: Holdfast in a training loop of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from holdfast.augment import Augments
from holdfast.config import RunConfig, optimizer_part, plain, rows_part
from holdfast.errors import HoldfastError
from holdfast.kept import packed
from holdfast.ledger import Ledger
from holdfast.method import Method
from holdfast.methods import METHODS
from holdfast.ranks import get_ranks, set_ranks
from holdfast.registry import made
from holdfast.run import Run
from holdfast.run_folder import RunFolder
from holdfast.session.batch import SessionBatch
from holdfast.session.course import Course, first_weights
from holdfast.session.examples import Collate, read_examples
from holdfast.session.feed import Loading, SessionFeed
from holdfast.session.forwarding import Forward, Forwarding, bare, by_structure, logits_of
from holdfast.session.hooks import around_step, unwrapped
from holdfast.session.loader import EpochSampler, Loader
from holdfast.session.opinions import opinions
from holdfast.spreadsheet import write_csv
from holdfast.stop import STOPS
from holdfast.stop.rule import StopRule


class Session:
    """Holdfast in a training of your own: it says what an epoch trains on, makes the loss, and finds wrong labels.

    Five lines of an ordinary loop change::

        session = holdfast.Session(dataset, holdfast.methods.PRLL(), epochs=10)
        loader = session.loader(batch_size=32)          # in the place of DataLoader(dataset, ...)
        session.begin(net, optimizer)                   # before the first epoch
        for epoch in range(10):
            for batch in loader:
                loss = session.loss(net(batch.x), batch)   # in the place of criterion(net(x), y)
                ...
        session.issues().to_csv("issues.csv")

    Parameters
    ----------
    dataset: a map-style dataset (torch's or Hugging Face's) whose items are pairs, tuples or dicts with the label
        among them, a pair (inputs, labels), or ``Rows``.
    method: how to train, or its name: docs/own-training.md says which work how.
    epochs: how many there will be; None: the framework says it.
    stop: when to stop, or its name; ask ``session.stopped`` after each epoch.
    evidence: (N, C) out-of-fold probabilities, or (N, q) expected numbers: what models that have never seen the label
        of a row expect of it. The list of issues rests on them then, and ``second-opinion`` trains by them.
    label: where the label is in an item (a key or a position), or the labels themselves. None: "labels" or "label" of a
        dict, the last part of a tuple.
    classes: names of the classes, as many as the network has outputs. None: those that the dataset knows, or numbers.
    forward: ``forward(net, x)`` runs the network on the inputs of a batch where a method does so itself. None:
        ``net(x)``, ``net(**x)`` of a dict, ``net(*x)`` of a tuple; of what has ``logits`` these are taken.
    seed: of shuffling and of all that the method draws.
    """

    def __init__(
        self,
        dataset: Any,
        method: Method | str,
        *,
        epochs: int | None = None,
        stop: StopRule | str | None = None,
        evidence: Any = None,
        label: Any = None,
        classes: Sequence[str] | None = None,
        forward: Forward | None = None,
        seed: int = 0,
    ) -> None:
        self.method: Method = made("method", method, METHODS)
        self.stop: StopRule | None = None if stop is None else made("stop rule", stop, STOPS)
        if self.method.uses_evidence and evidence is None:
            raise HoldfastError(
                f"{self.method!r} needs what models that have never seen the label of a row expect of it; pass their "
                "out-of-fold probabilities (evidence=...), or let holdfast.fit train such networks"
            )
        self.rows, self._examples = read_examples(dataset, label, classes)
        self._epochs = epochs
        self._evidence = evidence
        self._forward = forward or by_structure
        self._seed = seed
        self._loading: Loading | None = None
        self._loader: Loader | None = None
        self._course: Course | None = None
        self._config: RunConfig | None = None
        self._waiting: Mapping[str, Any] | None = None

    def loader(
        self,
        batch_size: int,
        *,
        collate_fn: Collate | None = None,
        accumulate: int = 1,
        augment: Augments | None = None,
        **options: Any,
    ) -> Loader:
        """Batches of one epoch after the other, shuffled; call it before ``begin``.

        Parameters
        ----------
        batch_size: rows of a batch in each process.
        collate_fn: makes a batch of a list of items, as for a ``DataLoader``.
        accumulate: batches whose gradients you add up before a step; their mean is that of one batch of all.
        augment: applied to each batch of inputs, once for each view that the method asks for.
        options: further settings of the ``DataLoader`` that reads the dataset (num_workers, pin_memory, ...).
        """
        asked = Loading(batch_size, accumulate, augment, options)
        if self._loader is not None:
            if asked != self._loading:
                raise HoldfastError("this session has a loader with other settings; one session trains on one")
            return self._loader
        taken = {"shuffle", "sampler", "batch_sampler", "drop_last"} & options.keys()
        if taken:
            raise HoldfastError(f"a session shuffles by itself; leave {', '.join(sorted(taken))} out")
        if self._examples is None and (options or collate_fn is not None):
            raise HoldfastError("the inputs are one tensor in memory; leave the settings of a DataLoader out")
        if self._examples is not None:
            self._examples = self._examples.with_collate(collate_fn)
        self._loading = asked
        self._loader = Loader(batch_size, self._batches, self._length, EpochSampler(lambda: self.epoch))
        return self._loader

    def begin(
        self, net: nn.Module | Sequence[nn.Module], optimizer: Optimizer | None, epochs: int | None = None
    ) -> None:
        """Make ready to train, once: networks and optimizer are there, and other processes, if any, are joined.

        Parameters of the method's own join the optimizer as a group; what a method does before and after a step hangs
        on the optimizer.

        Parameters
        ----------
        net: the network, or as many as the method trains side by side; wrapped for several processes or not.
        optimizer: of all of them; None where ``attach`` will bring it.
        """
        epochs = self._epochs if epochs is None else epochs
        if self._loading is None:
            raise HoldfastError("make the loader first: session.loader(batch_size=...)")
        if self._course is not None:
            raise HoldfastError("this session has begun already; make a new one for another training")
        if epochs is None or epochs < 1:
            raise HoldfastError("say how many epochs there will be: Session(..., epochs=...)")
        _join_processes()
        models = [net] if isinstance(net, nn.Module) else list(net)
        device = next((parameter.device for model in models for parameter in model.parameters()), torch.device("cpu"))
        feed = SessionFeed(self.rows, self._examples, self._loading, device=device, seed=self._seed)
        feed.evidence = None if self._evidence is None else opinions(self._evidence, feed)
        # Bare, since methods copy networks, and no copy has a place among the processes.
        nets = [Forwarding(bare(model), self._forward) for model in models]
        self.method.begin(nets, feed)
        self.method.to(device)
        if self.stop is not None:
            self.stop.begin(feed)
            self.stop.to(device)
        for wrapped, model in zip(nets, models, strict=True):
            wrapped.model = model
        ledger = Ledger(feed.y, feed.task, weight=feed.weight)
        feed.learning = ledger.learning
        start = first_weights(bare(models[0]), self.stop)
        self._course = Course(self.rows, nets, self.method, self.stop, feed, ledger, epochs, start=start)
        if optimizer is not None:
            self.attach(optimizer)
        if self._waiting is not None:
            self.load_state_dict(self._waiting)

    def attach(self, optimizer: Optimizer) -> None:
        """Take the optimizer: the method's own parameters join it, and its steps call the method."""
        course, inner = self._begun, unwrapped(optimizer)
        if course.optimizer is not None:
            raise HoldfastError("this session has an optimizer already; all networks share one")
        self._config = self._described(course, inner)
        known = {id(parameter) for group in inner.param_groups for parameter in group["params"]}
        own = [p for p in self.method.parameters() if p.requires_grad and id(p) not in known]
        if own:
            inner.add_param_group({"params": own})
        around_step(inner, course.before_step, course.after_step)
        course.optimizer = inner

    def wrap(self, net: nn.Module | Sequence[nn.Module]) -> None:
        """Take the networks as they are now wrapped, where a framework has done so after ``begin``."""
        models = [net] if isinstance(net, nn.Module) else list(net)
        for known, model in zip(self._begun.nets, models, strict=True):
            if known.model is not model:
                known.model = model

    def loss(self, output: Any, batch: SessionBatch) -> Tensor:
        """The loss of a batch, to be differentiated; what the outputs say of the labels goes to the ledger.

        Parameters
        ----------
        output: what the network made of ``batch.x``; of several networks a list. None: the method runs them.
        """
        course = self._begun
        if not isinstance(batch, SessionBatch):
            raise HoldfastError(f"session.loss takes a batch of session.loader(...), not a {type(batch).__name__}")
        given = list(output) if isinstance(output, (list, tuple)) else [output] * (1 if output is not None else 0)
        given = given or [None] * len(course.nets)
        if len(given) != len(course.nets):
            raise HoldfastError(
                f"{self.method!r} trains {len(course.nets)} networks; pass the outputs of each: "
                f"session.loss([net(batch.x) for net in nets], batch), not {len(given)}"
            )
        outputs = [None if each is None else logits_of(each) for each in given]
        for each in outputs:
            if each is not None:
                self._check_width(each)
        return course.loss(outputs, batch)

    def _check_width(self, output: Tensor) -> None:
        width = self._begun.feed.task.outputs
        if output.shape[1] != width:
            raise HoldfastError(
                f"the network has {output.shape[1]} outputs and the labels have {width} "
                f"{'targets' if self.rows.classes is None else 'classes'}; pass classes=[...], one name for each output"
            )

    @property
    def accumulate(self) -> int:
        """Batches whose gradients make up one step."""
        return 1 if self._loading is None else self._loading.accumulate

    @property
    def epoch(self) -> int:
        """Epochs that have ended: the number of the next one, from which a loop goes on."""
        if self._course is None:
            return 0 if self._waiting is None else len(self._waiting["history"])
        self._course.end_epoch()
        return self._course.done

    @property
    def stopped(self) -> str:
        """Why the stop rule has ended the training; empty: go on."""
        self.end_epoch()
        return self._begun.stopped

    def open_epoch(self) -> int:
        """Plan the next epoch before its first batch is asked for, and say how many batches it has."""
        self._begun.open_epoch()
        return self._begun.dealt

    def end_epoch(self) -> None:
        """End the epoch that is under way, where a framework does not ask the loader for one batch too many."""
        self._begun.end_epoch()

    @property
    def figures(self) -> dict[str, float]:
        """Those of the last epoch, for a tracker of yours: loss, coverage, what the method knows of the noise."""
        self.end_epoch()
        return dict(self._begun.history[-1]) if self._begun.history else {}

    def net(self) -> nn.Module:
        """The network that predicts: the method's choice, with the weights of the best epoch by the stop rule."""
        self.end_epoch()
        return self._begun.predictor()

    def run(self) -> Run:
        """All that the session knows, as ``holdfast.fit`` returns it: history, ledger, issues, noise rate."""
        course = self._begun
        course.end_epoch()
        if self._config is None or not course.history:
            raise HoldfastError("no epoch has ended yet; train first")
        ledger = {**course.ledger.arrays(), **self.rows.known()}
        if course.feed.evidence is not None:
            ledger |= packed({"evidence": course.feed.evidence.joined})
        return Run(course.predictor(), self.rows, course.history, ledger, self._config, stopped=course.stopped)

    def issues(self) -> pd.DataFrame:
        """Which labels are wrong, least trusted first, by what your network expected of each row while it learnt.

        The columns are those of ``Run.issues``. Models that never saw a row's label judge it better: where the session
        has their ``evidence``, it is by that. ``holdfast.check`` and ``holdfast.fit`` train such networks.
        """
        return self.run().issues()

    def save(self, folder: str | Path) -> None:
        """Write what ``holdfast.fit`` leaves behind, and issues.csv; of several processes the first writes.

        A folder that holds the same run is written anew, any other is left alone.
        """
        run = self.run()
        if not get_ranks().first:
            return
        kept = RunFolder(Path(folder))
        kept.open(run.config, resume=True)
        ledger = {name: value.cpu() for name, value in run._ledger.items()}
        kept.finish(run.net.state_dict(), run.history, ledger, run.names, run.stopped)
        write_csv(run.issues(), Path(folder) / "issues.csv")

    def state_dict(self) -> dict[str, Any]:
        """All that must be saved beside networks and optimizer to go on exactly; at the end of an epoch."""
        return self._begun.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; it waits for ``begin`` where that is still to come."""
        if self._course is None:
            self._waiting = state
            return
        self._waiting = None
        known = len(state["ledger"]["seen"])
        if known != len(self.rows):
            raise HoldfastError(f"this state is of {known} rows, the dataset has {len(self.rows)}; go on with the same")
        self._course.restore(dict(state))

    @property
    def _begun(self) -> Course:
        if self._course is None:
            raise HoldfastError("call session.begin(net, optimizer) before the first epoch")
        return self._course

    def _batches(self) -> Iterator[SessionBatch]:
        yield from self._begun.batches()

    def _length(self) -> int:
        assert self._loading is not None
        _join_processes()
        course = self._course
        return course.dealt if course is not None and course.under_way else self._loading.count(len(self.rows))

    def _described(self, course: Course, optimizer: Optimizer) -> RunConfig:
        net, loading = bare(course.nets[0].model), course.feed.loading
        return RunConfig(
            call=repr(self.method), method=plain(self.method), stop=plain(self.stop),
            evidence=course.feed.evidence is not None, net=None,
            network=type(net).__name__, parameters=sum(parameter.numel() for parameter in net.parameters()),
            pretrained=None, optimizer=optimizer_part(optimizer), schedule={"name": "own", "settings": {}},
            augment=plain(loading.augment), epochs=course.epochs, batch_size=course.feed.batch_size, seed=self._seed,
            precision="own", device=course.feed.device.type, devices=course.feed.ranks.count, strategy="own",
            workers=int(loading.options.get("num_workers", 0)), **rows_part(self.rows),
        )  # fmt: skip


def _join_processes() -> None:
    """Make this process the rank that it has among those that torch has joined."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() != get_ranks().count:
        set_ranks(dist.get_rank(), dist.get_world_size())
