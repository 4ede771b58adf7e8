"""Accept connections of the same user; reject other users, and clients above the limit."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
from collections.abc import Callable, Sequence

from vkshare.ipc import sockets
from vkshare.server.loop import READ, Loop
from vkshare.server.socket_path import Listener
from vkshare.util import fd_ops

_log = logging.getLogger("vkshare.server")

_AT_ONCE = 16  # connections accepted in one turn of the loop
_PAUSE = 0.1  # seconds without accepting, after the process has run out of fds


class Acceptor:
    """Accepts connections for a server.

    admit(sock, pid) takes ownership of the socket, or returns False to reject it.
    """

    def __init__(
        self, listener: Listener, loop: Loop, clock: Callable[[], float], admit: Callable[[socket.socket, int], bool]
    ) -> None:
        self.refused = 0
        self.deadline = math.inf  # when resume() is to be called
        self._listener = listener
        self._loop = loop
        self._clock = clock
        self._admit_client = admit
        self._spare = -1  # a reserved fd: closing it makes room to accept and reject a connection
        loop.add(listener.sock.fileno(), READ, self._on_events)
        self._reserve_spare()

    def resume(self) -> None:
        """Accepts again after a pause: file descriptors may be free now."""
        self.deadline = math.inf
        self._reserve_spare()
        self._loop.watch(self._listener.sock.fileno(), READ)

    def close(self) -> None:
        """Stops listening, and frees the path for another server."""
        self._loop.remove(self._listener.sock.fileno())
        self._listener.close()
        self._release_spare()

    def _on_events(self, events: int, no_ops: Sequence[int]) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._listener.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in fd_ops.NO_ROOM:
                    return self._reject()
                _log.debug("accept: %s", error)
                continue
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        try:
            sock.setblocking(False)
            pid = sockets.check_peer(sock)
            if self._admit_client(sock, pid):
                return
            _log.warning("process %d was rejected: the server has its maximum number of clients", pid)
        except PermissionError as error:
            _log.warning("%s", error)
        except Exception:
            _log.exception("a connection could not be accepted")
        self.refused += 1
        sock.close()

    def _reject(self) -> None:
        """Rejects a connection for which the process has no fd, by accepting and closing it."""
        self.refused += 1
        if self._spare >= 0:
            self._release_spare()
            with contextlib.suppress(OSError):
                self._listener.sock.accept()[0].close()
        self._reserve_spare()
        # another thread took the fd: connections wait in the backlog for _PAUSE
        if self._spare < 0:
            self._loop.watch(self._listener.sock.fileno(), 0)
            self.deadline = self._clock() + _PAUSE

    def _reserve_spare(self) -> None:
        if self._spare < 0:
            with contextlib.suppress(OSError):
                self._spare = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def _release_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
