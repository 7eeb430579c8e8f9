"""One folder, several processes: nobody writes over another's run, and what is refused or killed blocks nothing."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

import pytest
import torch
from torch.optim import SGD

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.clean.files import folder_aside
from holdfast.files import temporary_folder, write_text

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


@pytest.mark.slow
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
    with pytest.raises(HoldfastError, match="nothing was kept"):
        fit(rows(), Method(), epochs=3, optimizer=wrong, evidence=True, out=tmp_path / "asked")
    for name in ("diverged", "asked"):
        assert len(fit(rows(), Method(), epochs=1, out=tmp_path / name).history) == 1
    (tmp_path / "run").mkdir()
    done = fit(rows(), Method(), epochs=1, out=tmp_path / "first")
    (tmp_path / "run" / "run.json").write_text((tmp_path / "first" / "run.json").read_text())
    again = fit(rows(), Method(), epochs=2, out=tmp_path / "run")
    assert len(again.history) == 2
    assert not list(tmp_path.rglob(".lock"))
    with pytest.raises(HoldfastError, match="holds a run already"):
        fit(rows(), Method(), epochs=2, out=tmp_path / "run")
    assert len(done.history) == 1


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_folder_that_is_removed_meanwhile_is_told(tmp_path, epoch):
    out = tmp_path / "run"

    def remove(now, net):
        if now == epoch:
            shutil.rmtree(out)
        return {}

    with pytest.raises(HoldfastError, match="was removed while the run was training"):
        fit(rows(), Method(), epochs=3, out=out, watch=remove)
    assert not out.exists() or not any(path.is_file() for path in out.rglob("*") if path.name != ".lock")


@pytest.fixture
def gone():
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_killed_process_has_left_beside_a_file_goes_with_the_next(tmp_path, gone):
    dead, alive = tmp_path / f".a.csv.{gone}.part", tmp_path / f".a.csv.{os.getppid()}.part"
    other = tmp_path / f".b.csv.{gone}.part"
    for path in (dead, alive, other):
        path.write_text("half")
    write_text(tmp_path / "a.csv", "whole")
    assert not dead.exists()
    assert alive.exists(), "somebody is writing it"
    assert other.exists(), "it is beside another file"


def test_nothing_takes_the_place_of_a_pipe_or_a_device(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(HoldfastError, match="a file is needed here"):
        write_text(tmp_path / "a.csv", "whole")
    assert (tmp_path / "a.csv").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_temporary_folders_of_killed_processes_go(tmp_path, gone, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive, foreign = (
        tmp_path / name for name in (f"holdfast-{gone}-x", f"holdfast-{os.getppid()}-x", "holdfast-data")
    )
    for path in (dead, alive, foreign):
        path.mkdir()
    with temporary_folder() as folder:
        assert folder.is_dir()
        assert sorted(tmp_path.iterdir()) == sorted([alive, foreign, folder])
    assert not folder.exists()


def test_a_folder_that_was_moved_aside_by_a_killed_process_comes_back(tmp_path, gone):
    moved = tmp_path / f".photos.{gone}.before"
    moved.mkdir()
    (moved / "a.png").write_text("precious")
    with suppress(RuntimeError), folder_aside(tmp_path / "photos", force=True):
        raise RuntimeError
    assert (tmp_path / "photos" / "a.png").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
