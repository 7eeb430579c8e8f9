"""The review page as a web application: a handful of routes over the queue."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.errors import HoldfastError
from holdfast.review.guard import Guard
from holdfast.review.queue import Filter, ReviewQueue
from holdfast.review.store import Answer, Label

LONGEST_NAME = 60
STATIC = {"/": ("review.html", "text/html"), "/review.js": ("review.js", "text/javascript"),
          "/review.css": ("review.css", "text/css")}  # fmt: skip


def application(queue: ReviewQueue, port: int, token: str) -> Starlette:
    """The page for a queue. A request names rows by number and files not at all: these three are read once, here."""
    pages = {path: (files("holdfast.review") / "static" / name).read_bytes() for path, (name, _) in STATIC.items()}

    async def page(request: Request) -> Response:
        path = request.url.path
        return Response(pages[path], media_type=f"{STATIC[path][1]}; charset=utf-8")

    async def setup(request: Request) -> Response:
        return JSONResponse({"classes": queue.classes, "suspects": len(queue.rows)})

    async def following(request: Request) -> Response:
        return JSONResponse(_next(queue, _reviewer(dict(request.query_params)), _filter(dict(request.query_params))))

    async def picture(request: Request) -> Response:
        row = request.path_params["row"]
        if queue.display is None or not 0 <= row < len(queue):
            return JSONResponse({"error": "there is no such picture"}, 404)
        return Response(queue.display.png(row), media_type="image/png")

    async def decide(request: Request) -> Response:
        body = await _body(request)
        reviewer, wanted = _reviewer(body), _filter(body.get("filter", {}))
        row, verdict = body.get("row"), body.get("verdict")
        if not isinstance(row, int) or isinstance(row, bool) or verdict not in list(Answer):
            raise HoldfastError("a decision needs a row and one of keep, suggestion, other, unsure")
        queue.decide(row, reviewer, Answer(verdict), _label(body.get("label")))
        return JSONResponse(_next(queue, reviewer, wanted))

    async def undo(request: Request) -> Response:
        body = await _body(request)
        reviewer, wanted = _reviewer(body), _filter(body.get("filter", {}))
        row = queue.undo(reviewer)
        if row is None:
            raise HoldfastError("there is nothing of yours to take back")
        return JSONResponse({"item": queue.item(row), "progress": queue.progress(reviewer, wanted)})

    async def mistaken(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    return Starlette(
        routes=[
            *(Route(path, page) for path in STATIC),
            Route("/favicon.ico", lambda request: Response(status_code=204)),
            Route("/api/setup", setup),
            Route("/api/next", following),
            Route("/api/decide", decide, methods=["POST"]),
            Route("/api/undo", undo, methods=["POST"]),
            Route("/picture/{row:int}", picture),
        ],
        middleware=[Middleware(Guard, port=port, token=token)],
        exception_handlers={HoldfastError: mistaken},
    )


def _next(queue: ReviewQueue, reviewer: str, wanted: Filter) -> dict[str, Any]:
    row = queue.next(reviewer, wanted)
    return {"item": None if row is None else queue.item(row), "progress": queue.progress(reviewer, wanted)}


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HoldfastError("the request is no JSON") from None
    if not isinstance(body, dict):
        raise HoldfastError("the request is no JSON object")
    return body


def _reviewer(fields: dict[str, Any]) -> str:
    name = fields.get("reviewer")
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise HoldfastError(f"a reviewer has a name of at most {LONGEST_NAME} characters")
    return name


def _filter(fields: Any) -> Filter:
    if not isinstance(fields, dict):
        raise HoldfastError("a filter is an object")
    given = fields.get("given") or None
    if given is not None and not isinstance(given, str):
        raise HoldfastError("a class is named by its text")
    try:
        low, high = float(fields.get("low", 0)), float(fields.get("high", 1))
    except (TypeError, ValueError):
        low = high = math.nan
    if not 0 <= low <= high <= 1:
        raise HoldfastError("trust lies between 0 and 1, the lower bound first")
    return Filter(given, low, high, str(fields.get("second", "")).lower() in ("true", "1"))


def _label(value: Any) -> Label | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value):
        return [float(v) for v in value]
    raise HoldfastError("a label is the name of a class or a list of numbers")
