"""Every method in a plain loop: it trains what ``fit`` trains, and judges the labels as ``fit`` does."""

import re
from pathlib import Path

import pytest
import torch
from early_methods import early
from torch import nn
from torch.optim import SGD

from holdfast import Session, fit
from holdfast.methods import METHODS
from holdfast.nets import reset_parameters
from holdfast.stop import STOPS

EPOCHS = 4


def nets(method):
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    torch.manual_seed(0)
    return [first, *(reset_parameters(first) for _ in range(method.networks - 1))]


def loop(session, nets, own_forward=True):
    loader = session.loader(batch_size=49)
    optimizer = SGD([p for net in nets for p in net.parameters()], lr=0.3)
    session.begin(nets, optimizer)
    for _ in range(EPOCHS):
        for batch in loader:
            outputs = [net(batch.x) for net in nets] if own_forward else None
            loss = session.loss(outputs, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if session.stopped:
            break
    return session.run()


def fitted(rows, method, stop=None):
    return fit(
        rows, method, nets(method)[0], stop=stop, epochs=EPOCHS, batch_size=49, device="cpu", schedule=lambda _: 1.0,
        optimizer=lambda parameters: SGD(parameters, lr=0.3),
    )  # fmt: skip


def same(own, whole, rtol=1e-4, atol=1e-5):
    for name, value in whole.net.state_dict().items():
        torch.testing.assert_close(own.net.state_dict()[name], value, rtol=rtol, atol=atol, msg=name)
    assert own.ledger["trained"].tolist() == whole.ledger["trained"].tolist()
    ranks = [run.issue_table()["trust"].rank() for run in (own, whole)]
    assert ranks[0].corr(ranks[1]) > 0.95


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"second-opinion"}))
def test_it_trains_what_fit_trains(blobs, name):
    torch.manual_seed(0)
    whole = fitted(blobs, early(name))
    method = early(name)
    torch.manual_seed(0)
    own = loop(Session(blobs, method, epochs=EPOCHS), nets(method))
    # Where a batch is halved, fit passes it through the network twice, which rounds otherwise.
    same(own, whole, 1e-3, 1e-4)
    for figure in method.figures():
        assert own.history[figure].to_numpy() == pytest.approx(whole.history[figure].to_numpy(), abs=1e-3, nan_ok=True)


@pytest.mark.parametrize("name", ["prl-l", "co-teaching", "crust"])
def test_a_method_may_run_the_networks_itself(blobs, name):
    method = early(name)
    same(loop(Session(blobs, method, epochs=EPOCHS), nets(method), own_forward=False), fitted(blobs, early(name)), 1e-3)


@pytest.mark.parametrize("name", sorted(STOPS))
def test_a_stop_rule_stops_where_it_stops_fit(blobs, name):
    whole = fitted(blobs, METHODS["standard"](), STOPS[name]())
    own = loop(Session(blobs, "standard", epochs=EPOCHS, stop=STOPS[name]()), nets(METHODS["standard"]()))
    same(own, whole)
    assert own.stopped == whole.stopped
    assert own.history["best"].tolist() == whole.history["best"].tolist()


def test_the_page_tells_of_every_method():
    page = (Path(__file__).parents[2] / "docs" / "own-training.md").read_text()
    table = page[page.index("| methods | in a session |") :].split("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in row.split("|")[1].split(",")]
    told = {re.sub(r" \(.*?\)", "", name).strip() for name in listed}
    assert told == set(METHODS)
    two = {name for name, make in METHODS.items() if make().networks == 2}
    row = next(row for row in table.splitlines() if "two networks" in row)
    assert {name.strip() for name in row.split("|")[1].split(",")} == two


def test_numbers_are_judged_too(line):
    def made():
        torch.manual_seed(0)
        return nn.Linear(3, 2)

    net = made()
    session = Session(line, "prl-l", epochs=3)
    loader, optimizer = session.loader(batch_size=20), SGD(net.parameters(), lr=0.05)
    session.begin(net, optimizer)
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            session.loss(net(batch.x), batch).backward()
            optimizer.step()
    whole = fit(
        line, "prl-l", made(), epochs=3, batch_size=20, schedule=lambda _: 1.0, optimizer=lambda p: SGD(p, lr=0.05)
    )
    torch.testing.assert_close(net.weight, whole.net.weight)
    assert session.issues()["row"].tolist()[:20] == whole.issues()["row"].tolist()[:20]
