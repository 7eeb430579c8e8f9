"""``check_method``: what every method must do, run over the library's own and open to yours."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import isfunction

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import Feed, task_for
from holdfast.fit import fit
from holdfast.method import Method, Weigh
from holdfast.nets.mean import first_of
from holdfast.types import Batch, Evidence, Plan

ROWS, WIDTH, CLASSES = 48, 6, 3
SEED = 987_654_321
"""Of the global random state while a method plans: a seed that no method would set by itself."""


def check_method(
    method: Method, *, neutral: Method | None = None, regression: bool = False, unlabelled: bool = False
) -> None:
    """Raise ``AssertionError`` with a sentence if a method breaks the contract.

    Parameters
    ----------
    method: a fresh method, not yet begun; it is copied, never changed.
    neutral: the same method in a setting that drops nothing, which must equal ordinary training exactly.
    regression: check on targets instead of classes.
    unlabelled: check on inputs alone.

    >>> check_method(Method())
    """
    rows = _rows(regression).without_labels() if unlabelled else _rows(regression)
    _hooks(method)
    _settings(method)
    for check in (_gradients, _inputs_kept, _order, _saved, _copied, _small, _weights, _random_state):
        check(copy.deepcopy(method), rows)
    _trains(copy.deepcopy(method), rows)
    if neutral is not None:
        _equals_ordinary(neutral, rows)


def _rows(regression: bool) -> Rows:
    source = torch.Generator().manual_seed(7)
    x = torch.randn(ROWS, WIDTH, generator=source)
    value = x @ torch.randn(WIDTH, CLASSES, generator=source)
    if regression:
        return Rows(x, value[:, :2].contiguous())
    return Rows(x, value.argmax(1), tuple("abc"))


def _begun(method: Method, rows: Rows, batch_size: int = 12) -> tuple[Method, list[nn.Module], Feed]:
    torch.manual_seed(1)
    feed = Feed(rows, batch_size=batch_size)
    nets: list[nn.Module] = [
        nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, feed.task.outputs)) for _ in range(method.networks)
    ]
    if method.uses_evidence:
        noise = torch.rand(len(rows), feed.task.outputs, generator=torch.Generator().manual_seed(3))
        opinion = feed.task.expected(3 * feed.task.encode(feed.y) + noise)
        feed.evidence = Evidence(opinion, opinion)
    method.begin(nets, feed)
    method.before_epoch(nets, feed, 0, 10)
    return method, nets, feed


def _batch(method: Method, nets: list[nn.Module], feed: Feed) -> Batch:
    return next(iter(feed.batches(method.plan(nets, feed), method.views)))


def _hooks(method: Method) -> None:
    """A hook under another name, or of another base, would never be called."""
    hooks = [name for name, item in vars(Method).items() if isfunction(item) and not name.startswith("_")]
    for owner in (cls for cls in type(method).__mro__ if issubclass(cls, Method) and cls is not Method):
        for name, item in vars(owner).items():
            inherited = any(hasattr(base, name) for base in owner.__mro__[1:])
            if isfunction(item) and not name.startswith("_") and not inherited:
                close = get_close_matches(name, hooks, n=1, cutoff=0.8)
                meant = "".join(close)
                assert not close, f"{owner.__name__}.{name} is no hook and is never called; did you mean {meant}?"
    weighs = hasattr(type(method), "weigh") and not isinstance(method, Weigh)
    assert not weighs, f"{type(method).__name__}.weigh is never called; derive from Weigh instead of Method"


def _settings(method: Method) -> None:
    try:
        method.settings()
    except HoldfastError as error:
        raise AssertionError(str(error)) from None


def _gradients(method: Method, rows: Rows) -> None:
    method, nets, feed = _begun(method, rows)
    method.loss(nets, _batch(method, nets, feed)).loss.backward()
    for number, net in enumerate(nets):
        for name, parameter in net.named_parameters():
            reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert reached, f"{method!r} gives parameter {name} of network {number} no gradient"
    for name, parameter in method.named_parameters():
        reached = not parameter.requires_grad or parameter.grad is not None
        assert reached, f"{method!r} gives its own parameter {name} no gradient"


def _inputs_kept(method: Method, rows: Rows) -> None:
    method, nets, feed = _begun(method, rows)
    given = feed.y.clone()
    batch = _batch(method, nets, feed)
    before = copy.deepcopy(batch)
    method.loss(nets, batch)
    for name, now, then in zip(batch._fields, batch, before, strict=True):
        for a, b in zip(_tensors(now), _tensors(then), strict=True):
            assert torch.equal(a, b), f"{method!r} changes {name} of the batch in place"
    assert torch.equal(feed.y, given), f"{method!r} changes the labels of the feed in place"


def _order(method: Method, rows: Rows) -> None:
    method, nets, feed = _begun(method, rows)
    batch = _batch(method, nets, feed)
    if method.views > 1 or not isinstance(batch.x, Tensor):
        return
    turned = Batch(*(part.flip(0) for part in batch))
    state = torch.get_rng_state()
    twin = copy.deepcopy(method)
    there = method.loss(nets, batch).loss
    torch.set_rng_state(state)
    back = twin.loss(nets, turned).loss
    assert torch.allclose(there, back, atol=1e-5), f"the loss of {method!r} depends on the order of the rows"


def _saved(method: Method, rows: Rows) -> None:
    def step(method: Method, nets: list[nn.Module], feed: Feed) -> Tensor:
        method.before_epoch(nets, feed, 1, 10)
        return method.loss(nets, _batch(method, nets, feed)).loss

    fresh = copy.deepcopy(method)
    method, nets, feed = _begun(method, rows)
    step(method, nets, feed)
    again, _, other = _begun(fresh, rows)
    again.load_state_dict(copy.deepcopy(method.state_dict()))
    twins = copy.deepcopy(nets)
    other.generator.set_state(feed.generator.get_state())
    state = torch.get_rng_state()
    first = step(method, nets, feed)
    torch.set_rng_state(state)
    second = step(again, twins, other)
    assert torch.equal(first, second), f"{method!r} goes on differently after its state was saved and loaded"


def _copied(method: Method, rows: Rows) -> None:
    call = repr(method)
    assert repr(copy.deepcopy(method)) == call, f"a copy of {call} describes itself differently"
    method, _, _ = _begun(method, rows)
    assert repr(method) == call, f"{call} describes itself differently once it has begun"


def _small(method: Method, rows: Rows) -> None:
    method, nets, feed = _begun(method, rows)
    one = Plan(torch.tensor([3]))
    for weight, words in (
        (torch.ones(1), "a batch of one"),
        (torch.zeros(1), "a batch of which nothing counts"),
    ):
        batch = next(iter(feed.batches(one._replace(weight=weight), method.views)))
        loss = method.loss(nets, batch).loss
        assert bool(torch.isfinite(loss)), f"{method!r} makes {loss} of {words}"


def _weights(method: Method, rows: Rows) -> None:
    """Examples whose weight is zero teach nothing, in the first epoch and later ones."""
    method, nets, feed = _begun(method, rows)
    optimizer = SGD([*(p for net in nets for p in net.parameters()), *_own(method)], lr=0.1)
    for epoch in range(3):
        for batch in method.batches(nets, feed, optimizer, epoch, 3):
            method.zero_grad()
            for net in nets:
                net.zero_grad()
            twin = copy.deepcopy(method)
            loss = twin.loss(nets, batch._replace(weight=torch.zeros_like(batch.weight))).loss
            loss.backward()
            left = [p.grad for net in nets for p in net.parameters() if p.grad is not None]
            still = all(not bool(gradient.any()) for gradient in left)
            assert still, f"the loss of {method!r} ignores batch.weight: examples of no weight have a gradient"
            method.step(nets, batch, optimizer)


def _random_state(method: Method, rows: Rows) -> None:
    """A plan draws from the feed's generator, which is the same in all processes and is saved."""
    method, nets, feed = _begun(method, rows)
    for epoch in range(3):
        with _global_random_state_kept(f"{method!r} changes the global random state when it plans"):
            method.before_epoch(nets, feed, epoch, 3)
            method.plan(nets, feed)


@contextmanager
def _global_random_state_kept(words: str) -> Iterator[None]:
    """Fail where a block draws from, or seeds, what torch, NumPy and Python draw from."""
    saved = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        torch.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)  # noqa: NPY002
        before = _drawn()
        yield
        assert _drawn() == before, f"{words}; draw from data.generator"
    finally:
        torch.set_rng_state(saved[0])
        random.setstate(saved[1])
        np.random.set_state(saved[2])  # noqa: NPY002


def _drawn() -> tuple[bytes, object, str]:
    numbers = repr(np.random.get_state(legacy=True))  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), numbers


def _trains(method: Method, rows: Rows) -> None:
    run = fit(rows, method, _net(rows), epochs=2, batch_size=12, test=None if rows.unlabelled else rows)
    assert len(run.history) <= 2
    assert run.history["loss"].notna().all(), f"{method!r} lost its loss in two epochs"


def _equals_ordinary(neutral: Method, rows: Rows) -> None:
    def weights(method: Method) -> dict[str, Tensor]:
        return first_of(fit(rows, method, _net(rows), epochs=2, batch_size=12).net).state_dict()

    ordinary, own = weights(Method()), weights(copy.deepcopy(neutral))
    for name, value in ordinary.items():
        assert torch.equal(value, own[name]), f"{neutral!r} should equal ordinary training and differs in {name}"


def _net(rows: Rows) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, task_for(rows).outputs))


def _own(method: Method) -> list[nn.Parameter]:
    return [parameter for parameter in method.parameters() if parameter.requires_grad]


def _tensors(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)
