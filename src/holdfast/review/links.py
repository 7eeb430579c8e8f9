"""Links: one for each reviewer, which can be taken back; every answer is signed by the link through which it came."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.review.log import TABLES
from holdfast.review.store import Sign, Store, entry_text

KEY = "reviews.key"
"""The file in the folder of a run whose secret signs answers; only its owner can read it."""

LONGEST_NAME = 60


@dataclass(frozen=True)
class Link:
    """A link that holds."""

    number: str
    reviewer: str


class Links:
    """The links of a run. The file of reviews knows a digest of each token, from which no link can be made.

    Parameters
    ----------
    store: in whose file they are kept.
    key: the file of the secret that signs answers; made if it is not there.
    """

    def __init__(self, store: Store, key: Path) -> None:
        self._store = store
        with store.transaction():
            store.connection.execute(f"CREATE TABLE IF NOT EXISTS links ({TABLES['links']})")
        self._key = _secret(key)

    @staticmethod
    def are_in(store: Store) -> bool:
        """Whether links were ever made."""
        return bool(store.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'links'").fetchone())

    def make(self, reviewer: str) -> str:
        """The token of a new link for a reviewer; their links of before are taken back."""
        token, number = secrets.token_urlsafe(24), secrets.token_hex(4)
        with self._store.transaction():
            self.revoke(reviewer)
            self._store.connection.execute(
                "INSERT INTO links (number, reviewer, digest) VALUES (?, ?, ?)", (number, reviewer, _digest(token))
            )
        return token

    def revoke(self, reviewer: str) -> int:
        """Take back the links of a reviewer, for servers that run too; how many there were."""
        changed = self._store.connection.execute(
            "UPDATE links SET revoked = 1 WHERE reviewer = ? AND NOT revoked", (reviewer,)
        )
        return changed.rowcount

    def reviewers(self) -> list[str]:
        """Who has a link that holds."""
        lines = self._store.connection.execute("SELECT reviewer FROM links WHERE NOT revoked ORDER BY rowid")
        return [str(line[0]) for line in lines]

    def of(self, token: str) -> Link | None:
        """The link of a token, or None where there is none that holds."""
        found = self._store.connection.execute(
            "SELECT number, reviewer FROM links WHERE digest = ? AND NOT revoked", (_digest(token),)
        ).fetchone()
        return None if found is None else Link(*found)

    def sign(self, link: Link) -> Sign:
        """What signs the entries that come through a link."""
        return lambda entry: (link.number, self._signature(link.number, entry))

    def forged(self) -> list[int]:
        """Numbers of entries that say they came through a link but were not signed by it under its reviewer's name."""
        lines = self._store.connection.execute(
            "SELECT entries.number, entries.reviewer, row, verdict, label, undoes, link, signature, links.reviewer "
            "FROM entries LEFT JOIN links ON links.number = link WHERE link IS NOT NULL"
        )
        return [
            number
            for number, reviewer, row, verdict, label, undoes, link, signature, owner in lines
            if reviewer != owner
            or not hmac.compare_digest(
                str(signature), self._signature(link, entry_text(reviewer, row, verdict, label, undoes))
            )
        ]

    def _signature(self, number: str, entry: str) -> str:
        return hmac.new(self._key, f"{number}:{entry}".encode(), hashlib.sha256).hexdigest()


def checked_name(name: Any) -> str:
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise HoldfastError(f"a reviewer has a name of at most {LONGEST_NAME} characters")
    return str(name)


def _digest(token: str) -> str:
    """Of a token of 24 random bytes, which no dictionary holds."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _secret(path: Path) -> bytes:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = path.read_bytes()
        if len(kept) < 32:
            raise HoldfastError(f"{path} is damaged; remove it and make the links of the reviewers again") from None
        return kept
    with os.fdopen(file, "wb") as opened:
        made = secrets.token_bytes(32)
        opened.write(made)
        opened.flush()
        os.fsync(opened.fileno())
    return made
