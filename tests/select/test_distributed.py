import builtins
import importlib.util
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.errors import HoldfastError
from holdfast.select import facility_location
from holdfast.select.distributed import _on_ray, _plan, distributed, greedi

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed; pip install 'holdfast[ray]'",
)
# Ray leaves sockets and files of its own processes to the garbage collector, and warns of its own future.
pytestmark = [
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
    yield
    patch.undo()


def islands(n, d=6, seed=0):
    source = torch.Generator().manual_seed(seed)
    centres = 5 * torch.randn(12, d, generator=source)
    return centres[torch.randint(12, (n,), generator=source)] + torch.randn(n, d, generator=source)


def loss(points, index):
    return float(torch.cdist(points.double(), points[index].double()).min(1).values.sum())


@pytest.fixture(scope="module")
def ray(equal_rank):
    """One small Ray for the tests that do not start their own."""
    ray = pytest.importorskip("ray", reason="Ray is not installed; pip install 'holdfast[ray]'")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=128 * 2**20)
    yield ray
    ray.shutdown()


def test_one_part_is_exact_greedy():
    points = islands(300)
    assert greedi(points, 20, parts=1).index.tolist() == facility_location(points, 20).index.tolist()


def test_two_rounds_as_in_the_paper():
    points = islands(200)
    found = greedi(points, 8, parts=4, seed=3)
    dealt = torch.randperm(200, generator=torch.Generator().manual_seed(3)).tensor_split(4)
    dealt = [part.sort().values for part in dealt]
    chosen = [part[facility_location(points[part], 8).index] for part in dealt]
    union = torch.cat(chosen).sort().values
    distance = torch.cdist(points.double(), points.double()).numpy()[union]
    best, picked = np.full(200, 2 * distance.max()), []
    for _ in range(8):
        picked.append(int(np.maximum(best - distance, 0).sum(1).argmax()))
        best = np.minimum(best, distance[picked[-1]])
    rivals = [union[picked], *chosen]
    assert found.index.tolist() == min(rivals, key=lambda index: loss(points, index)).tolist()
    assert found.objective == pytest.approx(loss(points, found.index), rel=1e-5)


def test_a_single_part_may_win():
    # One cluster, k = 1: the union holds each part's medoid, and the best of them on all points is taken.
    points = islands(90, d=2)
    found = greedi(points, 1, parts=9)
    medoids = [part[facility_location(points[part], 1).index] for part in _dealt(90, 9)]
    assert found.objective == pytest.approx(min(loss(points, m) for m in medoids), rel=1e-5)


def _dealt(n, parts):
    dealt = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tensor_split(parts)
    return [part.sort().values for part in dealt]


def test_value_within_the_guarantee():
    points = islands(600)
    far = 600 * float(torch.cdist(points, points).max())
    exact = loss(points, facility_location(points, 30).index)
    for seed in range(3):
        found = greedi(points, 30, parts=5, seed=seed)
        assert far - found.objective >= (1 - 1 / np.e) / 2 * (far - exact)
        assert found.objective < 1.1 * exact


def test_small_parts_and_few_picks_each():
    points = islands(50)
    everything = greedi(points, 50, parts=7)
    assert sorted(everything.index.tolist()) == list(range(50))
    assert greedi(points, 20, parts=25).index.unique().numel() == 20
    assert greedi(points, 20, parts=5, each=4).index.unique().numel() == 20
    sampled = greedi(points, 10, parts=5, reference=30)
    assert sampled.objective == pytest.approx(loss(points, sampled.index), rel=1e-5)


def test_mistakes_are_named():
    points = islands(20)
    with pytest.raises(HoldfastError, match="deal 20 points to 21 parts"):
        greedi(points, 3, parts=21)
    with pytest.raises(HoldfastError, match="at least 4 in each"):
        greedi(points, 8, parts=2, each=3)
    with pytest.raises(HoldfastError, match="judge by 0"):
        greedi(points, 8, parts=2, reference=0)
    with pytest.raises(HoldfastError, match="cannot select 21 of 20"):
        distributed(points, 21)
    with pytest.raises(HoldfastError, match="0 workers"):
        distributed(points, 2, workers=0)


def test_without_ray_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(HoldfastError, match=r"holdfast\[ray\]"):
        distributed(islands(20), 2)


@pytest.mark.slow
def test_on_ray_is_the_same(ray):
    points = islands(400)
    reports = []

    class Heard:
        def at(self, done, of):
            reports.append((done, of))

    there = distributed(points, 15, parts=4, seed=2, progress=Heard())
    here = greedi(points, 15, 4, 2)
    torch.testing.assert_close(there, here, rtol=0, atol=0)
    assert reports == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert ray.is_initialized()


def descendants(root):
    """Process titles of all processes below one."""
    parents, titles = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                titles[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except (OSError, IndexError):
                continue  # it ended meanwhile
    below, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return {pid: titles[pid] for pid in below - {root}}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in /proc")
def test_a_killed_worker_is_replaced(ray):
    points = islands(12_000, d=20)  # so many that a part is at work for longer than the watcher looks away
    killed, seen = [], set()
    over = threading.Event()

    def kill_one():
        while not over.is_set():
            for pid, title in descendants(os.getpid()).items():
                if "holdfast-part-" in title:
                    seen.add((pid, title.strip()))
                    if not killed:
                        os.kill(pid, signal.SIGKILL)
                        killed.append((pid, title.strip()))
            time.sleep(0.02)

    watcher = threading.Thread(target=kill_one)
    watcher.start()
    try:
        there = distributed(points, 1000, parts=3)
    finally:
        over.set()
        watcher.join()
    assert killed, "no worker was seen at work"
    pid, title = killed[0]
    assert not Path(f"/proc/{pid}/fd").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
    assert any(name == title and other != pid for other, name in seen), "the part was not picked again"
    torch.testing.assert_close(there, greedi(points, 1000, 3), rtol=0, atol=0)


def test_a_mistake_in_a_worker_is_the_users_to_read(ray):
    plan = _plan(60, 3, 2, 0, None, None)._replace(each=0)
    with pytest.raises(HoldfastError, match=r"^cannot select 0 of 30 points; choose"):
        _on_ray(ray, islands(60).numpy(), plan, None)


@needs_ray
@pytest.mark.slow
def test_a_ray_of_its_own_comes_and_goes():
    import ray

    if ray.is_initialized():
        ray.shutdown()
    points = islands(100)
    found = distributed(points, 5, parts=2, workers=1)
    assert found.index.tolist() == greedi(points, 5, 2).index.tolist()
    assert not ray.is_initialized()


@needs_ray
def test_no_cluster_to_join(monkeypatch):
    import ray

    if ray.is_initialized():
        ray.shutdown()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if ray._private.services.find_gcs_addresses():
        pytest.skip("a Ray cluster runs on this machine, so there is one to join")
    with pytest.raises(HoldfastError, match="no Ray cluster at 'auto'"):
        distributed(islands(20), 2, address="auto")
