"""The viewer's end of a link: it connects, and connects again while the grace lasts."""

from __future__ import annotations

import errno
import math
import os
import random
import socket
import ssl
import time
from collections.abc import Sequence

from vkshare.errors import RemoteLostError
from vkshare.remote import addresses, compression, tls
from vkshare.remote.handshake import (
    BUSY,
    DEADLINE,
    NO_SESSION,
    RESUMED,
    HandshakeError,
    Terms,
    Token,
    Verdict,
    ViewerHandshake,
    binding_of,
)
from vkshare.remote.link import GRACE, KEEPALIVE, Events, Link
from vkshare.remote.link_messages import LinkError
from vkshare.remote.link_thread import Attempt, LinkThread
from vkshare.remote.link_types import LinkState
from vkshare.remote.stream import Session
from vkshare.remote.wire import Wire
from vkshare.server.loop import READ, WRITE
from vkshare.util.deadline import Deadline

_LEAST_BACKOFF, _MOST_BACKOFF = 0.05, 1.0  # seconds


def connect(
    address: str,
    token: str,
    certificate: str | os.PathLike[str] | None = None,
    *,
    events: Events,
    keepalive: float = KEEPALIVE,
    grace: float = GRACE,
    timeout: float | None = 10.0,
) -> Link:
    """Connect to a LinkListener, and return the link once it is up.

    A connection that breaks later is made again, with growing pauses, while the grace lasts.

    Parameters
    ----------
    address
        The host's, "HOST:PORT".
    token
        The secret that the host has.
    certificate
        A file with the host's own certificate (PEM), which must be the one that it shows; "system"
        for those that this machine trusts, with a check of the host's name. None: no TLS, on
        loopback only.
    events
        Functions that the link calls; or a function that returns them for the link, because they
        may be called before the link is returned.
    keepalive
        Seconds between keep-alives; a side that is silent for two of them has gone. Both sides use
        the smaller one of theirs.
    grace
        Seconds for which a broken connection is made again; 0: never. The smaller one counts.
    timeout
        Seconds until the link is up; None waits for ever. Meanwhile a host that has another viewer
        is asked again, and so is an address at which nothing listens yet.

    Returns
    -------
    Link
        The viewer's end. Close it.

    Raises
    ------
    RemoteLostError
        The host cannot be reached, or refused the token or the certificate, or has another viewer.
    ValueError
        The address, the token or the certificate is malformed, or a link without TLS would leave
        this machine.
    OSError
        The certificate's file cannot be read.
    UnsupportedError
        The package zstandard is not installed.
    """
    deadline = Deadline(timeout)
    compression.zstandard()  # says now what the link's thread would need
    secret = Token(token)
    wanted = addresses.parse(address)
    resolved = addresses.resolve(wanted)
    context, pinned = tls.viewer_context(certificate, wanted, resolved)
    link = Link(events, keepalive, grace)
    thread = _ViewerThread(link, wanted, resolved, secret, context, pinned)
    link._thread = thread
    thread.start()
    try:
        if not link.wait_up(deadline.left()):
            raise RemoteLostError(
                thread.why if thread.is_absent else f"{wanted} cannot be reached within {timeout:g} s: {thread.why}"
            )
    except BaseException:
        link.close()
        raise
    return link


class _ViewerThread(LinkThread):
    def __init__(
        self,
        link: Link,
        address: addresses.Address,
        resolved: Sequence[addresses.Resolved],
        token: Token,
        context: ssl.SSLContext | None,
        pinned: list[bytes] | None,
    ) -> None:
        super().__init__(link, "vks-link-viewer")
        self.why = "it did not answer"  # of the last connection that did not pass the handshake
        self.is_absent = False  # an address of the host refused the last connections
        self._address = address
        self._resolved = resolved
        self._token = token
        self._context = context
        self._pinned = pinned
        self._attempt: Attempt | None = None
        self._is_connecting = False  # the attempt's connect() is in progress
        self._dials = 0
        self._dial_at = time.monotonic()
        self._backoff = _LEAST_BACKOFF

    # ---- connections ------------------------------------------------------------------------------------------

    def _dial(self, now: float) -> None:
        self._dial_at = math.inf
        to = self._resolved[self._dials % len(self._resolved)]
        self._dials += 1
        try:
            sock = socket.socket(to.family, socket.SOCK_STREAM)
        except OSError as error:
            return self._failed(str(error))
        name = self._address.host if self._context is not None else None
        self._attempt = Attempt(Wire(sock, self._context, name), now + DEADLINE)
        self._is_connecting = True
        self.loop.add(sock.fileno(), WRITE, self._on_attempt)
        status = sock.connect_ex(to.sockaddr)
        if status not in (0, errno.EINPROGRESS):
            self._unreachable(OSError(status, os.strerror(status)))

    def _on_attempt(self, events: int, _: Sequence[int]) -> None:
        attempt = self._attempt
        assert attempt is not None
        try:
            if self._is_connecting:
                self._is_connecting = False
                try:
                    attempt.wire.connected()
                except OSError as error:
                    return self._unreachable(error)
            elif not attempt.feed():
                return self._failed(
                    "the host closed the connection without an answer: the token or the certificate may be another "
                    "one, the address may be another program's, or a tunnel may find no host at its other end"
                )
            if attempt.handshake is None and attempt.wire.is_ready:
                self._introduce(attempt)
            attempt.wire.flush()
        except ssl.SSLCertVerificationError as error:
            return self._failed(f"the host's certificate is not the expected one: {error.verify_message}")
        except (LinkError, OSError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return self._failed(f"{why}: the address may be another program's" if _is_reset(error) else why)
        if isinstance(attempt.handshake, ViewerHandshake) and attempt.handshake.verdict:
            return self._judge(attempt, attempt.handshake.verdict, attempt.handshake.rest)
        self.loop.watch(attempt.wire.fileno(), READ | (WRITE if attempt.wire.wants_write else 0))

    def _introduce(self, attempt: Attempt) -> None:
        """Sends the first bytes, once the host has shown the right certificate."""
        certificate = attempt.wire.peer_certificate
        if self._pinned is not None and certificate not in self._pinned:
            raise HandshakeError("the host's certificate is not the expected one: it is none of the file's")
        session = self.link._session
        has_session = session.generation > 0
        terms = Terms(
            session.id if has_session else NO_SESSION,
            session.generation,
            session.inbox.expected,
            round(self.link.keepalive * 1e3),
            round(self.link.grace * 1e3),
        )
        attempt.handshake = ViewerHandshake(self._token, binding_of(certificate), terms)
        attempt.wire.send(attempt.handshake.begin())

    def _judge(self, attempt: Attempt, verdict: Verdict, rest: bytes) -> None:
        """Begins or resumes the session, as the host has decided."""
        if verdict.kind == BUSY:
            if self.link.state is LinkState.BROKEN:
                return self._lose("the host has another viewer now")
            return self._failed("the host has another viewer", is_retried=True)
        link, terms, now = self.link, verdict.terms, time.monotonic()
        session = link._session
        if verdict.kind == RESUMED:
            if (terms.session, terms.generation) != (session.id, session.generation):
                return self._failed("the host resumes a session that this viewer does not know")
            try:
                with link._changed:
                    session.resumed(terms.received, now)
            except LinkError as error:
                return self._lose(str(error))
        else:
            was_up = session.generation > 0
            session = Session(terms.generation, terms.session)
            with link._changed:
                link._session = session
            if was_up:
                link._enter(LinkState.REPLACED, "the host has begun a new session")
        self._grace, self._backoff, self._attempt = terms.grace_ms / 1e3, _LEAST_BACKOFF, None
        fd = attempt.wire.fileno()
        self.loop.remove(fd)
        self.loop.add(fd, READ, self._on_events)
        self._attach(attempt.wire, session, terms.keepalive_ms / 1e3, verdict.kind == RESUMED)
        if rest:
            self._take_rest(rest)

    def _take_rest(self, rest: bytes) -> None:
        try:
            self._feed(rest)
        except LinkError as error:
            self._fail(str(error))

    def _unreachable(self, error: OSError) -> None:
        """Handles a connection that was not made. A host that is not there yet may come, at one of its addresses."""
        if not self.is_absent and error.errno != errno.ECONNREFUSED:
            return self._failed(error.strerror or str(error))
        advice = "start `vkshare remote` first, or check the address and the tunnel"
        self._failed(f"nothing listens at {self._address}: {advice}", is_retried=True)
        self.is_absent = True

    def _failed(self, why: str, *, is_retried: bool = False) -> None:
        """Tries again later, or reports a first connection that cannot be made."""
        self.why, self.is_absent = why, False
        self._drop_attempt()
        with self.link._changed:
            self.link._refused += 1
        if self.link.state is LinkState.CONNECTING and not is_retried and self._dials >= len(self._resolved):
            return self._lose(f"{self._address}: {why}")
        self._dial_at = time.monotonic() + self._backoff * random.uniform(0.75, 1.25)
        self._backoff = min(_MOST_BACKOFF, self._backoff * 2)

    def _drop_attempt(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            self.loop.remove(attempt.wire.fileno())
            attempt.wire.close()

    # ---- time -------------------------------------------------------------------------------------------------

    def _on_broken(self, now: float) -> None:
        self._backoff = _LEAST_BACKOFF
        self._dial_at = now

    def _lose(self, why: str) -> None:
        self._drop_attempt()
        self._dial_at = math.inf
        super()._lose(why)

    def _on_time(self, now: float) -> None:
        super()._on_time(now)
        if self._attempt is not None and now >= self._attempt.deadline:
            self._failed(f"the host did not answer within {DEADLINE:g} s")
        if now >= self._dial_at:
            self._dial(now)

    def _deadline(self) -> float:
        attempt = math.inf if self._attempt is None else self._attempt.deadline
        return min(super()._deadline(), attempt, self._dial_at)

    def _close_all(self) -> None:
        super()._close_all()
        self._drop_attempt()


def _is_reset(error: Exception) -> bool:
    """Whether the other side ended the connection with bytes that it had not read."""
    return isinstance(error, ConnectionResetError | BrokenPipeError)
