"""``holdfast review``: a page on this machine to settle doubtful labels by hand."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.review.links import Links

TEAM = "For a team"


def review(
    run: o.RunPath,
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.", min=0, max=65535)] = 0,
    double: Annotated[bool, typer.Option("--double", help="Ask two reviewers about each row.")] = False,
    follow_links: d.FollowLinks = False,
    trust_code: o.TrustCode = [],  # noqa: B006
    reviewer: Annotated[
        list[str],
        typer.Option(help="Print a personal link for this reviewer; may be repeated.", rich_help_panel=TEAM),
    ] = [],  # noqa: B006
    revoke: Annotated[
        list[str],
        typer.Option(help="Revoke the link of this reviewer and exit; may be repeated.", rich_help_panel=TEAM),
    ] = [],  # noqa: B006
    host: Annotated[
        str,
        typer.Option(help="The address to listen on; any other than the local one needs TLS.", rich_help_panel=TEAM),
    ] = "127.0.0.1",
    certificate: Annotated[
        Path | None, typer.Option(help="The TLS certificate file.", show_default=False, rich_help_panel=TEAM)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The file with its private key.", show_default=False, rich_help_panel=TEAM)
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            help="The page is behind a TLS proxy that sends HOLDFAST_PROXY_SECRET as X-Holdfast-Secret.",
            rich_help_panel=TEAM,
        ),
    ] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(help="Read that secret from a file.", show_default=False, rich_help_panel=TEAM),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="The address that reviewers use, such as https://review.org.", show_default=False, rich_help_panel=TEAM
        ),
    ] = None,
) -> None:
    """Open a page on this machine to decide doubtful labels by hand. Every decision is saved at once.

    Example: [bold]holdfast review run/[/bold]
    """
    import secrets

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
    made = Run.records(run, trust=d.trusted(trust_code, follow_links))
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
                queue = prepare(made, store, double, status.update, _print)
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
            # What is there now stays: looking through it for garbage again and again would hold up answers.
            gc.collect()
            gc.freeze()
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
    o.console.print(text, highlight=False)
