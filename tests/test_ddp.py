"""Training in several processes: real processes, real gloo, a real kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import SGD
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Rows, Run, checkpoint, fit, read
from holdfast.augment import PadCropFlip
from holdfast.cli import app
from holdfast.errors import Died, Diverged
from holdfast.functional import keep_count, smallest
from holdfast.launch import gloo_interface
from holdfast.method import Weigh
from holdfast.methods import Crust, EMARefinement
from holdfast.ranks import Ranks, get_ranks
from holdfast.stop import NoisyValidationStop
from holdfast.types import Plan

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")


def small_net(inputs=2, outputs=3, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


def train(rows, method, devices, **settings):
    outputs = 3 if rows.classes else rows.y.shape[1]
    chosen = {"epochs": 3, "batch_size": 48, "test": rows, "device": "cpu", **settings}
    return fit(rows, method, small_net(rows.shape[0], outputs), devices=devices, **chosen)


class Twins(Method):
    """Two networks, the second trained on a third of the weight of every other row."""

    networks = 2

    def loss(self, nets, batch):
        other = batch._replace(weight=torch.where(batch.index % 2 == 0, batch.weight / 3, batch.weight))
        one, two = (super(Twins, self).loss([net], part) for net, part in zip(nets, (batch, other), strict=True))
        return one._replace(loss=one.loss + two.loss)

    def predictor(self, nets):
        return nets[1]


class Tempered(Method):
    """A parameter of the method's own is trained with the network."""

    def __init__(self):
        super().__init__()
        self.heat = nn.Parameter(torch.zeros(3))

    def loss(self, nets, batch):
        return super().loss([lambda x: nets[0](x) * self.heat.exp()], batch)


class SmallLoss(Weigh):
    """The half of smallest loss in the batch: of the whole batch, not of each process's part."""

    def weigh(self, outputs, batch):
        losses = self.task.losses(outputs[0], batch.y)
        assert len(batch.x) == len(losses)
        weight = torch.zeros_like(losses)
        weight[smallest(losses, keep_count(0.5, len(losses)))] = 1
        return [weight]


def many_blobs(count):
    """Groups of more rows than centrality compares with, so that choosing in them draws."""
    source = torch.Generator().manual_seed(5)
    truth = (torch.rand(count, generator=source) * 2.4).long()
    x = torch.eye(3)[truth] * 2 + 0.7 * torch.randn(count, 3, generator=source)
    wrong = torch.rand(count, generator=source) < 0.2
    return Rows(x, torch.where(wrong, (truth + 1) % 3, truth), ("a", "b", "c"), truth=truth)


def central():
    # Neither weights nor partners, in which rounding decides about points half way between two medoids.
    return Crust(0.6, select="central", warmup=1, partners=0, weighted=False)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        # 240 rows in batches of 49: parts of 25 and 24 rows, and a short last batch.
        (Method, {"batch_size": 49}),
        (lambda: EMARefinement(warmup=1), {}),
        pytest.param(central, {"rows": many_blobs(3600), "batch_size": 400}, marks=pytest.mark.slow),
        (lambda: Crust(warmup=1, bins=3), {"rows": "line", "optimizer": SGD}),
        pytest.param(Twins, {"batch_size": 49}, marks=pytest.mark.slow),
        pytest.param(Tempered, {"optimizer": SGD}, marks=pytest.mark.slow),
        pytest.param(SmallLoss, {"batch_size": 49}, marks=pytest.mark.slow),
        pytest.param(
            lambda: EMARefinement(warmup=1),
            {"epochs": 12, "stop": NoisyValidationStop(0.2, patience=1)},
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "ordinary",
        "ema refinement",
        "large groups",
        "regression",
        "two networks",
        "own parameter",
        "ranking",
        "stop rule",
    ],
)
def test_two_processes_train_what_one_trains(blobs, line, make, settings):
    rows = settings.pop("rows", blobs)
    rows = line if isinstance(rows, str) else rows
    if settings.get("optimizer") is SGD:
        settings["optimizer"] = steep
    methods = make(), make()
    one, two = (train(rows, method, devices, **settings) for devices, method in zip((1, 2), methods, strict=True))
    for name, value in one.net.state_dict().items():
        torch.testing.assert_close(two.net.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert (one.stopped, one.best_epoch) == (two.stopped, two.best_epoch)
    timed = ["seconds", "cpu_seconds"]
    pd.testing.assert_frame_equal(two.history.drop(columns=timed), one.history.drop(columns=timed), rtol=1e-4)
    pd.testing.assert_frame_equal(two.ledger, one.ledger, rtol=1e-3, atol=1e-4)
    assert (two.ledger["seen"] > 0).all()
    for name, value in methods[0].state_dict().items():
        torch.testing.assert_close(methods[1].state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)


def steep(parameters):
    return SGD(parameters, lr=0.5)


class Spy(Crust):
    """Each process writes down what it was given to do."""

    def __init__(self, folder):
        super().__init__(0.6, warmup=1, partners=0)
        self.folder = folder
        self.seen = {"batches": [], "groups": []}

    def loss(self, nets, batch):
        self.seen["batches"].append(batch.index.tolist())
        return super().loss(nets, batch)

    def _choose_in(self, rows, points, size, generator):
        self.seen["groups"].append(rows.tolist())
        super()._choose_in(rows, points, size, generator)

    def after_step(self, nets):
        evaluated = [part.evaluated for part in nets[0].modules() if isinstance(part, Counting)]
        record = {**self.seen, "kept": self.kept.tolist(), "evaluated": evaluated[0]}
        Path(self.folder, f"{get_ranks().rank}.json").write_text(json.dumps(record))


class Counting(nn.Linear):
    """How many rows it was asked for outside of training."""

    evaluated = 0

    def forward(self, x):
        self.evaluated += 0 if self.training else len(x)
        return super().forward(x)


def test_each_process_does_its_share_and_all_know_the_plan(blobs, tmp_path):
    fit(blobs, Spy(str(tmp_path)), Counting(2, 3), epochs=2, batch_size=24, devices=2, strategy="ddp", device="cpu")
    one, two = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert len(one["batches"]) == len(two["batches"]) > 10
    for own, others in zip(one["batches"], two["batches"], strict=True):
        assert abs(len(own) - len(others)) <= 1
        assert len(own) + len(others) <= 24
        assert not set(own) & set(others)
    assert {row for k in range(10) for row in one["batches"][k] + two["batches"][k]} == set(range(240))
    # Each group is one process's, none has all, and what was chosen is known to both.
    assert 1 <= len(one["groups"]) <= 2
    assert sorted(row for group in one["groups"] + two["groups"] for row in group) == list(range(240))
    assert one["kept"] == two["kept"]
    assert 0 < sum(one["kept"]) < 240
    trained = {row for part in (one, two) for batch in part["batches"][10:] for row in batch}
    assert trained == {row for row, kept in enumerate(one["kept"]) if kept}


def test_outputs_are_computed_in_parts(blobs, tmp_path):
    fit(blobs, Spy(str(tmp_path)), Counting(2, 3), epochs=2, batch_size=24, devices=2, device="cpu")
    evaluated = [json.loads((tmp_path / f"{rank}.json").read_text())["evaluated"] for rank in (0, 1)]
    assert evaluated == [120, 120]


def test_work_is_dealt_by_size():
    pieces = [50, 10, 40, 30, 20, 10]
    owners = Ranks(0, 3).assign(pieces)
    loads = [sum(piece for piece, owner in zip(pieces, owners, strict=True) if owner == k) for k in range(3)]
    assert sorted(loads) == [50, 50, 60]
    shares = [Ranks(rank, 3).share(10) for rank in range(3)]
    assert [row for share in shares for row in range(10)[share]] == list(range(10))


class Pause(nn.Module):
    """Leaves time to be killed in."""

    def forward(self, x):
        time.sleep(float(os.environ.get("PAUSE", 0)))
        return x


def own_net(shape, outputs):
    """Everything that could differ between processes: running statistics, dropout."""
    first = [Pause(), nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU()]
    net = nn.Sequential(*first, nn.Flatten(), nn.Dropout(0.2), nn.LazyLinear(outputs))
    net(torch.zeros(2, *shape))
    return net


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    rng = np.random.default_rng(1)
    y = np.arange(300) % 3
    x = rng.integers(0, 120, (300, 12, 12), dtype=np.uint8)
    x[np.arange(300), y * 4] += 120
    y[:240:5] = (y[:240:5] + 1) % 3
    path = tmp_path_factory.mktemp("bars") / "bars.npz"
    np.savez(path, x_train=x[:240], y_train=y[:240], x_test=x[240:], y_test=y[240:])
    return path


def fit_bars(path, out, **settings):
    rows, test = read(path)
    chosen = {"epochs": 8, "batch_size": 51, "seed": 2, "augment": PadCropFlip(), "device": "cpu", **settings}
    return fit(rows, EMARefinement(), f"{__name__}:own_net", test=test, devices=2, strategy="ddp", out=out, **chosen)


def processes_under(parent):
    """Ids of all processes that descend from one."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, grown = {parent}, True
    while grown:
        more = {child for child, above in parents.items() if above in found} - found
        found, grown = found | more, bool(more)
    return found - {parent}


def await_(what, seconds=120):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes to kill in /proc")
@pytest.mark.slow
def test_killed_and_resumed_is_bit_for_bit_the_same(bars, tmp_path):
    """First one of the two processes is killed, then the one that watches them; the third run goes through."""
    out, last = tmp_path / "run", tmp_path / "run" / "checkpoint" / "last.safetensors"
    words = f"fit {bars} --out {out} --net {__name__}:own_net --epochs 8 --batch-size 51 --seed 2 --augment --quiet"
    words += " --method ema-refinement --no-evidence"
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *words.split()]
    command += ["--resume", "--device", "cpu", "--devices", "2", "--strategy", "ddp"]
    slow = {**os.environ, "PAUSE": "0.1"}
    start = {"cwd": Path(__file__).parent, "env": slow, "stderr": subprocess.PIPE, "text": True}

    first = subprocess.Popen(command, **start)
    await_(lambda: last.exists() or first.poll() is not None)
    assert first.poll() is None, first.stderr.read()
    ranks = youngest_pair(first.pid)
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    errors = first.communicate(timeout=60)[1].strip()
    assert time.monotonic() - killed < 30
    assert first.returncode == 2
    assert "Traceback" not in errors
    assert len(errors.splitlines()) == 1
    assert "of 2 was killed (SIGKILL" in errors
    done = len(checkpoint.load(last)["history"])
    assert f"the checkpoint of epoch {done} is whole ({last}); pass --resume" in errors
    assert not (out / "model.safetensors").exists()

    second = subprocess.Popen(command, **start)
    await_(lambda: len(checkpoint.load(last)["history"]) > done or second.poll() is not None)
    assert second.poll() is None, second.stderr.read()
    ranks = youngest_pair(second.pid)
    second.kill()
    second.communicate(timeout=60)
    await_(lambda: not any(Path(f"/proc/{rank}/cmdline").exists() and alive(rank) for rank in ranks), 30)
    assert done < len(checkpoint.load(last)["history"]) < 8

    resumed = fit_bars(bars, out, resume=True)
    whole = fit_bars(bars, tmp_path / "whole")
    assert len(whole.history) == len(resumed.history) == 8
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, resumed.net.state_dict()[name]), name
    pd.testing.assert_frame_equal(whole.ledger, resumed.ledger, check_exact=True)
    timed = ["seconds", "cpu_seconds"]
    pd.testing.assert_frame_equal(
        whole.history.drop(columns=timed), resumed.history.drop(columns=timed), check_exact=True
    )
    pd.testing.assert_frame_equal(Run.load(out, net=whole.net).ledger, whole.ledger)


def youngest_pair(parent):
    """The two processes that train: those that started last."""
    return sorted(processes_under(parent))[-2:]


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Fails(Method):
    """One process comes to grief in the third epoch."""

    def __init__(self, how, rank):
        super().__init__()
        self.how = how
        self.rank = rank

    def before_epoch(self, nets, data, epoch, epochs):
        if epoch < 2 or get_ranks().rank != self.rank:
            return
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "exit":
            os._exit(7)
        raise ZeroDivisionError("a mistake of the method")


@pytest.mark.parametrize(
    ("how", "rank", "error", "message"),
    [
        ("killed", 0, Died, r"process 1 of 2 was killed \(SIGKILL.* checkpoint of epoch [12] is whole \(.*last.safet"),
        ("exit", 1, Died, r"process 2 of 2 ended with exit code 7; the checkpoint of epoch [12] is whole"),
        pytest.param("raise", 1, ZeroDivisionError, "a mistake of the method", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_fails_ends_the_run_soon(blobs, tmp_path, how, rank, error, message):
    began = time.monotonic()
    with pytest.raises(error, match=message) as caught:
        train(blobs, Fails(how, rank), 2, epochs=6, out=tmp_path / "run")
    assert time.monotonic() - began < 120  # with the start of the processes; gloo itself would wait for half an hour
    if error is ZeroDivisionError:
        assert "before_epoch" in caught.value.__notes__[0]
    state = checkpoint.load(tmp_path / "run" / "checkpoint" / "last.safetensors")
    assert 1 <= len(state["history"]) <= 2  # after the first epoch, and then as often as it costs little
    assert len(state["random"]) == 2
    if how == "exit":  # the first process is sound, and goes on alone to where one process would have come
        resumed = train(blobs, Fails(how, rank), 1, epochs=6, out=tmp_path / "run", resume=True)
        alone = train(blobs, Method(), 1, epochs=6)
        assert len(resumed.history) == 6
        torch.testing.assert_close(resumed.net[0].weight, alone.net[0].weight, rtol=1e-4, atol=1e-5)


class Explodes(Method):
    def loss(self, nets, batch):
        step = super().loss(nets, batch)
        return step._replace(loss=step.loss * (torch.nan if get_ranks().rank else 1))


class Disagrees(Method):
    def plan(self, nets, data):
        return Plan(torch.arange(len(data) - get_ranks().rank))


@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (Explodes(), Diverged, "no longer a number in epoch 1"),
        (Disagrees(), HoldfastError, "planned different epochs"),
    ],
)
def test_what_goes_wrong_in_all_is_said_once(blobs, method, error, message):
    with pytest.raises(error, match=message):
        train(blobs, method, 2)


class Heard:
    """Progress that remembers."""

    def __init__(self):
        self.steps, self.lines = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def at(self, epochs, of):
        self.steps.append(epochs)

    def say(self, line):
        self.lines.append(line["epoch"])


def height(epoch, net):
    return {"height": float(next(net.parameters()).shape[0]), "rank": float(get_ranks().rank)}


def test_what_is_given_is_trained_and_progress_heard(blobs):
    net, heard = small_net(), Heard()
    before = net[0].weight.clone()
    run = fit(blobs, Method(), net, epochs=2, batch_size=24, devices=2, device="cpu", progress=heard, watch=height)
    assert run.net is net
    assert not torch.equal(net[0].weight, before)
    assert run.rows is blobs
    assert heard.lines == [0, 1]
    assert len(heard.steps) == 20
    assert run.history["height"].tolist() == [16, 16]
    assert run.history["rank"].tolist() == [0, 0]
    assert not dist.is_initialized()
    assert get_ranks().count == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": 0}, "at least one device, not 0"),
        ({"devices": 2, "strategy": "fsdp"}, "strategy is auto or ddp, not 'fsdp'"),
        ({"devices": 25}, "25 processes cannot share a batch of 24 row"),
        ({"devices": 99, "device": "cuda", "batch_size": 120}, "99 devices were asked for and"),
        ({"devices": 2, "device": "mps"}, "mps is a single device"),
        ({"devices": 2, "watch": lambda epoch, net: {}}, "top level of a module"),
    ],
)
def test_what_cannot_work_is_said_at_once(blobs, settings, message):
    given = {"epochs": 1, "batch_size": 24, "device": "cpu", **settings}
    with pytest.raises(HoldfastError, match=message):
        fit(blobs, Method(), small_net(), **given)


def test_a_prompt_cannot_start_processes(blobs, monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(HoldfastError, match="not from a notebook or a prompt"):
        fit(blobs, Method(), small_net(), devices=2, device="cpu", batch_size=24)


def test_the_command_line_takes_devices(bars, tmp_path):
    runner = CliRunner()
    output = runner.invoke(app, ["fit", "--help"], env={"COLUMNS": "160"}).output
    assert "--devices" in output
    assert "--strategy" in output
    words = ["fit", str(bars), "--out", str(tmp_path / "run"), "--devices", "300", "--device", "cpu"]
    error = runner.invoke(app, words).exception
    assert isinstance(error, HoldfastError)
    assert "300 processes cannot share a batch of 16" in str(error)
    assert not (tmp_path / "run").exists()


def test_gloo_is_told_of_an_interface_only_where_it_cannot_find_one(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.0.1")
    assert gloo_interface() == {}

    def nowhere(name):
        raise OSError("no such name")

    monkeypatch.setattr("socket.gethostbyname", nowhere)
    assert gloo_interface()["GLOO_SOCKET_IFNAME"].startswith("lo")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert gloo_interface() == {}
