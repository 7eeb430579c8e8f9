"""Cluster: a training whose processes somebody else has started (torchrun, srun), on one host or on several."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist

from holdfast.errors import Died, HoldfastError
from holdfast.ranks import get_ranks, set_ranks

Made = TypeVar("Made")
Store = Any  # of torch.distributed, which not every build of torch has

PATIENCE = 300.0
"""Seconds that a process waits for the others, unless the environment variable HOLDFAST_TIMEOUT says otherwise; for
them to come at all it never waits less."""
BEAT = 1.0
"""Seconds between two signs of life of the first process while the others wait for what it alone does."""
BROKEN = ("gloo", "connection", "socket", "timed out", "nccl")
"""Words by which the error of a broken connection is known: gloo has no class for it."""


@dataclass(frozen=True)
class Place:
    """Where this process stands among those that were started together.

    Attributes
    ----------
    rank, count: which of how many it is.
    local, neighbours: which of how many on its own host.
    restarts: how often all of them have been started anew.
    """

    rank: int
    count: int
    local: int
    neighbours: int
    address: str
    port: int
    starter: str
    restarts: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    @property
    def hosts(self) -> int:
        return max(1, -(-self.count // self.neighbours))


def place_in(environment: Mapping[str, str]) -> Place | None:
    """The place that torchrun or srun has given a process in its environment; None where it was started alone.

    >>> place_in({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_JOB_NODELIST": "n[07-08]"})
    Place(rank=3, count=4, local=1, neighbours=2, address='n07', port=15000, starter='srun', restarts=0)
    """
    try:
        if {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
            place = _of_torchrun(environment)
        elif {"SLURM_PROCID", "SLURM_NTASKS"} <= environment.keys():
            # In the script of a batch job, outside of srun, there is a job and no step: a process of its own.
            if "SLURM_JOB_ID" in environment and "SLURM_STEP_ID" not in environment:
                return None
            place = _of_srun(environment)
        else:
            return None
    except ValueError as error:
        raise HoldfastError(f"the environment gives this process no sound place among others ({error})") from None
    if not 0 <= place.rank < place.count:
        raise HoldfastError(f"the environment calls this process number {place.rank} of {place.count}, counted from 0")
    return place if place.count > 1 else None


def _of_torchrun(environment: Mapping[str, str]) -> Place:
    rank, count = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    return Place(
        rank, count, int(environment.get("LOCAL_RANK", rank)), int(environment.get("LOCAL_WORLD_SIZE", count)),
        environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), "torchrun",
        int(environment.get("TORCHELASTIC_RESTART_COUNT", 0)),
    )  # fmt: skip


def _of_srun(environment: Mapping[str, str]) -> Place:
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment  # slow to import

    rank, count = int(environment["SLURM_PROCID"]), int(environment["SLURM_NTASKS"])
    nodes = next((environment[n] for n in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST") if n in environment), "")
    address = environment.get("MASTER_ADDR") or SLURMEnvironment.resolve_root_node_address(nodes or "127.0.0.1")
    # All processes must come to the same port, and those of two steps at a time to different ones.
    step = int(environment.get("SLURM_JOB_ID", 0)) * 7 + int(environment.get("SLURM_STEP_ID", 0))
    port = int(environment.get("MASTER_PORT", 15000 + step % 10000))
    hosts = int(environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", 0))) or nodes_in(nodes)
    restarts = int(environment.get("SLURM_RESTART_COUNT", 0))
    local = int(environment.get("SLURM_LOCALID", rank))
    return Place(rank, count, local, max(local + 1, -(-count // hosts)), address, port, "srun", restarts)


def nodes_in(listed: str) -> int:
    """How many hosts a list of SLURM names.

    >>> nodes_in("n[07-09,12],login"), nodes_in("n1"), nodes_in("")
    (5, 1, 1)
    """
    count, depth = 0, 0
    for part in listed.split(","):
        first, _, last = part.rpartition("[")[2].rstrip("]").partition("-")
        inside = depth or "[" in part
        count += int(last) - int(first) + 1 if inside and last.isdigit() and first.isdigit() else 1
        depth = "]" not in part if inside else 0
    return count


_place: Place | None = None
_store: Store | None = None
_number = itertools.count()


def join() -> Place | None:
    """Join the processes that were started together with this one, once; None where it was started alone."""
    global _place, _store
    # A process that Holdfast itself has started has inherited the environment, not the place.
    if _place is not None or get_ranks().count > 1 or multiprocessing.parent_process() is not None:
        return _place
    place = place_in(os.environ)
    if place is None:
        return None
    if not (dist.is_available() and dist.is_gloo_available()):
        raise HoldfastError("this build of torch cannot train in several processes (no gloo); start one alone")
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    wait, coming = timedelta(seconds=patience()), timedelta(seconds=max(patience(), PATIENCE))
    os.environ |= {"MASTER_ADDR": place.address, "MASTER_PORT": str(place.port), **interface_towards(place.address)}
    try:
        store, _, _ = next(iter(rendezvous("env://", place.rank, place.count, timeout=coming)))
        own = PrefixStore(f"holdfast-{place.restarts}", store)  # the store may outlive a start
        own.set(f"come-{place.rank}", "1")
        own.wait([f"come-{rank}" for rank in range(place.count)], coming)
        if not dist.is_initialized():  # a script may have done so
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            group = PrefixStore("group", own)
            dist.init_process_group(backend, store=group, rank=place.rank, world_size=place.count, timeout=wait)
    except (RuntimeError, OSError) as error:
        raise Died(
            f"process {place.rank + 1} of {place.count} did not meet the others at {place.address}:{place.port} within "
            f"{coming.seconds} seconds ({_short(error)}); see that {place.starter} has started all of them"
        ) from None
    _place, _store = place, own
    return place


def speaks(error: HoldfastError) -> bool:
    """Whether this process tells an error: the first does, and one on each host where the first may be lost."""
    return _place is None or _place.first or (isinstance(error, Died) and _place.local == 0)


def patience() -> float:
    """Seconds to wait for another process before it counts as lost."""
    given = os.environ.get("HOLDFAST_TIMEOUT", str(PATIENCE))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < 86400:
        raise HoldfastError(f"HOLDFAST_TIMEOUT is a number of seconds from 1 to a day, not {given!r}")
    return seconds


def devices_of(place: Place | None, devices: int, batch_size: int) -> int:
    """How many processes train: as many as were asked for, or as somebody else has started."""
    if place is None:
        return devices
    if devices not in (1, place.count):
        raise HoldfastError(
            f"{place.starter} has started {place.count} processes already; leave out the number of devices (--devices)"
        )
    if place.count > batch_size:
        raise HoldfastError(
            f"{place.count} processes cannot share a batch of {batch_size} row(s); pass a larger one (--batch-size)"
        )
    return place.count


@contextmanager
def together(place: Place) -> Iterator[None]:
    """Be one of several processes; a connection that breaks is told in a sentence, and so is a call to end."""
    before = signal.getsignal(signal.SIGTERM)
    if place.first and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _told_to_end)
    set_ranks(place.rank, place.count)
    try:
        with lost_in_words(place):
            yield
    finally:
        set_ranks(0, 1)
        if place.first and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def lost_in_words(place: Place) -> Iterator[None]:
    """Turn the error of a broken connection into a sentence."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not any(word in str(error).lower() for word in BROKEN):
            raise
        raise Died(
            f"process {place.rank + 1} of {place.count} (on {socket.gethostname()}) has lost another: it died, or its "
            f"host cannot be reached ({_short(error)})"
        ) from None


def _told_to_end(*_: Any) -> None:
    raise Died("the training was told to end (SIGTERM), as happens when another of its processes has died")


def from_first(work: Callable[[], Made]) -> Made:
    """What the first process makes, handed to all; alone, simply that.

    The others wait as long as it takes while the first shows signs of life. A mistake that it finds is raised in all.
    """
    place, store = _place, _store
    if place is None or store is None:
        return work()
    key = f"made-{next(_number)}"
    with lost_in_words(place):
        if place.first:
            with _beating(store):
                found = _outcome(work)
            store.set(key, "1")
        else:
            _await(store, key, place)
            found = None
        box: list[Any] = [found]
        dist.broadcast_object_list(box, src=0)
    made, error = box[0]
    if error is not None:
        raise error
    return cast(Made, made)


def _outcome(work: Callable[[], Made]) -> tuple[Made | None, HoldfastError | None]:
    try:
        return work(), None
    except HoldfastError as error:
        return None, error


@contextmanager
def _beating(store: Store) -> Iterator[None]:
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            store.add("beat", 1)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _await(store: Store, key: str, place: Place) -> None:
    seen, since = -1, time.monotonic()
    while not store.check([key]):
        beats = store.add("beat", 0)
        if beats != seen:
            seen, since = beats, time.monotonic()
        elif time.monotonic() - since > patience():
            raise Died(
                f"process {place.rank + 1} of {place.count} has not heard of the first for {patience():g} seconds"
            )
        time.sleep(0.1)


def check_alike(what: str, value: str, place: Place) -> None:
    """Raise in all processes where one has something else than the first."""
    with lost_in_words(place):
        values: list[Any] = [None] * place.count
        dist.all_gather_object(values, (value, socket.gethostname()))
    for rank, (found, host) in enumerate(values):
        if found != values[0][0]:
            raise HoldfastError(
                f"process {rank + 1} of {place.count} (on {host}) has {what} than the first (on {values[0][1]}); "
                "see that all of them are started alike and read the same files"
            )


def interface_towards(address: str) -> dict[str, str]:
    """The network interface through which the first host is reached, for gloo, which would ask for the host's name."""
    if "GLOO_SOCKET_IFNAME" in os.environ or os.name != "posix":
        return {}
    import fcntl  # Windows has none

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing
            own = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                request = struct.pack("256s", name.encode())
                try:
                    answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
                except OSError:
                    continue  # an interface without an address
                if socket.inet_ntoa(answer[20:24]) == own:
                    return {"GLOO_SOCKET_IFNAME": name}
    except OSError:
        pass
    return {}


def _short(error: BaseException, most: int = 120) -> str:
    """The last words of an error of the network, without the place in its source."""
    text = " ".join(str(error).split("Exception raised from")[0].split())
    text = text.rpartition("] ")[2] or text
    return text if len(text) <= most else f"{text[:most]}..."
