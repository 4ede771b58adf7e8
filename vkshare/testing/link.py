"""A bad network link for tests: delay, jitter, a rate, loss, a queue, stalls and disconnects, on one machine.

    with LinkProxy("127.0.0.1:7700", delay=0.1, rate=2_500_000, loss=0.01, seed=1) as link:
        program.connect(link.address)
        link.stall(60)
        link.disconnect("reset", refuse=5)

    with linked_sockets(delay=0.1) as link:
        first, second = link.sockets

The model itself is pure (vkshare/testing/link_model.py). The bytes of a reliable stream come late,
never wrong: on_bytes() is for the latter.
"""

from __future__ import annotations

import functools
import os
import socket
from typing import Unpack

from vkshare.testing.link_base import LinkOptions, SimulatedLink
from vkshare.testing.link_connection import reset
from vkshare.testing.link_model import Flow, LinkModel
from vkshare.testing.link_relay import Relay, Target
from vkshare.testing.link_taps import LinkRecording
from vkshare.testing.link_types import DirectionStatistics, LinkSettings, LinkStatistics
from vkshare.util.closing import on_error

__all__ = [
    "DirectionStatistics",
    "Flow",
    "LinkModel",
    "LinkProxy",
    "LinkRecording",
    "LinkSettings",
    "LinkStatistics",
    "LinkedSockets",
    "SimulatedLink",
    "linked_sockets",
]


class LinkProxy(SimulatedLink):
    """A TCP proxy on loopback, whose connections pass a simulated link. Thread-safe.

    The bytes of all connections share the link's rate and its queue, and each connection has a window
    of its own, so a receiver that does not read pushes its own sender back, and no other. The proxy
    reads no more than queue and window allow: a sender's send() then blocks as over a real link,
    after the kernel's buffers, of 64 KiB at the proxy. The TCP handshake with the proxy is not
    delayed, but the first byte is.

    Parameters
    ----------
    target
        The address that connections lead to: "HOST:PORT", (host, port), or a Unix socket's path.
    seed
        Of the random numbers for jitter and loss.
    **settings
        The properties of both directions, see LinkSettings; set(direction=) changes one of them.

    Raises
    ------
    ValueError
        The target is malformed, or a value is out of its range.
    OSError
        The target's host is unknown, or no port is free.

    Examples
    --------
    >>> import socket
    >>> from vkshare.testing.link import LinkProxy
    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     with LinkProxy(server.getsockname(), delay=0.05, rate=1_000_000) as link:
    ...         with socket.create_connection(link.sockaddr) as client, server.accept()[0] as served:
    ...             client.sendall(b"hello")
    ...             served.recv(5)
    b'hello'
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | tuple[str, int] | object,
        *,
        seed: int | str = 0,
        **settings: Unpack[LinkOptions],
    ) -> None:
        self._target = _target(target)
        super().__init__(Relay(LinkSettings(**settings), seed, self._target))

    def __repr__(self) -> str:
        return f"<LinkProxy {self.address} -> {self._target}, {self._state()}>"

    @property
    def sockaddr(self) -> tuple[str, int]:
        """The address that clients connect to, as socket.create_connection() takes it."""
        assert self._relay.acceptor
        return self._relay.acceptor.sockaddr

    @property
    def address(self) -> str:
        """The address that clients connect to, "HOST:PORT"."""
        return f"{self.sockaddr[0]}:{self.sockaddr[1]}"


class LinkedSockets(SimulatedLink):
    """Two connected TCP sockets with a simulated link between them; linked_sockets() makes it. Thread-safe."""

    def __init__(self, *, seed: int | str = 0, **settings: Unpack[LinkOptions]) -> None:
        relay = Relay(LinkSettings(**settings), seed, None)
        super().__init__(relay)
        with on_error(self.close):
            first, near = _tcp_pair()
            with on_error(functools.partial(_reset_all, first, near)):
                second, far = _tcp_pair()
            self._call(lambda: relay.join(near, far))
        self._sockets = first, second

    def __repr__(self) -> str:
        return f"<LinkedSockets {self._state()}>"

    @property
    def sockets(self) -> tuple[socket.socket, socket.socket]:
        """The two sockets, blocking. The link's close() closes them, too."""
        return self._sockets

    def close(self) -> None:
        """Close both sockets, reset the connection, and end the thread. Idempotent.

        Raises
        ------
        Exception
            The first error of a function of on_bytes(), by the first close().
        """
        try:
            super().close()
        finally:
            for sock in getattr(self, "_sockets", ()):
                sock.close()


def linked_sockets(*, seed: int | str = 0, **settings: Unpack[LinkOptions]) -> LinkedSockets:
    """Return two connected sockets with a simulated link between them.

    Parameters
    ----------
    seed
        Of the random numbers for jitter and loss.
    **settings
        The properties of both directions, see LinkSettings.

    Returns
    -------
    LinkedSockets
        `link.sockets` has the two; "up" is from the first to the second.

    Raises
    ------
    ValueError
        A value is out of its range.

    Examples
    --------
    >>> from vkshare.testing.link import linked_sockets
    >>> with linked_sockets(delay=0.01) as link:
    ...     first, second = link.sockets
    ...     first.sendall(b"hello")
    ...     second.recv(5)
    b'hello'
    """
    return LinkedSockets(seed=seed, **settings)


def _target(given: object) -> Target:
    """Return the target that a user has named."""
    if isinstance(given, tuple) and len(given) >= 2:
        host, port = given[:2]
    else:
        named = os.fspath(given) if isinstance(given, os.PathLike) else given
        if not isinstance(named, str):
            raise TypeError(f"target must be 'HOST:PORT', (host, port) or a path, not {type(given).__name__}")
        if named.startswith(("/", ".", "\0")) or isinstance(given, os.PathLike):
            return Target(socket.AF_UNIX, named)
        host, _, port = named.rpartition(":")
    if not isinstance(host, str) or not host or not str(port).isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(
            f"target is {given!r}; allowed are 'HOST:PORT' with a port of 1 to 65535, (host, port), a path"
        )
    family, _, _, _, sockaddr = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    return Target(family, sockaddr)


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return two sockets that are connected over loopback; no other process can be the peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = socket.create_connection(listener.getsockname())
        with on_error(first.close):
            while True:
                second, peer = listener.accept()
                if peer == first.getsockname():
                    first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return first, second
                second.close()


def _reset_all(*socks: socket.socket) -> None:
    for sock in socks:
        reset(sock)
