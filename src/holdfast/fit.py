"""The one training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from holdfast import checkpoint
from holdfast.augment import Augments
from holdfast.cluster import Place, check_alike, devices_of, from_first, join, together
from holdfast.config import RunConfig, optimizer_part, plain, rows_part, schedule_part
from holdfast.data.held import Columns, take
from holdfast.data.labels import Task
from holdfast.data.rows import Rows
from holdfast.engine import Engine, bare, check_available
from holdfast.errors import Died, Diverged, HoldfastError, unreadable
from holdfast.evidence import FOLDS, asks_trees, cross_fit, most_epochs
from holdfast.feed import Feed, usual_batch
from holdfast.functional.few import few
from holdfast.functional.schedules import Schedule
from holdfast.kept import packed
from holdfast.launch import check_devices, launch
from holdfast.ledger import Ledger
from holdfast.method import Method
from holdfast.methods import DEFAULT, METHODS
from holdfast.nets import WithTrees, reset_parameters
from holdfast.networks import networks
from holdfast.noise_model import noise_model
from holdfast.progress import Progress, Silent
from holdfast.ranks import get_ranks
from holdfast.registry import made
from holdfast.reviewed import take_over, with_reviewed
from holdfast.run import Run
from holdfast.run_folder import HeldOut, RunFolder
from holdfast.stop import STOPS
from holdfast.stop.rule import StopRule
from holdfast.trackers import Tracker, opened, trackers_of
from holdfast.training import Training, coverage, weights_of
from holdfast.types import Evidence
from holdfast.usual import NEW, MakeOptimizer, usual_for

Watch = Callable[[int, nn.Module], Mapping[str, float]]


@dataclass
class Job:
    """All that a training starts from; it can travel to another process."""

    rows: Rows
    held_out: Rows | None
    method: Method
    stop: StopRule | None
    nets: list[nn.Module]
    optimizer: MakeOptimizer
    schedule: Schedule
    epochs: int
    feeding: dict[str, Any]
    engine: dict[str, Any]
    folder: RunFolder | None
    config: RunConfig
    evidence: Evidence | None
    asking: dict[str, float]
    """Seconds that the evidence took."""
    trackers: list[Tracker]
    watch: Watch | None
    going_on: bool = False
    random: torch.Tensor | None = None

    @property
    def judged(self) -> Rows | None:
        """Test rows whose labels are judged too, being part of the same data as the training rows."""
        return self.held_out if self.held_out is not None and self.rows.parted_from(self.held_out) else None


def fit(
    data: Any,
    method: Method | str | None = None,
    net: nn.Module | str = "auto",
    *,
    label: str | None = None,
    truth: str | None = None,
    task: Task | None = None,
    stop: StopRule | str | None = None,
    tune: bool = False,
    evidence: bool = False,
    pretrained: str | Path | None = None,
    test: Any = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    optimizer: MakeOptimizer | None = None,
    schedule: Schedule | None = None,
    augment: Augments | None = None,
    seed: int = 0,
    device: str = "auto",
    devices: int = 1,
    strategy: str = "auto",
    precision: str = "32-true",
    workers: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    trackers: Sequence[Tracker | str] = (),
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Run:
    """Train a network on rows whose labels may be wrong.

    Parameters
    ----------
    data: a path, a table in memory, a pair (inputs, labels), a map-style ``Dataset`` of such pairs, a ``DataLoader``,
        ``Rows``, or what ``holdfast.read`` returns: docs/python.md. Float labels of two dimensions, with fractions or
        with more than 50 different values are targets.
    label, truth, task: of a table, the columns of given and of true labels, and "classification" or "regression".
    method: how to train, or its name; None is ``SecondOpinion()``, and ``Method()`` is ordinary training.
    stop: when to stop, and which epoch to return, or its name; None trains to the end and returns the last one.
    net: a module, a name of ``holdfast.nets.NETS`` or ``module.path:factory``; or the name of an encoder
        (``holdfast.encoders``): the inputs are texts or images (bytes) then, and an MLP learns from its features.
    tune: train the encoder itself as well (docs/encoders.md); the usual one for texts or images where none is named.
        The evidence still comes from its features as they are. Rows that were read so (``read(..., tune=True)``) say
        it themselves.
    evidence: ask networks that have never seen the label of a row about it, for ``run.issues()``; costs up to one and a
        half times as much as the training. A method that needs it asks for it by itself.
    pretrained: folder of a run whose network, all but its head, each network starts from; "auto" is then its kind.
    test: data of the same kind, or the share of the rows to hold out (0.2), to score after each epoch by given labels,
        and by true ones where they are known. The scores are reported and never used. Rows set apart from the same file
        (``Source.load``) are judged as well, in ``run.issues()``; nothing else ever depends on their labels.
    epochs, optimizer, schedule, augment: how to optimise; the schedule follows the share of training done. None: 30
        epochs of Adam with a rate of 0.001 that falls along a cosine; an encoder that is tuned has settings of its own
        (``holdfast.usual.TUNED``).
    batch_size: rows in a batch; None: 128 (of a tuned encoder 32), or fewer where there are few rows.
    seed: of the initial weights and everything random after them.
    device, precision: as lightning-fabric takes them, such as "cpu", "cuda", "32-true", "bf16-mixed".
    devices: how many devices of this machine train, a process each; they share every batch of ``batch_size`` rows.
        A script calls ``fit`` under ``if __name__ == "__main__"`` then, and what it passes can be pickled.
    strategy: "ddp" (distributed data parallel), or "auto", which is ddp where there are several devices.
    out: folder for the run: settings, history, ledger, model, and checkpoints. None keeps nothing.
    resume: go on from the checkpoint in ``out``, bit for bit as if never stopped; starts where there is none.
    trackers: where the figures of each epoch go too (``holdfast.trackers``), or their names: "csv", "tensorboard",
        "mlflow", "wandb", each perhaps with a file, folder, experiment or project after a colon.
    watch: called after each epoch with its number and the predicting network; its values join the history.

    Returns
    -------
    Run: the trained network, the history of the epochs and the ledger of the rows.
    """
    method = made("method", DEFAULT if method is None else method, METHODS)
    stop = None if stop is None else made("stop rule", stop, STOPS)
    as_it_is = pretrained is not None or augment is not None
    taken = take(data, test, Columns(label, truth, task), net=net, tune=tune, plain=as_it_is, seed=seed)
    rows, held_out, net = taken.rows, taken.test, taken.net
    batch_size = taken.batch_size if batch_size is None else batch_size
    usual = usual_for(rows)
    epochs, optimizer = usual.epochs_of(len(rows)) if epochs is None else epochs, optimizer or usual.optimizer
    if epochs < 1:
        raise HoldfastError(f"training needs at least one epoch, not {epochs}")
    batch_size = usual.batch_size(len(rows)) if batch_size is None else batch_size
    place = join()
    devices = devices_of(place, devices, batch_size)
    accelerator = check_devices(devices, strategy, device, batch_size) if place is None else device
    check_available(accelerator, precision)
    schedule = schedule or usual.schedule
    evidence = (evidence or method.uses_evidence) and not rows.unlabelled
    torch.manual_seed(seed)
    if held_out is not None and rows.unlabelled:
        raise HoldfastError("rows without labels have no test score; pass watch (holdfast.contrastive.Probe)")
    spec, nets = networks(net, method.networks, rows, pretrained)
    method.check_task(Feed(rows, batch_size=batch_size).task)  # before anything long begins
    folder = None if out is None else RunFolder(Path(out))
    config = RunConfig(
        call=repr(method), method=plain(method), stop=plain(stop), evidence=evidence, net=spec,
        network=type(nets[0]).__name__,
        parameters=sum(parameter.numel() for parameter in nets[0].parameters()),
        pretrained=None if pretrained is None else str(pretrained),
        optimizer=optimizer_part(optimizer([parameter for each in nets for parameter in each.parameters()])),
        schedule=schedule_part(schedule), augment=plain(augment), epochs=epochs, batch_size=batch_size, seed=seed,
        precision=precision, device=device, devices=devices, strategy=strategy, workers=workers, **rows_part(rows),
    )  # fmt: skip
    if place is not None:
        check_alike("other data or settings", config.decisive(), place)
        resume = resume or place.restarts > 0
    alone = folder.locked() if folder is not None and (place is None or place.first) else nullcontext()
    with alone:
        saved = None if folder is None else from_first(lambda: folder.open(config, resume=resume))
        feeding = {"batch_size": batch_size, "augment": augment, "seed": seed, "workers": workers}
        engine = {"accelerator": accelerator, "devices": devices, "precision": precision, "place": place}
        tracked = trackers_of((*trackers, "tensorboard") if tensorboard else trackers)
        job = Job(
            rows, held_out, with_reviewed(method, rows), stop, nets, optimizer, schedule, epochs, feeding, engine,
            folder, config, None, {}, tracked, watch, going_on=saved is not None,
        )  # fmt: skip
        if evidence:
            job.evidence = from_first(lambda: _evidence(job, net, pretrained, progress or Silent()))
        if place is not None:
            return _fit_elsewhere(job, saved, place, progress or Silent())
        if devices > 1:
            return _fit_in_several(job, progress or Silent())
        return _finish(job, _train(job, saved, progress or Silent()))


def _evidence(job: Job, net: nn.Module | str, pretrained: str | Path | None, progress: Progress) -> Evidence:
    """What networks of the same kind, each trained on other rows, say of each row; found again where it is kept.

    It is gathered in this process alone, and leaves no trace in any random state: a run stopped here ends the same.
    """
    found = None if job.folder is None else job.folder.evidence()
    rows, judged = job.rows.untuned, None if job.judged is None else job.judged.untuned
    test = 0 if judged is None else len(judged)
    if found is not None and test in (0, 0 if found.test is None else len(found.test)):
        return found
    wall, cpu = time.perf_counter(), time.process_time()
    seed, size = job.feeding["seed"], usual_batch(len(rows))
    optimizer, epochs, feeding, trees = job.optimizer, job.epochs, job.feeding, job.method.trees
    if rows is job.rows:
        size = min(size, feeding["batch_size"])
    else:  # a head on the features as they are, whatever the network that is tuned trains with
        net, pretrained, optimizer, epochs = "auto", None, NEW.optimizer, NEW.epochs
        feeding = {**feeding, "augment": None}
    device = Engine(**{**job.engine, "devices": 1}).device
    with torch.random.fork_rng(devices=[]), progress as bar:
        torch.manual_seed(seed + 1)
        bar.phase("second opinions")
        _, nets = networks(net if isinstance(net, str) else reset_parameters(net), FOLDS, rows, pretrained)
        feed = Feed(rows, device=device, **{**feeding, "batch_size": size, "seed": seed + 1})
        feed.weight, others = None, None if judged is None else judged.x  # labels are judged, not what rows count
        epochs = most_epochs(epochs, asks_trees(feed, trees))
        found = cross_fit(feed, nets, optimizer, epochs, bar, others, trees)
    if rows is not job.rows or rows.weight is not None:
        # Trees read features, and cannot join a network that reads tokens or pixels, which is not one of these that was
        # given more time either; nor do trees know of weights.
        found = found._replace(trees=None, unfinished=found.unfinished if rows is job.rows else None)
    evidence = Evidence(*(None if each is None else each.cpu() for each in found))  # type: ignore[arg-type]
    job.asking = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    if job.folder is not None:
        job.folder.write_evidence(evidence)
    return evidence


def _train(job: Job, saved: dict[str, Any] | None, progress: Progress) -> Training:
    """The loop over the epochs, in this process alone or as one of several."""
    folder, ranks = job.folder, get_ranks()
    training = _prepare(job)
    if saved is not None:
        with unreadable("the checkpoint", "does not fit this training; train into another folder"):
            training.restore(saved)
    elif folder is not None and ranks.first:
        folder.write_start(training.start)
    model, pace = noise_model(training.feed.task), checkpoint.Pace()
    out, trackers = None if folder is None else folder.path, job.trackers if ranks.first else []
    with progress as bar, opened(trackers, asdict(job.config), out, len(training.history)) as log:
        for epoch in range(len(training.history), job.epochs):
            if training.stopped:
                break
            wall, cpu = time.perf_counter(), time.process_time()
            loss, plan = training.epoch(epoch, lambda share, e=epoch: bar.at(e + share, job.epochs))  # type: ignore[misc]
            if not math.isfinite(loss):
                raise _diverged(epoch, folder)
            judged = training.judge(epoch)
            spent = sum(ranks.objects(time.process_time() - cpu))
            seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": spent}
            if epoch == 0:
                seconds = {name: value + job.asking.get(name, 0.0) for name, value in seconds.items()}
            line = {"epoch": float(epoch), "loss": loss, **coverage(plan, job.rows, model), **seconds}
            line |= {**judged, **job.method.figures()}
            if job.held_out is not None:
                line |= training.test_scores(job.held_out)
            if job.watch is not None and ranks.first:
                line |= job.watch(epoch, job.method.predictor(training.nets))
            training.history.append(line)
            bar.say(line)
            ended = epoch + 1 == job.epochs or bool(training.stopped)
            if folder is not None and ranks.objects(ended or pace.due())[0]:
                with pace.writing():
                    state = training.state()
                    if ranks.first:
                        folder.keep(state, training.history)
            log(line, epoch)
    return training


def _finish(job: Job, training: Training) -> Run:
    out = None if job.folder is None else job.folder.path
    ledger = {**training.ledger.arrays(), **job.rows.known()}
    if job.evidence is not None and job.evidence.finished:
        ledger |= packed({"evidence": job.evidence.joined})
    net = training.predictor()
    held_out = _held_out(job, training)
    run = Run(
        net, job.rows, training.history, ledger, job.config, out=out, stopped=training.stopped, held_out=held_out,
        test_rows=job.judged,
    )  # fmt: skip
    if job.folder is not None:
        job.folder.finish(net.state_dict(), run.history, ledger, run.names, run.stopped, held_out, job.rows.reviewers)
    return run


def _held_out(job: Job, training: Training) -> HeldOut | None:
    """Test rows of the same data, with what is expected of them by the networks that were asked, else by the one that
    the run returns."""
    rows = job.judged
    if rows is None:
        return None
    if job.evidence is not None and job.evidence.finished and job.evidence.test is not None:
        opinion = packed({"evidence": job.evidence.test})
    else:
        expected = training.feed.expected_of(job.method.predictor(training.nets), rows.x).cpu()
        opinion = packed({"expected": expected if rows.classes is None else few(expected, rows.y)})
    return HeldOut({"given": rows.y, **rows.known(), **opinion}, rows.names, rows.fingerprint)


def _fit_in_several(job: Job, progress: Progress) -> Run:
    """Train in processes of their own; what was given here is afterwards as if it had been trained here."""
    job.random = torch.get_rng_state()
    try:
        with progress as bar:
            run, net, method = launch(_fit_as_rank, job, job.engine["devices"], job.engine["accelerator"], bar)
    except Died as error:
        raise Died(f"{error}; {_kept(job.folder)}") from None
    run.rows, run.test_rows = job.rows, job.judged
    job.nets[0].load_state_dict(net.state_dict())
    if run.net is net:
        run.net = job.nets[0]
    elif isinstance(run.net, WithTrees):
        run.net.net = job.nets[0]
    take_over(job.method, method)
    return cast(Run, run)


def _fit_elsewhere(job: Job, saved: dict[str, Any] | None, place: Place, progress: Progress) -> Run:
    """Train as one of several processes that somebody else has started; the first alone writes and speaks."""
    try:
        with together(place):
            training = _train(job, saved, progress if place.first else Silent())
    except Died as error:
        kept = _kept(job.folder) if place.first else "the first process has what was kept"
        raise Died(f"{error}; {kept}") from None
    if not place.first:
        job.folder = None
    return _finish(job, training)


def _fit_as_rank(job: Job, progress: Progress) -> tuple[Run, nn.Module, Method] | None:
    if job.random is not None:
        torch.set_rng_state(job.random)
    saved = job.folder.saved() if job.folder is not None and job.going_on else None
    training = _train(job, saved, progress)
    if not get_ranks().first:
        return None
    run = _finish(job, training)
    run.rows = run.test_rows = None
    return run, bare(training.nets[0]), job.method


def _prepare(job: Job) -> Training:
    engine, method = Engine(**job.engine), job.method
    feed = Feed(job.rows, device=engine.device, **job.feeding)
    if job.evidence is not None:
        held_out, joined = (each.to(feed.device) for each in job.evidence[:2])
        feed.evidence = job.evidence._replace(held_out=held_out, joined=joined, test=None)  # training rows alone
    nets = [engine.place(net).train() for net in job.nets]
    method.begin(nets, feed)
    engine.place(method)
    if job.stop is not None:
        job.stop.begin(feed)
        engine.place(job.stop)
    own = [parameter for parameter in method.parameters() if parameter.requires_grad]
    made = job.optimizer([*(p for net in nets for p in net.parameters()), *own])
    for group in made.param_groups:
        group.setdefault("initial_lr", group["lr"])
    wrapped = engine.networks(nets)
    if not feed.ranks.first:
        torch.manual_seed(job.feeding["seed"] + feed.ranks.rank)  # dropout must not strike the same units everywhere
    optimizer = engine.optimizer(made)
    ledger = Ledger(feed.y, feed.task, weight=feed.weight)
    start = weights_of(nets[0])
    return Training(engine, wrapped, method, job.stop, feed, optimizer, job.schedule, ledger, job.epochs, [], start)


def _diverged(epoch: int, folder: RunFolder | None) -> Diverged:
    done = 0 if folder is None or not folder.checkpoint.exists() else len(checkpoint.load(folder.checkpoint)["history"])
    kept = f"the checkpoint of epoch {done} is kept in {folder.path}" if folder and done else "nothing was kept"
    if folder is not None and not done:
        folder.forget()
    return Diverged(f"the loss is no longer a number in epoch {epoch + 1}; {kept}; lower the learning rate (--lr)")


def _kept(folder: RunFolder | None) -> str:
    if folder is None:
        return "nothing was kept, as no folder was given; pass out to keep a checkpoint of each epoch"
    if not folder.checkpoint.exists():
        return f"no epoch was finished; pass --resume to begin again in {folder.path}"
    done = len(checkpoint.load(folder.checkpoint)["history"])
    return f"the checkpoint of epoch {done} is whole ({folder.checkpoint}); pass --resume to go on from there"
