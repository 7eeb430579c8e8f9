"""Jobs here and in processes of their own; the functions stand at the top level so that those can import them."""

import os
import resource
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
from own_encoders import Letters

from holdfast import HoldfastError, Method, Rows, compare
from holdfast.encoders.cache import features, texts
from holdfast.executors import Failed, Local, OnRay, executor_named, using


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
    found = Local(2).run(jobs.items(), reported.__setitem__)
    assert list(found) == list(jobs)
    assert found == reported
    assert found["fine"] == 8
    assert found["killed"] == Failed("its process was killed (SIGKILL, as a machine does that is out of memory)")
    assert found["mistaken"] == Failed("a mistake in one sentence")
    assert found["broken"].why == "IndexError: list index out of range"
    assert "in broken" in found["broken"].trace
    assert found["gone"] == Failed("its process ended with exit code 3")


def killed_at_first(path, what):
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return what


def write_where_nothing_fits():
    Path("/dev/full").write_text("a result")


def too_large_for_the_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    return torch.zeros(100_000)


def test_a_killed_process_is_started_again(tmp_path):
    jobs = [(name, partial(killed_at_first, tmp_path / name, name)) for name in "abc"]
    assert Local(2).run(jobs) == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_one_sentence(workers):
    found = Local(workers).run([("a", write_where_nothing_fits), ("b", partial(twice, 4))])
    assert found["a"].why.startswith("the disk is full")
    assert found["a"].trace == ""
    assert found["b"] == 8


def test_results_that_cannot_be_written_are_one_sentence():
    found = Local(2).run([("a", too_large_for_the_disk)])
    assert "could not be written to" in found["a"].why


def test_jobs_are_made_when_there_is_room_for_them():
    made, seen = [], []

    def jobs():
        for k in range(6):
            made.append(k)
            yield str(k), partial(twice, k)

    found = Local(2).run(jobs(), lambda name, outcome: seen.append(len(made)))
    assert found == {str(k): 2 * k for k in range(6)}
    assert seen[0] == 2


@pytest.mark.slow
def test_no_job_outlives_the_process_that_started_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from functools import partial; sys.path.insert(0, sys.argv[1])\n"
        "from test_executors import endless; from holdfast.executors import Local\n"
        "if __name__ == '__main__':\n"
        "    Local(2).run([(n, partial(endless, Path(sys.argv[2]) / n)) for n in 'ab'])\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    parent = subprocess.Popen([sys.executable, str(path), str(Path(__file__).parent), str(tmp_path)])
    files = [tmp_path / "a", tmp_path / "b"]
    assert _within(300, lambda: all(file.exists() and file.read_text() for file in files))
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
    found = Local(2).run([(str(k), threads_and_process) for k in range(3)])
    assert {threads for threads, _ in found.values()} == {1}
    pids = {pid for _, pid in found.values()}
    assert len(pids) == 3
    assert os.getpid() not in pids


def test_no_more_run_than_were_asked_for():
    ends = sorted(Local(2).run([(str(k), slow) for k in range(4)]).values())
    assert ends[2] - ends[1] > 0.3


@pytest.mark.parametrize("workers", [1, 2])
def test_no_job_begins_too_late(workers):
    jobs = {str(k): slow for k in range(6)}
    begun = Local(workers, until=time.monotonic() + 0.3).run(jobs.items())
    assert 1 <= len(begun) < 6
    assert list(begun) == list(jobs)[: len(begun)]
    assert Local(workers, until=time.monotonic()).run(jobs.items()) == {}


def test_one_worker_stays_here():
    found = Local().run([("a", threads_and_process), ("b", broken)])
    assert found["a"][1] == os.getpid()
    assert found["b"].why == "IndexError: list index out of range"
    assert "in broken" in found["b"].trace


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="at least one worker"):
        Local(0)
    with pytest.raises(HoldfastError, match="at least one worker"):
        executor_named("ray", 0)
    with pytest.raises(HoldfastError, match="top level"):
        Local(2).run([("a", lambda: 1)])
    with pytest.raises(HoldfastError, match=r"^work goes on local, ray or ray://host:port, not on 'rya'$"):
        executor_named("rya")
    assert executor_named("ray://head:10001", 2) == OnRay("ray://head:10001", 2)


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


def test_workers_encode_what_this_process_would(monkeypatch, tmp_path):
    monkeypatch.setattr("holdfast.encoders.cache.PART", 40)
    monkeypatch.setenv("LETTERS_LOG", str(tmp_path / "log"))
    words = [f"{'ab' * (i % 7)} {chr(97 + i % 26) * (i % 5)}" for i in range(100)]
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "here"))
    here = np.array(features(Letters(), texts(words)))
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "there"))
    with using(Local(2)):
        there = features(Letters(), texts(words))
    assert here.tobytes() == np.array(there).tobytes()
