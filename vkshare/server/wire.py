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

from vkshare import _fds, _transport

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


class Garbage(Exception):
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
        _fds.close_all(self.take_fds())

    def body_in_memory(self) -> bytes:
        """A copy of the body that the first fd has: the sender may go on writing there (rule R13)."""
        if not self.fds:
            raise Garbage("the body is said to be in memory, and no fd came")
        fd = self.fds.pop(0)
        try:
            return _copy_of(fd)
        except OSError as error:
            raise Garbage(f"the body's memory cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)


def _copy_of(fd: int) -> bytes:
    """Read, not mapped: a file that shrinks meanwhile ends early, and a mapping of it would be a SIGBUS."""
    status = os.fstat(fd)
    try:
        fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise Garbage("the body's fd is no memfd") from None
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_IN_MEMORY:
        raise Garbage(f"the body has {status.st_size} bytes; allowed are {MAX_IN_MEMORY}")
    return os.pread(fd, status.st_size, 0)


class Splitter:
    """Cuts a stream into messages: bytes and fds go in as they are read. Pure, but that it owns the fds.

    Parameters
    ----------
    check
        check(opcode, n_fds) is called for each header that has fds, before the body is there; raises Garbage where no
        such message may have so many.
    """

    def __init__(self, check: Callable[[int, int], object] | None = None) -> None:
        self._bytes = bytearray()
        self._fds: deque[int] = deque()
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
        Garbage
            A length, version or number of fds is wrong. Messages that came before are lost too; no fd stays open.
        """
        if has_lost_fds:
            _fds.close_all(fds)
            fds = (_LOST,)
        self._fds.extend(fds)
        self._bytes += data
        messages: list[Message] = []
        at = 0
        try:
            while (message := self._message(at)) is not None:
                at += HEADER.size + len(message.body)
                messages.append(message)
            del self._bytes[:at]
            if self._fds and (not self._bytes or len(self._fds) > MAX_FDS):
                raise Garbage(f"{len(self._fds)} fds came that no message said it has")
        except Garbage:
            for message in messages:
                message.close()
            self.close()
            raise
        return messages

    def _message(self, at: int) -> Message | None:
        if len(self._bytes) - at < HEADER.size:
            return None
        length, opcode, n_fds, version, sequence, generation = HEADER.unpack_from(self._bytes, at)
        if version != VERSION:
            raise Garbage(f"the peer speaks version {version}, this vkshare {VERSION}: run the same on both sides")
        if not HEADER.size <= length <= MAX_MESSAGE:
            raise Garbage(f"a message says it has {length} bytes; allowed are {HEADER.size} to {MAX_MESSAGE}")
        if n_fds > MAX_FDS:
            raise Garbage(f"a message says it has {n_fds} fds; allowed are {MAX_FDS}")
        if n_fds and self._check is not None:
            self._check(opcode, n_fds)
        if len(self._bytes) - at < length:
            return None
        body = bytes(self._bytes[at + HEADER.size : at + length])
        fds, has_lost_fds = self._taken(n_fds)
        return Message(opcode, sequence, generation, body, fds, has_lost_fds)

    def _taken(self, count: int) -> tuple[list[int], bool]:
        """The oldest fds; none, where some of these were lost."""
        if _LOST in list(self._fds)[:count]:
            while (fd := self._fds.popleft()) != _LOST:
                os.close(fd)
            return [], True
        if count > len(self._fds):
            raise Garbage(f"a message says it has {count} fds, and {len(self._fds)} came")
        return [self._fds.popleft() for _ in range(count)], False

    def close(self) -> None:
        """Forgets what began."""
        _fds.close_all(self._fds)
        self._fds.clear()
        self._bytes.clear()


def pack(opcode: int, sequence: int, generation: int, body: bytes = b"", n_fds: int = 0) -> bytes:
    """A message's bytes. ValueError: it is too long."""
    length = HEADER.size + len(body)
    if length > MAX_MESSAGE or n_fds > MAX_FDS:
        raise ValueError(
            f"the message has {length} bytes and {n_fds} fds; allowed are {MAX_MESSAGE} bytes and {MAX_FDS} fds"
        )
    return HEADER.pack(length, opcode, n_fds, VERSION, sequence, generation) + body


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
