"""The guard before the page: only who was let in, only from the page, only small requests, only our own scripts."""

from __future__ import annotations

import html
import secrets
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.review.links import Link, Links

LARGEST = 16 * 1024
"""Bytes of a request's body; a decision is a few hundred."""
SECRET = "x-holdfast-secret"
"""The header by which a proxy shows that a request came through it."""
LINK = "holdfast.link"
"""Where a request says through whose link it came."""
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
SEAL = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Access:
    """Who may come in, and under which address.

    Attributes
    ----------
    addresses: scheme, host and port of the page as browsers know it, such as ``http://127.0.0.1:8000``.
    cookie: its name.
    token: the secret of a link on which anybody says who they are; None where there is no such link.
    links: the links of reviewers, each with their name; None where there are none.
    secret: what a proxy sends in its header; None where there is no proxy.
    """

    addresses: frozenset[str]
    cookie: str
    token: str | None = None
    links: Links | None = None
    secret: str | None = None

    def lets_in(self, token: str) -> tuple[bool, Link | None]:
        """Whether a token opens the page, and the link that it is the token of."""
        if self.token is not None and secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return True, None
        link = None if self.links is None or not token else self.links.of(token)
        return link is not None, link


def local_access(port: int, token: str | None, links: Links | None = None) -> Access:
    """This machine alone, under the two names that it has for itself."""
    addresses = frozenset({f"http://127.0.0.1:{port}", f"http://localhost:{port}"})
    return Access(addresses, f"holdfast_{port}", token, links)


class Guard:
    """Middleware that lets through what comes from the page itself.

    A request must name the host and port of the page, so that a foreign name that resolves to this machine reaches
    nothing; its origin, where it has one, must be the page; and it must hold a token, which the link brings once and a
    cookie from then on. What would change anything needs an origin and a body of limited size. Behind a proxy it must
    bring the secret that only the proxy knows.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._origin = {address.partition("://")[2]: address for address in access.addresses}
        self._encrypted = all(address.startswith("https://") for address in access.addresses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SEAL]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, sealed)
            return
        body = await _body(receive)
        if body is None:
            await _refused(scope, 413, "the request is too large")(scope, receive, sealed)
            return

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered, or the way in for one that brings the token; None lets it through."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        secret = self._access.secret
        if secret is not None and not secrets.compare_digest(headers.get(SECRET, "").encode(), secret.encode()):
            return _refused(scope, 403, "the request has not come through the proxy")
        if host not in self._origin:
            return _refused(scope, 421, "this page answers only under the address that holdfast review has printed")
        if (origin is not None or scope["method"] not in ("GET", "HEAD")) and origin != self._origin[host]:
            return _refused(scope, 403, "the request comes from another page")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:12]) > LARGEST:
            return _refused(scope, 413, "the request is too large")
        if scope["path"] == "/" and (brought := _token_of(scope["query_string"])) is not None:
            if not self._access.lets_in(brought)[0]:
                return _refused(scope, 403, "the link is wrong or was taken back; ask for a new one")
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._access.cookie, brought, httponly=True, samesite="strict", secure=self._encrypted)
            return answer
        welcome, scope[LINK] = self._access.lets_in(_cookie(headers, self._access.cookie))
        if not welcome:
            return _refused(scope, 403, "the token is missing; open the link that holdfast review has printed")
        return None


def _cookie(headers: Headers, name: str) -> str:
    for part in headers.get("cookie", "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def _token_of(query: bytes) -> str | None:
    for part in query.split(b"&"):
        if part.startswith(b"token="):
            return part.removeprefix(b"token=").decode("ascii", "replace")
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


def _refused(scope: Scope, status: int, why: str) -> Response:
    """A sentence: on a page of its own for who has followed a link, as JSON for a script."""
    if "text/html" in Headers(scope=scope).get("accept", ""):
        sentence = html.escape(why[0].upper() + why[1:] + ".")
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Holdfast</title>'
        head += '<meta name="color-scheme" content="light dark">'
        page = f'<!doctype html><html lang="en">{head}<main><p>{sentence}</p></main></html>'
        return HTMLResponse(page, status)
    content: dict[str, Any] = {"error": why}
    return JSONResponse(content, status)
