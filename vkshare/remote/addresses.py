"""Network addresses as users write them: "HOST:PORT", or "[::1]:PORT"."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from vkshare.errors import RemoteLostError
from vkshare.util import arguments


@dataclass(frozen=True, slots=True)
class Address:
    """A host's name or number, and a port; 0: a free one, for listening."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """An address that a socket takes."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int]

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.sockaddr[0].partition("%")[0]).is_loopback


def parse(text: str) -> Address:
    """Return the address that a text names.

    Raises
    ------
    ValueError, TypeError
        It is not "HOST:PORT".
    """
    arguments.text("the address", text)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"the address is {text!r}: write an IPv6 address in brackets, as in '[::1]:7700'")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"the address is {text!r}: use 'HOST:PORT', as in '127.0.0.1:7700', with a port up to 65535")
    return Address(host, int(port))


def for_others(text: str) -> str:
    """Return the address of a listener as other machines write it: with this machine's name in place of any address."""
    address = parse(text)
    if address.host not in ("0.0.0.0", "::"):
        return text
    name = socket.gethostname()
    return f"{'THIS-MACHINE' if name in ('', 'localhost') else name}:{address.port}"


def resolve(address: Address) -> list[Resolved]:
    """Return the addresses behind a name, at least one.

    Raises
    ------
    RemoteLostError
        The name is unknown.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise RemoteLostError(f"the address {address} cannot be resolved: {error.strerror or error}") from None
    return [Resolved(family, sockaddr) for family, _, _, _, sockaddr in found]  # type: ignore[arg-type]


def of_socket(sock: socket.socket) -> Address:
    """Return the address that a socket is bound to."""
    host, port = sock.getsockname()[:2]
    return Address(host, port)
