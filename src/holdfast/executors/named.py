"""Executors by the names that they have on the command line."""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.executors.base import Executor
from holdfast.executors.local import Local
from holdfast.executors.on_ray import CLIENT, OnRay


def executor_named(on: str, workers: int = 1, threads: int = 1) -> Executor:
    """The executor of a name.

    Parameters
    ----------
    on: local: processes of this machine; ray: a Ray of this machine; ray://host:port: a cluster of Ray.
    workers: jobs at a time.
    threads: of the processor for each.

    >>> executor_named("local", 2)
    Local(workers=2, threads=1)
    """
    if on == "local":
        return Local(workers, threads)
    if on == "ray":
        return OnRay(None, workers, threads)
    host, colon, port = on.removeprefix(CLIENT).rpartition(":")
    if on.startswith(CLIENT) and host and colon and port.isdecimal():
        return OnRay(on, workers, threads)
    raise HoldfastError(f"work goes on local, ray or ray://host:port, not on {on!r}")
