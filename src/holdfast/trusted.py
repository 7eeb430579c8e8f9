"""Code that somebody's run names: it runs only if whoever opens the run has named it too."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.errors import HoldfastError

Trusted = Collection[str] | None
"""What the one who opens a run trusts: names of code, ``module:factory``, and paths of pickles; None: all of it, since
the run was made in this very process."""

LINKS = "links"
"""What stands among the names where links out of a folder of images may be followed."""


def check_trusted(code: Iterable[str], trust: Trusted, where: object) -> None:
    """Refuse a run whose opening would run code that nobody has named.

    >>> check_trusted(["evil:factory"], [], "run/")
    Traceback (most recent call last):
    holdfast.errors.HoldfastError: the run in run/ names code of its own, evil:factory, which would be run; pass \
--trust-code evil:factory (in Python: trust=['evil:factory']) if you know who wrote it
    """
    for name in code:
        if trust is not None and name not in trust:
            raise HoldfastError(
                f"the run in {where} names code of its own, {name}, which would be run; pass --trust-code {name} "
                f"(in Python: trust=[{name!r}]) if you know who wrote it"
            )
