"""Shared by the tests of each framework: processes that are killed, two processes that train together, the examples."""

import importlib
import multiprocessing
import os
import signal
import socket
import sys
from pathlib import Path

import pandas as pd
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

EXAMPLES = Path(__file__).parents[1] / "examples"
FORK = multiprocessing.get_context("fork")
"""A fork has imported everything already, and may be killed as any other process."""


def example(name):
    """One of the examples as a module; they import one another."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return importlib.import_module(name)


def killed(train, *given):
    """Run a training in a process of its own that must end by SIGKILL."""
    process = FORK.Process(target=train, args=given)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def die_at(step):
    """Make this process kill itself in a step of the optimizer, counted from one over its life."""
    taken = []

    def count(*_):
        taken.append(1)
        if len(taken) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_post_hook(count)


def in_two(train, folder, *given):
    """Train in two processes on gloo; what the first has made of it, as ``train`` saved it in ``two.pt``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [FORK.Process(target=_as_rank, args=(rank, port, train, folder, *given)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    return torch.load(folder / "two.pt")


def _as_rank(rank, port, train, folder, *given):
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
        "TORCHELASTIC_RUN_ID": "test",
    }  # fmt: skip
    if "accelerate" in sys.modules:  # it remembers that this process has trained alone
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)
    made = train(folder, *given)
    if rank == 0:
        torch.save(made, folder / "two.pt")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def small_net(inputs=2, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


def weights(net):
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def assert_same(one, two, rtol=0.0, atol=0.0):
    """The same weights; to the last bit where nothing else is said."""
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(
            two[name], value, rtol=rtol, atol=atol, msg=lambda words, name=name: f"{name}: {words}"
        )


def assert_like_fit(issues, run, accuracy=None, of_fit=None, rho=0.95):
    """The list of issues of the run of ``fit``, and its accuracy within noise."""
    tables = [table.sort_values("row")["trust"].reset_index(drop=True) for table in (issues, run.issues())]
    assert pd.Series(tables[0]).rank().corr(tables[1].rank()) >= rho
    flagged = [set(table.query("flag")["row"]) for table in (issues, run.issues())]
    assert len(flagged[0] & flagged[1]) >= 0.9 * len(flagged[0] | flagged[1]) > 0
    if accuracy is not None:
        assert accuracy >= of_fit - 0.02
