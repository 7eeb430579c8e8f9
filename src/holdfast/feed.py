"""The feed: rows in, shuffled, augmented and mixed batches out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from holdfast.augment import Augments
from holdfast.data.on_disk import Mapped
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.functional.capture import penultimate
from holdfast.functional.row_randomness import row_uniforms
from holdfast.kept import Probabilities
from holdfast.ranks import get_ranks
from holdfast.task import Task, task_of
from holdfast.types import Batch, Evidence, Plan

BATCH, LEAST_BATCH, STEPS = 128, 16, 64
"""Rows in a batch where nobody says otherwise: at most and at least, and the steps an epoch should have."""
LEAST = 2
"""Rows of a batch in each process that BatchNorm can still make something of."""


class Feed:
    """The training rows as methods see them: inputs, given labels, and nothing of the truth.

    In a training of several processes each has a feed of all rows: it shuffles alike in all, hands out this
    process's part of each batch, and computes its part of the outputs and gathers the rest.

    Parameters
    ----------
    rows: the training rows. Tensors are gathered in memory; any map-style dataset goes through a ``DataLoader``.
    batch_size: examples in a batch.
    augment: applied to each batch of inputs, once for each view; a sequence has one for each view.
    device: where batches go.
    seed: of the generator from which shuffling, augmentation and the draws of a plan come.
    workers: processes that load a map-style dataset.

    Attributes
    ----------
    evidence: what networks that have never seen the label of a row say of it; None where they were not asked.
    learning: says what the network in training has expected of each row so far, on average, and takes what to say of
        rows that no batch has had (``Ledger.learning``); None where nobody keeps a ledger.
    weight: (N,) how much each row counts in the loss, one on average; None: all the same.
    reviewed: (N,) whether a person has reviewed the label; None: none of them.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        batch_size: int = 128,
        augment: Augments | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        if batch_size < 1:
            raise HoldfastError(f"a batch needs at least one row, not {batch_size}")
        if batch_size > len(rows):
            raise HoldfastError(
                f"{len(rows)} rows are fewer than a batch of {batch_size}; "
                f"pass a batch size of at most {len(rows)} (--batch-size)"
            )
        self.task: Task = task_for(rows)
        self.y = rows.y.to(device)
        self.batch_size = batch_size
        self.augment = augment
        self.device = torch.device(device)
        self.generator = torch.Generator().manual_seed(seed)
        self.ranks = get_ranks()
        self.evidence: Evidence | None = None
        self.learning: Callable[[Probabilities], Probabilities] | None = None
        self.weight = None if rows.weight is None else (rows.weight.double() / rows.weight.double().mean()).float()
        some = rows.reviewed is not None and bool(rows.reviewed.any())
        self.reviewed = rows.reviewed.to(device) if rows.reviewed is not None and some else None
        self._chance = self.generator
        self._x = rows.x
        self._workers = workers

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_mapped(self) -> bool:
        """Whether the inputs are features that would not fit into memory as one tensor."""
        return isinstance(self._x, Mapped)

    @property
    def in_memory(self) -> Tensor | None:
        """The inputs as networks take them, not copied if need not be; None where they are not one tensor of floats."""
        floats = isinstance(self._x, Tensor) and self._x.is_floating_point()
        return self._x.to(self.device) if floats and isinstance(self._x, Tensor) else None

    def batches(self, plan: Plan | None = None, views: int = 1) -> Iterator[Batch]:
        """One epoch of shuffled batches; a last batch of less than two rows a process joins the batch before it."""
        whole = plan is None
        plan = plan or Plan(torch.arange(len(self)))
        self._check_alike(plan)
        if isinstance(self.augment, Sequence) and len(self.augment) != views:
            raise HoldfastError(f"{len(self.augment)} augmentations for {views} view(s); each view needs one")
        index = plan.index.cpu()
        parts = [self._own_part(part, index) for part in self.deal(plan)]
        self._chance = self._own_chance()
        picks = parts if whole else [index[part] for part in parts]
        mixes = [] if plan.partner is None else [plan.partner.cpu()[part] for part in parts]
        inputs = self._load(picks)
        partners = self._load(mixes)
        for part, rows, x in zip(parts, picks, inputs, strict=True):
            rows = rows.to(self.device)
            y = (self.y if plan.target is None else plan.target)[rows]
            weight = torch.ones(len(part)) if plan.weight is None else plan.weight.cpu()[part]
            weight = weight if self.weight is None else weight * self.weight[rows.cpu()]
            seen = [self._view(x, k) for k in range(views)]
            if plan.partner is not None and plan.share is not None:
                share = plan.share.cpu()[part].to(self.device)
                other = next(partners)
                seen = [_mix(view, self._view(other, k), share) for k, view in enumerate(seen)]
                mixed = (self.y if plan.target is None else plan.target)[plan.partner.cpu()[part].to(self.device)]
                y = _mix(self.task.encode(y), self.task.encode(mixed), share)
            yield Batch(seen[0] if views == 1 else tuple(seen), y, rows, weight.to(self.device))

    def deal(self, plan: Plan) -> list[Tensor]:
        """The positions of a plan, shuffled, in the batches that all processes share."""
        order = torch.randperm(len(plan.index), generator=self.generator)
        parts = list(order.split(self.batch_size))
        if len(parts) > 1 and len(parts[-1]) < self.least:
            parts[-2:] = [torch.cat(parts[-2:])]
        return parts

    @property
    def least(self) -> int:
        """Rows of a last batch that stands for itself."""
        return LEAST * self.ranks.count

    def weight_of(self, batch: Batch) -> Tensor | None:
        """How much the rows of a batch count on average: means over a batch are divided by it; None: rows are alike."""
        if self.weight is None:
            return None
        own = self.weight[batch.index.cpu()].to(self.device)
        return self.ranks.total(own.sum()) / self.ranks.total(torch.tensor(float(len(own)), device=self.device))

    def steps(self, plan: Plan | None = None) -> int:
        """How many batches an epoch has."""
        return max(1, math.ceil(len(self if plan is None else plan.index) / self.batch_size))

    @torch.no_grad()
    def outputs(self, net: nn.Module) -> Tensor:
        """(N, q) outputs of a network for all rows in order: evaluation mode, no augmentation, no gradient."""
        return self._outputs(net).float()

    @torch.no_grad()
    def features(self, net: nn.Module) -> tuple[Tensor, Tensor]:
        """(N, q) outputs and (N, d) inputs of the output layer, for all rows in order."""
        with penultimate(net) as caught:
            output = self.outputs(net)
        return output, self.ranks.gather(torch.cat(caught).float())

    @torch.no_grad()
    def expected_of(self, net: nn.Module, x: Tensor | Dataset[Any], part: slice = slice(None)) -> Tensor:
        """(M, q) what a network expects of rows that are not among these, or of a part of them; no random state is any
        other afterwards."""
        with torch.random.fork_rng(devices=[]):  # a DataLoader draws a seed
            return self.task.expected(evaluate(net, inputs_of(x, self.device, self._workers, part)).float())

    def chunks(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of an index of rows, each with its inputs: in the order given, without augmentation."""
        parts = list(rows.cpu().split(self.batch_size))
        for part, x in zip(parts, self._load(parts), strict=True):
            yield part.to(self.device), self._ready(x)

    def _outputs(self, net: nn.Module) -> Tensor:
        return outputs_of(net, self._x, self.device, self._workers)

    def _ready(self, x: Any) -> Any:
        """Loaded inputs as a network takes them."""
        return as_float(x.to(self.device))

    def _check_alike(self, plan: Plan) -> None:
        """Processes that disagree about an epoch would train some rows twice and others never, and not say so."""
        if len(plan.index) < self.ranks.count > 1:
            raise HoldfastError(f"{self.ranks.count} processes cannot share a plan of {len(plan.index)} row(s)")
        if not self.ranks.alike(plan.index, plan.partner, self.generator.get_state()):
            raise HoldfastError(
                "the processes have planned different epochs; a method must plan alike in all of them, "
                "and draw from the feed's generator the same number of times"
            )

    def _own_part(self, part: Tensor, index: Tensor) -> Tensor:
        """This process's part of a batch. Reviewed rows, about which a method does not decide, are shared on their own,
        so that the processes have equally many of the others, in order."""
        if self.ranks.count == 1:
            return part
        if self.reviewed is None:
            return part[self.ranks.share(len(part))]
        settled = self.reviewed.cpu()[index[part]]
        rest, own = part[~settled], part[settled]
        # Counted from the other end, so that who has one more of the others has one less of these.
        return torch.cat([rest[self.ranks.share(len(rest))], own[self.ranks.mirrored.share(len(own))]])

    def _own_chance(self) -> torch.Generator:
        """What augmentation draws from: the feed's generator, or one of this process alone, since parts of a batch
        differ in size and the feed's must stay alike in all."""
        if self.ranks.count == 1 or self.augment is None:
            return self.generator
        seed = int(torch.randint(2**62, (), generator=self.generator))
        return torch.Generator().manual_seed(seed + self.ranks.rank)

    def _view(self, x: Any, number: int) -> Any:
        augment = self.augment[number] if isinstance(self.augment, Sequence) else self.augment
        x = x.to(self.device)
        return self._ready(x if augment is None else augment(x, self._chance))

    def _load(self, picks: list[Tensor]) -> Iterator[Any]:
        return loaded(self._x, picks, self._workers)


def usual_batch(rows: int) -> int:
    """Rows in a batch where nobody says otherwise: 128, or fewer, so that small data has enough steps.

    >>> usual_batch(100_000), usual_batch(1_257), usual_batch(9)
    (128, 19, 9)
    """
    return min(rows, BATCH, max(LEAST_BATCH, rows // STEPS))


def task_for(rows: Rows) -> Task:
    """The task that the labels of rows call for."""
    return task_of(rows.y, None if rows.classes is None else len(rows.classes))


def inputs_of(
    x: Tensor | Dataset[Any], device: torch.device | str, workers: int = 0, part: slice = slice(None)
) -> Iterator[Tensor]:
    """Inputs of any rows in order, or of a part of them, as floats on a device, in chunks for a forward pass."""
    first = x[0]
    numbers = max(1, math.prod((first[0] if isinstance(first, (tuple, list)) else first).shape))
    # What fits in a processor's cache is faster by a half than a chunk of a thousand images. The memory of a GPU holds
    # what a network makes of a thousand small images, but not of a thousand large ones.
    on_cpu = torch.device(device).type == "cpu"
    size = max(64, 2**18 // numbers if on_cpu else min(1024, 2**24 // numbers))
    picks = list(torch.arange(len(x))[part].split(size))  # type: ignore[arg-type]
    for chunk in loaded(x, picks, workers):
        yield as_float(chunk.to(device))


@torch.no_grad()
def evaluate(net: nn.Module, inputs: Iterator[Tensor]) -> Tensor:
    """(N, q) outputs in evaluation mode; the network's mode is put back afterwards."""
    training = net.training
    net.eval()
    try:
        return torch.cat([net(x) for x in inputs])
    finally:
        net.train(training)


def outputs_of(net: nn.Module, x: Tensor | Dataset[Any], device: torch.device | str, workers: int = 0) -> Tensor:
    """(N, q) outputs for all rows in order; of several processes each computes its part."""
    ranks, count = get_ranks(), len(x)  # type: ignore[arg-type]
    if count < ranks.count:
        return evaluate(net, inputs_of(x, device, workers))
    return ranks.gather(evaluate(net, inputs_of(x, device, workers, ranks.share(count))))


def outputs_on(net: nn.Module, data: Feed, rows: Tensor) -> Tensor:
    """(M, q) outputs of a network for some rows, in evaluation mode."""
    return evaluate(net, (x for _, x in data.chunks(rows))).float()


def random_rows(count: int, data: Feed) -> Tensor:
    """(N,) marks of so many rows drawn at random: the same for one seed."""
    marks = torch.zeros(len(data), dtype=torch.bool)
    marks[row_uniforms(len(data), data.generator.initial_seed(), 0).argsort()[:count]] = True
    return marks.to(data.device)


def withheld_rows(count: int, data: Feed) -> Tensor:
    """(N,) marks of so many rows drawn at random among those that nobody has reviewed, which are always trained on."""
    if data.reviewed is None:
        return random_rows(count, data)
    order = row_uniforms(len(data), data.generator.initial_seed(), 0).argsort()
    marks = torch.zeros(len(data), dtype=torch.bool)
    marks[order[~data.reviewed.cpu()[order]][:count]] = True
    return marks.to(data.device)


def as_float(x: Tensor) -> Tensor:
    """Bytes are pixels: floats in [0, 1]. Anything else stays."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x


def _mix(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
    x, other = (each if torch.is_floating_point(each) else each.float() for each in (x, other))
    return torch.lerp(x, other, share.to(x.dtype).reshape(-1, *[1] * (x.dim() - 1)))


class _Picks:
    """Batches of rows as lists, each made when a loader comes to it: of millions of rows all take a gigabyte."""

    def __init__(self, picks: list[Tensor]) -> None:
        self._picks = picks

    def __len__(self) -> int:
        return len(self._picks)

    def __iter__(self) -> Iterator[list[int]]:
        return (pick.tolist() for pick in self._picks)


class _Careful(Dataset[Any]):
    """Batches of a dataset; a user's mistake is handed on instead of raised, where a worker would add its traceback."""

    def __init__(self, data: Dataset[Any]) -> None:
        self._data = data

    def __getitems__(self, rows: list[int]) -> list[Any] | HoldfastError:
        try:
            several = getattr(self._data, "__getitems__", None)
            return [self._data[row] for row in rows] if several is None else several(rows)
        except HoldfastError as error:
            return error


def loaded(x: Tensor | Dataset[Any], picks: list[Tensor], workers: int = 0) -> Iterator[Any]:
    """The inputs of each part of an index, gathered in memory or loaded by so many processes."""
    if isinstance(x, Tensor):  # in little more than half of the time that x[pick] takes
        yield from (x.index_select(0, pick.to(x.device)) for pick in picks)
        return
    if isinstance(x, Mapped):
        yield from (x[pick] for pick in picks)
        return
    if not picks:
        return
    batches: Any = DataLoader(_Careful(x), batch_sampler=_Picks(picks), collate_fn=_stack_inputs, num_workers=workers)
    try:
        for batch in batches:
            if isinstance(batch, HoldfastError):
                raise batch
            yield batch
    except RuntimeError as error:
        if not workers or "DataLoader worker" not in str(error):
            raise
        raise HoldfastError(
            f"a process that reads images has ended ({str(error).splitlines()[0]}); pass fewer --workers"
        ) from None


def _stack_inputs(items: list[Any] | HoldfastError) -> Tensor | HoldfastError:
    if isinstance(items, HoldfastError):
        return items
    return torch.stack([torch.as_tensor(item[0] if isinstance(item, (tuple, list)) else item) for item in items])
