"""Group commit: what many reviewers say at the same time waits for the disk once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from holdfast.review.store import Store

Result = TypeVar("Result")


class Writer:
    """Writes to a store in a thread of its own. All that comes while the disk is busy goes into the next transaction.

    Parameters
    ----------
    store: a connection that nobody else uses.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "reviews")
        self._waiting: list[tuple[Callable[[Store], Any], asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def do(self, job: Callable[[Store], Result]) -> Result:
        """Do a job in a transaction; when this returns, it is on disk."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((job, ended))
        if self._task is None:
            self._task = loop.create_task(self._write())
        # Whoever asked may go away; what was asked for is done none the less.
        return await asyncio.shield(ended)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                results = await loop.run_in_executor(self._thread, self._store.together, [job for job, _ in batch])
            except Exception as error:
                for _, ended in batch:
                    ended.set_exception(error)
            else:
                for (_, ended), result in zip(batch, results, strict=True):
                    ended.set_result(result)
        self._task = None

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._task is not None:
            await self._task
        self._thread.shutdown()
        self._store.close()
