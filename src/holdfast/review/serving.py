"""Where the page is served: on this machine alone, or to others encrypted, or behind a proxy that knows a secret."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.errors import HoldfastError
from holdfast.review.guard import SECRET, Access, local_access
from holdfast.review.links import Links

LOCAL = "127.0.0.1"
VARIABLE = "HOLDFAST_PROXY_SECRET"
"""The environment variable that holds the secret of a proxy."""
SHORTEST = 16
"""Characters of a secret at least."""


@dataclass(frozen=True)
class Serving:
    """What was asked for; made only if it opens no hole.

    Attributes
    ----------
    host: address to listen at.
    certificate, key: files for TLS.
    secret: what the proxy sends in its header; None without a proxy.
    address: what reviewers type, such as https://review.example.org; None where it follows from host and port.
    """

    host: str = LOCAL
    certificate: Path | None = None
    key: Path | None = None
    secret: str | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise HoldfastError("TLS needs both --certificate FILE and --key FILE")
        if self.encrypted and self.secret is not None:
            raise HoldfastError("pass --certificate and --key, or --behind-proxy, not both: the proxy encrypts")
        if not self.shared and not is_this_machine(self.host):
            raise HoldfastError(
                f"--host {self.host} would show rows and links to anybody on the network; pass --certificate FILE and "
                "--key FILE with it, or --behind-proxy"
            )
        if self.address is not None:
            _check_address(self.address)
        if self.address is not None and not self.shared:
            raise HoldfastError("--address goes with --certificate and --key, or with --behind-proxy")
        if self.address is None and (self.secret is not None or self.host in ("0.0.0.0", "::")):
            raise HoldfastError("say with --address what reviewers type, such as --address https://review.example.org")
        if self.encrypted:
            _check_certificate(str(self.certificate), str(self.key))

    @property
    def encrypted(self) -> bool:
        return self.certificate is not None

    @property
    def shared(self) -> bool:
        """Whether others than this machine may reach it."""
        return self.encrypted or self.secret is not None

    def access(self, port: int, token: str | None, links: Links | None) -> Access:
        """Who may come in; where others can reach the page, only who has a link of their own."""
        if not self.shared:
            return local_access(port, token, links)
        return Access(frozenset({self.home(port)}), f"holdfast_{port}", None, links, self.secret)

    def home(self, port: int) -> str:
        """The address of the page, without a slash at its end."""
        if self.address is not None:
            return self.address.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.encrypted else 'http'}://{host}:{port}"


def listening(port: int, host: str = LOCAL) -> socket.socket:
    """A socket at an address, by default this machine's own, which no other machine can reach."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise HoldfastError(f"there is no address {host} to listen at: {error.strerror}") from None
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(place)
        # Before the link is shown: who follows it at once waits instead of being refused.
        made.listen(1024)
    except OSError as error:
        made.close()
        where = f"port {port}" if host == LOCAL else f"port {port} of {host}"
        raise HoldfastError(f"{where} cannot be used: {error.strerror}; choose another with --port") from None
    return made


def is_this_machine(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_this_machine("127.0.0.1"), is_this_machine("localhost"), is_this_machine("0.0.0.0"), is_this_machine("::1")
    (True, True, False, True)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_secret(file: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """The secret of the proxy, from a file or the environment: other users of the machine can read a command line."""
    if file is not None:
        try:
            secret = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise HoldfastError(f"the secret cannot be read from {file}: {error}") from None
    else:
        secret = environment.get(VARIABLE, "")
    if len(secret) < SHORTEST or not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise HoldfastError(
            f"--behind-proxy needs a secret of at least {SHORTEST} plain characters that the proxy sends in the header "
            f"{SECRET}: put it into the environment as {VARIABLE}, or into a file named by --secret-file"
        )
    return secret


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        sound = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise HoldfastError(f"--address {address} is no address such as https://review.example.org or with a port")


def _check_certificate(certificate: str, key: str) -> None:
    try:
        # A password that fits no key: one that needs a password is refused instead of asked about.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise HoldfastError(f"{certificate} and {key} are no certificate with its key: {error}") from None
