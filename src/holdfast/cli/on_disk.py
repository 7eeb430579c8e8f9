"""Options of data that stays on disk until it is needed, and of links in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.data.rows import Rows

FollowLinks = Annotated[
    bool,
    typer.Option("--follow-links", help="Follow links that lead out of a folder of images."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="How many processes decode images that stay on disk until a batch needs them; by default, one per extra "
        "core, at most four.",
        show_default=False,
    ),
]


def workers_for(rows: Rows, asked: int | None) -> int:
    """Processes that load the inputs of rows: none where they lie in memory or are mapped into it."""
    from holdfast.data.images import Pictures

    if asked is not None:
        return asked
    return min(4, max(1, len(os.sched_getaffinity(0)) - 1)) if isinstance(rows.x, Pictures) else 0


def trusted(code: Sequence[str], follow_links: bool) -> list[str]:
    """What the one who opens a run trusts it with."""
    from holdfast.trusted import LINKS

    return [*code, LINKS] if follow_links else list(code)
