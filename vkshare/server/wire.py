"""How messages cross: a fixed header, a body in msgpack, file descriptors beside them. See docs/server.md.

A Unix stream socket, since requests may come several in one write. What comes is from a stranger: every number is
checked before it is used, and a received file descriptor has an owner at once.
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

from vkshare import _fds, _transport
from vkshare._closing import destructor

VERSION = 2
# length of the whole message, opcode, number of fds, version, sequence, device generation (native/server/front.h)
HEADER = struct.Struct("<IHBBII")
MAX_MESSAGE = 1 << 20  # bytes; what is longer travels in memory
MAX_IN_MEMORY = 1 << 24
MAX_FDS = 253  # of one message: the kernel's SCM_MAX_FD
READ_SIZE = 1 << 16  # bytes at a time
IN_MEMORY = 0x4000  # a bit of the opcode: the body is in a memfd, the first of the message's fds

FD_SPACE = socket.CMSG_SPACE(MAX_FDS * 4)  # for recvmsg()
_LOST = -1  # among fds: a message's, of which this process had no room for all
Part = tuple[bytes, list[tuple[int, int, bytes]], int, Any]  # what recvmsg() returns


class ProtocolError(Exception):
    """What came cannot be a message: the connection is of no use any more (rule R13)."""


class LostFds(OSError):
    """A message is whole, but that this process had no room for its fds. They are closed; the connection is well."""

    def __init__(self, of: str) -> None:
        super().__init__(
            errno.EMFILE,
            f"no file descriptor was free for those of {of}: close some, or raise RLIMIT_NOFILE",
        )


@dataclass(slots=True)
class Message:
    """One message. Owns its fds until they are taken.

    Attributes
    ----------
    has_lost_fds
        It came with fds, and this process had no room for them.
    """

    opcode: int
    sequence: int
    generation: int
    body: bytes
    fds: list[int] = field(default_factory=list)
    has_lost_fds: bool = False

    def take_fds(self) -> list[int]:
        """The fds, the caller's from now on."""
        fds, self.fds = self.fds, []
        return fds

    def close(self) -> None:
        """Closes the fds that nobody took."""
        _fds.close_all_of(self.fds)

    @destructor
    def __del__(self) -> None:
        if getattr(self, "fds", ()):  # an interruption has lost the message, or its making
            self.close()

    def body_in_memory(self) -> bytes:
        """A copy of the body that the first fd has: the sender may go on writing there (rule R13)."""
        if not self.fds:
            raise ProtocolError("the body is said to be in memory, and no fd came")
        fd = self.fds.pop(0)
        try:
            return _copy_of(fd)
        except OSError as error:
            raise ProtocolError(f"the body's memory cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)


def _copy_of(fd: int) -> bytes:
    """Read, not mapped: a file that shrinks meanwhile ends early, and a mapping of it would be a SIGBUS."""
    status = os.fstat(fd)
    try:
        fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise ProtocolError("the body's fd is no memfd") from None
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_IN_MEMORY:
        raise ProtocolError(f"the body has {status.st_size} bytes; allowed are {MAX_IN_MEMORY}")
    return os.pread(fd, status.st_size, 0)


class Splitter:
    """Cuts a stream into messages: bytes and fds go in as they are read. Pure, but that it owns the fds.

    Python hears signals after calls and jumps back. Between those each change here is whole, so that an interruption
    loses no byte and no fd, and the next call goes on from there.

    Parameters
    ----------
    check
        check(opcode, n_fds) is called for each header that has fds, before the body is there; raises ProtocolError where no
        such message may have so many.

    Attributes
    ----------
    parts
        What recvmsg() has returned and is not taken in yet.
    messages
        That are whole, in order; who has seen to one removes it.
    """

    def __init__(self, check: Callable[[int, int], object] | None = None) -> None:
        self.parts: deque[Part] = deque()
        self.messages: deque[Message] = deque()
        self._bytes = bytearray()
        self._at = 0  # bytes of these that are in messages
        self._fds: list[int] = []
        self._unwanted: list[int] = []  # fds to be closed
        self._check = check

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of a message that began."""
        return not self._bytes and not self._fds

    @property
    def fd_count(self) -> int:
        """File descriptors of a message that is not whole."""
        return len(self._fds)

    def feed(self, data: bytes, fds: Sequence[int] = (), has_lost_fds: bool = False) -> list[Message]:
        """The messages that are whole now; takes over `fds`, which are not all that came where some were lost.

        Raises
        ------
        ProtocolError
            A length, version or number of fds is wrong. Messages that came before are lost too; no fd stays open.
        """
        self._add(data, fds, has_lost_fds)
        self.cut()
        messages, self.messages = self.messages, deque()
        return list(messages)

    def read(self, sock: socket.socket, flags: int = 0) -> bool:
        """Takes in what recvmsg() can read now, or has read before an interruption; False: the peer has closed its end.

        Raises as recvmsg() and cut().
        """
        if not self.parts:
            before = len(self.messages)
            self.cut()
            if len(self.messages) > before:
                return True
            read_into(self.parts, sock, flags)
        data, ancillary, told, _ = self.parts[0]
        if data:
            self._add(data, _transport.fds_of(ancillary), bool(told & socket.MSG_CTRUNC))
        self.cut()
        return bool(data)

    def _add(self, data: bytes, fds: Sequence[int], has_lost_fds: bool) -> None:
        kept, unwanted = ((_LOST,), fds) if has_lost_fds else (fds, ())
        self._bytes += data
        self._fds += kept
        self._unwanted += unwanted
        if self.parts:
            del self.parts[0]
        _fds.close_all_of(self._unwanted)

    def cut(self) -> None:
        """Moves what is whole to `messages`. ProtocolError as of feed()."""
        try:
            while self._cut_one():
                pass
            del self._bytes[: self._at]
            self._at = 0
            if self._fds and (not self._bytes or len(self._fds) > MAX_FDS):
                raise ProtocolError(f"{len(self._fds)} fds came that no message said it has")
        except ProtocolError:
            self.close()
            raise
        finally:
            _fds.close_all_of(self._unwanted)

    def _cut_one(self) -> bool:
        at = self._at
        if len(self._bytes) - at < HEADER.size:
            return False
        length, opcode, n_fds, version, sequence, generation = HEADER.unpack_from(self._bytes, at)
        if version != VERSION:
            raise ProtocolError(
                f"the peer speaks version {version}, this vkshare {VERSION}: run the same on both sides"
            )
        if not HEADER.size <= length <= MAX_MESSAGE:
            raise ProtocolError(f"a message says it has {length} bytes; allowed are {HEADER.size} to {MAX_MESSAGE}")
        if n_fds > MAX_FDS:
            raise ProtocolError(f"a message says it has {n_fds} fds; allowed are {MAX_FDS}")
        if n_fds and self._check is not None:
            self._check(opcode, n_fds)
        if len(self._bytes) - at < length:
            return False
        fds = self._fds[:n_fds]
        has_lost_fds = _LOST in fds
        if has_lost_fds:
            fds = fds[: fds.index(_LOST) + 1]
        elif n_fds > len(fds):
            raise ProtocolError(f"a message says it has {n_fds} fds, and {len(fds)} came")
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
        """Forgets what came."""
        for message in self.messages:
            message.close()
        self.messages.clear()
        while self.parts:
            fds = _transport.fds_of(self.parts[0][1])
            self._fds += fds
            del self.parts[0]
        _fds.close_all_of(self._fds)
        _fds.close_all_of(self._unwanted)
        self._bytes.clear()
        self._at = 0


def pack(opcode: int, sequence: int, generation: int, body: bytes = b"", n_fds: int = 0) -> bytes:
    """A message's bytes. ValueError: it is too long."""
    length = HEADER.size + len(body)
    if length > MAX_MESSAGE or n_fds > MAX_FDS:
        raise ValueError(
            f"the message has {length} bytes and {n_fds} fds; allowed are {MAX_MESSAGE} bytes and {MAX_FDS} fds"
        )
    return HEADER.pack(length, opcode, n_fds, VERSION, sequence, generation) + body


def read_into(parts: deque[Part], sock: socket.socket, flags: int = 0, size: int = READ_SIZE) -> None:
    """Appends what recvmsg() returns. One call of C's, so that no signal is heard between reading and appending."""
    parts.extend(map(sock.recvmsg, (size,), (FD_SPACE,), (flags | socket.MSG_CMSG_CLOEXEC,)))


def receive(sock: socket.socket, flags: int = 0) -> tuple[bytes, list[int], bool]:
    """What can be read now, with its fds, the caller's, and whether some were lost, as this process has no room for
    more: what Splitter.feed() takes. b"": the peer has closed its end.

    Raises
    ------
    OSError
        As recvmsg(); BlockingIOError where nothing is there.
    """
    data, ancillary, told, _ = sock.recvmsg(READ_SIZE, FD_SPACE, flags | socket.MSG_CMSG_CLOEXEC)
    if not ancillary and not told & socket.MSG_CTRUNC:
        return data, [], False
    return data, _transport.fds_of(ancillary), bool(told & socket.MSG_CTRUNC)


def transmit(sock: socket.socket, data: bytes | memoryview, fds: Sequence[int], flags: int = 0) -> int:
    """Sends what finds room, with the fds on its first byte; returns the number of bytes."""
    if not fds:
        return sock.send(data, flags | socket.MSG_NOSIGNAL)
    return sock.sendmsg([data], _transport.rights(fds), flags | socket.MSG_NOSIGNAL)
