"""The client's end of a connection: sends requests, matches replies by sequence number, raises errors."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from vkshare.errors import ClosedError, DeviceLostError, RemoteLostError
from vkshare.ipc import sockets, transport
from vkshare.server import trace_points, wire
from vkshare.server.messages import Body, Event, Failure, Op, decode, encode, rebuilt
from vkshare.server.session_state import NO_GENERATION
from vkshare.util import fd_ops, forks, trace
from vkshare.util.closing import on_error

_TIMEVAL = struct.Struct("@ll")
_NO_OP = wire.HEADER.pack
_NO_ANSWER = "the server did not answer in time"
_REPLIES = 4096  # bytes; most replies fit
_MOST_EVENTS = _MOST_ERRORS = 1024  # the newest are kept until the caller reads them


class _Outgoing:
    """A request that is being sent. Counts the bytes sent, also if the call is interrupted."""

    def __init__(self, sequence: int, size: int, before: int = 0) -> None:
        self.sequence = sequence
        self.before = before  # the newest request before this one that was sent completely
        self.parts: list[int] = []  # bytes
        self._size = size

    @property
    def is_whole(self) -> bool:
        return sum(self.parts) == self._size

    @property
    def is_partial(self) -> bool:
        return 0 < sum(self.parts) < self._size

    def send(self, sock: socket.socket, data: memoryview, fds: Sequence[int]) -> None:
        """Sends as many bytes as the socket takes, the fds with the first byte. One C call, like wire.read_into()."""
        if fds:
            self.parts.extend(map(sock.sendmsg, ([data],), (transport.rights(fds),), (transport.NO_SIGNAL,)))
        else:
            self.parts.extend(map(sock.send, (data,), (transport.NO_SIGNAL,)))


class Channel:
    """For one thread at a time.

    `generation` is the last known generation of the server's device. set_client() stores this
    client's number, once the server has sent it.

    An interrupted call (Ctrl-C) loses no byte and no fd of the stream: its reply is skipped when it
    arrives.
    """

    def __init__(self, path: Path, timeout: float | None) -> None:
        self.generation = 0
        self._requester = trace_points.UNKNOWN_REQUESTER
        # errors of requests without a reply; each has `sequence`
        self.deferred: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self.events: deque[tuple[Event, list[int]]] = deque(maxlen=_MOST_EVENTS)
        self._sequence = 0
        self._outgoing = _Outgoing(0, 0)
        self._splitter = wire.Splitter()
        self._arrived = self._splitter.messages
        self._timeout: float | None = None  # as set in the kernel
        self._sock = forks.close_in_child(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with on_error(self._sock.close):
            # Kernel timeouts, because Python's would call poll() before each call.
            self._set_timeout(timeout)
            try:
                sockets.connect(self._sock, path)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                advice = f"no render server listens at {path}; start one (vkshare serve), or give its path"
                raise type(error)(error.errno, f"{error.strerror}: {advice}") from None

    @property
    def is_closed(self) -> bool:
        return self._sock.fileno() < 0

    def close(self) -> None:
        """Closes the connection. Idempotent."""
        self._sock.close()
        self._splitter.close()
        for _, fds in self.events:
            fd_ops.close_all_of(fds)
        self.events.clear()

    def set_client(self, number: int) -> None:
        self._requester = trace_points.requester_at_client(self._sock, number)

    def _step(self, what: str, opcode: int) -> AbstractContextManager[None]:
        """Returns the trace step of the next request."""
        return trace_points.step(what, opcode, self._requester, self._sequence + 1 & 0xFFFFFFFF)

    # ---- out ------------------------------------------------------------------------------------------------------

    def send(self, opcode: int, body: Body | None = None, fds: Sequence[int] = (), timeout: float | None = None) -> int:
        """Sends a request; returns its sequence number. The fds stay the caller's."""
        with self._step("send", opcode):
            return self._send(opcode, body, fds, timeout)

    def _send(self, opcode: int, body: Body | None, fds: Sequence[int], timeout: float | None) -> int:
        self._check()
        self._set_timeout(timeout)
        sequence = self._next()
        generation = NO_GENERATION if opcode == Op.HELLO else self.generation
        data = encode(body)
        if wire.HEADER.size + len(data) <= wire.MAX_MESSAGE:
            self._send_all(wire.pack(opcode, sequence, generation, data, len(fds)), fds, sequence)
            return sequence
        memory = _in_memory(data)
        try:
            rights = [memory, *fds]
            data = wire.pack(opcode | wire.IN_MEMORY, sequence, generation, b"", len(rights))
            self._send_all(data, rights, sequence)
        finally:
            os.close(memory)
        return sequence

    def _next(self) -> int:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        return self._sequence

    @property
    def sent(self) -> int:
        """The newest request that was sent completely."""
        going = self._outgoing
        return going.sequence if going.is_whole else going.before

    def _send_all(self, data: bytes, fds: Sequence[int], sequence: int) -> None:
        self._outgoing = going = _Outgoing(sequence, len(data), self.sent)
        left = memoryview(data)
        try:
            while left:
                going.send(self._sock, left, fds)
                left = left[going.parts[-1] :]
                fds = ()
        except (BrokenPipeError, ConnectionResetError):
            raise self._disconnect_error() from None
        except BlockingIOError:
            if going.is_partial:
                self.close()  # part of a message was sent: the stream is unusable
            raise TimeoutError("the server did not take the request in time") from None

    # ---- in -------------------------------------------------------------------------------------------------------

    def call(
        self, opcode: int, body: Body | None, fds: Sequence[int], timeout: float | None
    ) -> tuple[bytes, list[int]]:
        """Sends a request and waits for its reply; returns the body, and fds that the caller owns.

        wire.LostFds: the server has executed the request, but this process had no fd free for the
        reply's fds.
        """
        message = self.exchange(opcode, body, fds, timeout)
        return message.body, message.take_fds()

    def exchange(self, opcode: int, body: Body | None, fds: Sequence[int], timeout: float | None) -> wire.Message:
        """Does the same; returns the reply message, which owns its fds."""
        with self._step("call", opcode):
            message = self._await(self._send(opcode, body, fds, timeout), timeout)
        if opcode == Op.HELLO:
            self.generation = message.generation
        if message.has_lost_fds:
            raise wire.LostFds("the server's reply")
        return message

    def no_op(self, timeout: float | None) -> None:
        """Makes the round trip of a no-op, on a fast path."""
        is_between = self._arrived or self._splitter.parts or not self._splitter.is_empty or self._outgoing.is_partial
        if is_between or self._timeout != timeout or self.is_closed or trace.is_on:
            self.call(Op.NO_OP, None, (), timeout)
            return
        sequence = self._next()
        size, parts = wire.HEADER.size, self._splitter.parts
        try:
            self._sock.send(_NO_OP(size, 2, 0, wire.VERSION, sequence, self.generation))
            wire.read_into(parts, self._sock, size=_REPLIES)
        except (BrokenPipeError, ConnectionResetError):
            raise self._disconnect_error() from None
        except BlockingIOError:
            raise TimeoutError(_NO_ANSWER) from None
        if parts[0][0] == _NO_OP(size, 0x8000, 0, wire.VERSION, sequence, self.generation):
            del parts[0]
        else:
            self._await(sequence, timeout).close()

    def _await(self, sequence: int, timeout: float | None) -> wire.Message:
        start = time.monotonic()
        left = timeout
        while True:
            if (message := self._next_reply(sequence)) is not None:
                return message
            self._receive(left)
            left = None if timeout is None else max(0.0, start + timeout - time.monotonic())

    def poll(self) -> None:
        """Reads what has arrived: deferred errors, events. Does not wait."""
        self._check()
        is_open = True
        with contextlib.suppress(BlockingIOError):
            while is_open:
                is_open = self._read(transport.DONT_WAIT)
        self._next_reply(None)
        if not is_open:
            raise self._disconnect_error()

    def _next_reply(self, sequence: int | None) -> wire.Message | None:
        """Returns the reply to that request, or None if it has not arrived. Raises if the answer is an error.

        Messages before the reply are handled and closed. A signal can interrupt only between two
        messages.
        """
        while self._arrived:
            message = self._arrived[0]
            is_answer = message.sequence == sequence
            if message.opcode == Op.REPLY and is_answer:
                del self._arrived[0]
                return message
            try:
                self._handle(message, is_answer)
            finally:
                message.close()  # also an answer that came after its timeout
        return None

    def _handle(self, message: wire.Message, is_answer: bool) -> None:
        """Handles a message and removes it from those that have arrived."""
        if message.opcode == Op.ERROR and is_answer:
            error = self._error(message)
            del self._arrived[0]
            raise error
        if message.opcode == Op.LOST:
            error = self._error(message)
            self.close()
            raise error
        deferred: tuple[Exception, ...] = ()
        events: tuple[tuple[Event, list[int]], ...] = ()
        fds: list[int] = []
        if message.opcode == Op.DEFERRED:
            deferred = (self._error(message),)
        elif message.opcode == Op.EVENT and message.has_lost_fds:
            deferred = (wire.LostFds("an event of the server"),)
        elif message.opcode == Op.EVENT:
            events = ((self.decoded(Event, message.body), fds),)
            if len(self.events) == _MOST_EVENTS:
                fd_ops.close_all_of(self.events[0][1])
        self.deferred += deferred
        self.events += events
        if events:
            fds += message.fds
            message.fds = []
        del self._arrived[0]

    def decoded(self, kind: type[Body], data: bytes) -> Any:
        """Decodes the body in `data`. RemoteLostError: it is malformed; the connection is closed then."""
        try:
            return decode(kind, data)
        except wire.ProtocolError as error:
            raise self._protocol_error(error) from None

    def _protocol_error(self, why: wire.ProtocolError) -> RemoteLostError:
        self.close()
        return RemoteLostError(f"the server sent a malformed message: {why}")

    def _error(self, message: wire.Message) -> Exception:
        error = rebuilt(self.decoded(Failure, message.body))
        error.sequence = message.sequence  # type: ignore[attr-defined]
        if message.opcode == Op.DEFERRED:
            error.add_note(f"of request {message.sequence}, which was sent earlier")
        if isinstance(error, DeviceLostError):
            self.generation = message.generation
        return error

    def _receive(self, timeout: float | None) -> None:
        if timeout == 0:
            raise TimeoutError(_NO_ANSWER)
        self._set_timeout(timeout)
        try:
            is_open = self._read()
        except BlockingIOError:
            raise TimeoutError(_NO_ANSWER) from None
        if not is_open and not self._arrived:
            raise self._disconnect_error()

    def _read(self, flags: int = 0) -> bool:
        """Reads once from the socket. False: the server has closed its end."""
        try:
            return self._splitter.read(self._sock, flags)
        except ConnectionResetError:
            raise self._disconnect_error() from None
        except wire.ProtocolError as error:
            raise self._protocol_error(error) from None

    def _disconnect_error(self) -> Exception:
        """Closes the connection; returns the server's last error, if it arrived."""
        with contextlib.suppress(OSError, wire.ProtocolError):
            while self._splitter.read(self._sock, transport.DONT_WAIT):
                pass
        lost = [message for message in self._arrived if message.opcode == Op.LOST]
        try:
            return self._error(lost[0]) if lost else RemoteLostError("the server has closed the connection")
        finally:
            self.close()

    def _check(self) -> None:
        if self.is_closed:
            raise ClosedError("this connection is closed: make another Client")
        # the server would read the next request as the rest of this one
        if self._outgoing.is_partial:
            self.close()
            raise ClosedError(
                "a call of this client was interrupted when half of its request was sent, and no other can follow it: "
                "this connection is closed, make another Client"
            )

    def _set_timeout(self, timeout: float | None) -> None:
        if timeout == self._timeout:
            return
        whole, part = divmod(timeout or 0.0, 1.0)
        packed = _TIMEVAL.pack(int(whole), max(int(part * 1e6), int(timeout is not None and not whole)))
        self._timeout = -1.0  # unknown, if this is interrupted
        for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._sock.setsockopt(socket.SOL_SOCKET, which, packed)
        self._timeout = timeout


def _in_memory(data: bytes) -> int:
    """Returns a memfd with the data, owned by the caller.

    ValueError: too much data. OSError: no memfd can be created.
    """
    if len(data) > wire.MAX_IN_MEMORY:
        raise ValueError(f"the request has {len(data)} bytes; allowed are {wire.MAX_IN_MEMORY}: send it in parts")
    try:
        fd = os.memfd_create("vks-request", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with on_error(lambda: os.close(fd)):
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
    except OSError as error:
        raise OSError(
            error.errno,
            f"the request has {len(data)} bytes; from {wire.MAX_MESSAGE} bytes on it travels in a memfd, and this "
            f"process cannot have one ({error.strerror}): send it in parts, raise RLIMIT_NOFILE, or allow memfd_create",
        ) from None
    return fd
