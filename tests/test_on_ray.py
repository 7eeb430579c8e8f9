"""Jobs on Ray: real workers, a real kill, and a node that really leaves the cluster."""

import os
import signal
import threading
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
from holdfast.executors import Failed, Local, OnRay, using

ray = pytest.importorskip("ray", reason="Ray is not installed; pip install 'holdfast[ray]'")
# Ray leaves sockets and files of its own processes to the garbage collector, and warns of its own future.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True, scope="module")
def equal_rank():
    """Ray's workers step behind every other process unless told not to: on a busy machine they would never finish."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_worker_niceness", "0")
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Workers look for modules where the script and the working directory are, and the tests are in neither.
    patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    yield
    patch.undo()


NODE = {"num_cpus": 2, "object_store_memory": 128 * 2**20}


@pytest.fixture(scope="module")
def cluster(equal_rank):
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        made.add_node(**NODE, include_dashboard=False)
        ray.init(made.address, log_to_driver=False)
        yield made
    except Exception as error:
        if "timed out during startup" not in str(error):
            raise
        pytest.skip("Ray does not start within its 30 seconds on a machine as busy as this one")
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def two_workers(cluster):
    return OnRay(workers=2)


def summed(table, k):
    return float((table * k).sum()), torch.get_num_threads()


def mistaken():
    raise HoldfastError("a mistake in one sentence")


def killed_at_first(path, what):
    if not path.exists():
        path.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return what


def endless_elsewhere(begun, lasting, table, k):
    """On all nodes but one the job never ends, and says by a file that it has begun; on that one it waits for two."""
    node = ray.get_runtime_context().get_node_id()
    if node != lasting:
        (begun / f"{k}-{node}").touch()
        time.sleep(600)
    _wait_for_two(begun)
    return table * k


def _wait_for_two(begun, seconds=120):
    end = time.monotonic() + seconds
    while len(list(begun.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)


def full():
    Path("/dev/full").write_text("a result")


def test_results_are_those_of_this_process(two_workers):
    table = torch.arange(1000.0)
    jobs = {str(k): partial(summed, table, k) for k in range(5)}
    ended = []
    found = two_workers.run(jobs.items(), lambda name, outcome: ended.append(name))
    here = Local().run(jobs.items())
    assert {name: value for name, (value, _) in found.items()} == {name: value for name, (value, _) in here.items()}
    assert {threads for _, threads in found.values()} == {1}
    assert list(found) == list(jobs)
    assert sorted(ended) == sorted(jobs)


def test_failures_are_sentences_and_leave_the_others_alone(two_workers, tmp_path):
    jobs = {"mistaken": mistaken, "full": full, "killed": partial(killed_at_first, tmp_path / "killed", 3)}
    found = two_workers.run(jobs.items())
    assert found["mistaken"] == Failed("a mistake in one sentence")
    assert found["full"].why.startswith("the disk is full")
    assert found["killed"] == 3, "a worker that was killed is not replaced"
    assert int((tmp_path / "killed").read_text()) != os.getpid()


def test_jobs_of_a_node_that_leaves_run_on_another(cluster, two_workers, tmp_path):
    lasting, second = ray.get_runtime_context().get_node_id(), cluster.add_node(**NODE)
    cluster.wait_for_nodes()

    def leave():
        _wait_for_two(tmp_path)
        cluster.remove_node(second, allow_graceful=False)

    leaving = threading.Thread(target=leave)
    leaving.start()
    table = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    found = two_workers.run((str(k), partial(endless_elsewhere, tmp_path, lasting, table, k)) for k in range(10))
    leaving.join()
    assert list(found) == [str(k) for k in range(10)]
    assert all(torch.equal(found[str(k)], table * k) for k in range(10))
    assert {path.name.split("-")[1] for path in tmp_path.iterdir()} == {second.node_id}


def test_a_comparison_is_that_of_this_process(two_workers):
    source = np.random.default_rng(0)
    x = torch.from_numpy(source.normal(size=(120, 4))).float()
    rows = Rows(x, (x[:, 0] > 0).long(), ("a", "b"))
    settings = {"net": "mlp", "test": rows, "noise": "symmetric", "rate": 0.2, "seeds": 2, "epochs": 2}
    here, there = (compare(rows, {"standard": Method}, **settings, **on) for on in ({}, {"on": "ray", "jobs": 2}))
    scores = ["score", "last10", "best", "coverage"]
    pd.testing.assert_frame_equal(here[scores], there[scores], check_exact=True)


def test_features_are_those_of_this_process(two_workers, monkeypatch, tmp_path):
    monkeypatch.setattr("holdfast.encoders.cache.PART", 40)
    words = [f"{'ab' * (i % 7)} {chr(97 + i % 26) * (i % 5)}" for i in range(100)]
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "here"))
    here = np.array(features(Letters(), texts(words)))
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "there"))
    with using(two_workers):
        there = np.array(features(Letters(), texts(words)))
    assert here.tobytes() == there.tobytes()
