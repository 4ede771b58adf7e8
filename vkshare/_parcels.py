"""How the file descriptors of a pickle cross: they wait in the sender until the process that unpickles fetches them.

A pickle is bytes, whatever carries it (a Queue, a Pipe, a pool of multiprocessing; a file): it holds the path of a Unix
socket of the sender, in a folder of the user's own, and a random token. A thread serves that socket for as long as fds
wait, which is bounded: LIFETIME seconds, and as many fds as a peer may have here (the oldest go first). No connection
keeps another waiting. multiprocessing's own resource_sharer keeps fds for ever, needs its authkey on both sides, and a
connection for each fd.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vkshare import _fds, _sockets, _transport
from vkshare.errors import DescriptorError, InvalidCallError

LIFETIME = 300.0  # seconds that a pickle's fds wait to be fetched
_PATIENCE = 1.0  # seconds for a connection to say what it wants
_MOST_CONNECTIONS = 32  # at a time; the next ones wait in the listener's queue
_PAUSE = 0.1  # seconds without accepting, where there is no fd for a connection
_FETCH = 30.0  # seconds for the sender to answer
_TOKEN_SIZE = 16
_HERE, _GONE = b"here", b"gone"
_PREFIX = "vkshare-pickles-"  # of sockets' names
_STALE = 10.0  # seconds after which a socket where no process listens is a dead process's


@dataclass(frozen=True, slots=True)
class _Parcel:
    fds: tuple[int, ...]  # ours
    expires: float  # time.monotonic()


class _Listener:
    """A socket in a folder of the user's own: in XDG_RUNTIME_DIR, else in /tmp, else in a folder made for it."""

    def __init__(self) -> None:
        self._made: Path | None = None
        self.sock, self.path = self._listen()

    def _listen(self) -> tuple[socket.socket, Path]:
        name = _PREFIX + os.urandom(8).hex()
        for folder in _sockets.folders():
            path = folder / name
            if len(os.fsencode(path)) > _sockets.LONGEST_PATH:
                continue
            # It is not there, or not this user's alone, or no socket can be in it.
            with contextlib.suppress(OSError, InvalidCallError):
                _sockets.make_folder(folder)
                _remove_stale(folder)
                return _listening(path), path
        self._made = Path(tempfile.mkdtemp(prefix="vkshare-"))
        try:
            return _listening(self._made / name), self._made / name
        except BaseException:
            self._remove_folder()
            raise

    def unlink(self) -> None:
        """No process can come any more, and no file is left behind."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._remove_folder()

    def close(self) -> None:
        self.unlink()
        self.sock.close()

    def _remove_folder(self) -> None:
        if self._made is not None:
            with contextlib.suppress(OSError):
                self._made.rmdir()


def _listening(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _sockets.listen(sock, path, 128)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _remove_stale(folder: Path) -> None:
    """Sockets of processes that were killed. OSError: the folder cannot be read."""
    for path in folder.iterdir():
        if path.name.startswith(_PREFIX):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                is_old = time.time() - path.lstat().st_mtime > _STALE  # a new one may be about to listen
                probe.setblocking(False)
                if is_old and probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED:
                    path.unlink()


class _Counter:
    """What waits in this process, the oldest first, and the thread that hands it out while there is something."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.parcels: dict[bytes, _Parcel] = {}
        self.listener: _Listener | None = None

    def deposit(self, fds: Sequence[int]) -> tuple[str, bytes]:
        token = os.urandom(_TOKEN_SIZE)
        parcel = _Parcel(_fds.duplicate_all(fds), time.monotonic() + LIFETIME)
        try:
            with self.lock:
                self._make_room(len(parcel.fds))
                if self.listener is None:
                    self._open()
                assert self.listener is not None
                self.parcels[token] = parcel
                return os.fspath(self.listener.path), token
        except BaseException:
            self.parcels.pop(token, None)
            _fds.close_all(parcel.fds)
            raise

    def _open(self) -> None:
        listener = _Listener()
        try:
            threading.Thread(target=self._serve, args=(listener,), name="vkshare-parcels", daemon=True).start()
        except BaseException:
            listener.close()
            raise
        self.listener = listener

    def _make_room(self, n_fds: int) -> None:
        most = _transport.quota()
        while self.parcels and sum(len(p.fds) for p in self.parcels.values()) + n_fds > most:
            self._drop(next(iter(self.parcels)))

    def _drop(self, token: bytes) -> None:
        _fds.close_all(self.parcels.pop(token).fds)

    def _serve(self, listener: _Listener) -> None:
        asking: dict[int, _Asking] = {}
        pause = 0.0  # until when no connection is accepted
        while (until := self._next_end(listener)) is not None:
            now = time.monotonic()
            poll = select.poll()
            for fd, one in asking.items():
                poll.register(fd, 0 if one.token else select.POLLIN)
            if len(asking) < _MOST_CONNECTIONS and now >= pause:
                poll.register(listener.sock, select.POLLIN)
            again = [now + _PAUSE] if any(one.token for one in asking.values()) else []
            until = min([until, *again, *(one.expires for one in asking.values()), *([pause] if now < pause else [])])
            for fd, events in poll.poll(max(1, int((until - now) * 1000) + 1)):
                if fd in asking:
                    asking[fd].hear(events)
                elif (sock := _accepted(listener.sock)) is not None:
                    asking[sock.fileno()] = _Asking(sock, time.monotonic() + _PATIENCE)
                else:
                    pause = time.monotonic() + _PAUSE
            now = time.monotonic()
            for fd in [fd for fd, one in asking.items() if one.expires <= now or self._answer(one)]:
                asking.pop(fd).sock.close()
        for one in asking.values():
            one.sock.close()

    def _next_end(self, listener: _Listener) -> float | None:
        """When the oldest parcel expires; None: there is none, and the listener is closed."""
        with self.lock:
            now = time.monotonic()
            for token in [token for token, parcel in self.parcels.items() if parcel.expires <= now]:
                self._drop(token)
            if self.parcels:
                return next(iter(self.parcels.values())).expires
            if self.listener is listener:
                self.listener = None
            listener.close()
            return None

    def _answer(self, one: _Asking) -> bool:
        """Sends what the connection asks for. False: it has not asked, or its fds cannot be sent yet and stay here."""
        if one.token is None:
            return False
        with self.lock, contextlib.suppress(OSError, DescriptorError):  # the peer is gone
            parcel = self.parcels.get(one.token)
            if parcel is None:
                one.sock.send(_GONE)
                return True
            try:
                _transport.send(one.sock, _HERE, parcel.fds, 0)
            except TimeoutError:  # other processes of this user have all fds in flight that the kernel allows
                return False
            self._drop(one.token)
        return True

    def close(self) -> None:
        """At the interpreter's exit. The thread still runs, and uses the listener: the process's end closes that."""
        if self.listener is not None:
            self.listener.unlink()

    def forget(self) -> None:
        """In a forked child, which has copies of all fds, and not the thread."""
        for parcel in self.parcels.values():
            _fds.close_all(parcel.fds)
        if self.listener is not None:
            self.listener.sock.close()  # the path is the parent's
        self.lock = threading.Lock()  # a thread that is not here may have held it
        self.parcels, self.listener = {}, None


@dataclass(slots=True)
class _Asking:
    """A connection that has no answer yet."""

    sock: socket.socket
    expires: float  # time.monotonic()
    token: bytes | None = None  # what it asked for

    def hear(self, events: int) -> None:
        """What poll() says of it. The peer's end, and what is no token, end its time."""
        try:
            token = self.sock.recv(_TOKEN_SIZE + 1) if self.token is None and events & select.POLLIN else b""
        except OSError:
            token = b""
        self.token = token or self.token
        self.expires = time.monotonic() + _FETCH if token else 0.0


def _accepted(listener: socket.socket) -> socket.socket | None:
    """The next connection, of a process of this user. None: there is none."""
    try:
        sock, _ = listener.accept()
    except OSError:  # it went, or this process has no fd left
        return None
    try:
        sock.setblocking(False)
        _sockets.check_peer(sock)
    except OSError:
        sock.close()
        return None
    return sock


_counter = _Counter()
os.register_at_fork(after_in_child=_counter.forget)
atexit.register(_counter.close)


def share(fds: Sequence[int]) -> tuple[str, bytes]:
    """Duplicates of `fds` wait here from now on: what collect() needs to get them, once, in whichever process."""
    return _counter.deposit(fds)


def collect(shared: tuple[str, bytes], most_fds: int = _transport.MAX_FDS) -> list[int]:
    """The fds, CLOEXEC, the caller's. DescriptorError if the sender is gone or has them no more."""
    path, token = shared
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_FETCH)
        try:
            _sockets.connect(sock, Path(path))
            sock.send(token)
            with _transport.Receiver(sock, most_fds) as receiver:
                answer, fds = receiver.message(0, len, _FETCH)
        except (PermissionError, InvalidCallError) as error:
            raise _refused("cannot be trusted", str(error)) from None
        except (OSError, EOFError) as error:
            why = f"{type(error).__name__}: {error}"
            raise _refused("has exited, or this pickle was opened before", why) from None
    if answer == _HERE:
        return fds
    _fds.close_all(fds)
    why = f"this pickle was opened before, or not within {LIFETIME:.0f} s"
    raise _refused("has them no more", why)


def _refused(what: str, why: str) -> DescriptorError:
    return DescriptorError(
        f"the process that sent this descriptor {what}: its file descriptors are gone ({why}); keep the sender alive "
        "until the receiver has unpickled it"
    )
