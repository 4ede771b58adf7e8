"""Connections of a view server until they have shown the token: bounded in number, bytes and time (rule W6).

aiohttp parses HTTP. A Guard stands before each of its protocols, counts what comes, and ends a
connection that is late. Everything here runs on the server's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import hdrs, web

from vkshare.util.tls_records import RecordCounter
from vkshare.view.security import Refusal

DEADLINE = 10.0  # seconds from the connection to its WebSocket; a page's files are fetched within them too
TLS_DEADLINE = 5.0  # seconds for the TLS handshake
MOST_WAITING = 64  # connections without the token; a further one ends the oldest of them
MOST_BYTES = 1 << 18  # that such a connection may send; a page's requests take some 2 KiB each
_MOST_RECORDS = 32  # of TLS that such a connection may send, and one more for so many bytes of its requests
_BYTES_A_RECORD = 512
_MOST_LINE = 4096
_MOST_FIELD = 1 << 14  # bytes: browsers send the cookies that other servers of this host have set
_KEEP_ALIVE = 5.0
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

# aiohttp's texts about malformed requests quote these, and a request may have the token in it.
_silent = logging.getLogger("vkshare.view.silent")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False
_silent.setLevel(logging.CRITICAL + 1)


class Bare(web.Response):
    """A response without the fields that aiohttp adds: the server's version, and the time."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        for name in (hdrs.SERVER, hdrs.DATE):
            self.headers.popall(name, None)


class BareSocket(web.WebSocketResponse):
    """A WebSocket whose handshake lacks these fields too."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        for name in (hdrs.SERVER, hdrs.DATE):
            self.headers.popall(name, None)


class Refused(web.Response):
    """The one answer of all refusals: 403, no body, and the end of the connection.

    The bytes are the same whatever the request was, its version included.
    """

    def __init__(self) -> None:
        super().__init__(status=403)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        if request.transport is not None:
            request.transport.write(_REFUSED)

    async def write_eof(self, data: bytes = b"") -> None:
        pass


class _Handler(web.RequestHandler):
    """aiohttp's protocol, which answers malformed HTTP as everything else that is refused."""

    gate: Gate

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer is sent")
        if status == 500:  # an error of the server's own; the request may have a token, and is not logged
            logging.getLogger("vkshare.view").error("an error of the view server", exc_info=exc)
        self.gate.count(Refusal.MALFORMED)
        return Refused()


class Gate:
    """The connections that have not shown the token yet, and counts of what was refused.

    Parameters
    ----------
    loop
        The event loop, which is the only user of the object.
    answer
        Called with each request; its response is sent.
    deadline
        Seconds that a connection has.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        deadline: float = DEADLINE,
    ) -> None:
        self.loop = loop
        self.deadline = deadline
        self.refused: Counter[Refusal] = Counter()
        self.accepted = 0
        self._manager = web.Server(answer, loop=loop)
        self._guards: dict[asyncio.BaseTransport, Guard] = {}  # all connections, oldest first
        self._waiting: dict[Guard, None] = {}  # those without the token, oldest first

    def protocol(self, sock: Waiting) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        handler = _Handler(
            self._manager,
            loop=self.loop,
            keepalive_timeout=_KEEP_ALIVE,
            logger=_silent,
            access_log=_silent,
            max_line_size=_MOST_LINE,
            max_field_size=_MOST_FIELD,
            max_headers=64,
            lingering_time=0.0,
        )
        handler.gate = self
        return Guard(handler, self, sock)

    def count(self, why: Refusal) -> None:
        """Count a refusal."""
        self.refused[why] += 1

    def enter(self, guard: Guard, transport: asyncio.Transport) -> None:
        """Begin a connection, in the place of the oldest that waits if there are too many."""
        self.accepted += 1
        self._guards[transport] = guard
        if len(self._waiting) >= MOST_WAITING:
            next(iter(self._waiting)).end(Refusal.LIMIT)
        self._waiting[guard] = None

    def leave(self, guard: Guard, transport: asyncio.BaseTransport | None) -> None:
        """End a connection."""
        self._waiting.pop(guard, None)
        if transport is not None:
            self._guards.pop(transport, None)

    def trust(self, transport: asyncio.BaseTransport | None) -> bool:
        """Free a connection that has shown the token from the limits; False if it has ended."""
        guard = self._guards.get(transport) if transport is not None else None
        if guard is None:
            return False
        self._waiting.pop(guard, None)
        guard.trust()
        return True

    async def shutdown(self) -> None:
        """End all connections."""
        for guard in list(self._guards.values()):
            guard.end(None)
        await self._manager.shutdown(1.0)


class Waiting(socket.socket):
    """The socket of a connection, which has few records of TLS until it has shown the token. asyncio reads from it."""

    __slots__ = ("_records", "most_records")
    _records: RecordCounter
    most_records: float

    @classmethod
    def of(cls, sock: socket.socket, *, has_tls: bool) -> Waiting:
        """Takes the socket over."""
        sock.setblocking(False)
        made = cls(sock.family, sock.type, sock.proto, fileno=sock.detach())
        made._records = RecordCounter()
        made.most_records = _MOST_RECORDS if has_tls else math.inf
        return made

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0, /) -> int:
        """Reads as a socket does. ConnectionAbortedError: too many records came."""
        found = super().recv_into(buffer, nbytes, flags)
        if self.most_records < math.inf and self._records.feed(memoryview(buffer)[:found]) > self.most_records:
            raise ConnectionAbortedError(f"{self._records.count} records of TLS came before the token")
        return found


class Guard(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol, within the limits."""

    def __init__(self, inner: _Handler, gate: Gate, sock: Waiting) -> None:
        self._inner = inner
        self._gate = gate
        self._sock = sock
        self._transport: asyncio.Transport | None = None
        self._bytes = 0
        self._is_trusted = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._gate.loop.call_later(self._gate.deadline, self.end, Refusal.LATE)
        self._inner.connection_made(transport)
        self._gate.enter(self, self._transport)

    def data_received(self, data: bytes) -> None:
        if not self._is_trusted:
            self._bytes += len(data)
            self._sock.most_records += len(data) / _BYTES_A_RECORD
            if self._bytes > MOST_BYTES:
                self.end(Refusal.LIMIT)
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        self._inner.eof_received()
        return None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        if isinstance(exc, ConnectionAbortedError) and not self._is_trusted:
            self._gate.count(Refusal.LIMIT)
        self._gate.leave(self, self._transport)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def trust(self) -> None:
        """Stop the clock: the connection has shown the token."""
        self._is_trusted = True
        self._sock.most_records = math.inf
        self._stop_timer()

    def end(self, why: Refusal | None) -> None:
        """End the connection without a further byte."""
        self._stop_timer()
        self._gate._waiting.pop(self, None)
        if why is not None:
            self._gate.count(why)
        if self._transport is not None:
            try:
                self._transport.abort()
            except AttributeError:  # CPython 3.11: of TLS that aiohttp has closed twice, and whose end is awaited
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
