"""File descriptors of pickles: the sender keeps them until the unpickling process fetches them over a Unix socket.

A pickle is bytes, whatever transports it (a Queue, a Pipe, a pool of multiprocessing; a file). It
has the path of a Unix socket of the sender, in a folder of the same user, and a random token. A
thread serves the socket while fds are offered. An offer expires after LIFETIME seconds. All pickles'
offers together have at most as many fds as a peer may have in flight; the oldest offers are dropped first.
A slow connection does not delay another one. multiprocessing's resource_sharer keeps fds until the
process exits, needs its authkey on both sides, and a connection for each fd.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import select
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vkshare.errors import DescriptorError, InvalidCallError
from vkshare.ipc import sockets, transport
from vkshare.util import fd_ops, forks
from vkshare.util.closing import on_error

LIFETIME = 300.0  # seconds after which the fds of a pickle are closed
_REQUEST_TIMEOUT = 1.0  # seconds within which a connection must send its token
_MAX_CONNECTIONS = 32  # at a time; others wait in the listen backlog
_ACCEPT_PAUSE = 0.1  # seconds without accept() after it failed for want of fds
_ANSWER_TIMEOUT = 30.0  # seconds within which the sender must answer
_TOKEN_SIZE = 16
_FOUND, _EXPIRED = b"here", b"gone"
_PREFIX = "vkshare-pickles-"  # of sockets' names
_STALE = 10.0  # seconds after which a socket without a listener is removed


@dataclass(frozen=True, slots=True)
class _Offer:
    fds: tuple[int, ...]  # duplicates, owned by this process
    expires: float  # time.monotonic()
    keep: bool  # until it is withdrawn, for any number of processes


class _Listener:
    """A listening socket in a folder of this user: in XDG_RUNTIME_DIR, else in /tmp, else in a new folder."""

    def __init__(self) -> None:
        self._made: Path | None = None
        self.wakes, self._waker = socket.socketpair()  # the thread polls the first
        with on_error(self._close_waker):
            self.sock, self.path = self._listen()
        self._waker.setblocking(False)

    def _listen(self) -> tuple[socket.socket, Path]:
        name = _PREFIX + os.urandom(8).hex()
        for folder in sockets.folders():
            path = folder / name
            if len(os.fsencode(path)) > sockets.LONGEST_PATH:
                continue
            # The folder is missing, or others can write to it, or it cannot have sockets.
            with contextlib.suppress(OSError, InvalidCallError):
                sockets.make_folder(folder)
                _remove_stale(folder)
                return _listening(path), path
        self._made = Path(tempfile.mkdtemp(prefix="vkshare-"))
        with on_error(self._remove_folder):
            return _listening(self._made / name), self._made / name

    def unlink(self) -> None:
        """Remove the socket's path, so that no process can connect any more."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._remove_folder()

    def wake(self) -> None:
        """Have the thread look again. Takes no lock."""
        with contextlib.suppress(OSError):  # it has ended, or is to wake already
            self._waker.send(b"x")

    def close(self) -> None:
        self.unlink()
        self.leave()

    def leave(self) -> None:
        """Close what a forked child has of it: the path is the parent's."""
        self.sock.close()
        self._close_waker()

    def _close_waker(self) -> None:
        self.wakes.close()
        self._waker.close()

    def _remove_folder(self) -> None:
        if self._made is not None:
            with contextlib.suppress(OSError):
                self._made.rmdir()


def _listening(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with on_error(sock.close):
        sockets.listen(sock, path, 128)
        sock.setblocking(False)
    return sock


def _remove_stale(folder: Path) -> None:
    """Remove the sockets of killed processes. Raises OSError if the folder cannot be read."""
    for path in folder.iterdir():
        if path.name.startswith(_PREFIX):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                is_old = time.time() - path.lstat().st_mtime > _STALE  # a new one may be about to listen
                probe.setblocking(False)
                if is_old and probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED:
                    path.unlink()


class FdBroker:
    """The offers of this process, the oldest first, and the thread that serves them while there are any."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.offers: dict[bytes, _Offer] = {}
        self._withdrawn: deque[bytes] = deque()  # tokens whose offers are to end
        self.listener: _Listener | None = None

    def offer(self, fds: Sequence[int], *, keep: bool) -> tuple[str, bytes]:
        token = os.urandom(_TOKEN_SIZE)
        entry = _Offer(fd_ops.duplicate_all(fds), time.monotonic() + LIFETIME, keep)
        with on_error(lambda: fd_ops.close_all(entry.fds)), on_error(lambda: self.offers.pop(token, None)), self.lock:
            self._drop_withdrawn()
            self._make_room(len(entry.fds))
            if self.listener is None:
                self._open()
            assert self.listener is not None
            self.offers[token] = entry
            return os.fspath(self.listener.path), token

    def _open(self) -> None:
        listener = _Listener()
        with on_error(listener.close):
            threading.Thread(target=self._serve, args=(listener,), name="vkshare-fds", daemon=True).start()
        self.listener = listener

    def _make_room(self, n_fds: int) -> None:
        most = transport.quota()
        fleeting = [token for token, entry in self.offers.items() if not entry.keep]
        while fleeting and sum(len(self.offers[token].fds) for token in fleeting) + n_fds > most:
            self._drop(fleeting.pop(0))

    def withdraw(self, token: bytes) -> None:
        """Takes no lock: a garbage collection may call it within any other call, in the thread that has the lock."""
        self._withdrawn.append(token)
        listener = self.listener
        if listener is not None:
            listener.wake()

    def _drop_withdrawn(self) -> None:
        while self._withdrawn:
            token = self._withdrawn.popleft()
            if token in self.offers:
                self._drop(token)

    def _drop(self, token: bytes) -> None:
        fd_ops.close_all(self.offers.pop(token).fds)

    def _serve(self, listener: _Listener) -> None:
        requests: dict[int, _Request] = {}
        pause = 0.0  # time.monotonic() before which no connection is accepted
        while (until := self._next_expiry(listener)) is not None:
            now = time.monotonic()
            poll = select.poll()
            poll.register(listener.wakes, select.POLLIN)
            for fd, one in requests.items():
                poll.register(fd, 0 if one.token else select.POLLIN)
            if len(requests) < _MAX_CONNECTIONS and now >= pause:
                poll.register(listener.sock, select.POLLIN)
            again = [now + _ACCEPT_PAUSE] if any(one.token for one in requests.values()) else []
            until = min([until, *again, *(one.expires for one in requests.values()), *([pause] if now < pause else [])])
            for fd, events in poll.poll(max(1, int((until - now) * 1000) + 1)):
                if fd == listener.wakes.fileno():
                    listener.wakes.recv(4096)
                elif fd in requests:
                    requests[fd].receive(events)
                elif (sock := sockets.accept(listener.sock)) is not None:
                    requests[sock.fileno()] = _Request(forks.close_in_child(sock), time.monotonic() + _REQUEST_TIMEOUT)
                else:
                    pause = time.monotonic() + _ACCEPT_PAUSE
            now = time.monotonic()
            for fd in [fd for fd, one in requests.items() if one.expires <= now or self._answer(one)]:
                requests.pop(fd).sock.close()
        for one in requests.values():
            one.sock.close()

    def _next_expiry(self, listener: _Listener) -> float | None:
        """Return when the oldest offer expires. Without offers, close the listener and return None."""
        with self.lock:
            self._drop_withdrawn()
            now = time.monotonic()
            for token in [token for token, entry in self.offers.items() if entry.expires <= now and not entry.keep]:
                self._drop(token)
            if self.offers:
                return min((each.expires for each in self.offers.values() if not each.keep), default=now + LIFETIME)
            listener.close()
            if self.listener is listener:
                self.listener = None
            return None

    def _answer(self, one: _Request) -> bool:
        """Send the requested fds. Return False if the token has not come, or the fds cannot be sent yet."""
        if one.token is None:
            return False
        with self.lock, contextlib.suppress(OSError, DescriptorError):  # the peer has closed the connection
            entry = self.offers.get(one.token)
            if entry is None:
                one.sock.send(_EXPIRED)
                return True
            try:
                transport.send(one.sock, _FOUND, entry.fds, 0)
            except TimeoutError:  # the kernel's limit of in-flight fds for this user is reached
                return False
            if not entry.keep:
                self._drop(one.token)
        return True

    def close(self) -> None:
        """Unlink the socket at interpreter exit. The thread still uses the listener, which the process's end closes."""
        if self.listener is not None:
            self.listener.unlink()

    def forget(self) -> None:
        """Drop all state in a forked child, which has copies of all fds but not the thread."""
        for entry in self.offers.values():
            fd_ops.close_all(entry.fds)
        if self.listener is not None:
            self.listener.leave()
        self.lock = threading.Lock()  # a thread of the parent may have held it
        self.offers, self.listener = {}, None
        self._withdrawn.clear()


@dataclass(slots=True)
class _Request:
    """A connection without an answer yet."""

    sock: socket.socket
    expires: float  # time.monotonic()
    token: bytes | None = None  # of the offer that it requests

    def receive(self, events: int) -> None:
        """Read the token after poll() has returned `events`. A hang-up and a malformed token expire the request."""
        try:
            token = self.sock.recv(_TOKEN_SIZE + 1) if self.token is None and events & select.POLLIN else b""
        except OSError:
            token = b""
        self.token = token or self.token
        self.expires = time.monotonic() + _ANSWER_TIMEOUT if token else 0.0


_broker = FdBroker()
os.register_at_fork(after_in_child=_broker.forget)
atexit.register(_broker.close)


def offer(fds: Sequence[int], *, keep: bool = False) -> tuple[str, bytes]:
    """Keep duplicates of `fds`, and return what fetch() needs to get them, once, in any process of this user.

    `keep`: any number of times, until withdraw().
    """
    return _broker.offer(fds, keep=keep)


def withdraw(shared: tuple[str, bytes]) -> None:
    """Close the fds of an offer that was kept. Idempotent."""
    _broker.withdraw(shared[1])


def fetch(shared: tuple[str, bytes], most_fds: int = transport.MAX_FDS) -> list[int]:
    """Return the fds, CLOEXEC and owned by the caller.

    Raises DescriptorError if the sender has exited or has closed them.
    """
    path, token = shared
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_ANSWER_TIMEOUT)
        try:
            sockets.connect(sock, Path(path))
            sock.send(token)
            with transport.Receiver(sock, most_fds) as receiver:
                answer, fds = receiver.message(0, len, _ANSWER_TIMEOUT)
        except (PermissionError, InvalidCallError) as error:
            raise _refused("cannot be trusted", str(error)) from None
        except (OSError, EOFError) as error:
            why = f"{type(error).__name__}: {error}"
            raise _refused("has exited, or this pickle was opened before", why) from None
    if answer == _FOUND:
        return fds
    fd_ops.close_all(fds)
    why = f"this pickle was opened before, or not within {LIFETIME:.0f} s, or newer ones took its place"
    raise _refused("has them no more", why)


def _refused(what: str, why: str) -> DescriptorError:
    return DescriptorError(
        f"the process that sent this descriptor {what}: its file descriptors are gone ({why}); keep the sender alive "
        "until the receiver has unpickled it"
    )
