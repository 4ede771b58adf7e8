"""How the file descriptors of a pickle cross: they wait in the sender until the process that unpickles fetches them.

A pickle is bytes, whatever carries it (a Queue, a Pipe, a pool of multiprocessing; a file): it holds the address of an
abstract Unix socket of the sender and a random token. A thread serves that socket for as long as fds wait, which is
bounded: LIFETIME seconds, and as many fds as a peer may have here (the oldest go first). multiprocessing's own
resource_sharer keeps them for ever, needs its authkey on both sides, and a connection for each fd.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from vkshare import _fds, _transport
from vkshare.errors import DescriptorError

LIFETIME = 300.0  # seconds that a pickle's fds wait for whoever unpickles it
_PATIENCE = 1.0  # seconds for one who connected to say what he wants: the others wait meanwhile
_FETCH = 30.0  # seconds for the sender to answer
_TOKEN_SIZE = 16
_HERE, _GONE, _STRANGER = b"here", b"gone", b"user"


@dataclass(frozen=True, slots=True)
class _Parcel:
    fds: tuple[int, ...]  # ours
    expires: float  # time.monotonic()


class _Counter:
    """What waits in this process, the oldest first, and the thread that hands it out while there is something."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.parcels: dict[bytes, _Parcel] = {}
        self.listener: socket.socket | None = None

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
                return self.listener.getsockname()[1:].decode(), token
        except BaseException:
            self.parcels.pop(token, None)
            _fds.close_all(parcel.fds)
            raise

    def _open(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(b"\0vkshare-" + os.urandom(16).hex().encode())
            listener.listen(128)
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

    def _serve(self, listener: socket.socket) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            with self.lock:
                now = time.monotonic()
                for token in [token for token, parcel in self.parcels.items() if parcel.expires <= now]:
                    self._drop(token)
                if not self.parcels:
                    if self.listener is listener:
                        self.listener = None
                    listener.close()
                    return
                left = next(iter(self.parcels.values())).expires - now
            if poll.poll(max(1, int(left * 1000) + 1)):
                with contextlib.suppress(OSError):  # whoever asked is gone, or this process has no fd left
                    sock, _ = listener.accept()
                    with sock:
                        self._answer(sock)

    def _answer(self, sock: socket.socket) -> None:
        sock.settimeout(_PATIENCE)
        token = sock.recv(_TOKEN_SIZE + 1)  # first: closing a socket that has unread bytes resets the connection
        _, uid = _transport.peer_of(sock)
        if uid != os.geteuid():
            sock.send(_STRANGER)
            return
        with self.lock:
            parcel = self.parcels.pop(token, None)
        if parcel is None:
            sock.send(_GONE)
            return
        try:
            _transport.send(sock, _HERE, parcel.fds, _PATIENCE)
        finally:
            _fds.close_all(parcel.fds)

    def forget(self) -> None:
        """In a forked child, which has copies of all fds, and not the thread."""
        for parcel in self.parcels.values():
            _fds.close_all(parcel.fds)
        if self.listener is not None:
            self.listener.close()
        self.lock = threading.Lock()  # a thread that is not here may have held it
        self.parcels, self.listener = {}, None


_counter = _Counter()
os.register_at_fork(after_in_child=_counter.forget)


def share(fds: Sequence[int]) -> tuple[str, bytes]:
    """Duplicates of `fds` wait here from now on: what collect() needs to get them, once, in whichever process."""
    return _counter.deposit(fds)


def collect(shared: tuple[str, bytes], most_fds: int = _transport.MAX_FDS) -> list[int]:
    """The fds, CLOEXEC, the caller's. DescriptorError if the sender is gone or has them no more."""
    address, token = shared
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_FETCH)
        try:
            sock.connect(b"\0" + address.encode())
            sock.send(token)
            with _transport.Receiver(sock, most_fds) as receiver:
                answer, fds = receiver.message(0, len, _FETCH)
        except (OSError, EOFError) as error:
            why = f"{type(error).__name__}: {error}"
            raise _refused("has exited, or this pickle was opened before", why) from None
    if answer == _HERE:
        return fds
    _fds.close_all(fds)
    if answer == _GONE:
        why = f"this pickle was opened before, or not within {LIFETIME:.0f} s"
        raise _refused("has them no more", why)
    raise _refused("did not give them", "it is another user's")


def _refused(what: str, why: str) -> DescriptorError:
    return DescriptorError(
        f"the process that sent this descriptor {what}: its file descriptors are gone ({why}); keep the sender alive "
        "until the receiver has unpickled it"
    )
