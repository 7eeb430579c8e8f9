"""``holdfast review`` and ``holdfast export``: settle doubtful labels by hand, and write them down."""

from __future__ import annotations

import secrets
import socket
from contextlib import closing
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor, nn

from holdfast.checkpoint import written_aside
from holdfast.data.display import Display
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of
from holdfast.functional.capture import penultimate
from holdfast.issues.command import RunPath
from holdfast.run import Run

REVIEWS = "reviews.sqlite"


def review(
    run: RunPath,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.", min=0, max=65535)] = 0,
) -> None:
    """Open a page on this machine to settle doubtful labels by hand; each decision is kept at once.

    Example: [bold]holdfast review run/[/bold]
    """
    try:
        import uvicorn

        from holdfast.review.app import application
    except ImportError:
        raise HoldfastError("the review page is not installed; pip install 'holdfast[review]'") from None
    from holdfast.review.desk import Desk
    from holdfast.review.store import Store

    console = Console()
    made = Run.records(run)
    with closing(_listening(port)) as listening, closing(Store(run / REVIEWS, made.asked["fingerprint"])) as store:
        with console.status("looking at the rows"):
            rows = _rows(made, console)
            features = None if rows is None else _features(run, rows)
            display = None if rows is None else Display(rows)
            desk = Desk(made.issue_table(), made.classes, features, display, store)
        token, chosen = secrets.token_urlsafe(24), listening.getsockname()[1]
        told = f"{len(desk.queue):,} doubtful rows. Decisions go to {run / REVIEWS}. Ctrl-C ends."
        console.print(told, highlight=False)
        # On a line of its own and never wrapped, so that it can be clicked or copied whole.
        print(f"http://127.0.0.1:{chosen}/?token={token}", flush=True)
        # No log of requests, since the link holds the token.
        settings = uvicorn.Config(application(desk, chosen, token), log_level="warning", access_log=False)
        uvicorn.Server(settings).run([listening])


def export(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="The CSV file to write.", show_default=False)],
) -> None:
    """Write corrected labels, for [bold]holdfast fit DATA --labels[/bold].

    Example: [bold]holdfast export run/ --out cleaned.csv[/bold]
    """
    from holdfast.review.export import corrected
    from holdfast.review.store import decisions_at

    if out.suffix != ".csv":
        raise HoldfastError(f"{out} must end in .csv")
    if out.exists():
        raise HoldfastError(f"{out} exists; choose another name")
    made = Run.records(run)
    if not (run / REVIEWS).exists():
        raise HoldfastError(f"nothing is reviewed in {run} yet; run holdfast review {run}")
    decisions = decisions_at(run / REVIEWS, made.asked["fingerprint"])
    table = corrected(made.issue_table(), decisions, made.classes is not None)
    with written_aside(out) as aside:
        table.to_csv(aside, index=False)
    labels = [name for name in table.columns if name.startswith("label")]
    changed = sum(int((table[name] != table[name.replace("label", "given")]).sum()) for name in labels[:1])
    reviewed = int(table["reviewed"].sum())
    Console().print(f"{reviewed:,} rows reviewed, {changed:,} labels changed: {out}", highlight=False)


def _rows(run: Run, console: Console) -> Rows | None:
    """The rows to show, or None with a word why not."""
    try:
        return run.training_rows()
    except HoldfastError as error:
        console.print(f"rows cannot be shown, only their numbers: {error}", highlight=False)
        return None


@torch.no_grad()
def _features(folder: Path, rows: Rows) -> Tensor:
    """(N, d) the inputs of the output layer; the rows themselves where the network cannot be made again."""
    try:
        net: nn.Module = Run.load(folder).net
        with penultimate(net) as caught:
            evaluate(net, inputs_of(rows.x, "cpu"))
        return torch.cat(caught).float()
    except HoldfastError:
        return torch.cat([x.flatten(1) for x in inputs_of(rows.x, "cpu")])


def _listening(port: int) -> socket.socket:
    """A socket on this machine's own address, which no other machine can reach."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", port))
        # Before the link is told: who follows it at once waits instead of being refused.
        held.listen()
    except OSError as error:
        held.close()
        raise HoldfastError(f"port {port} cannot be used: {error.strerror}; choose another with --port") from None
    return held
