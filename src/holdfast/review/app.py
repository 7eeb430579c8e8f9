"""The review page as a web application: a handful of routes over the queue."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.errors import HoldfastError
from holdfast.review.asked import body_of, filter_of, label_of, number_of, reviewer_of, row_of, rows_of
from holdfast.review.end import End, summary
from holdfast.review.guard import LINK, Access, Guard
from holdfast.review.links import Link
from holdfast.review.queue import Filter, ReviewQueue
from holdfast.review.store import Answer, Sign, Store
from holdfast.review.writer import Writer

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def application(queue: ReviewQueue, access: Access, end: End | None = None) -> Starlette:
    """The page for a queue. A request names rows by number and no file: those of the page are read once, here."""
    api = Api(queue, access, end)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await api.close()

    made = Starlette(
        routes=[
            # Those first that are asked for most, since they are tried in turn.
            Route("/api/decide", api.decide, methods=["POST"]),
            Route("/picture/{row}", api.picture),
            Route("/api/next", api.following),
            Route("/api/item/{row}", api.item),
            Route("/api/group", api.group),
            Route("/api/decide-group", api.decide_group, methods=["POST"]),
            Route("/api/undo", api.undo, methods=["POST"]),
            Route("/api/summary", api.summary),
            Route("/api/export", api.export, methods=["POST"]),
            Route("/api/setup", api.setup),
            *(Route(path, api.page) for path in api.pages),
            Route("/favicon.ico", lambda request: Response(status_code=204)),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HoldfastError: _mistaken, sqlite3.Error: _not_kept},
        lifespan=lifespan,
    )
    made.router.redirect_slashes = False
    return made


class Api:
    """What each route does."""

    def __init__(self, queue: ReviewQueue, access: Access, end: End | None) -> None:
        self._queue, self._links, self._end = queue, access.links, end
        self.pages = _pages()
        self._writer = Writer(queue.store.again())
        # One thread for all that takes long, since decoding a picture changes what the whole process warns about.
        self._slow = ThreadPoolExecutor(1, "pictures")

    async def close(self) -> None:
        await self._writer.close()
        self._slow.shutdown()

    async def page(self, request: Request) -> Response:
        content, kind = self.pages[request.url.path]
        return Response(content, media_type=f"{kind}; charset=utf-8")

    async def setup(self, request: Request) -> Response:
        link: Link | None = request.scope.get(LINK)
        shown = self._queue.shown
        return JSONResponse(
            {
                "classes": shown.classes,
                "kind": shown.kind,
                "suspects": len(self._queue.suspects),
                "reviewer": None if link is None else link.reviewer,
                "double": self._queue.double,
                "commands": self._commands(),
            }
        )

    async def following(self, request: Request) -> Response:
        query = dict(request.query_params)
        after, before = number_of(query.get("after")), number_of(query.get("before"))
        beyond = before if after is None else after
        return self._next(self._reviewer(request, query), filter_of(query), beyond, after is None)

    async def item(self, request: Request) -> Response:
        query = dict(request.query_params)
        reviewer, row = self._reviewer(request, query), number_of(request.path_params["row"])
        self._queue.catch_up()
        shown = self._queue.item(-1 if row is None else row)
        return JSONResponse({"item": shown, "progress": self._queue.progress(reviewer, filter_of(query))})

    async def decide(self, request: Request) -> Response:
        body = await body_of(request)
        reviewer, wanted = self._reviewer(request, body), filter_of(body.get("filter", {}))
        said = self._queue.said(row_of(body.get("row")), _verdict(body, *Answer), label_of(body.get("label")))
        await self._writer.do(partial(Store.stroke, reviewer=reviewer, said=[said], sign=self._sign(request)))
        return self._next(reviewer, wanted)

    async def group(self, request: Request) -> Response:
        query = dict(request.query_params)
        reviewer, wanted = self._reviewer(request, query), filter_of(query)
        return self._group(reviewer, wanted, number_of(query.get("after")), number_of(query.get("first")))

    async def decide_group(self, request: Request) -> Response:
        body = await body_of(request)
        reviewer, wanted = self._reviewer(request, body), filter_of(body.get("filter", {}))
        verdict = _verdict(body, Answer.keep, Answer.suggestion, Answer.unsure)
        left = rows_of(body.get("exceptions", []))
        rows = [row for row in rows_of(body.get("rows")) if row not in left]
        if not rows and not left:
            raise HoldfastError("a stroke decides about at least one row")
        said = [self._queue.said(row, verdict) for row in rows]
        for row in left:
            self._queue.kind_of(row)
        if said:
            await self._writer.do(partial(Store.stroke, reviewer=reviewer, said=said, sign=self._sign(request)))
        self._queue.set_aside(reviewer, rows, verdict, left)
        if left and rows and verdict is not Answer.unsure and not body.get("aside"):
            self._queue.catch_up()
            group = self._queue.exceptions(reviewer, left, verdict, wanted)
            return JSONResponse({"group": group, "progress": self._queue.progress(reviewer, wanted)})
        return self._group(reviewer, wanted, None, self._queue.kind_of((rows or left)[0]))

    async def undo(self, request: Request) -> Response:
        body = await body_of(request)
        reviewer, wanted = self._reviewer(request, body), filter_of(body.get("filter", {}))
        rows = await self._writer.do(partial(Store.undo, reviewer=reviewer, sign=self._sign(request)))
        if not rows:
            raise HoldfastError("there is nothing of yours to take back")
        self._queue.catch_up()
        shown = self._queue.undone(reviewer, rows)
        group = self._queue.group_of(reviewer, shown, wanted) if len(shown) > 1 else None
        progress = self._queue.progress(reviewer, wanted)
        return JSONResponse({"rows": rows, "item": self._queue.item(rows[0]), "group": group, "progress": progress})

    async def summary(self, request: Request) -> Response:
        self._reviewer(request, dict(request.query_params))
        if self._end is None:
            raise HoldfastError("there is no run to sum up")
        found = summary(self._queue)
        wrong = await asyncio.get_running_loop().run_in_executor(self._slow, self._end.estimates)
        return JSONResponse({**found, "wrong": wrong, "commands": self._commands()})

    async def export(self, request: Request) -> Response:
        self._reviewer(request, await body_of(request))
        if self._end is None:
            raise HoldfastError("there is no run to export from")
        return JSONResponse(await asyncio.get_running_loop().run_in_executor(self._slow, self._end.export))

    async def picture(self, request: Request) -> Response:
        row, display = number_of(request.path_params["row"]), self._queue.shown.display
        if display is None or row is None or row >= len(self._queue):
            return JSONResponse({"error": "there is no such picture"}, 404)
        png = await asyncio.get_running_loop().run_in_executor(self._slow, display.png, row)
        return Response(png, media_type="image/png")

    def _commands(self) -> dict[str, str]:
        return {"export": "", "refit": ""} if self._end is None else self._end.commands

    def _reviewer(self, request: Request, fields: dict[str, Any]) -> str:
        """Who asks: whose link it is, or who they say they are where the link is nobody's own."""
        link: Link | None = request.scope.get(LINK)
        if link is None:
            name = reviewer_of(fields)
            if self._links is not None and name in self._links.reviewers():
                raise HoldfastError(f"{name} has a link of their own; use that, or another name")
            return name
        if fields.get("reviewer") not in (None, "", link.reviewer):
            raise HoldfastError(f"this is the link of {link.reviewer}; nobody else answers through it")
        return link.reviewer

    def _sign(self, request: Request) -> Sign | None:
        link: Link | None = request.scope.get(LINK)
        return None if link is None or self._links is None else self._links.sign(link)

    def _next(self, reviewer: str, wanted: Filter, beyond: int | None = None, back: bool = False) -> Response:
        self._queue.catch_up()
        row = self._queue.next(reviewer, wanted, beyond, back)
        item = None if row is None else self._queue.item(row)
        return JSONResponse({"item": item, "progress": self._queue.progress(reviewer, wanted)})

    def _group(self, reviewer: str, wanted: Filter, after: int | None, first: int | None = None) -> Response:
        self._queue.catch_up()
        group = self._queue.group(reviewer, wanted, after, first)
        return JSONResponse({"group": group, "progress": self._queue.progress(reviewer, wanted)})


def _pages() -> dict[str, tuple[bytes, str]]:
    """The files of the page by their paths, with what each is; the page itself is at the root."""
    found = {}
    for file in (files("holdfast.review") / "static").iterdir():
        kind = KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            found["/" if file.name == "review.html" else f"/{file.name}"] = (file.read_bytes(), kind)
    return found


def _verdict(body: dict[str, Any], *allowed: Answer) -> Answer:
    verdict = body.get("verdict")
    if not isinstance(verdict, str) or verdict not in allowed:
        raise HoldfastError(f"a decision needs a row and one of {', '.join(allowed)}")
    return Answer(verdict)


async def _mistaken(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _not_kept(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the decision could not be kept: {error}"}, 503)
