"""``holdfast review``: a page on this machine to settle doubtful labels by hand."""

from __future__ import annotations

import secrets
import socket
from contextlib import closing
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn

from holdfast.cli import options as o
from holdfast.data.display import Display
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of
from holdfast.functional.capture import penultimate
from holdfast.nets import without_trees
from holdfast.run import Run


def review(
    run: o.RunPath,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.", min=0, max=65535)] = 0,
) -> None:
    """Open a page on this machine to settle doubtful labels by hand; each decision is kept at once.

    Example: [bold]holdfast review run/[/bold]
    """
    try:
        import uvicorn

        from holdfast.review.app import application
        from holdfast.review.guard import local_access
    except ImportError:
        raise HoldfastError("the review page is not installed; pip install 'holdfast[review]'") from None
    from holdfast.review.end import End
    from holdfast.review.queue import ReviewQueue
    from holdfast.review.shown import Likely
    from holdfast.review.store import REVIEWS, Store

    made = Run.records(run)
    with closing(_listening(port)) as listening, closing(Store(run / REVIEWS, made.config.fingerprint)) as store:
        with o.console.status("looking at the rows"):
            rows = _rows(made)
            features = None if rows is None else _features(run, rows)
            display = None if rows is None else Display(rows)
            likely = None if made.classes is None else Likely(*made.likely_classes())
            table, unseen = made.issue_table(), made.config.evidence
            queue = ReviewQueue(table, made.classes, features, display, store, likely, unseen)
        token, chosen = secrets.token_urlsafe(24), listening.getsockname()[1]
        o.say_wrong_labels(made.wrong_labels(), f"holdfast issues {run}")
        text = f"{len(queue.suspects):,} doubtful rows. Decisions go to {run / REVIEWS}. Ctrl-C ends."
        o.console.print(text, highlight=False)
        # On a line of its own and never wrapped, so that it can be clicked or copied whole.
        print(f"http://127.0.0.1:{chosen}/?token={token}", flush=True)
        # No log of requests, since the link holds the token.
        page = application(queue, local_access(chosen, token), End(run, made))
        settings = uvicorn.Config(page, log_level="warning", access_log=False)
        uvicorn.Server(settings).run([listening])


def _rows(run: Run) -> Rows | None:
    """The rows to show, or None with a word why not."""
    try:
        return run.judged_rows()
    except HoldfastError as error:
        o.console.print(f"rows cannot be shown, only their numbers: {error}", highlight=False)
        return None


@torch.no_grad()
def _features(folder: Path, rows: Rows) -> Tensor:
    """(N, d) the inputs of the output layer; the rows themselves where the network cannot be made again."""
    try:
        net: nn.Module = without_trees(Run.load(folder).net)
        with penultimate(net) as caught:
            evaluate(net, inputs_of(rows.x, "cpu"))
        return torch.cat(caught).float()
    except HoldfastError:
        return torch.cat([x.flatten(1) for x in inputs_of(rows.x, "cpu")])


def _listening(port: int) -> socket.socket:
    """A socket on this machine's own address, which no other machine can reach."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        # Before the link is shown: who follows it at once waits instead of being refused.
        listening.listen()
    except OSError as error:
        listening.close()
        raise HoldfastError(f"port {port} cannot be used: {error.strerror}; choose another with --port") from None
    return listening
