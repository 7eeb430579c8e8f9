"""Criteria for any loop are the methods' own losses."""

import copy
import pickle

import pytest
import torch
from torch import nn

import holdfast
from holdfast import HoldfastError, Method, Rows, losses, methods
from holdfast.feed import Feed

T = [[0.8, 0.1, 0.1], [0.0, 0.9, 0.1], [0.2, 0.0, 0.8]]
PAIRS = [
    (losses.GCE(), methods.GCE()),
    (losses.GCE(q=0.3), methods.GCE(0.3)),
    (losses.SCE(6, 0.1), methods.SCE(6, 0.1)),
    (losses.APL(10, 0.1), methods.APL(10, 0.1)),
    (losses.Huber(), methods.Huber()),
    (losses.Huber(3.0), methods.Huber(3.0)),
    (losses.Bootstrap("soft"), methods.Bootstrap("soft")),
    (losses.Bootstrap("hard", 0.6), methods.Bootstrap("hard", 0.6)),
    (losses.Forward(T), methods.Forward(T)),
    (losses.Backward(T), methods.Backward(T)),
    (losses.ELR(240, 3, 7.0, 0.9), methods.ELR(7.0, 0.9)),
]


def net_of(outputs=3):
    torch.manual_seed(0)
    return nn.Linear(2, outputs)


@pytest.mark.parametrize(("criterion", "method"), PAIRS, ids=lambda each: type(each).__name__)
def test_a_criterion_trains_what_the_method_trains(blobs, criterion, method):
    """Bit for bit, over two epochs, and the loss of each row too."""
    criterion, method = copy.deepcopy(criterion), copy.deepcopy(method)
    nets = net_of(), net_of()
    optimizers = [torch.optim.SGD(net.parameters(), 0.3) for net in nets]
    feed = Feed(blobs, batch_size=48)
    method.begin([nets[0]], feed)
    method._correcting = True  # what before_epoch says of a matrix that is known
    for _ in range(2):
        for batch in feed.batches():
            step = method.step([nets[0]], batch, optimizers[0])
            loss = criterion(nets[1](batch.x), batch.y, batch.index)
            optimizers[1].zero_grad()
            loss.backward()
            optimizers[1].step()
            assert torch.equal(loss, step.loss)
    assert torch.equal(nets[0].weight, nets[1].weight)


def test_all_methods_that_are_a_loss_and_nothing_else_are_there():
    """Those that fill in ``losses``; T-Revision learns its matrix in a training of several stages."""
    own = {name for name, item in vars(methods).items() if isinstance(item, type) and issubclass(item, Method)}
    fills_in = {name for name in own if "losses" in vars(getattr(methods, name)) and name != "Method"}
    there = {
        name for name, item in vars(losses).items() if isinstance(item, type) and issubclass(item, losses.Criterion)
    }
    assert fills_in - there == {"TRevision"}
    assert {"Forward", "Backward"} <= there


def test_huber_takes_targets():
    output, target = torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.5, 0.0], [0.0, 0.0]])
    found = losses.Huber(reduction="none")(output, target)
    torch.testing.assert_close(found, torch.tensor([0.0625, 1.25]))


def test_reductions_are_those_of_torch(logits, labels):
    each, total, mean = (losses.SCE(reduction=r)(logits, labels) for r in ("none", "sum", "mean"))
    assert each.shape == (4,)
    torch.testing.assert_close(total, each.sum())
    torch.testing.assert_close(mean, each.mean())
    torch.testing.assert_close(holdfast.losses.GCE(q=0)(logits, labels), nn.CrossEntropyLoss()(logits, labels))


def test_the_memory_of_elr_survives(logits, labels):
    whole = losses.ELR(10, 3)
    index = torch.tensor([7, 2, 9, 0])
    whole(logits, labels, index)
    saved = {name: value.clone() for name, value in whole.state_dict().items()}
    assert any(bool(value.any()) for value in saved.values())
    again, copied = losses.ELR(10, 3), pickle.loads(pickle.dumps(whole))
    again.load_state_dict(saved)
    later = whole(logits.flip(0), labels, index)
    assert torch.equal(again(logits.flip(0), labels, index), later)
    assert torch.equal(copied(logits.flip(0), labels, index), later)
    assert not torch.equal(losses.ELR(10, 3)(logits.flip(0), labels, index), later)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: losses.ELR(10, 3)(x, y), r"call criterion\(output, target, index\)"),
        (lambda x, y: losses.ELR(3, 3)(x, y, torch.arange(4)), "number of each row of the batch, from 0 to 2"),
        (lambda x, y: losses.ELR(0, 3), "not 0 rows of 3"),
        (lambda x, y: losses.GCE(reduction="median"), "reduction is one of mean, sum, none"),
        (lambda x, y: losses.GCE(q=2), r"q must lie in \[0, 1\]"),
        (lambda x, y: losses.SCE()(x, y[:2]), r"not the shapes \(4, 3\) and \(2,\)"),
    ],
)
def test_mistakes_are_told(logits, labels, call, message):
    with pytest.raises(HoldfastError, match=message):
        call(logits, labels)


def test_soft_labels_are_taken(blobs):
    rows = Rows(blobs.x, blobs.y, blobs.classes)
    hard = losses.SCE()(net_of()(rows.x), rows.y)
    soft = losses.SCE()(net_of()(rows.x), torch.nn.functional.one_hot(rows.y, 3).float())
    torch.testing.assert_close(hard, soft)
