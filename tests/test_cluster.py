"""Training in processes that somebody else has started: real torchrun, hosts in network namespaces, a cut cable."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from torch import nn

from holdfast import HoldfastError, checkpoint
from holdfast.cluster import Place, devices_of, from_first, interface_towards, join, patience, place_in
from holdfast.files import read_tensors
from holdfast.run_folder import RunFolder

has_gloo = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")
RESTARTED = {"TORCHELASTIC_RESTART_COUNT": "2"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MEETING = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SRUN = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_JOB_NODELIST": "gpu[07-08]"}
EPOCHS = 6


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        (TORCHRUN, None),  # nowhere to meet
        ({**TORCHRUN, **MEETING}, Place(3, 4, 1, 2, "10.0.0.1", 29500, "torchrun")),
        ({**TORCHRUN, **MEETING, **RESTARTED}, Place(3, 4, 1, 2, "10.0.0.1", 29500, "torchrun", 2)),
        ({**TORCHRUN, **MEETING, "RANK": "0", "WORLD_SIZE": "1"}, None),
        (SRUN, Place(3, 4, 1, 2, "gpu07", 15000, "srun")),
        ({**SRUN, **MEETING}, Place(3, 4, 1, 2, "10.0.0.1", 29500, "srun")),
        ({**SRUN, "SLURM_JOB_ID": "11"}, None),  # the script of a batch job itself
        ({**SRUN, "SLURM_JOB_ID": "11", "SLURM_STEP_ID": "2"}, Place(3, 4, 1, 2, "gpu07", 15079, "srun")),
    ],
)  # fmt: skip
def test_a_place_is_read_from_the_environment(environment, place):
    assert place_in(environment) == place


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**TORCHRUN, **MEETING, "RANK": "4"}, "calls this process number 4 of 4, counted from 0"),
        ({**TORCHRUN, **MEETING, "RANK": "two"}, "no sound place among others .*two"),
    ],
)
def test_a_place_that_cannot_be_is_refused(environment, message):
    with pytest.raises(HoldfastError, match=message):
        place_in(environment)


def test_hosts_are_counted():
    assert Place(3, 4, 1, 2, "a", 1, "torchrun").hosts == 2
    assert Place(0, 3, 0, 3, "a", 1, "torchrun").hosts == 1


def test_devices_come_from_outside():
    place = Place(0, 4, 0, 2, "a", 1, "torchrun")
    assert devices_of(None, 3, 10) == 3
    assert devices_of(place, 1, 10) == devices_of(place, 4, 10) == 4
    with pytest.raises(HoldfastError, match=r"torchrun has started 4 processes already; leave out .*--devices"):
        devices_of(place, 2, 10)
    with pytest.raises(HoldfastError, match="4 processes cannot share a batch of 3"):
        devices_of(place, 1, 3)


def test_patience_is_checked(monkeypatch):
    monkeypatch.setenv("HOLDFAST_TIMEOUT", "12")
    assert patience() == 12
    for wrong in ("soon", "0", "nan"):
        monkeypatch.setenv("HOLDFAST_TIMEOUT", wrong)
        with pytest.raises(HoldfastError, match="HOLDFAST_TIMEOUT is a number of seconds from 1"):
            patience()


def test_alone_nothing_is_joined():
    assert join() is None
    assert from_first(lambda: 3) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux for addresses")
def test_gloo_is_told_which_interface_leads_to_the_first_host(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert interface_towards("127.0.0.1") == {"GLOO_SOCKET_IFNAME": "lo"}
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert interface_towards("127.0.0.1") == {}


class Pause(nn.Module):
    """Leaves time to be cut off in."""

    def forward(self, x):
        time.sleep(float(os.environ.get("PAUSE", 0)))
        return x


def slow_net(shape, outputs):
    return nn.Sequential(Pause(), nn.Linear(shape[0], 12), nn.Tanh(), nn.Dropout(0.1), nn.Linear(12, outputs))


def steady_net(shape, outputs):
    return nn.Sequential(Pause(), nn.Linear(shape[0], 12), nn.Tanh(), nn.Linear(12, outputs))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(3)
    truth = np.arange(160) % 3
    x = np.array([[0, 2], [2, -1], [-2, -1]])[truth] + rng.normal(0, 0.5, (160, 2))
    given = np.where(rng.random(160) < 0.2, (truth + 1) % 3, truth)
    path = tmp_path_factory.mktemp("table") / "points.csv"
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": np.array(["x", "y", "z"])[given]}).to_csv(path, index=False)
    return path


ports = itertools.count(29631 + os.getpid() % 300)


def fit_words(table, out, net="slow_net"):
    words = f"fit {table} --label label --out {out} --net {__name__}:{net} --epochs {EPOCHS} --batch-size 32 --seed 2"
    return [*words.split(), "--method", "ema-refinement", "--device", "cpu", "--quiet"]


def start(words, *, before=(), processes=2, pause=0.0, timeout=60, **settings):
    """Torchrun with so many processes on a host."""
    given = {"nnodes": 1, "nproc-per-node": processes, "master-port": next(ports), "monitor-interval": 0.1, **settings}
    options = [f"--{name}={value}" for name, value in given.items()]
    environment = {**os.environ, "PAUSE": str(pause), "HOLDFAST_TIMEOUT": str(timeout), "OMP_NUM_THREADS": "1"}
    command = [*before, sys.executable, "-m", "torch.distributed.run", *options, "-m", "holdfast", *words]
    process = subprocess.Popen(
        command, cwd=Path(__file__).parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    STARTED.append(process)
    return process


STARTED = []
LONG = 900
"""Seconds after which something hangs, and is not just slow because the machine has much else to do."""


@pytest.fixture(autouse=True)
def nothing_goes_on():
    """What a test that failed has started."""
    yield
    while STARTED:
        end(STARTED.pop(), 0.01)


def end(process, seconds=LONG):
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for worker in workers_of(process.pid):
            os.kill(worker, signal.SIGKILL)
        process.kill()
        return process.communicate()
    except ValueError:  # it was ended before
        return "", ""


def epochs_done(out):
    last = RunFolder(Path(out)).checkpoint
    return len(checkpoint.load(last)["history"]) if last.exists() else 0


def await_epoch(out, epoch, *processes, seconds=LONG):
    until = time.monotonic() + seconds
    while epochs_done(out) < epoch:
        for process in processes:
            assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def weights(out):
    return read_tensors(Path(out) / "model.safetensors")[0]


def assert_same(found, expected, **close):
    for name, value in weights(expected).items():
        if close:
            torch.testing.assert_close(weights(found)[name], value, **close)
        else:
            assert torch.equal(weights(found)[name], value), name


@pytest.fixture(scope="module")
def whole(table, tmp_path_factory):
    """A run of two processes that torchrun has started on this host, never disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    process = start(fit_words(table, out))
    said, errors = end(process)
    assert process.returncode == 0, errors
    assert said.count("rows trained on") == 1  # the first alone speaks
    assert "Traceback" not in errors
    return out


@has_gloo
@pytest.mark.slow
def test_torchrun_trains_what_one_process_and_what_own_processes_train(table, whole, tmp_path):
    command = [sys.executable, "-m", "holdfast", *fit_words(table, tmp_path / "own"), "--devices", "2"]
    subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True)
    assert_same(whole, tmp_path / "own")
    steady = fit_words(table, tmp_path / "one", "steady_net")  # dropout differs with the number of processes
    subprocess.run(
        [sys.executable, "-m", "holdfast", *steady], cwd=Path(__file__).parent, check=True, capture_output=True
    )
    process = start(fit_words(table, tmp_path / "two", "steady_net"))
    _, errors = end(process)
    assert process.returncode == 0, errors
    assert_same(tmp_path / "two", tmp_path / "one", rtol=1e-4, atol=1e-5)
    evidence = [read_tensors(tmp_path / name / "evidence.safetensors")[0]["joined"] for name in ("one", "two")]
    assert torch.equal(*evidence)


@has_gloo
@pytest.mark.slow
def test_a_mistake_is_told_once(table, whole):
    process = start(fit_words(table, whole))
    said, errors = end(process)
    assert process.returncode != 0
    assert errors.count("holds a run already") == 1
    assert "Traceback (most recent call last)" not in errors.split("holds a run already")[0]
    assert said == "" or "rows trained on" not in said


@has_gloo
@pytest.mark.slow
def test_an_elastic_restart_goes_on_by_itself(table, whole, tmp_path):
    out = tmp_path / "run"
    process = start(fit_words(table, out), pause=0.1, **{"max-restarts": 1})
    await_epoch(out, 2, process)
    os.kill(workers_of(process.pid)[1], signal.SIGKILL)
    _, errors = end(process)
    assert process.returncode == 0, errors
    assert_same(out, whole)


def workers_of(parent):
    """The processes that torchrun has started, in the order of their ids."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                above = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if above == parent and b"holdfast" in command:
                found.append(int(folder.name))
    return sorted(found)


def namespaces_work():
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    name = f"hf{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=True)
    return made


def run_ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


@contextmanager
def two_hosts():
    """Two network namespaces, joined by a cable; gives what to put before a command on each, and how to cut it."""
    names = [f"hold{os.getpid()}{letter}" for letter in "ab"]
    try:
        for name in names:
            run_ip("netns", "add", name)
        run_ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for number, name in enumerate(names, start=1):
            run_ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            run_ip("-n", name, "link", "set", "lo", "up")
            run_ip("-n", name, "link", "set", "cable", "up")

        def cable(state):
            run_ip("-n", names[1], "link", "set", "cable", state)

        yield [["ip", "netns", "exec", name] for name in names], cable
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def start_on(hosts, words_of, **settings):
    port = next(ports)
    where = {"nnodes": 2, "master-addr": "10.77.0.1", "master-port": port}
    return [
        start(words_of(rank), before=host, processes=1, **where, **{"node-rank": rank}, **settings)
        for rank, host in enumerate(hosts)
    ]


@has_gloo
@pytest.mark.skipif(not namespaces_work(), reason="needs root and the command ip to make network namespaces")
@pytest.mark.slow
def test_a_host_that_is_cut_off_ends_the_run_and_it_goes_on_to_the_same_weights(table, whole, tmp_path):
    """The second host sees another disk, on which the run never was."""
    outs = [tmp_path / "run", tmp_path / "elsewhere"]
    with two_hosts() as (hosts, cable):
        processes = start_on(hosts, lambda rank: fit_words(table, outs[rank]), pause=0.15, timeout=25)
        await_epoch(outs[0], 2, *processes)
        cable("down")
        cut = time.monotonic()
        _, errors = end(processes[0])
        took = time.monotonic() - cut
        end(processes[1], 120)
        done = epochs_done(outs[0])
        assert took < LONG  # gloo by itself would wait for half an hour
        assert "has lost another: it died, or its host cannot be reached" in errors
        assert f"the checkpoint of epoch {done} is whole" in errors
        assert 2 <= done < EPOCHS
        assert not (outs[0] / "model.safetensors").exists()
        cable("up")
        processes = start_on(hosts, lambda rank: [*fit_words(table, outs[rank]), "--resume"])
        said = [end(process) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert not outs[1].exists()
    assert_same(outs[0], whole)
