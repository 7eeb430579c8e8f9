"""A plain PyTorch loop with a session in it."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from early_methods import early
from framework_support import (
    assert_same,
    in_two,
    small_net,
    weights,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import Dataset, TensorDataset

import holdfast
from holdfast import HoldfastError, Session
from holdfast.files import read_tensors


def steps(session, net, loader, optimizer, epochs, accumulate=1):
    for _ in range(session.epoch, epochs):
        for number, batch in enumerate(loader):
            (session.loss(net(batch.x), batch) / accumulate).backward()
            if (number + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
    return weights(net)


def trained(rows, method, batch_size=48, accumulate=1, net=None, epochs=3, **settings):
    net = net or small_net()
    session = Session(rows, method, epochs=epochs, **settings)
    loader, optimizer = session.loader(batch_size, accumulate=accumulate), SGD(net.parameters(), lr=0.3)
    session.begin(net, optimizer)
    return steps(session, net, loader, optimizer, epochs, accumulate), session


def test_the_figures_of_the_last_epoch_are_there_for_a_tracker(blobs):
    _, session = trained(blobs, "prl-l", epochs=2)
    assert session.figures == session.run().history.iloc[-1].to_dict()
    assert {"loss", "coverage", "noise_rate", "drop_rate"} <= session.figures.keys()
    fresh = Session(blobs, "prl-l", epochs=2)
    fresh.loader(48)
    fresh.begin(small_net(), None)
    assert fresh.figures == {}


@pytest.mark.parametrize("name", ["crust", "aum", "t-revision", "co-teaching", "ema-refinement", "prl-l"])
def test_any_state_goes_on_exactly(blobs, name):
    """Dropout draws from torch's own random state, which is part of the state."""

    def begun():
        method = early(name)
        nets = [nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.2), nn.Linear(16, 3)) for _ in range(method.networks)]
        session = Session(blobs, method, epochs=4)
        loader, optimizer = session.loader(40), SGD([p for net in nets for p in net.parameters()], 0.1, momentum=0.9)
        session.begin(nets, optimizer)
        return nets, session, loader, optimizer

    def go_on(nets, session, loader, optimizer, until):
        for _ in range(session.epoch, until):
            for batch in loader:
                optimizer.zero_grad()
                session.loss([net(batch.x) for net in nets], batch).backward()
                optimizer.step()

    torch.manual_seed(0)
    nets, session, loader, optimizer = begun()
    go_on(nets, session, loader, optimizer, 2)
    saved = {"nets": [weights(net) for net in nets], "optimizer": copy.deepcopy(optimizer.state_dict())}
    saved["session"] = session.state_dict()
    go_on(nets, session, loader, optimizer, 4)
    others, again, reloader, reoptimizer = begun()
    for net, state in zip(others, saved["nets"], strict=True):
        net.load_state_dict(state)
    reoptimizer.load_state_dict(saved["optimizer"])
    again.load_state_dict(saved["session"])
    go_on(others, again, reloader, reoptimizer, 4)
    for net, other in zip(nets, others, strict=True):
        assert_same(weights(net), weights(other))
    assert again.issues().equals(session.issues())


def in_ddp(folder, rows, name, batch_size, accumulate):
    dist.init_process_group("gloo")
    net = small_net()
    session = Session(rows, name, epochs=3)
    loader = session.loader(batch_size, accumulate=accumulate)
    wrapped, optimizer = DistributedDataParallel(net), SGD(net.parameters(), lr=0.3)
    session.begin(wrapped, optimizer)
    made = steps(session, wrapped, loader, optimizer, 3, accumulate)
    return {name.removeprefix("module."): value for name, value in made.items()}, session.issues()["row"].tolist()


@pytest.mark.parametrize(
    ("name", "accumulate"),
    [
        ("prl-l", 1),
        pytest.param("crust", 1, marks=pytest.mark.slow),
        pytest.param("elr", 2, marks=pytest.mark.slow),
    ],
)
def test_two_processes_end_where_one_does(blobs, tmp_path, name, accumulate):
    two, issues = in_two(in_ddp, tmp_path, blobs, name, 24 // accumulate, accumulate)
    one, session = trained(blobs, name, 48)
    assert_same(one, two, rtol=1e-4, atol=1e-5)
    assert issues[:30] == session.issues()["row"].tolist()[:30]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["standard", "crust", "elr", "gce"])
def test_four_batches_that_add_up_are_one_of_four_times_the_size(blobs, name, weighted):
    rows = replace(blobs, weight=torch.linspace(0.1, 2, len(blobs))) if weighted else blobs
    make = holdfast.methods.METHODS[name]
    method = lambda: make(warmup=1) if name == "crust" else make()  # noqa: E731
    four, accumulated = trained(rows, method(), 12, 4)
    one, session = trained(rows, method(), 48)
    assert_same(one, four, rtol=1e-4, atol=1e-5)
    assert accumulated.run().ledger["trained"].tolist() == session.run().ledger["trained"].tolist()


class Sentences(Dataset):
    """Items as a tokenizer makes them: lists of different lengths, and a label."""

    def __init__(self, count=120):
        source = torch.Generator().manual_seed(0)
        self.ids = [torch.randint(1, 10, (4 + k % 3,), generator=source) for k in range(count)]
        self.given = torch.arange(count) % 2
        for ids, label in zip(self.ids, self.given, strict=True):
            ids[0] = 10 + int(label)
        self.given[::10] = 1 - self.given[::10]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, row):
        return {"input_ids": self.ids[row], "labels": self.given[row]}


def padded(items):
    ids = nn.utils.rnn.pad_sequence([item["input_ids"] for item in items], batch_first=True)
    return {"input_ids": ids, "mask": (ids > 0).float(), "labels": torch.stack([item["labels"] for item in items])}


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, input_ids, mask):
        return self.head((self.words(input_ids) * mask[..., None]).mean(1))


@pytest.mark.parametrize(
    "method",
    [holdfast.methods.PRLL(), holdfast.methods.Crust(warmup=1, partners=0), holdfast.methods.PRLL(forwards="two")],
)
def test_networks_that_take_dicts(method):
    torch.manual_seed(0)
    net = Bag()
    session = Session(Sentences(), method, epochs=12)
    loader, optimizer = session.loader(20, collate_fn=padded), torch.optim.Adam(net.parameters(), lr=0.02)
    session.begin(net, optimizer)
    for _ in range(12):
        for batch in loader:
            assert batch.x.keys() == {"input_ids", "mask"}
            optimizer.zero_grad()
            session.loss(net(**batch.x), batch).backward()
            optimizer.step()
    assert len(set(session.issues()["row"][:12]) & set(range(0, 120, 10))) >= 10


def test_networks_that_take_several_inputs_by_a_forward_of_the_users(blobs):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(1, 8), nn.Linear(1, 8)
            self.head = nn.Linear(8, 3)

        def forward(self, left, right, loud):
            return {"said": self.head(torch.tanh(self.left(left) + self.right(right)))}

    def forward(net, x):
        return net(*x, loud=False)["said"]

    torch.manual_seed(0)
    net, given = Two(), TensorDataset(blobs.x[:, :1], blobs.x[:, 1:], blobs.y)
    session = Session(given, holdfast.methods.Crust(warmup=1, partners=0), epochs=8, forward=forward)
    loader, optimizer = session.loader(20), torch.optim.Adam(net.parameters(), lr=0.02)
    session.begin(net, optimizer)
    for _ in range(8):
        for batch in loader:
            optimizer.zero_grad()
            session.loss(forward(net, batch.x), batch).backward()
            optimizer.step()
    found = session.issues().query("flag")["row"].to_numpy(copy=True)
    assert (blobs.y != blobs.truth).numpy()[found].mean() > 0.7


@pytest.mark.parametrize("name", ["crust", "elr-plus", "prl-g"])
def test_what_mixes_inputs_or_looks_inside_says_so_of_dicts(name):
    method = early(name)
    nets = [Bag() for _ in range(method.networks)]
    session = Session(Sentences(), method, epochs=3)
    loader, optimizer = session.loader(20, collate_fn=padded), SGD([p for n in nets for p in n.parameters()], lr=0.1)
    session.begin(nets, optimizer)

    def go_through():
        for _ in range(3):
            for batch in loader:
                session.loss([net(**batch.x) for net in nets], batch)

    with pytest.raises(HoldfastError, match=r"several (tensors a row|inputs); choose a method"):
        go_through()


def test_mistakes_get_a_sentence(blobs):
    net = small_net()
    optimizer = SGD(net.parameters(), lr=0.1)
    session = Session(blobs, "prl-l")
    with pytest.raises(HoldfastError, match="make the loader first"):
        session.begin(net, optimizer)
    loader = session.loader(40)
    with pytest.raises(HoldfastError, match=r"call session\.begin"):
        next(iter(loader))
    with pytest.raises(HoldfastError, match="say how many epochs"):
        session.begin(net, optimizer)
    session.begin(net, optimizer, epochs=1)
    batches = iter(loader)
    batch = next(batches)
    with pytest.raises(HoldfastError, match="takes a batch of session"):
        session.loss(net(batch.x), (batch.x, batch.y))
    with pytest.raises(HoldfastError, match="the network has 2 outputs and the labels have 3 classes"):
        session.loss(net(batch.x)[:, :2], batch)
    with pytest.raises(HoldfastError, match="epoch 1 is under way"):
        session.state_dict()
    for batch in batches:
        session.loss(net(batch.x), batch)
    with pytest.raises(HoldfastError, match=r"about to begin epoch 0 \(from 0\), but this session has seen 1"):
        loader.set_epoch(0)
    with pytest.raises(HoldfastError, match="all 1 epochs of this session are done"):
        next(iter(loader))
    with pytest.raises(HoldfastError, match="shuffles by itself; leave shuffle out"):
        Session(blobs, "prl-l").loader(40, shuffle=True)
    with pytest.raises(HoldfastError, match="one of image, kind"):
        Session([{"image": torch.zeros(2), "kind": 1}], "prl-l")


def test_labels_are_numbers_of_outputs_also_where_one_is_missing():
    x = torch.randn(30, 2)
    session = Session(TensorDataset(x, torch.arange(30) % 2 * 2), "standard", epochs=1)
    assert session.rows.classes == ("0", "1", "2")
    assert session.rows.y.tolist()[:4] == [0, 2, 0, 2]
    assert Session((x, np.arange(30) % 2), "standard", classes=["no", "yes", "maybe"]).rows.classes[2] == "maybe"


def test_a_folder_of_another_run_is_left_alone(blobs, tmp_path):
    _, session = trained(blobs, "standard")
    session.save(tmp_path / "run")
    session.save(tmp_path / "run")
    before, _ = read_tensors(tmp_path / "run" / "model.safetensors")
    with pytest.raises(HoldfastError, match="cannot resume"):
        trained(blobs, "elr")[1].save(tmp_path / "run")
    after, _ = read_tensors(tmp_path / "run" / "model.safetensors")
    assert_same(before, after)


def test_a_part_called_module_is_no_wrapper(blobs):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.module, self.head = nn.Linear(2, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(torch.tanh(self.module(x)))

    made, session = trained(blobs, holdfast.methods.EMARefinement(warmup=1), net=Outer())
    assert set(made) == {"module.weight", "module.bias", "head.weight", "head.bias"}
    assert session.net().state_dict().keys() == made.keys()
    assert session.run().predict(blobs.x).shape == (240,)


def test_modes_of_layers_that_the_user_has_frozen_stay(blobs):
    net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    net[1].eval()
    session = Session(blobs, holdfast.methods.Crust(warmup=0), epochs=1)
    loader = session.loader(40)
    session.begin(net, SGD(net.parameters(), lr=0.1))
    next(iter(loader))
    assert [net.training, net[0].training, net[1].training] == [True, True, False]
