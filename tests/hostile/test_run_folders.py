"""One folder, several processes: nobody writes over another's run, and a refused one blocks nothing."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch.optim import SGD

from holdfast import HoldfastError, Method, Rows, fit

TRAIN = """
import sys, torch
from holdfast import Method, Rows, fit
torch.manual_seed(0)
x = torch.randn(4000, 5)
fit(Rows(x, (x[:, 0] > 0).long(), ("a", "b")), Method(), epochs=10_000, out=sys.argv[1])
"""


def rows():
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    return Rows(x, (x[:, 0] > 0).long(), ("a", "b"))


def test_two_trainings_do_not_share_a_folder(tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", TRAIN, str(out)])
    try:
        until = time.time() + 120
        while not (out / "checkpoint" / "last.safetensors").exists() and time.time() < until:
            time.sleep(0.1)
        for resume in (False, True):
            with pytest.raises(HoldfastError, match="another process is training into"):
                fit(rows(), Method(), epochs=1, out=out, resume=resume)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # Whoever is killed lets go: what speaks now is the run that lies there.
    with pytest.raises(HoldfastError, match="holds a run already"):
        fit(rows(), Method(), epochs=1, out=out)


def test_a_refused_training_blocks_nothing(tmp_path):
    def wrong(parameters):
        return SGD(parameters, lr=1e30)

    with pytest.raises(HoldfastError, match="no longer a number"):
        fit(rows(), Method(), epochs=3, optimizer=wrong, out=tmp_path / "diverged")
    (tmp_path / "run").mkdir()
    done = fit(rows(), Method(), epochs=1, out=tmp_path / "first")
    (tmp_path / "run" / "run.json").write_text((tmp_path / "first" / "run.json").read_text())
    again = fit(rows(), Method(), epochs=2, out=tmp_path / "run")
    assert len(again.history) == 2
    assert not list(tmp_path.rglob(".lock"))
    with pytest.raises(HoldfastError, match="holds a run already"):
        fit(rows(), Method(), epochs=2, out=tmp_path / "run")
    assert len(done.history) == 1
