"""``check_method``: what every method must do, run over the library's own and open to yours."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from holdfast.data.rows import Rows
from holdfast.feed import Feed, task_for
from holdfast.fit import fit
from holdfast.method import Batch, Method, Plan

ROWS, WIDTH, CLASSES = 48, 6, 3


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
    for check in (_gradients, _inputs_kept, _order, _saved, _copied, _small):
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
    method.begin(nets, feed)
    method.before_epoch(nets, feed, 0, 10)
    return method, nets, feed


def _batch(method: Method, nets: list[nn.Module], feed: Feed) -> Batch:
    return next(iter(feed.batches(method.plan(nets, feed), method.views)))


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
    told = repr(method)
    assert repr(copy.deepcopy(method)) == told, f"a copy of {told} describes itself differently"
    method, _, _ = _begun(method, rows)
    assert repr(method) == told, f"{told} describes itself differently once it has begun"


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


def _trains(method: Method, rows: Rows) -> None:
    run = fit(rows, method, _net(rows), epochs=2, batch_size=12, test=None if rows.unlabelled else rows)
    assert len(run.history) <= 2
    assert run.history["loss"].notna().all(), f"{method!r} lost its loss in two epochs"


def _equals_ordinary(neutral: Method, rows: Rows) -> None:
    def weights(method: Method) -> dict[str, Tensor]:
        return fit(rows, method, _net(rows), epochs=2, batch_size=12).net.state_dict()

    ordinary, own = weights(Method()), weights(copy.deepcopy(neutral))
    for name, value in ordinary.items():
        assert torch.equal(value, own[name]), f"{neutral!r} should equal ordinary training and differs in {name}"


def _net(rows: Rows) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, task_for(rows).outputs))


def _tensors(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)
