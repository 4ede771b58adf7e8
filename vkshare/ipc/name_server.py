"""The publisher's side of a name: its socket, its lock, and the connections of processes that look for it.

For a thread that polls: nothing here waits. A slow or hostile connection delays no other one: it
has a deadline for its request and one for its answer, and their number is bounded.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from vkshare.errors import ClosedError, DescriptorError, InvalidCallError, VkshareError
from vkshare.ipc import names, socket_files, sockets
from vkshare.ipc.descriptors import Descriptor
from vkshare.ipc.names import Answer, Description
from vkshare.ipc.socket_files import LockedListener, TakenError

_REQUEST_TIMEOUT = 1.0  # seconds within which a connection must send its request
_ANSWER_TIMEOUT = 10.0  # seconds within which the peer must take the answer
_MAX_CONNECTIONS = 32  # of short requests, at a time; others wait in the backlog
_MAX_INPUTS = 64  # viewers that send input, at a time
_EVENTS_A_TURN = 64  # of one viewer
_LONGEST_EVENT = 1024  # bytes
_BACKLOG = 64
_ACCEPT_PAUSE = 0.1  # seconds without accept() after it failed for want of fds
_RETRY_INTERVAL = 0.05  # seconds between attempts while too many fds of this user are in flight
_TAKING_OVER = 1.0  # seconds that a lock may be held without a listener, by a process that makes or removes the socket

_log = logging.getLogger("vkshare.names")


class Watch(Protocol):
    """A watcher that a connection keeps alive."""

    descriptor: Descriptor  # sent to the watcher, and closed then

    @property
    def is_over(self) -> bool:
        """Whether its pipe has ended, so that the connection ends too."""

    def close(self) -> None:
        """The watcher has gone."""


class Input(Protocol):
    """The input of a viewer, whose connection lasts as long."""

    def take(self, data: bytes) -> None:
        """Takes the message of an event. DescriptorError: it is none."""

    def close(self) -> None:
        """The viewer has gone."""


class Handler(Protocol):
    """The publication's part. A VkshareError of a call goes to the peer; ClosedError ends the name."""

    def describe(self) -> Description: ...
    def open(self) -> Descriptor: ...
    def watch(self, count: int) -> Watch: ...
    def input(self) -> Input: ...


class NameServer:
    """Serves one name. close() and unlink() are for any thread, the rest for the thread that polls.

    Raises
    ------
    InvalidCallError
        A living process has the name, or the folder is not the user's alone.
    OSError
        No socket can be made.
    """

    def __init__(self, name: str, handler: Handler) -> None:
        self.name = name
        self._handler = handler
        self._listener = _listen(name)
        self._connections: dict[int, _Connection] = {}
        self._pause = 0.0  # time.monotonic() before which no connection is accepted
        self._closing = False
        self.requests = 0  # answered or refused
        self.garbage = 0  # connections that were ended for what they sent, or did not send

    @property
    def path(self) -> Path:
        return self._listener.path

    @property
    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Frees the name at once. The polling thread then ends the connections. Idempotent."""
        self._closing = True
        self._listener.unlink()

    unlink = close

    # ---- a task of a thread that polls ----------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return self._closing and self._listener.sock.fileno() < 0

    def interest(self, now: float) -> tuple[dict[int, int], float]:
        if self._closing:
            return {}, now
        fds = {fd: one.events for fd, one in self._connections.items()}
        until = min((one.due(now) for one in self._connections.values()), default=float("inf"))
        if now < self._pause:
            until = min(until, self._pause)
        elif self._count() < _MAX_CONNECTIONS:
            fds[self._listener.sock.fileno()] = select.POLLIN
        return fds, until

    def turn(self, now: float, ready: Mapping[int, int]) -> None:
        if self._closing:
            self._end()
            return
        connections, self._connections = self._connections, {}
        for fd, one in connections.items():
            if self._step(one, now, ready.get(fd, 0)):
                self._connections[fd] = one
            else:
                one.close()
        if ready.get(self._listener.sock.fileno(), 0):
            self._accept(now)

    def _step(self, one: _Connection, now: float, events: int) -> bool:
        """Goes on with a connection; False: it is over."""
        try:
            if events and one.operation is None:
                self._receive(one, now)
            elif events & ~select.POLLOUT and one.watch is not None:
                return False  # the watcher has gone, or sent what it must not
            if events and one.input is not None and not one.take_events(one.input):
                return False
            if one.outgoing:
                one.send()
        except (OSError, DescriptorError) as error:
            self.garbage += 1
            _log.debug("%r: a connection is ended: %s", self, error)
            return False
        if one.expires <= now:
            self.garbage += 1
            return False
        return not one.is_over

    def _receive(self, one: _Connection, now: float) -> None:
        data = one.sock.recv(names.REQUEST.size + 1)  # fds that come with it are closed
        one.operation, count = names.parse_request(data)
        one.expires = now + _ANSWER_TIMEOUT
        self.requests += 1
        try:
            what = self._handler.describe()
            if one.operation == names.OPEN:
                one.outgoing = [self._handler.open()]
            elif one.operation == names.WATCH:
                one.watch = self._handler.watch(count)
                one.outgoing = [one.watch.descriptor]
            elif one.operation == names.INPUT:
                self._check_inputs()
                one.input = self._handler.input()
                one.expires = float("inf")
            answer = Answer(what=what)
        except Exception as error:  # the peer's request must not end the thread
            if not isinstance(error, VkshareError):
                _log.exception("%r: a request failed", self)
            answer = names.refusal(error)
            self._closing = self._closing or isinstance(error, ClosedError)
        try:
            one.sock.send(names.pack(answer))
        except OSError:
            if one.input is None:
                raise  # else the viewer has gone, and its events are still there

    def _accept(self, now: float) -> None:
        while self._count() < _MAX_CONNECTIONS:
            sock = sockets.accept(self._listener.sock)
            if sock is None:
                self._pause = now + _ACCEPT_PAUSE if _has_more(self._listener.sock) else 0.0
                return
            self._connections[sock.fileno()] = _Connection(sock, now + _REQUEST_TIMEOUT)

    def _count(self) -> int:
        return sum(one.watch is None and one.input is None for one in self._connections.values())

    def _check_inputs(self) -> None:
        if sum(one.input is not None for one in self._connections.values()) >= _MAX_INPUTS:
            raise InvalidCallError(f"{_MAX_INPUTS} viewers send input to {self.name!r} already")

    def _end(self) -> None:
        connections, self._connections = self._connections, {}
        for one in connections.values():
            one.close()
        self._listener.close()

    def fail(self, error: Exception) -> None:
        self._closing = True
        self._end()

    def forget(self) -> None:
        """In a forked child: closes its copies of the file descriptors, and leaves the files and the watches alone."""
        for one in self._connections.values():
            one.sock.close()
        self._connections = {}
        self._closing = True
        self._listener.close()

    def __repr__(self) -> str:
        return f"<vkshare name {self.name!r}, {len(self._connections)} connections>"


class _Connection:
    """A connection, from accept() to its end."""

    def __init__(self, sock: socket.socket, expires: float) -> None:
        self.sock = sock
        self.expires = expires  # time.monotonic()
        self.operation: int | None = None  # of its request
        self.outgoing: list[Descriptor] = []  # to be sent, and closed then
        self.watch: Watch | None = None
        self.input: Input | None = None
        self._retry = 0.0

    @property
    def lasts(self) -> bool:
        return self.watch is not None or self.input is not None

    @property
    def events(self) -> int:
        return select.POLLIN if self.operation is None or self.lasts else 0

    def due(self, now: float) -> float:
        return min(self.expires, self._retry) if self.outgoing else self.expires

    def send(self) -> None:
        """Sends the descriptor, if it can be sent now."""
        try:
            self.outgoing[0].send(self.sock, timeout=0)
        except TimeoutError:  # too many fds of this user are in flight
            self._retry = time.monotonic() + _RETRY_INTERVAL
            return
        self.outgoing.pop().close()
        if self.watch is not None:
            self.expires = float("inf")

    def take_events(self, to: Input) -> bool:
        """Takes the events that have come; False: the viewer has gone. DescriptorError: one is malformed."""
        for _ in range(_EVENTS_A_TURN):
            try:
                data = self.sock.recv(_LONGEST_EVENT + 1)
            except BlockingIOError:
                return True
            if not data:
                return False
            to.take(data)
        return True

    @property
    def is_over(self) -> bool:
        if self.input is not None:
            return False
        if self.watch is not None:
            return self.watch.is_over
        return self.operation is not None and not self.outgoing

    def close(self) -> None:
        """Ends the connection, and what it keeps alive."""
        self.sock.close()
        for descriptor in self.outgoing:
            descriptor.close()
        if self.watch is not None:
            self.watch.close()
        if self.input is not None:
            self.input.close()


def _has_more(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


# ---- the owner of a name ----------------------------------------------------------------------------------------


def _listen(name: str) -> LockedListener:
    """Takes the name. Exactly one of several processes gets it, also where the last owner was killed."""
    path = names.path_to_publish(name)
    for other in names.paths_of(name):
        if other != path and (pid := _owner(other, 0)) is not None:
            raise _taken(name, pid)
    until = time.monotonic() + _TAKING_OVER
    while True:
        try:
            return LockedListener(path, socket.SOCK_SEQPACKET, _BACKLOG)
        except TakenError as error:
            pid = _owner(path, error.pid)
            if pid is None and time.monotonic() < until:
                time.sleep(0.002)  # a process makes the socket just now, or removes a dead one
                continue
            raise _taken(name, error.pid if pid is None else pid) from None
        except OSError as error:
            raise socket_files.why_not(path, error, "publication") from None


def _owner(path: Path, unknown: int) -> int | None:
    """The pid of the process that listens there; `unknown` if it cannot be asked now; None: none listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            return sockets.connect(probe, path)
        except InvalidCallError:
            return None
        except OSError as error:
            return None if error.errno in (errno.ECONNREFUSED, errno.ENOENT) else unknown


def _taken(name: str, pid: int) -> InvalidCallError:
    who = "this process" if pid == os.getpid() else f"process {pid}" if pid else "another process"
    return InvalidCallError(
        f"the name {name!r} is published by {who} already: choose another, or close that publication first"
    )
