"""Jobs on Ray: workers of this machine, or of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import PicklingError
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.executors.base import Done, Failed, Job, attempted

CLIENT = "ray://"
RETRIES = 5
"""How often a job is run again whose worker, or whose machine, died."""
SMALL = (type(None), bool, int, float, str, Path)
"""What travels with each job."""
AHEAD = 2
"""Jobs handed over for each that can run, so that no worker waits for the next."""


@dataclass(frozen=True)
class OnRay:
    """Workers of Ray, for jobs of any number.

    What several jobs are given alike, as a positional argument of ``functools.partial``, travels once, and each machine
    keeps one copy of it.

    Parameters
    ----------
    address: a cluster to join, as ``ray://host:port``; None uses the Ray that this process is connected to, or starts
        one here and shuts it down again.
    workers: of a Ray started here; a cluster has as many as there is room for.
    threads: of the processor for each.
    """

    address: str | None = None
    workers: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1 or self.threads < 1:
            raise HoldfastError(f"jobs need at least one worker and one thread, not {self.workers} and {self.threads}")

    @property
    def elsewhere(self) -> bool:
        return True

    def run(self, jobs: Iterable[tuple[str, Job]], done: Done = lambda name, outcome: None) -> dict[str, Any]:
        with connected(self.address, self.workers * self.threads) as ray:
            return self._run(ray, jobs, done)

    def _run(self, ray: Any, jobs: Iterable[tuple[str, Job]], done: Done) -> dict[str, Any]:
        work = ray.remote(max_retries=RETRIES, num_cpus=self.threads)(_work)
        kept: dict[int, tuple[Any, Any]] = {}
        place: dict[Any, str] = {}
        names, outcomes = list[str](), dict[str, Any]()

        def reference(value: Any) -> Any:
            if isinstance(value, SMALL):
                return value
            if id(value) not in kept:
                kept[id(value)] = (ray.put(value), value)  # held, so that no other object gets its id
            return kept[id(value)][0]

        def begin(name: str, job: Job) -> Any:
            function, given, settings = (
                (job.func, job.args, job.keywords) if isinstance(job, partial) else (job, (), {})
            )
            try:
                return work.options(name=f"holdfast-{name}").remote(
                    self.threads, function, settings, *map(reference, given)
                )
            except (TypeError, PicklingError) as error:
                raise HoldfastError(
                    f"{name} cannot travel to a worker of Ray ({str(error).strip().splitlines()[0]}); define functions "
                    "and classes at the top level of a module"
                ) from None

        waiting = iter(jobs)
        while True:
            room = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)) // self.threads)
            while len(place) < room and (following := next(waiting, None)) is not None:
                names.append(following[0])
                place[begin(*following)] = following[0]
                del following  # it may hold data, which other jobs need room for
            if not place:
                return {name: outcomes[name] for name in names}
            (ready, *_), _ = ray.wait(list(place), num_returns=1)
            name = place.pop(ready)
            outcomes[name] = _outcome(ray, ready)
            done(name, outcomes[name])


def _work(threads: int, function: Any, settings: Any, *given: Any) -> Any:
    """In a worker."""
    import torch

    torch.set_num_threads(threads)
    return attempted(partial(function, *given, **settings))


def _outcome(ray: Any, ready: Any) -> Any:
    try:
        return ray.get(ready)
    except ray.exceptions.OutOfDiskError:
        return Failed("the disk of Ray's object store is full; make room there, or name another by RAY_TMPDIR")
    except ray.exceptions.RayError as error:
        return Failed(
            f"its worker was lost {RETRIES + 1} times, or could not read or hand back its work "
            f"({type(error).__name__}: {str(error).strip().splitlines()[-1]})"
        )


@contextmanager
def connected(address: str | None = None, workers: int | None = None, store: int = 0) -> Iterator[Any]:
    """Ray, connected; what was started here is shut down again.

    Parameters
    ----------
    address: of a cluster to join; None uses the Ray that this process is connected to, or starts one here.
    workers: processors of a Ray started here; None: all of the machine.
    store: bytes that its object store needs at least; 0 leaves the choice to Ray.
    """
    try:
        import ray
    except ImportError:
        raise HoldfastError("this runs on Ray, which is not installed; pip install 'holdfast[ray]'") from None
    ours = not ray.is_initialized()
    if ours and address is not None:
        try:
            ray.init(address=address, log_to_driver=False)
        except ConnectionError as error:
            raise HoldfastError(f"no Ray cluster at {address!r}: {error}; start one with ray start --head") from None
    elif ours:
        # Nobody who trains a network asked for figures on the use of Ray to be sent anywhere.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=workers or os.cpu_count(),
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=max(128 * 2**20, int(1.25 * store) + 2**26) if store else None,
        )
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
