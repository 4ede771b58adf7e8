"""A connected socket that never blocks, with TLS or without: plain bytes in and out."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import time

from vkshare.util import forks
from vkshare.util.tls_records import RecordCounter

_READ_SIZE = 1 << 16
_MOST_BEFORE = 1 << 15  # bytes that a peer may send before it is trusted
_MOST_RECORDS = 32  # of these, with TLS: a host of a long chain of certificates needs some ten
_UNSENT = 1 << 15  # bytes that the kernel queues ahead of a control message, about (rule M8)


class Wire:
    """Owns a socket. For one thread.

    TLS runs in memory, so that a failed handshake sends no alert: nothing is answered (rule M11).

    Parameters
    ----------
    sock
        A connected socket, or one whose connect() is in progress.
    context
        None: no TLS.
    server_hostname
        The name that a viewer expects; None for a host.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None, server_hostname: str | None = None) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # neither is needed to be correct
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        self._sock = forks.close_in_child(sock)
        self._out = bytearray()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            is_host = context.protocol == ssl.PROTOCOL_TLS_SERVER
            self._tls = context.wrap_bio(self._incoming, self._outgoing, is_host, server_hostname)
        self.is_ready = self._tls is None  # whether TLS has been agreed
        self.is_trusted = False  # whether the peer has passed the handshake of the link
        self._records = RecordCounter()
        self.sent = self.received = 0  # bytes of the connection

    def fileno(self) -> int:
        """Returns the socket's fd."""
        return self._sock.fileno()

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of a host (DER); None without TLS."""
        return None if self._tls is None else self._tls.getpeercert(binary_form=True)

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait until the socket takes them."""
        return bool(self._out)

    def connected(self) -> None:
        """Finishes connect(), once the socket is writable, and begins TLS. Raises OSError if it failed."""
        if error := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
        if not self.is_ready:
            self._shake_hands()

    def receive(self) -> bytes | None:
        """Reads once; returns plain bytes, perhaps none, or None at the end of the connection.

        Raises
        ------
        OSError
            The connection failed, or TLS did (ssl.SSLError), or a peer that is not trusted has sent too much.
        """
        try:
            data = self._sock.recv(_READ_SIZE)
        except BlockingIOError:
            return b""
        self.received += len(data)
        if not self.is_trusted:
            self._limit(data)
        if self._tls is None:
            return data or None
        if not data:
            return None
        self._incoming.write(data)
        if not self.is_ready:
            self._shake_hands()
        return self._decrypt(self._tls) if self.is_ready else b""

    def _limit(self, data: bytes) -> None:
        is_too_much = self._tls is not None and self._records.feed(data) > _MOST_RECORDS
        if is_too_much or self.received > _MOST_BEFORE:
            raise ConnectionAbortedError(f"{self.received} bytes came before the handshake was over")

    def _shake_hands(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
            self.is_ready = True
        except ssl.SSLWantReadError:
            pass
        self._encrypted()
        self.flush()

    def _decrypt(self, tls: ssl.SSLObject) -> bytes | None:
        parts = []
        try:
            while data := tls.read(_READ_SIZE):
                parts.append(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return b"".join(parts) or None  # the next recv() returns the end
        self._encrypted()
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Queues bytes, and sends what the socket takes now."""
        if self._tls is None:
            self._out += data
        else:
            self._tls.write(data)
        self._encrypted()
        self.flush()

    def _encrypted(self) -> None:
        if self._outgoing.pending:
            self._out += self._outgoing.read()

    def flush(self) -> None:
        """Sends what the socket takes now. Raises OSError if the connection failed."""
        while self._out:
            try:
                sent = self._sock.send(self._out, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            self.sent += sent
            del self._out[:sent]

    def linger(self, seconds: float) -> None:
        """Sends what is queued, and waits until the peer has ended the connection too.

        A socket that is closed with bytes that were not read resets the connection, and the peer
        might lose the last bytes that were sent to it.
        """
        deadline, is_shut = time.monotonic() + seconds, False
        poll = select.poll()
        with contextlib.suppress(OSError):
            while (left := deadline - time.monotonic()) > 0:
                self.flush()
                if not self._out and not is_shut:
                    self._sock.shutdown(socket.SHUT_WR)
                    is_shut = True
                poll.register(self._sock, select.POLLIN | (select.POLLOUT if self._out else 0))
                poll.poll(left * 1e3)
                with contextlib.suppress(BlockingIOError):
                    if not self._sock.recv(_READ_SIZE):
                        return

    def close(self) -> None:
        """Closes the socket; bytes that wait are dropped. Idempotent."""
        self._out.clear()
        self._sock.close()
