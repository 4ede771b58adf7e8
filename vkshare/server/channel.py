"""A client's end of the connection: requests go out, replies are matched by their numbers, errors are raised here."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from vkshare import _fds, _sockets, _trace, _transport
from vkshare.errors import ClosedError, DeviceLostError, RemoteLostError
from vkshare.server import marks, wire
from vkshare.server.conversation import GREETINGS
from vkshare.server.messages import Body, Event, Failure, Op, decode, encode, rebuilt

_TIMEVAL = struct.Struct("@ll")
_NO_OP = wire.HEADER.pack
_REPLIES = 4096  # bytes that most replies fit
_MOST_EVENTS = _MOST_ERRORS = 1024  # kept for one who does not look: the newest


class Channel:
    """For one thread at a time. `generation` is that of the server's device, as far as it is known here; set_client()
    tells which of the server's clients this is, once that is known.
    """

    def __init__(self, path: Path, timeout: float | None) -> None:
        self.generation = 0
        self._asker = marks.NOBODY
        self.deferred: deque[Exception] = deque(maxlen=_MOST_ERRORS)  # of requests without a reply; each has `sequence`
        self.events: deque[tuple[Event, list[int]]] = deque(maxlen=_MOST_EVENTS)
        self._sequence = 0
        self.sent = 0  # the newest request that has gone out whole
        self._splitter = wire.Splitter()
        self._arrived: deque[wire.Message] = deque()
        self._timeout: float | None = None  # that the kernel knows
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The kernel's own timeouts: Python's would poll() before each call.
            self._set_timeout(timeout)
            _sockets.connect(self._sock, path)
        except BaseException:
            self._sock.close()
            raise

    @property
    def is_closed(self) -> bool:
        return self._sock.fileno() < 0

    def close(self) -> None:
        """Idempotent."""
        self._sock.close()
        self._splitter.close()
        for message in self._arrived:
            message.close()
        self._arrived.clear()
        for _, fds in self.events:
            _fds.close_all(fds)
        self.events.clear()

    def set_client(self, number: int) -> None:
        self._asker = marks.asker_here(self._sock, number)

    def _step(self, what: str, opcode: int) -> AbstractContextManager[None]:
        """The request that comes next, in a trace."""
        if not _trace.is_on:
            return _trace.NOTHING
        return marks.step(what, opcode, self._asker, self._sequence + 1 & 0xFFFFFFFF)

    # ---- out ------------------------------------------------------------------------------------------------------

    def send(self, opcode: int, body: Body | None = None, fds: Sequence[int] = (), timeout: float | None = None) -> int:
        """Sends a request, whose fds stay the caller's; returns its number."""
        with self._step("send", opcode):
            return self._send(opcode, body, fds, timeout)

    def _send(self, opcode: int, body: Body | None, fds: Sequence[int], timeout: float | None) -> int:
        self._check()
        self._set_timeout(timeout)
        sequence = self._next()
        generation = GREETINGS if opcode == Op.HELLO else self.generation
        data = encode(body)
        if wire.HEADER.size + len(data) <= wire.MAX_MESSAGE:
            self._send_all(wire.pack(opcode, sequence, generation, data, len(fds)), fds)
            self.sent = sequence
            return sequence
        memory = _in_memory(data)
        try:
            rights = [memory, *fds]
            self._send_all(wire.pack(opcode | wire.IN_MEMORY, sequence, generation, b"", len(rights)), rights)
        finally:
            os.close(memory)
        self.sent = sequence
        return sequence

    def _next(self) -> int:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        return self._sequence

    def _send_all(self, data: bytes, fds: Sequence[int]) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[wire.transmit(self._sock, left, fds) :]
                fds = ()
        except (BrokenPipeError, ConnectionResetError):
            raise self._why_it_ended() from None
        except BlockingIOError:
            if len(left) != len(data):
                self.close()  # half a message: the stream cannot be used any more
            raise TimeoutError("the server did not take the request in time") from None

    # ---- in -------------------------------------------------------------------------------------------------------

    def call(
        self, opcode: int, body: Body | None, fds: Sequence[int], timeout: float | None
    ) -> tuple[bytes, list[int]]:
        """Sends a request and waits for its reply: the body, and fds that are the caller's.

        wire.LostFds: the server has done it, and this process had no room for the reply's fds.
        """
        with self._step("call", opcode):
            message = self._await(self._send(opcode, body, fds, timeout), timeout)
        if opcode == Op.HELLO:
            self.generation = message.generation
        if message.has_lost_fds:
            raise wire.LostFds("the server's reply")
        return message.body, message.take_fds()

    def no_op(self, timeout: float | None) -> None:
        """A no-op's round trip, in as few steps as that can be."""
        if self._arrived or self._timeout != timeout or self.is_closed or _trace.is_on:
            self.call(Op.NO_OP, None, (), timeout)
            return
        sequence = self._next()
        size = wire.HEADER.size
        try:
            self._sock.send(_NO_OP(size, 2, 0, wire.VERSION, sequence, self.generation))
            data, ancillary, flags, _ = self._sock.recvmsg(_REPLIES, wire.FD_SPACE, socket.MSG_CMSG_CLOEXEC)
        except (BrokenPipeError, ConnectionResetError):
            raise self._why_it_ended() from None
        except BlockingIOError:
            raise TimeoutError("the server did not answer in time") from None
        if data != _NO_OP(size, 0x8000, 0, wire.VERSION, sequence, self.generation):
            self._take(data, _transport.fds_of(ancillary), bool(flags & socket.MSG_CTRUNC))
            self._await(sequence, timeout).close()

    def _await(self, sequence: int, timeout: float | None) -> wire.Message:
        start = time.monotonic()
        left = timeout
        while True:
            while self._arrived:
                message = self._arrived.popleft()
                if self._is_reply(message, sequence):
                    return message
            self._receive(left)
            left = None if timeout is None else max(0.0, start + timeout - time.monotonic())

    def look(self) -> None:
        """Takes in what has come already: deferred errors, events."""
        self._check()
        try:
            while True:
                self._take(*wire.receive(self._sock, socket.MSG_DONTWAIT))
        except BlockingIOError:
            pass
        except ConnectionResetError:
            raise self._why_it_ended() from None
        for _ in range(len(self._arrived)):
            self._is_reply(self._arrived.popleft(), None)

    def _is_reply(self, message: wire.Message, sequence: int | None) -> bool:
        """Whether it answers that request; whatever else it is, is seen to, and closed. Raises if the answer is an
        error.
        """
        is_answer = message.sequence == sequence
        if message.opcode == Op.REPLY and is_answer:
            return True
        try:
            self._see_to(message, is_answer)
        finally:
            message.close()  # an answer that came too late, too
        return False

    def _see_to(self, message: wire.Message, is_answer: bool) -> None:
        if message.opcode == Op.ERROR and is_answer:
            raise self._error(message)
        if message.opcode == Op.DEFERRED:
            self.deferred.append(self._error(message))
        elif message.opcode == Op.LOST:
            error = self._error(message)
            self.close()
            raise error
        elif message.opcode == Op.EVENT:
            if len(self.events) == _MOST_EVENTS:
                _fds.close_all(self.events.popleft()[1])
            self._keep_event(message)

    def _keep_event(self, message: wire.Message) -> None:
        if message.has_lost_fds:
            self.deferred.append(wire.LostFds("what the server told"))
        else:
            self.events.append((self.decoded(Event, message.body), message.take_fds()))

    def decoded(self, kind: type[Body], data: bytes) -> Any:
        """The body in `data`. RemoteLostError: it is none, and the connection is closed."""
        try:
            return decode(kind, data)
        except wire.Garbage as error:
            raise self._garbage(error) from None

    def _garbage(self, why: wire.Garbage) -> RemoteLostError:
        self.close()
        return RemoteLostError(f"what came from the server is garbage: {why}")

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
            raise TimeoutError("the server did not answer in time")
        self._set_timeout(timeout)
        try:
            self._take(*wire.receive(self._sock))
        except BlockingIOError:
            raise TimeoutError("the server did not answer in time") from None
        except ConnectionResetError:
            raise self._why_it_ended() from None

    def _take(self, data: bytes, fds: list[int], has_lost_fds: bool) -> None:
        if not data:
            self.close()
            raise RemoteLostError("the server has closed the connection")
        try:
            self._arrived.extend(self._splitter.feed(data, fds, has_lost_fds))
        except wire.Garbage as error:
            raise self._garbage(error) from None

    def _why_it_ended(self) -> Exception:
        """What the server said last, as far as it got here."""
        messages = list(self._arrived)
        try:
            while (came := wire.receive(self._sock, socket.MSG_DONTWAIT))[0]:
                messages += self._splitter.feed(*came)
        except (OSError, wire.Garbage):
            pass
        told = [message for message in messages if message.opcode == Op.LOST]
        try:
            return self._error(told[0]) if told else RemoteLostError("the server has closed the connection")
        finally:
            for message in messages:
                message.close()
            self.close()

    def _check(self) -> None:
        if self.is_closed:
            raise ClosedError("this connection is closed: make another Client")

    def _set_timeout(self, timeout: float | None) -> None:
        if timeout == self._timeout:
            return
        whole, part = divmod(timeout or 0.0, 1.0)
        packed = _TIMEVAL.pack(int(whole), max(int(part * 1e6), int(timeout is not None and not whole)))
        for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._sock.setsockopt(socket.SOL_SOCKET, which, packed)
        self._timeout = timeout


def _in_memory(data: bytes) -> int:
    """A memfd with the data, the caller's. ValueError: that is too much. OSError: there is no memfd for it."""
    if len(data) > wire.MAX_IN_MEMORY:
        raise ValueError(f"the request has {len(data)} bytes; allowed are {wire.MAX_IN_MEMORY}: send it in parts")
    try:
        fd = os.memfd_create("vks-request", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise OSError(
            error.errno,
            f"the request has {len(data)} bytes; from {wire.MAX_MESSAGE} bytes on it travels in a memfd, and this "
            f"process cannot have one ({error.strerror}): send it in parts, raise RLIMIT_NOFILE, or allow memfd_create",
        ) from None
    return fd
