"""The host's end of a link: it listens, and takes one viewer at a time."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import socket
import time
from collections.abc import Sequence

from vkshare.remote import addresses, compression, tls
from vkshare.remote.handshake import (
    BUSY,
    DEADLINE,
    NEW,
    NO_SESSION,
    RESUMED,
    HostHandshake,
    Terms,
    Token,
    Verdict,
    WrongTokenError,
    binding_of,
)
from vkshare.remote.link import GRACE, KEEPALIVE, Events, Link
from vkshare.remote.link_messages import LinkError
from vkshare.remote.link_thread import Attempt, LinkThread
from vkshare.remote.link_types import LinkState, LinkStatistics
from vkshare.remote.stream import Session
from vkshare.remote.wire import Wire
from vkshare.server.loop import READ, WRITE
from vkshare.util import fd_ops, forks
from vkshare.util.closing import FlagClosing, on_error

_log = logging.getLogger("vkshare.remote")

MAX_ATTEMPTS = 16  # connections without authentication at a time
_BACKLOG = 128  # connections that the kernel keeps until the thread accepts them
_MOST_GENERATION = 0xFFFFFFFF
_WARN_EVERY = 10.0  # seconds between two warnings of viewers with another token
_PAUSE = 0.1  # seconds without accepting, after the process has run out of file descriptors


class LinkListener(FlagClosing):
    """The host's end: listens for a viewer, and has the link to it. Thread-safe.

    The link is one object for all viewers that come after each other: see LinkState.REPLACED.

    Parameters
    ----------
    bind
        "HOST:PORT" to listen at; port 0 is any free one.
    token
        The secret that the viewer must have, of 16 characters or more.
    certificate
        Files with the certificate and its key (PEM), for TLS 1.3. None: no TLS, on loopback only.
    events
        Functions that the link calls; or a function that returns them for the link, because they
        may be called before the link is returned.
    keepalive
        Seconds between keep-alives; a side that is silent for two of them has gone. Both sides use
        the smaller one of theirs.
    grace
        Seconds for which a broken connection may come back; 0: it may not. The smaller one counts.

    Raises
    ------
    ValueError
        The address, the token or the certificate is malformed, or a link without TLS would be open
        to other machines.
    OSError
        The address is in use, or a file cannot be read.
    UnsupportedError
        The package zstandard is not installed.

    Examples
    --------
    >>> from vkshare.remote import LinkEvents, LinkListener, connect
    >>> import queue, secrets
    >>> token, arrived = secrets.token_urlsafe(), queue.Queue()
    >>> events = LinkEvents(on_message=lambda lane, message: arrived.put((lane, message)))
    >>> with LinkListener("127.0.0.1:0", token, events=LinkEvents(print)) as listener:
    ...     with connect(listener.address, token, events=events):
    ...         listener.link.send(7, b"hello")
    ...         arrived.get(timeout=10)
    True
    (7, b'hello')
    """

    def __init__(
        self,
        bind: str,
        token: str,
        certificate: tls.Paths | None = None,
        *,
        events: Events,
        keepalive: float = KEEPALIVE,
        grace: float = GRACE,
    ) -> None:
        secret = Token(token)
        compression.zstandard()  # says now what the link's thread would need
        wanted = addresses.parse(bind)
        resolved = addresses.resolve(wanted)
        context, der = tls.host_context(certificate, wanted, resolved)
        link = Link(events, keepalive, grace)
        sock = _listen(wanted, resolved[0])
        with on_error(sock.close):
            self._address = str(addresses.of_socket(sock))
            thread = _HostThread(link, sock, functools.partial(Wire, context=context), secret, binding_of(der))
            link._thread = thread
            thread.start()
        self._link = link
        self._closed = False
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<vkshare.remote.LinkListener at {self._address}, {self._link.state}>"

    @property
    def address(self) -> str:
        """The address that it listens at, "HOST:PORT", with the port that it has."""
        return self._address

    @property
    def link(self) -> Link:
        """The link to the viewer, which is `connecting` until one has come."""
        return self._link

    def statistics(self) -> LinkStatistics:
        """Return a snapshot of the link."""
        return self._link.statistics()

    def close(self) -> None:
        """Close the link, and stop listening. Idempotent."""
        self._link.close()
        self._closed = True


def _listen(address: addresses.Address, resolved: addresses.Resolved) -> socket.socket:
    sock = forks.close_in_child(socket.socket(resolved.family, socket.SOCK_STREAM))
    with on_error(sock.close):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(resolved.sockaddr)
        except OSError as error:
            advice = "; choose another port, or 0 for any" if error.errno == errno.EADDRINUSE else ""
            text = f"cannot listen at {address}: {os.strerror(error.errno or 0)}{advice}"
            raise OSError(error.errno, text) from None
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    return sock


class _HostThread(LinkThread):
    def __init__(
        self, link: Link, sock: socket.socket, wrap: functools.partial[Wire], token: Token, binding: bytes
    ) -> None:
        super().__init__(link, "vks-link-host")
        self._sock = sock
        self._wrap = wrap
        self._token = token
        self._binding = binding
        self._attempts: dict[int, Attempt] = {}  # by fd, the oldest first
        self._accept_at: float | None = None  # the end of a pause
        self._warn_at = 0.0  # the next warning of a wrong token
        self.loop.add(sock.fileno(), READ, self._on_accept)

    # ---- connections without authentication -------------------------------------------------------------------

    def _on_accept(self, events: int, _: Sequence[int]) -> None:
        try:
            sock, peer = self._sock.accept()
        except OSError as error:
            if error.errno in fd_ops.NO_ROOM:
                self.loop.watch(self._sock.fileno(), 0)
                self._accept_at = time.monotonic() + _PAUSE
            return
        if len(self._attempts) >= MAX_ATTEMPTS:  # a viewer needs two round trips, so the oldest is the least likely one
            self._refuse(next(iter(self._attempts)), "too many connections")
        attempt = Attempt(self._wrap(sock), time.monotonic() + DEADLINE, str(addresses.Address(*peer[:2])))
        attempt.handshake = HostHandshake(self._token, self._binding, self._decide)
        fd = sock.fileno()
        self._attempts[fd] = attempt
        self.loop.add(fd, READ, functools.partial(self._on_attempt, fd))

    def _on_attempt(self, fd: int, events: int, _: Sequence[int]) -> None:
        attempt = self._attempts[fd]
        handshake = attempt.handshake
        assert isinstance(handshake, HostHandshake)
        try:
            if not attempt.feed():
                return self._refuse(fd, "the peer ended the connection")
            attempt.wire.flush()
        except WrongTokenError as error:
            self._warn(f"a connection from {attempt.peer} was refused: {error}")
            return self._refuse(fd, str(error))
        except (LinkError, OSError) as error:  # ssl.SSLError is an OSError
            self._refuse(fd, str(error))
            if handshake.verdict is not None and handshake.verdict.kind != BUSY:  # the viewer does not know
                self._break(f"the connection failed: {error}")
            return
        if handshake.verdict is None:
            self.loop.watch(fd, READ | (WRITE if attempt.wire.wants_write else 0))
        elif handshake.verdict.kind == BUSY:
            self._refuse(fd, "another viewer is connected")
        else:
            self._admit(fd, attempt, handshake.verdict)

    def _warn(self, text: str) -> None:
        """Logs a warning, unless there was one a moment ago."""
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + _WARN_EVERY
            _log.warning("%s", text)

    def _refuse(self, fd: int, why: str) -> None:
        _log.info("a connection was refused: %s", why)
        attempt = self._attempts.pop(fd)
        with self.link._changed:
            self.link._refused += 1
        self.loop.remove(fd)
        attempt.wire.close()

    def _admit(self, fd: int, attempt: Attempt, verdict: Verdict) -> None:
        del self._attempts[fd]
        self.loop.remove(fd)
        self.loop.add(fd, READ, self._on_events)
        self._attach(attempt.wire, self.link._session, verdict.terms.keepalive_ms / 1e3, verdict.kind == RESUMED)

    # ---- sessions ---------------------------------------------------------------------------------------------

    def _decide(self, terms: Terms) -> Verdict:
        """Resumes the session of a viewer that knows it, refuses a second viewer, or begins a session."""
        link = self.link
        keepalive = min(terms.keepalive_ms, round(link.keepalive * 1e3))
        grace = min(terms.grace_ms, round(link.grace * 1e3))
        session = link._session
        if link.state in (LinkState.UP, LinkState.BROKEN) and (terms.session, terms.generation) == (
            session.id,
            session.generation,
        ):
            self._resume(session, terms.received)
            kind = RESUMED
        elif link.state is LinkState.UP:
            return Verdict(BUSY, Terms(NO_SESSION, 0, 0, keepalive, grace))
        else:
            session = self._begin(session, terms.generation)
            kind = NEW
        self._grace = grace / 1e3
        return Verdict(kind, Terms(session.id, session.generation, session.inbox.expected, keepalive, grace))

    def _resume(self, session: Session, received: int) -> None:
        self._drop_wire()  # the viewer knows that the connection broke, perhaps before this side does
        try:
            with self.link._changed:
                session.resumed(received, time.monotonic())
        except LinkError as error:
            self._lose(str(error))
            raise

    def _begin(self, session: Session, theirs: int) -> Session:
        """Begins a session whose generation neither this host nor the viewer has had just now.

        The viewer's may be that of a host which has died.
        """
        link = self.link
        generation = session.generation % _MOST_GENERATION + 1
        if generation == theirs:
            generation = generation % _MOST_GENERATION + 1
        if not session.generation:
            session.generation = generation  # its messages have waited for the first viewer
            return session
        with link._changed:
            link._session = Session(generation)
        self._grace_end = float("inf")
        link._enter(LinkState.REPLACED, "another viewer has come")
        return link._session

    # ---- time -------------------------------------------------------------------------------------------------

    def _on_time(self, now: float) -> None:
        super()._on_time(now)
        for fd in [fd for fd, attempt in self._attempts.items() if now >= attempt.deadline]:
            self._refuse(fd, f"it was not authenticated within {DEADLINE:g} s")
        if self._accept_at is not None and now >= self._accept_at:
            self._accept_at = None
            self.loop.watch(self._sock.fileno(), READ)

    def _deadline(self) -> float:
        ends = [attempt.deadline for attempt in self._attempts.values()]
        return min(super()._deadline(), *ends, self._accept_at or float("inf"), float("inf"))

    def _close_all(self) -> None:
        super()._close_all()
        for fd in list(self._attempts):
            with contextlib.suppress(OSError):
                self._refuse(fd, "the listener was closed")
        self.loop.remove(self._sock.fileno())
        self._sock.close()
