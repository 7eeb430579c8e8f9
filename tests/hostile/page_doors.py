"""The review page, asked wrongly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from hostile.damage import altered, damaged
from hostile.door import NoSentence

from holdfast import Run


def request(path: str, body: Mapping[str, Any] | None = None, **query: Any) -> dict[str, Any]:
    return {
        "method": "GET" if body is None else "POST",
        "path": path,
        "query": query,
        "body": body,
        "headers": {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1", "cookie": "holdfast_1=secret"},
    }


FILTER = {"given": "yes", "suggested": "no", "low": 0, "high": 1, "order": "informative", "queue": "open"}
WHO = {"reviewer": "Ada"}
REQUESTS = (
    request("/api/next", **WHO, after="3", **FILTER),
    request("/api/item/3", **WHO),
    request("/api/group", **WHO),
    request("/api/summary", **WHO),
    request("/api/setup"),
    request("/picture/0"),
    request("/", token="secret"),
    request("/api/decide", {**WHO, "row": 3, "verdict": "other", "label": "no", "filter": FILTER}),
    request("/api/decide-group", {**WHO, "rows": [1, 2], "exceptions": [3], "verdict": "keep"}),
    request("/api/undo", {**WHO, "filter": FILTER}),
    request("/api/export", WHO),
)


class Api:
    """The review page of a run, asked without a socket between; anything that it raises comes through."""

    def __init__(self, run: Path) -> None:
        from holdfast.review.app import application
        from holdfast.review.end import End
        from holdfast.review.guard import local_access
        from holdfast.review.prepare import prepare as queue_of
        from holdfast.review.store import REVIEWS, Store

        made = Run.records(run)
        self._store = Store(run / REVIEWS, made.config.fingerprint)
        queue = queue_of(made, self._store, False, lambda text: None, lambda text: None)
        self._page = application(queue, local_access(1, "secret"), End(run, made))
        self._loop = asyncio.new_event_loop()

    def __call__(self, content: bytes) -> None:
        asked = json.loads(content)
        if not isinstance(asked, dict):
            return
        body, query, headers = asked.get("body"), asked.get("query"), asked.get("headers")
        sent = (
            b""
            if body is None
            else body.encode("utf-8", "replace")
            if isinstance(body, str)
            else json.dumps(body).encode()
        )
        pairs = query.items() if isinstance(query, dict) else []
        named = headers.items() if isinstance(headers, dict) else []
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": str(asked.get("method")),
            "scheme": "http",
            "path": str(asked.get("path")),
            "root_path": "",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
            "query_string": "&".join(f"{k}={v}" for k, v in pairs).encode("utf-8", "replace"),
            "headers": [
                (str(k).lower().encode("latin-1", "replace"), str(v).encode("latin-1", "replace")) for k, v in named
            ],
        }
        answers: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            answers.append(message)

        self._loop.run_until_complete(self._page(scope, receive, send))
        if answers[0]["status"] >= 500 and b"error" not in answers[-1].get("body", b""):
            raise NoSentence(f"the page has answered {answers[0]['status']} without a word")

    def close(self) -> None:
        self._store.close()
        self._loop.close()


def asked_wrongly(content: bytes, draw: Random) -> bytes:
    """Mostly its fields, which are ours to check; seldom its form, which the server checks."""
    asked = json.loads(content)
    part = draw.choice(
        ("body", "query", "query", "headers", "path", "method")
        if asked["body"] is None
        else ("body", "body", "headers")
    )
    for _ in range(draw.choice((1, 1, 2, 3))):
        asked[part] = altered(asked[part], draw)
    if part == "body" and draw.randrange(8) == 0:
        asked["body"] = damaged(json.dumps(asked["body"]).encode(), draw).decode("utf-8", "replace")
    if part == "path":
        asked["path"] = damaged(json.loads(content)["path"].encode(), draw).decode("utf-8", "replace")
    return json.dumps(asked).encode()


class Page:
    """The review page, started when it is first asked."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._api: Api | None = None

    def __call__(self, content: bytes) -> None:
        self._api = self._api or Api(self._run)
        self._api(content)
