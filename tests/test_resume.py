"""Exact resume: a run killed with SIGKILL and taken up again ends with the very same model."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.files import read_tensors

SCRIPT = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    import torch
    from torch import nn
    torch.set_num_threads(1)
    import holdfast
    from holdfast import checkpoint
    from holdfast.augment import PadCropFlip

    out, moment = sys.argv[1], sys.argv[2]
    checkpoint.SHARE = 1e9  # one after each epoch, however short
    die = lambda: os.kill(os.getpid(), signal.SIGKILL)
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(300) % 3
    x = torch.rand(300, 1, 8, 8, generator=source)
    x[torch.arange(300), 0, truth * 2] += 0.6
    y = torch.where(torch.rand(300, generator=source) < 0.3, (truth + 1) % 3, truth)
    rows = holdfast.Rows(x, y, ("a", "b", "c"), truth=truth)
    torch.manual_seed(3)
    layers = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(288, 3)]
    net = nn.Sequential(*layers)

    writes, steps = 0, 0
    if moment.startswith("write"):          # half of the third checkpoint is on disk
        whole = Path.write_bytes
        def half(self, data):
            global writes
            writes += 1
            if writes == 3:
                whole(self, data[: len(data) // 2])
                die()
            return whole(self, data)
        Path.write_bytes = half
    if moment.startswith("rename"):         # the third checkpoint is written and not yet renamed
        replace = os.replace
        def dying(a, b):
            global writes
            writes += str(b).endswith("last.safetensors")
            if writes == 3:
                die()
            return replace(a, b)
        os.replace = dying
    if moment.startswith("step"):           # in the middle of an epoch
        after = holdfast.methods.Crust.after_step
        def counting(self, nets):
            global steps
            steps += 1
            if steps == int(moment[4:]):
                die()
            return after(self, nets)
        holdfast.methods.Crust.after_step = counting

    method = holdfast.Stack(holdfast.methods.Crust(warmup=1, every=2), holdfast.methods.NormClip(5.0))
    settings = dict(epochs=6, batch_size=32, augment=PadCropFlip(1), out=out, resume=True, seed=1)
    holdfast.fit(rows, method, net, test=rows, **settings)
    """
)


def run(script: Path, out: Path, moment: str = "never") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), str(out), moment]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def same(one: Path, two: Path) -> None:
    first, _ = read_tensors(one / "model.safetensors")
    second, _ = read_tensors(two / "model.safetensors")
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name
    with np.load(one / "ledger.npz") as a, np.load(two / "ledger.npz") as b:
        for name in a.files:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    histories = [(folder / "history.csv").read_text().splitlines() for folder in (one, two)]
    timed = [line.split(",")[:2] for line in histories[0]]
    assert timed == [line.split(",")[:2] for line in histories[1]]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def undisturbed(script):
    out = script.parent / "whole"
    done = run(script, out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("moment", ["step3", "step17", "step31", "write", "rename"])
@pytest.mark.slow
def test_killed_and_resumed_is_bit_for_bit_the_same(script, undisturbed, tmp_path, moment):
    out = tmp_path / "run"
    killed = run(script, out, moment)
    assert killed.returncode == -signal.SIGKILL
    assert not (out / "model.safetensors").exists()
    again = run(script, out)
    assert again.returncode == 0, again.stderr
    same(undisturbed, out)


@pytest.mark.slow
def test_killed_from_outside_at_a_moment_of_chance(script, undisturbed, tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, str(script), str(out), "never"], stderr=subprocess.DEVNULL)
    while not (out / "checkpoint" / "last.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    again = run(script, out)
    assert again.returncode == 0, again.stderr
    same(undisturbed, out)
