"""``holdfast review``: a page on this machine to settle doubtful labels by hand."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from holdfast.cli import options as o
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.review.links import Links

TEAM = "For a team"


def review(
    run: o.RunPath,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.", min=0, max=65535)] = 0,
    double: Annotated[bool, typer.Option("--double", help="Ask about each row twice, of two reviewers.")] = False,
    trust_code: o.TrustCode = [],  # noqa: B006
    reviewer: Annotated[
        list[str],
        typer.Option(help="Print a link for this reviewer alone; may be repeated.", rich_help_panel=TEAM),
    ] = [],  # noqa: B006
    revoke: Annotated[
        list[str],
        typer.Option(help="Take back the link of this reviewer, and end; may be repeated.", rich_help_panel=TEAM),
    ] = [],  # noqa: B006
    host: Annotated[
        str,
        typer.Option(help="Address to listen at; another than this machine's own needs TLS.", rich_help_panel=TEAM),
    ] = "127.0.0.1",
    certificate: Annotated[
        Path | None, typer.Option(help="File of the certificate for TLS.", show_default=False, rich_help_panel=TEAM)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="File of its private key.", show_default=False, rich_help_panel=TEAM)
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            help="A proxy that encrypts stands before the page and sends HOLDFAST_PROXY_SECRET as X-Holdfast-Secret.",
            rich_help_panel=TEAM,
        ),
    ] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(help="Read that secret from a file.", show_default=False, rich_help_panel=TEAM),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="What reviewers type, such as https://review.org.", show_default=False, rich_help_panel=TEAM),
    ] = None,
) -> None:
    """Open a page on this machine to settle doubtful labels by hand; each decision is kept at once.

    Example: [bold]holdfast review run/[/bold]
    """
    from holdfast.review.links import KEY, Links
    from holdfast.review.store import REVIEWS, Store
    from holdfast.run import Run

    try:
        import uvicorn

        from holdfast.review.app import application
        from holdfast.review.end import End
        from holdfast.review.prepare import prepare
        from holdfast.review.serving import Serving, listening, proxy_secret
    except ImportError:
        raise HoldfastError("the review page is not installed; pip install 'holdfast[review]'") from None
    made = Run.records(run, trust=trust_code)
    serving = Serving(host, certificate, key, proxy_secret(secret_file) if behind_proxy else None, address)
    with closing(Store(run / REVIEWS, made.config.fingerprint)) as store:
        links = Links(store, run / KEY) if reviewer or revoke or serving.shared or Links.are_in(store) else None
        if links is not None and revoke:
            _revoke(links, revoke)
            return
        if serving.shared and links is not None and not (reviewer or links.reviewers()):
            raise HoldfastError("others answer only through links of their own; name them, such as --reviewer ana")
        with closing(listening(port, host)) as waiting:
            with o.console.status("judging the labels") as status:
                queue = prepare(run, made, store, double, status.update, _print)
            o.say_wrong_labels(made.wrong_labels(), f"holdfast issues {run}")
            text = f"{len(queue.suspects):,} doubtful rows. Decisions go to {run / REVIEWS}. Ctrl-C ends."
            _print(text)
            chosen = waiting.getsockname()[1]
            token = None if reviewer or serving.shared else secrets.token_urlsafe(24)
            _say_links(serving.home(chosen), links, reviewer, token)
            page = application(queue, serving.access(chosen, token, links), End(run, made))
            # No log of requests, since the link holds the token.
            settings = uvicorn.Config(
                page, log_level="warning", access_log=False, proxy_headers=False, server_header=False,
                ssl_certfile=certificate, ssl_keyfile=key,
            )  # fmt: skip
            uvicorn.Server(settings).run([waiting])


def _say_links(home: str, links: Links | None, reviewers: Sequence[str], token: str | None) -> None:
    """Each link on a line of its own and never wrapped, so that it can be clicked or copied whole."""
    from holdfast.review.links import KEY, checked_name
    from holdfast.review.store import REVIEWS

    if links is not None and (forged := links.forged()):
        shown = ", ".join(map(str, forged[:5]))
        _print(
            f"{len(forged):,} answers were not signed by the link that they name (entries {shown}): somebody has "
            f"written into {REVIEWS} by hand, or {KEY} was replaced"
        )
    for name in dict.fromkeys(map(checked_name, reviewers)):
        if links is not None:
            _print(f"{name}:")
            print(f"{home}/?token={links.make(name)}", flush=True)
    if token is not None:
        print(f"{home}/?token={token}", flush=True)


def _revoke(links: Links, reviewers: Sequence[str]) -> None:
    for name in reviewers:
        if not links.revoke(name):
            raise HoldfastError(f"{name} has no link; those who have: {', '.join(links.reviewers()) or 'nobody'}")
        _print(f"the link of {name} opens nothing any more")


def _print(text: str) -> None:
    o.console.print(escape(text), highlight=False)
