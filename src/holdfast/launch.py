"""Launch: start the processes of a training, watch them, and end them all when one ends before its time.

Fabric's own launchers are not used to start them. One makes the calling process rank 0 and runs the user's script anew
for the others, so nobody is left to say what happened once rank 0 dies, and nothing can be handed back when the call is
not the last thing the script does. The other waits for a result that a dead rank 0 never sends. Here the calling
process is no rank: it waits on all of them at once, hears of a death at once, and its own state stays untouched.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from holdfast.errors import Died, HoldfastError
from holdfast.files import temporary_folder
from holdfast.progress import Progress, Silent
from holdfast.ranks import get_ranks, set_ranks

Work = Callable[[Any, Progress], Any]
Failures = dict[int, tuple[float, BaseException]]

STRATEGIES = ("auto", "ddp")
GRACE = 5.0
"""Seconds that processes get to end by themselves, or at a polite signal, once one of them has failed."""


def launch(work: Work, job: Any, count: int, accelerator: str, progress: Progress) -> Any:
    """Run ``work(job, progress)`` in ``count`` processes and hand back what rank 0 returned.

    The job travels through a file, which every process maps: all of them share one copy of the data, however
    small the machine's shared memory is. The first error of any rank ends all of them and is raised here.
    """
    with temporary_folder() as folder:
        path = folder / "job"
        save_job(job, path)
        context = start_context(accelerator)
        port, threads = _free_port(), max(1, torch.get_num_threads() // count)
        processes: list[BaseProcess] = []
        pipes: list[Connection] = []
        try:
            for rank in range(count):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(
                    target=_rank,
                    args=(work, path, rank, count, port, threads, dict(os.environ), theirs),
                    name=f"holdfast-{rank}",
                )
                process.start()
                theirs.close()
                processes.append(process)
                pipes.append(ours)
            _watch(processes, pipes, progress, path)
        finally:
            _end(processes)
        return torch.load(path.with_name("result"), map_location="cpu", weights_only=False)


def save_job(job: Any, path: Path) -> None:
    """Write what another process is to do."""
    try:
        torch.save(job, path)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise HoldfastError(
            f"training in several processes cannot take along what another process cannot import ({error}); "
            "define functions and classes at the top level of a module"
        ) from None


def start_context(accelerator: str) -> SpawnContext | ForkServerContext:
    """How processes start: forked from a server that has imported what takes seconds to import, or, as a process that
    uses CUDA must, from nothing."""
    if accelerator != "cpu" or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["holdfast.fit", "lightning_fabric"])
    return context


def check_devices(devices: int, strategy: str, device: str, batch_size: int) -> str:
    """The accelerator to train on; raise where so many devices, or so many processes, cannot work."""
    if strategy not in STRATEGIES:
        raise HoldfastError(f"strategy is {' or '.join(STRATEGIES)}, not {strategy!r}")
    if devices < 1:
        raise HoldfastError(f"training needs at least one device, not {devices}")
    if devices == 1:
        return device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    found = torch.cuda.device_count()
    if device in ("cuda", "gpu") and devices > found:
        raise HoldfastError(f"{devices} devices were asked for and {found} found; pass fewer (--devices)")
    if device == "mps":
        raise HoldfastError("mps is a single device; pass --devices 1, or --device cpu")
    if devices > batch_size:
        raise HoldfastError(
            f"{devices} processes cannot share a batch of {batch_size} row(s); "
            "pass a larger one (--batch-size) or fewer devices (--devices)"
        )
    _check_launch()
    return device


def _check_launch() -> None:
    """Raise where processes cannot be started."""
    if not (dist.is_available() and dist.is_gloo_available()):
        raise HoldfastError("this build of torch cannot train in several processes (no gloo); pass devices=1")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise HoldfastError("a script that trains in several processes calls fit under if __name__ == '__main__'")
    file = getattr(sys.modules["__main__"], "__file__", None)
    # What was typed in has no file from which another process could import it again.
    if hasattr(sys, "ps1") or sys.flags.interactive or (file is not None and not Path(file).exists()):
        raise HoldfastError(
            "several processes train from a script or the command line, not from a notebook or a prompt; "
            "save the code as a script, or pass devices=1"
        )


def _watch(processes: list[BaseProcess], pipes: list[Connection], progress: Progress, job: Path) -> None:
    """Pass on what rank 0 tells, until all have ended well; raise when one has not."""
    begun: set[int] = set()
    loaded: set[int] = set()
    failed: Failures = {}
    open_pipes = dict(enumerate(pipes))
    deadline: float | None = None
    while True:
        running = [process.sentinel for process in processes if process.exitcode is None]
        for rank, pipe in list(open_pipes.items()):
            while rank in open_pipes and pipe.poll():
                try:
                    kind, *given = pipe.recv()
                except (EOFError, OSError):  # the latter where it died in the middle of a word
                    del open_pipes[rank]
                    break
                if kind == "begun":
                    begun.add(rank)
                elif kind == "loaded":
                    loaded.add(rank)
                    if len(loaded) == len(processes):
                        _forget(job)
                elif kind == "failed":
                    failed[rank] = (given[0], given[1])
                else:
                    getattr(progress, kind)(*given)
        bad = failed or any(process.exitcode for process in processes)
        if not bad and not running:
            return
        if bad:
            # A death reaches the others as a broken connection; a moment later the cause can be told from the effect.
            deadline = deadline or time.monotonic() + GRACE
            mistakes = [error for _, error in failed.values() if isinstance(error, HoldfastError)]
            if mistakes or not running or time.monotonic() > deadline or _killed(processes):
                raise _cause(processes, failed, begun)
        wait([*running, *open_pipes.values()], None if deadline is None else 0.05)


def _forget(job: Path) -> None:
    """Remove the file that all have mapped, so that no kill leaves a copy of the data behind."""
    with suppress(OSError):  # Windows keeps what is in use; the folder goes at the end
        job.unlink()


def _killed(processes: list[BaseProcess]) -> list[int]:
    return [rank for rank, process in enumerate(processes) if (process.exitcode or 0) < 0]


def _cause(processes: list[BaseProcess], failed: Failures, begun: set[int]) -> BaseException:
    """What ended the training: a rank that was killed or left without a word, else the first error."""
    for rank in _killed(processes):
        name = signal.Signals(-(processes[rank].exitcode or 0)).name
        hint = ", as a machine does that is out of memory" if name == "SIGKILL" else ""
        return Died(f"process {rank + 1} of {len(processes)} was killed ({name}{hint})")
    mistakes = {rank: pair for rank, pair in failed.items() if isinstance(pair[1], HoldfastError)}
    silent = [rank for rank, process in enumerate(processes) if process.exitcode and rank not in failed]
    if silent and not mistakes:
        rank = silent[0]
        hint = "" if rank in begun else " before it began; a script must call fit under if __name__ == '__main__'"
        return Died(f"process {rank + 1} of {len(processes)} ended with exit code {processes[rank].exitcode}{hint}")
    return min((mistakes or failed).values(), key=lambda pair: pair[0])[1]


def _end(processes: list[BaseProcess]) -> None:
    for process in processes:
        if process.is_alive():
            process.terminate()
    deadline = time.monotonic() + GRACE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


class _Told(Silent):
    """Progress that is passed on to the process that waits."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def at(self, epochs: float, of: int) -> None:
        self._pipe.send(("at", epochs, of))

    def say(self, line: Mapping[str, float]) -> None:
        self._pipe.send(("say", dict(line)))


def _rank(
    work: Work,
    path: Path,
    rank: int,
    count: int,
    port: int,
    threads: int,
    environment: dict[str, str],
    pipe: Connection,
) -> None:
    """The life of one process."""
    pipe.send(("begun",))
    # The server that processes are forked from has the environment of the day it started.
    os.environ.clear()
    os.environ.update(environment)
    # Ctrl-C reaches all processes of a terminal; the one that waits answers for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    where = {"LOCAL_RANK": rank, "NODE_RANK": 0, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in where.items()} | gloo_interface()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    torch.set_num_threads(threads)
    set_ranks(rank, count)
    try:
        job = torch.load(path, mmap=True, weights_only=False)
        pipe.send(("loaded",))
        result = work(job, _Told(pipe) if get_ranks().first else Silent())
        if get_ranks().first:
            torch.save(result, path.with_name("result"))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:
        when = time.monotonic()
        pipe.send(("failed", when, _sendable(error)))
        sys.exit(1)


def _sendable(error: BaseException) -> BaseException:
    """The error itself, with the traceback of its process, or its words where it cannot travel."""
    message = f"{type(error).__name__}: {error}"
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(message)
    if not isinstance(error, HoldfastError):
        error.add_note(f"in a process of the training:\n{traceback.format_exc()}")
    return error


def end_with_parent() -> None:
    """In a process that was started here: end when the one that started it does, however that came about. An orphan
    would train on, and write where the next run writes."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def gloo_interface() -> dict[str, str]:
    """The network interface that gloo must be told of where the host name leads nowhere."""
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return {}
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        names = [name for _, name in socket.if_nameindex()]
        return {"GLOO_SOCKET_IFNAME": next((name for name in names if name.startswith("lo")), "lo")}
    return {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
