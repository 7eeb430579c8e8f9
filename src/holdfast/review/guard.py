"""The guard before the page: only this machine, only who has the token, only small requests, only our own scripts."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 16 * 1024
"""Bytes of a request's body; a decision is a few hundred."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Middleware that lets through what comes from the page itself.

    A request must name this very host and port, so that a foreign name that resolves to 127.0.0.1 reaches nothing; its
    origin, where it has one, must be the page; and it must hold the token, which the link brings once and a cookie from
    then on. What would change anything needs an origin and a body of limited size.

    Parameters
    ----------
    port: on which the server listens.
    token: the secret of the link.
    """

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app = app
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._token = token
        self._cookie = f"holdfast_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, sealed)
            return
        body = await _body(receive)
        if body is None:
            await _refused(413, "the request is too large")(scope, receive, sealed)
            return

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered, or the way in for one that brings the token; None lets it through."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return _refused(421, "this page answers only under the address that holdfast review has printed")
        if (origin is not None or scope["method"] not in ("GET", "HEAD")) and origin != f"http://{host}":
            return _refused(403, "the request comes from another page")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:12]) > LARGEST:
            return _refused(413, "the request is too large")
        if scope["path"] == "/" and (brought := _token_of(scope["query_string"])) is not None:
            if not secrets.compare_digest(brought, self._token.encode()):
                return _refused(403, "the token is wrong; open the link that holdfast review has printed")
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        if not secrets.compare_digest(self._cookie_value(headers).encode(), self._token.encode()):
            return _refused(403, "the token is missing; open the link that holdfast review has printed")
        return None

    def _cookie_value(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def _token_of(query: bytes) -> bytes | None:
    for part in query.split(b"&"):
        if part.startswith(b"token="):
            return part.removeprefix(b"token=")
    return None


async def _body(receive: Receive) -> bytes | None:
    """The body of a request, or None for one that is larger than it should be, whatever its head has said."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
