"""The review page as a web application: a handful of routes over the desk."""

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
from holdfast.review.desk import Desk, Filter
from holdfast.review.guard import Guard
from holdfast.review.store import Answer, Label

LONGEST_NAME = 60
STATIC = {"/": ("review.html", "text/html"), "/review.js": ("review.js", "text/javascript"),
          "/review.css": ("review.css", "text/css")}  # fmt: skip


def application(desk: Desk, port: int, token: str) -> Starlette:
    """The page for a desk. A request names rows by number and files not at all: these three are read once, here."""
    held = {path: (files("holdfast.review") / "static" / name).read_bytes() for path, (name, _) in STATIC.items()}

    async def page(request: Request) -> Response:
        path = request.url.path
        return Response(held[path], media_type=f"{STATIC[path][1]}; charset=utf-8")

    async def setup(request: Request) -> Response:
        return JSONResponse({"classes": desk.classes, "suspects": len(desk.queue)})

    async def following(request: Request) -> Response:
        return JSONResponse(_next(desk, _reviewer(dict(request.query_params)), _filter(dict(request.query_params))))

    async def picture(request: Request) -> Response:
        row = request.path_params["row"]
        if desk.display is None or not 0 <= row < len(desk):
            return JSONResponse({"error": "there is no such picture"}, 404)
        return Response(desk.display.png(row), media_type="image/png")

    async def decide(request: Request) -> Response:
        told = await _told(request)
        reviewer, wanted = _reviewer(told), _filter(told.get("filter", {}))
        row, verdict = told.get("row"), told.get("verdict")
        if not isinstance(row, int) or isinstance(row, bool) or verdict not in list(Answer):
            raise HoldfastError("a decision needs a row and one of keep, suggestion, other, unsure")
        desk.decide(row, reviewer, Answer(verdict), _label(told.get("label")))
        return JSONResponse(_next(desk, reviewer, wanted))

    async def undo(request: Request) -> Response:
        told = await _told(request)
        reviewer, wanted = _reviewer(told), _filter(told.get("filter", {}))
        row = desk.undo(reviewer)
        if row is None:
            raise HoldfastError("there is nothing of yours to take back")
        return JSONResponse({"item": desk.item(row), "progress": desk.progress(reviewer, wanted)})

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


def _next(desk: Desk, reviewer: str, wanted: Filter) -> dict[str, Any]:
    row = desk.next(reviewer, wanted)
    return {"item": None if row is None else desk.item(row), "progress": desk.progress(reviewer, wanted)}


async def _told(request: Request) -> dict[str, Any]:
    try:
        told = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HoldfastError("the request is no JSON") from None
    if not isinstance(told, dict):
        raise HoldfastError("the request is no JSON object")
    return told


def _reviewer(told: dict[str, Any]) -> str:
    name = told.get("reviewer")
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise HoldfastError(f"a reviewer has a name of at most {LONGEST_NAME} characters")
    return name


def _filter(told: Any) -> Filter:
    if not isinstance(told, dict):
        raise HoldfastError("a filter is an object")
    given = told.get("given") or None
    if given is not None and not isinstance(given, str):
        raise HoldfastError("a class is named by its text")
    try:
        low, high = float(told.get("low", 0)), float(told.get("high", 1))
    except (TypeError, ValueError):
        low = high = math.nan
    if not 0 <= low <= high <= 1:
        raise HoldfastError("trust lies between 0 and 1, the lower bound first")
    return Filter(given, low, high, str(told.get("second", "")).lower() in ("true", "1"))


def _label(told: Any) -> Label | None:
    if told is None or isinstance(told, str):
        return told
    if isinstance(told, list) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in told):
        return [float(value) for value in told]
    raise HoldfastError("a label is the name of a class or a list of numbers")
