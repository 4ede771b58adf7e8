"""The thread of a simulated link: it accepts and connects, moves bytes, and keeps the time."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from vkshare.errors import InvalidCallError
from vkshare.testing.link_connection import READ, Connection, Cut, prepare, reset
from vkshare.testing.link_model import LinkModel
from vkshare.testing.link_taps import Taps
from vkshare.testing.link_types import DIRECTIONS, Direction, LinkSettings, LinkStatistics
from vkshare.util.closing import on_error

_log = logging.getLogger("vkshare.testing")

MOST_CONNECTIONS = 256  # further ones wait in the listener's backlog
_BACKLOG = 128
_PAUSE = 0.1  # seconds without accepting, after the process has run out of file descriptors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """The address that a proxy connects to."""

    family: int
    sockaddr: Any

    def __str__(self) -> str:
        return self.sockaddr if isinstance(self.sockaddr, str) else f"{self.sockaddr[0]}:{self.sockaddr[1]}"


class Acceptor:
    """The listening socket of a proxy, on a port of its own also while it refuses connections."""

    def __init__(self) -> None:
        self._keeper = self._bound(0)  # does not listen; the port stays taken
        self.sockaddr: tuple[str, int] = self._keeper.getsockname()
        self.socket: socket.socket | None = None
        with on_error(self.close):
            self.open()

    def _bound(self, port: int) -> socket.socket:
        sock = socket.socket()
        with on_error(sock.close):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(("127.0.0.1", port))
        return sock

    def open(self) -> None:
        """Listens. Idempotent."""
        if self.socket is None:
            sock = self._bound(self.sockaddr[1])
            with on_error(sock.close):
                prepare(sock).listen(_BACKLOG)
            self.socket = sock

    def refuse(self) -> None:
        """Connections get ECONNREFUSED. Idempotent."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def close(self) -> None:
        self.refuse()
        self._keeper.close()


class Relay:
    """The state of a link. All methods but start(), call() and stop() are for its thread."""

    def __init__(self, settings: LinkSettings, seed: int | str, target: Target | None) -> None:
        self.models: dict[Direction, LinkModel] = {each: LinkModel(settings, f"{seed}/{each}") for each in DIRECTIONS}
        self.taps = Taps()
        self._target = target
        self._connections: list[Connection] = []
        self._accepted = self._cut = self._failed = self._wakeups = 0
        self._refuse_until = self._pause_until = -math.inf
        self._calls: deque[tuple[Callable[[], object], Future[Any]]] = deque()
        self._lock = threading.Lock()  # of _calls and _is_over
        self._is_stopping = self._is_over = False
        self._watched: dict[socket.socket, int] = {}
        self._thread = threading.Thread(target=self._run, name="vkshare-link", daemon=True)
        with contextlib.ExitStack() as undo:
            self.acceptor = Acceptor() if target else None
            if self.acceptor:
                undo.callback(self.acceptor.close)
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            undo.callback(os.close, self._wake)
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._wake, READ)
            undo.pop_all()

    def start(self) -> None:
        self._thread.start()

    # ---- calls from other threads --------------------------------------------------------------------------------

    def call(self, function: Callable[[], T]) -> T:
        """Return function()'s result, called on the thread.

        Raises
        ------
        InvalidCallError
            The link is closed.
        """
        if threading.current_thread() is self._thread:
            return function()
        future: Future[T] = Future()
        with self._lock:
            if self._is_over:
                raise InvalidCallError("the link is closed: make another one")
            self._calls.append((function, future))
            os.eventfd_write(self._wake, 1)
        return future.result()

    def stop(self) -> None:
        """Ends the thread and all connections, and waits for it. Idempotent."""
        with contextlib.suppress(InvalidCallError):
            self.call(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _stop(self) -> None:
        self._is_stopping = True

    def _run_calls(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._calls:
            function, future = self._calls.popleft()
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    # ---- the loop ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            ready: dict[socket.socket, int] = {}
            while not self._is_stopping:
                self._wakeups += 1
                now = time.monotonic()
                self._turn(ready, now)
                wake = self._watch(now)
                wait = None if wake == math.inf else max(0.0, wake - time.monotonic())
                ready = {}
                for key, events in self._selector.select(wait):
                    if key.fd == self._wake:
                        self._run_calls()
                    else:
                        ready[key.fileobj] = events  # type: ignore[index]
        except Exception as error:
            _log.exception("a simulated link has failed")
            self.taps.error = self.taps.error or error
        finally:
            self._end()

    def _turn(self, ready: dict[socket.socket, int], now: float) -> None:
        for connection in self._connections:
            if not connection.turn(ready, now):
                self._failed += 1
                connection.cut("reset", now)
        rotated = self._connections[1:] + self._connections[:1]  # each is the first to use the queue's room in its turn
        self._connections = [each for each in rotated if each.is_open]
        if self.acceptor and now >= self._refuse_until:
            self._open(self.acceptor, now)
        if self.acceptor and self.acceptor.socket in ready:
            self._accept(self.acceptor.socket, now)

    def _open(self, acceptor: Acceptor, now: float) -> None:
        try:
            acceptor.open()
        except OSError as error:  # too many open files
            _log.warning("a simulated link cannot listen: %s", error)
            self._refuse_until = now + _PAUSE

    def _watch(self, now: float) -> float:
        """Watches what the next turn needs, and returns when it is needed at the latest."""
        wanted: dict[socket.socket, int] = {}
        if (
            self.acceptor
            and self.acceptor.socket
            and len(self._connections) < MOST_CONNECTIONS
            and now >= self._pause_until
        ):
            wanted[self.acceptor.socket] = READ
        wakes = [until for until in (self._refuse_until, self._pause_until) if until > now]
        wakes += [model.next_delivery(now) for model in self.models.values()]
        if any(connection.wants_room(now) for connection in self._connections):
            wakes += [model.next_room(now) for model in self.models.values()]
        for connection in self._connections:
            wanted.update(connection.interest(now))
        for sock in [each for each in self._watched if each not in wanted]:
            self._selector.unregister(sock)
        for sock, events in wanted.items():
            if sock not in self._watched:
                self._selector.register(sock, events)
            elif self._watched[sock] != events:
                self._selector.modify(sock, events)
        self._watched = wanted
        return now if any(connection.is_due() for connection in self._connections) else min(wakes)

    def _end(self) -> None:
        now = time.monotonic()
        for connection in self._connections:
            connection.cut("reset", now)
        if self.acceptor:
            self.acceptor.close()
        self._selector.close()
        with self._lock:
            self._is_over = True
            calls = list(self._calls)
            os.close(self._wake)
        for _, future in calls:
            future.set_exception(InvalidCallError("the link was closed meanwhile"))

    # ---- connections ---------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, now: float) -> None:
        while len(self._connections) < MOST_CONNECTIONS:
            try:
                near, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # too many open files, or the client has gone meanwhile
                _log.warning("a simulated link cannot accept: %s", error)
                self._pause_until = now + _PAUSE
                return
            try:
                self._connect(near, now)
            except OSError:
                self._failed += 1
                reset(near)

    def _connect(self, near: socket.socket, now: float) -> None:
        assert self._target is not None
        far = socket.socket(self._target.family)
        with on_error(far.close):
            prepare(far)
            if now < self._refuse_until:
                self.join(near, far).cut("blackhole", now)
                return
            try:
                far.connect(self._target.sockaddr)
                is_connecting = False
            except BlockingIOError:
                if far.family == socket.AF_UNIX:
                    raise  # its backlog is full
                is_connecting = True
            self.join(near, far, is_connecting=is_connecting)

    def join(self, near: socket.socket, far: socket.socket, *, is_connecting: bool = False) -> Connection:
        """Carry a connection between two sockets, which become the link's."""
        connection = Connection(self._accepted, prepare(near), far, self.models, self.taps, is_connecting=is_connecting)
        self._accepted += 1
        self._connections.append(connection)
        return connection

    def disconnect(self, how: Cut, refuse: float | None, is_hole: bool) -> int:
        """Cut all connections, refuse others for some seconds, and return the number of those cut."""
        now = time.monotonic()
        live = [connection for connection in self._connections if connection.is_live]
        for connection in live:
            connection.cut(how, now)
        self._cut += len(live)
        if refuse != 0:
            self._refuse_until = math.inf if refuse is None else now + refuse
            if self.acceptor and not is_hole:
                self.acceptor.refuse()
        return len(live)

    def admit(self) -> None:
        """Refuse connections no more."""
        self._refuse_until = -math.inf
        if self.acceptor:
            self._open(self.acceptor, time.monotonic())

    def statistics(self) -> LinkStatistics:
        now = time.monotonic()
        black = sum(connection.is_black for connection in self._connections)
        return LinkStatistics(
            self.models["up"].statistics(now),
            self.models["down"].statistics(now),
            sum(connection.is_live for connection in self._connections),
            self._accepted,
            self._cut,
            self._failed,
            black,
            self._wakeups,
        )
