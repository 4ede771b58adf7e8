"""Transport of descriptors over a Unix socket: one message, with its fds by SCM_RIGHTS."""

from __future__ import annotations

import array
import errno
import math
import os
import resource
import select
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from vkshare.errors import DescriptorError
from vkshare.ipc import sockets
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import on_error
from vkshare.util.library_calls import lib

if TYPE_CHECKING:
    from vkshare.ipc.descriptors import Descriptor

_MAX_MESSAGE = 65536
MAX_FDS: int = lib.VKS_DESCRIPTOR_MAX_FDS  # in one message of a surface or a fence: more than they have
_LONGEST_POLL = 2**31 - 1  # milliseconds: poll(2) takes an int
_QUOTA = 256  # fds of unclosed descriptors from one peer process, or a quarter of the fd limit where that is less
_received: dict[int, weakref.WeakSet[Descriptor]] = {}  # by the peer's pid

# Plain integers: the operators of socket.MsgFlag are Python code, which would run for each message.
DONT_WAIT, NO_SIGNAL, CLOEXEC = int(socket.MSG_DONTWAIT), int(socket.MSG_NOSIGNAL), int(socket.MSG_CMSG_CLOEXEC)
CTRUNC, TRUNC = int(socket.MSG_CTRUNC), int(socket.MSG_TRUNC)


# ---- what others that speak over such sockets need ----------------------------------------------------------------


def fds_of(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Return the fds that came with a message's bytes; the caller owns them."""
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return list(fds)


def rights(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """Return the ancillary data with which sendmsg() sends `fds`."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


# ---- sending ---------------------------------------------------------------------------------------------------


def send(sock: socket.socket, data: bytes, fds: Sequence[int], timeout: float | None) -> None:
    """Sends `data` with `fds` on its first byte. See Descriptor.send()."""
    _check_socket(sock)
    _check_peer(sock)
    deadline = _deadline(timeout)
    beside = rights(fds)
    pause = 0.001
    sent = 0
    try:
        while sent < len(data):
            _wait(sock, select.POLLOUT, deadline)
            try:
                sent += sock.sendmsg([data[sent:]], [] if sent else beside, NO_SIGNAL | DONT_WAIT)
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:
                    # Too many fds of this user are in flight; no event reports when that changes
                    # (unix(7)).
                    time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                    pause = min(2 * pause, 0.05)
                    if time.monotonic() >= deadline:
                        raise TimeoutError("too many fds of this user are in flight to receivers") from None
                elif error.errno != errno.EAGAIN:
                    raise
    except BaseException:
        if sent:  # half a message: the stream cannot be used any more
            sock.close()
        raise


# ---- receiving -------------------------------------------------------------------------------------------------


class Receiver:
    """One message from one peer. On an error every fd that came is closed, and the connection too (rule X13)."""

    def __init__(self, sock: socket.socket, most_fds: int) -> None:
        _check_socket(sock)
        self._most_fds = most_fds
        self._sock = sock
        self._pid = 0
        self._room = 0  # fds that it may open here
        self._got = 0  # bytes
        self._fds: list[int] = []

    def __enter__(self) -> Self:
        with on_error(self._sock.close):
            self._check_peer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        fd_ops.close_all(self._fds)
        if isinstance(error, DescriptorError) or self._got:
            self._sock.close()

    def message(
        self, header_size: int, total_size: Callable[[bytes], int], timeout: float | None
    ) -> tuple[bytes, list[int]]:
        """Return the bytes and the fds, which the caller owns.

        total_size() returns a message's size from its header.
        """
        deadline = _deadline(timeout)
        if self._sock.type == socket.SOCK_STREAM:
            data = self._exactly(header_size, deadline)
            data += self._exactly(total_size(data) - header_size, deadline)
        else:
            data = self._some(_MAX_MESSAGE, deadline)
        if len(self._fds) > self._room:
            raise DescriptorError(
                f"the message has {len(self._fds)} fds, and process {self._pid} may open {self._room} more here: "
                "connection dropped; close descriptors once they are opened, or raise RLIMIT_NOFILE"
            )
        fds, self._fds = self._fds, []
        return data, fds

    def keep(self, descriptor: Descriptor) -> None:
        """Counts it against the peer's quota until it is closed."""
        _received.setdefault(self._pid, weakref.WeakSet()).add(descriptor)

    def _check_peer(self) -> None:
        self._pid = _check_peer(self._sock)
        for pid in [pid for pid, kept in _received.items() if not any(d.fd_count for d in kept)]:
            del _received[pid]
        held = sum(descriptor.fd_count for descriptor in _received.get(self._pid, ()))
        self._room = quota() - held
        if held + MAX_FDS > quota():
            raise DescriptorError(
                f"process {self._pid} has {held} fds open here, of {quota()} that a peer may have: connection dropped; "
                "close descriptors once they are opened"
            )

    def _exactly(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            data += self._some(size - len(data), deadline)
        return data

    def _some(self, size: int, deadline: float) -> bytes:
        while True:
            _wait(self._sock, select.POLLIN, deadline)
            try:
                data, ancillary, flags, _ = self._sock.recvmsg(
                    size, socket.CMSG_SPACE(self._most_fds * 4), CLOEXEC | DONT_WAIT
                )
                break
            except BlockingIOError:
                continue
        self._fds += fds_of(ancillary)
        self._got += len(data)
        if flags & CTRUNC and not _has_room():
            raise DescriptorError(
                "this process has no file descriptor free for those of the message: connection dropped; close some, or "
                "raise RLIMIT_NOFILE"
            )
        if flags & (CTRUNC | TRUNC):
            raise DescriptorError("the message was truncated (too long, or with more fds than fit): connection dropped")
        if not data:
            if self._got:
                raise DescriptorError(f"the peer closed the connection after {self._got} bytes of a descriptor")
            raise EOFError("the peer closed the connection")
        return data


def _has_room() -> bool:
    """Whether another fd can be opened."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in fd_ops.NO_ROOM
    return True


def quota() -> int:
    """Returns how many fds descriptors of one peer may hold open here."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _QUOTA if soft == resource.RLIM_INFINITY else max(MAX_FDS, min(_QUOTA, soft // 4))


def _check_socket(sock: socket.socket) -> None:
    if not isinstance(sock, socket.socket):
        raise TypeError(f"sock must be a socket.socket, not {_kind_of(sock)}")
    if sock.family != socket.AF_UNIX or sock.type not in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        raise ValueError(f"sock is {sock!r}; fds travel over AF_UNIX, SOCK_STREAM or SOCK_SEQPACKET only")


def _check_peer(sock: socket.socket) -> int:
    try:
        return sockets.check_peer(sock)
    except PermissionError as error:
        raise DescriptorError(str(error)) from None


def _kind_of(sock: object) -> str:
    name = type(sock).__name__
    return f"{name}: asyncio reads that one itself, use one of your own" if name == "TransportSocket" else name


def _deadline(timeout: float | None) -> float:
    seconds = arguments.timeout(timeout)
    return math.inf if seconds is None else time.monotonic() + seconds


def _wait(sock: socket.socket, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(sock.fileno(), event)
    while True:
        left = None if deadline == math.inf else max(0, math.ceil((deadline - time.monotonic()) * 1e3))
        if poll.poll(left if left is None else min(left, _LONGEST_POLL)):
            return
        if left is not None and left <= _LONGEST_POLL:
            raise TimeoutError("the peer did not take the message" if event == select.POLLOUT else "nothing came")
