"""The wire format: a fixed header, a body in msgpack, file descriptors beside them. See docs/server.md.

The socket is a Unix stream socket, because one write may contain several requests. The peer is
untrusted: each number is checked before use, and each received file descriptor has an owner at
once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkshare.ipc import transport
from vkshare.util import fd_ops
from vkshare.util.closing import destructor

VERSION = 4
# length of the whole message, opcode, number of fds, version, sequence, device generation
# (native/server/poll.h)
HEADER = struct.Struct("<IHBBII")
MAX_MESSAGE = 1 << 20  # bytes; a longer body travels in a memfd
MAX_IN_MEMORY = 1 << 24
MAX_FDS = 253  # of one message: the kernel's SCM_MAX_FD
READ_SIZE = 1 << 16  # bytes at a time
IN_MEMORY = 0x4000  # a bit of the opcode: the body is in a memfd, the first of the message's fds

FD_SPACE = socket.CMSG_SPACE(MAX_FDS * 4)  # for recvmsg()
_LOST = -1  # among fds: marks a message whose fds this process could not receive
Part = tuple[bytes, list[tuple[int, int, bytes]], int, Any]  # a result of recvmsg()


class ProtocolError(Exception):
    """The peer sent a malformed message: the connection is unusable (rule R13)."""


class LostFds(OSError):
    """A message is complete except for its fds, which this process had no room for. The connection is intact."""

    def __init__(self, of: str) -> None:
        super().__init__(
            errno.EMFILE, f"no file descriptor was free for those of {of}: close some, or raise RLIMIT_NOFILE"
        )


@dataclass(slots=True)
class Message:
    """One message. Owns its fds until they are taken.

    Attributes
    ----------
    has_lost_fds
        Its fds are missing, because this process had no room for them.
    """

    opcode: int
    sequence: int
    generation: int
    body: bytes
    fds: list[int] = field(default_factory=list)
    has_lost_fds: bool = False

    def take_fds(self) -> list[int]:
        """Returns the fds, which the caller owns from now on."""
        fds, self.fds = self.fds, []
        return fds

    def close(self) -> None:
        """Closes the fds that were not taken."""
        fd_ops.close_all_of(self.fds)

    @destructor
    def __del__(self) -> None:
        if getattr(self, "fds", ()):  # an interruption (Ctrl-C) has lost the message
            self.close()

    def body_in_memory(self) -> bytes:
        """Returns a copy of the body in the first fd. A copy, because the sender may go on writing there (rule R13)."""
        if not self.fds:
            raise ProtocolError("the opcode says that the body is in memory, and no fd came")
        fd = self.fds.pop(0)
        try:
            return _copy_of(fd)
        except OSError as error:
            raise ProtocolError(f"the body's memory cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)


def _copy_of(fd: int) -> bytes:
    """Returns the contents of a memfd.

    Read, not mapped, because a file that shrinks would raise SIGBUS in a mapping.
    """
    status = os.fstat(fd)
    try:
        fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise ProtocolError("the body's fd is not a memfd") from None
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_IN_MEMORY:
        raise ProtocolError(f"the body has {status.st_size} bytes; allowed are {MAX_IN_MEMORY}")
    return os.pread(fd, status.st_size, 0)


class Splitter:
    """Splits a stream of bytes and fds into messages. Pure, except that it owns the fds.

    Python runs signal handlers between calls, and they may raise. Each change between two calls is
    complete, so that an interruption loses no byte and no fd, and the next call continues from
    there.

    Parameters
    ----------
    check
        check(opcode, n_fds) is called for each header with fds, before the body arrives. It raises
        ProtocolError if such a message must not have so many.

    Attributes
    ----------
    parts
        Results of recvmsg() that are not processed yet.
    messages
        Complete messages, in order; the caller removes each after handling it.
    """

    def __init__(self, check: Callable[[int, int], object] | None = None) -> None:
        self.parts: deque[Part] = deque()
        self.messages: deque[Message] = deque()
        self._bytes = bytearray()
        self._at = 0  # bytes of these that are in messages already
        self._fds: list[int] = []
        self._unwanted: list[int] = []  # fds to be closed
        self._check = check

    @property
    def is_empty(self) -> bool:
        """Whether no part of an incomplete message is here."""
        return not self._bytes and not self._fds

    @property
    def fd_count(self) -> int:
        """File descriptors of an incomplete message."""
        return len(self._fds)

    def feed(self, data: bytes, fds: Sequence[int] = (), has_lost_fds: bool = False) -> list[Message]:
        """Adds bytes and fds, which it takes over; returns the complete messages.

        has_lost_fds: some of the fds are missing.

        Raises
        ------
        ProtocolError
            A length, version or number of fds is wrong. Earlier messages are dropped too; no fd
            stays open.
        """
        self._add(data, fds, has_lost_fds)
        self.cut()
        messages, self.messages = self.messages, deque()
        return list(messages)

    def read(self, sock: socket.socket, flags: int = 0) -> bool:
        """Processes one recvmsg(), or an earlier one that was interrupted; False: the peer has closed its end.

        Raises as recvmsg() and cut().
        """
        if not self.parts:
            before = len(self.messages)
            self.cut()
            if len(self.messages) > before:
                return True
            read_into(self.parts, sock, flags)
        data, ancillary, message_flags, _ = self.parts[0]
        if data:
            self._add(data, transport.fds_of(ancillary), bool(message_flags & transport.CTRUNC))
        self.cut()
        return bool(data)

    def _add(self, data: bytes, fds: Sequence[int], has_lost_fds: bool) -> None:
        kept, unwanted = ((_LOST,), fds) if has_lost_fds else (fds, ())
        self._bytes += data
        self._fds += kept
        self._unwanted += unwanted
        if self.parts:
            del self.parts[0]
        fd_ops.close_all_of(self._unwanted)

    def cut(self) -> None:
        """Moves complete messages to `messages`. Raises ProtocolError as feed() does."""
        try:
            while self._cut_one():
                pass
            del self._bytes[: self._at]
            self._at = 0
            if self._fds and (not self._bytes or len(self._fds) > MAX_FDS):
                raise ProtocolError(f"{len(self._fds)} fds came that no message declares")
        except ProtocolError:
            self.close()
            raise
        finally:
            fd_ops.close_all_of(self._unwanted)

    def _cut_one(self) -> bool:
        at = self._at
        if len(self._bytes) - at < HEADER.size:
            return False
        length, opcode, n_fds, version, sequence, generation = HEADER.unpack_from(self._bytes, at)
        if version != VERSION:
            raise ProtocolError(
                f"the peer's protocol version is {version}, this vkshare's is {VERSION}: "
                "run the same vkshare on both sides"
            )
        if not HEADER.size <= length <= MAX_MESSAGE:
            raise ProtocolError(f"a message declares {length} bytes; allowed are {HEADER.size} to {MAX_MESSAGE}")
        if n_fds > MAX_FDS:
            raise ProtocolError(f"a message declares {n_fds} fds; allowed are {MAX_FDS}")
        if n_fds and self._check is not None:
            self._check(opcode, n_fds)
        if len(self._bytes) - at < length:
            return False
        fds = self._fds[:n_fds]
        has_lost_fds = _LOST in fds
        if has_lost_fds:
            fds = fds[: fds.index(_LOST) + 1]
        elif n_fds > len(fds):
            raise ProtocolError(f"a message declares {n_fds} fds, and {len(fds)} came")
        message = Message(opcode, sequence, generation, bytes(self._bytes[at + HEADER.size : at + length]))
        message.has_lost_fds = has_lost_fds
        n_fds = len(fds)
        whole = (message,)
        self.messages += whole
        self._at = at + length
        del self._fds[:n_fds]
        if has_lost_fds:
            self._unwanted += fds
        else:
            message.fds = fds
        return True

    def close(self) -> None:
        """Closes all messages and fds that are here."""
        for message in self.messages:
            message.close()
        self.messages.clear()
        while self.parts:
            fds = transport.fds_of(self.parts[0][1])
            self._fds += fds
            del self.parts[0]
        fd_ops.close_all_of(self._fds)
        fd_ops.close_all_of(self._unwanted)
        self._bytes.clear()
        self._at = 0


def pack(opcode: int, sequence: int, generation: int, body: bytes = b"", n_fds: int = 0) -> bytes:
    """Returns the bytes of a message. ValueError: it is too long."""
    length = HEADER.size + len(body)
    if length > MAX_MESSAGE or n_fds > MAX_FDS:
        raise ValueError(
            f"the message has {length} bytes and {n_fds} fds; allowed are {MAX_MESSAGE} bytes and {MAX_FDS} fds"
        )
    return HEADER.pack(length, opcode, n_fds, VERSION, sequence, generation) + body


def read_into(parts: deque[Part], sock: socket.socket, flags: int = 0, size: int = READ_SIZE) -> None:
    """Appends a result of recvmsg(). One C call, so that no signal handler runs between reading and appending."""
    parts.extend(map(sock.recvmsg, (size,), (FD_SPACE,), (flags | transport.CLOEXEC,)))


def receive(sock: socket.socket, flags: int = 0) -> tuple[bytes, list[int], bool]:
    """Reads once; returns the arguments of Splitter.feed().

    The bytes, their fds, which the caller owns, and whether fds were lost because this process has
    no room for more. b"": the peer has closed its end.

    Raises
    ------
    OSError
        As recvmsg(); BlockingIOError if no data has arrived.
    """
    data, ancillary, message_flags, _ = sock.recvmsg(READ_SIZE, FD_SPACE, flags | transport.CLOEXEC)
    if not ancillary and not message_flags & transport.CTRUNC:
        return data, [], False
    return data, transport.fds_of(ancillary), bool(message_flags & transport.CTRUNC)


def transmit(sock: socket.socket, data: bytes | memoryview, fds: Sequence[int], flags: int = 0) -> int:
    """Sends as many bytes as the socket takes, the fds with the first byte; returns the number of bytes."""
    if not fds:
        return sock.send(data, flags | transport.NO_SIGNAL)
    return sock.sendmsg([data], transport.rights(fds), flags | transport.NO_SIGNAL)
