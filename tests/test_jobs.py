"""Jobs in processes of their own; the functions stand at the top level so that those can import them."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from holdfast import HoldfastError, Method, Rows, compare
from holdfast.jobs import Failed, run_jobs


def twice(x):
    return 2 * x


def threads_and_process():
    return torch.get_num_threads(), os.getpid()


def mistaken():
    raise HoldfastError("a mistake in one sentence")


def broken():
    return [][1]


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def gone():
    os._exit(3)


def slow():
    time.sleep(0.6)
    return time.time()


def endless(path):
    path.write_text(str(os.getpid()))
    time.sleep(600)


def broken_method():
    raise ValueError("no such method today")


def test_one_failure_leaves_the_others_alone():
    reported = {}
    jobs = {"killed": killed, "mistaken": mistaken, "broken": broken, "gone": gone, "fine": partial(twice, 4)}
    found = run_jobs(jobs, 2, done=reported.__setitem__)
    assert list(found) == list(jobs)
    assert found == reported
    assert found["fine"] == 8
    assert found["killed"] == Failed("its process was killed (SIGKILL, as a machine does that is out of memory)")
    assert found["mistaken"] == Failed("a mistake in one sentence")
    assert found["broken"].why == "IndexError: list index out of range"
    assert "in broken" in found["broken"].trace
    assert found["gone"] == Failed("its process ended with exit code 3")


def test_no_job_outlives_the_process_that_started_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from functools import partial; sys.path.insert(0, sys.argv[1])\n"
        "from test_jobs import endless; from holdfast.jobs import run_jobs\n"
        "if __name__ == '__main__':\n"
        "    run_jobs({n: partial(endless, Path(sys.argv[2]) / n) for n in 'ab'}, 2)\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    parent = subprocess.Popen([sys.executable, str(path), str(Path(__file__).parent), str(tmp_path)])
    files = [tmp_path / "a", tmp_path / "b"]
    assert _within(60, lambda: all(file.exists() and file.read_text() for file in files))
    parent.kill()
    parent.wait()
    numbers = [int(file.read_text()) for file in files]
    assert _within(20, lambda: not any(map(_alive, numbers)))


def _within(seconds, true):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not true():
        time.sleep(0.05)
    return true()


def _alive(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_processes_share_the_cores_by_threads():
    found = run_jobs({str(k): threads_and_process for k in range(3)}, 2, threads=1)
    assert {threads for threads, _ in found.values()} == {1}
    pids = {pid for _, pid in found.values()}
    assert len(pids) == 3
    assert os.getpid() not in pids


def test_no_more_run_than_were_asked_for():
    ends = sorted(run_jobs({str(k): slow for k in range(4)}, 2).values())
    assert ends[2] - ends[1] > 0.3


@pytest.mark.parametrize("workers", [1, 2])
def test_no_job_begins_too_late(workers):
    jobs = {str(k): slow for k in range(6)}
    begun = run_jobs(jobs, workers, until=time.monotonic() + 0.3)
    assert 1 <= len(begun) < 6
    assert list(begun) == list(jobs)[: len(begun)]
    assert run_jobs(jobs, workers, until=time.monotonic()) == {}


def test_one_worker_stays_here():
    found = run_jobs({"a": threads_and_process, "b": broken})
    assert found["a"][1] == os.getpid()
    assert found["b"].why == "IndexError: list index out of range"
    assert "in broken" in found["b"].trace


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="at least one worker"):
        run_jobs({}, 0)
    with pytest.raises(HoldfastError, match="top level"):
        run_jobs({"a": lambda: 1}, 2)


def test_a_comparison_in_processes_equals_one_here(tmp_path):
    source = np.random.default_rng(0)
    x = torch.from_numpy(source.normal(size=(120, 4))).float()
    rows = Rows(x, (x[:, 0] > 0).long(), ("a", "b"))
    methods = {"standard": Method, "broken": broken_method}
    settings = {
        "net": "mlp",
        "test": rows,
        "noise": "symmetric",
        "rate": 0.2,
        "seeds": 2,
        "epochs": 2,
        "batch_size": 30,
    }
    here = compare(rows, methods, **settings)
    there = compare(rows, methods, **settings, jobs=2, out=tmp_path / "c")
    scores = ["last10", "best", "coverage"]
    pd.testing.assert_frame_equal(here[scores], there[scores])
    assert list(there.attrs["failed"]) == ["broken-0", "broken-1"]
    assert "no such method today" in there.attrs["failed"]["broken-0"]
    assert len(pd.read_csv(tmp_path / "c" / "runs.csv")) == 2
    with pytest.raises(HoldfastError, match="no such method today"):
        compare(rows, {"broken": broken_method}, **settings)
