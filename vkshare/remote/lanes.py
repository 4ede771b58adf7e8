"""The viewer's lanes: each program's messages, between the link and a session of the viewer's render server."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vkshare.errors import VkshareError
from vkshare.server import wire
from vkshare.server.loop import READ, WRITE
from vkshare.server.messages import Op
from vkshare.server.server import RenderServer
from vkshare.util import forks

if TYPE_CHECKING:
    from vkshare.remote.link import Link

_log = logging.getLogger("vkshare.remote")

_READ_SIZE = 1 << 18
MOST_QUEUED = 64 << 20  # bytes of answers that wait for the link; a host asks for some 20 MiB of pixels at most
_GENERATION = 1  # of the viewer's device
_LAST = 0xFFFFFFFF  # sequence of the request after which a session ends


class Lane:
    """One lane. For the server's loop."""

    def __init__(
        self, number: int, link: Link, generation: int, server: RenderServer, on_death: Callable[[], object]
    ) -> None:
        """`on_death` is called if the session ends before it has executed what has arrived."""
        self.number = number
        self._link = link
        self._generation = generation
        self._server = server
        self._on_death = on_death
        self._to_session: deque[tuple[memoryview, int]] = deque()  # the rest of a message, and the message's length
        self._to_host: deque[bytes] = deque()
        self._queued = 0  # bytes of it
        self._has_sent = False
        self._is_ending = False
        self._answers = wire.Splitter()
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        self._sock = forks.close_in_child(here)
        if not server._accept(there, os.getpid()):
            here.close()
            there.close()
            raise VkshareError("the viewer has its maximum number of programs")
        server.loop.add(here.fileno(), READ, self._on_events)
        session = next(reversed(server.clients.values()))
        session.on_close(lambda _: self._session_closed())
        session.on_worker_failure = self._died  # a request that is not executed passes its turns on to no program

    @property
    def is_closed(self) -> bool:
        return self._sock.fileno() < 0

    def arrived(self, message: bytes) -> None:
        """A message of the host."""
        if self.is_closed:  # its session has ended, which the end of the lane reports
            self._link.consumed(self.number, len(message), generation=self._generation)
            return
        self._to_session.append((memoryview(message), len(message)))
        self._write()

    def ended(self) -> None:
        """The host sends no more: the session ends once it has executed what has arrived.

        A session drops requests that it has not executed when its connection closes, and other
        programs wait for their turns. So it is asked to answer a last one first.
        """
        if self.is_closed or self._is_ending:
            return
        self._is_ending = True
        self._to_session.append((memoryview(_end()), 0))
        self._write()

    def has_room(self) -> None:
        """The link may take more."""
        while self._to_host:
            if not self._link.send(self.number, self._to_host[0], generation=self._generation):
                return
            self._has_sent = True
            self._queued -= len(self._to_host.popleft())

    def _on_events(self, events: int, _: Sequence[int]) -> None:
        if events & WRITE:
            self._write()
        if events & READ and not self.is_closed:
            self._read()

    def _write(self) -> None:
        if self.is_closed:
            return
        try:
            while self._to_session:
                data, length = self._to_session[0]
                sent = self._sock.send(data)
                if sent < len(data):
                    self._to_session[0] = data[sent:], length
                    break
                self._to_session.popleft()
                if length:
                    self._link.consumed(self.number, length, generation=self._generation)
        except BlockingIOError:
            pass
        except OSError:
            return self._died()
        self._server.loop.watch(self._sock.fileno(), READ | (WRITE if self._to_session else 0))

    def _read(self) -> None:
        try:
            data = self._sock.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._died()
        answers = self._answers.feed(data)
        if self._is_ending:  # the host reads no more
            if any(each.sequence == _LAST and each.opcode == Op.REPLY for each in answers):
                self.close()
            return
        self._to_host.append(data)
        self._queued += len(data)
        if self._queued > MOST_QUEUED:
            return self._died()
        try:
            self.has_room()
        except VkshareError as error:
            _log.debug("lane %d: %s", self.number, error)
            self.close()

    def _session_closed(self) -> None:
        """Reads what the session has left, so that the socket does not outlive a loop that takes no more turns."""
        while self._is_ending and not self.is_closed:
            self._read()

    def _died(self) -> None:
        self.close()
        self._on_death()

    def close(self) -> None:
        """Ends the session. Idempotent."""
        if self.is_closed:
            return
        self._server.loop.remove(self._sock.fileno())
        self._sock.close()
        for length in (length for _, length in self._to_session if length):
            self._link.consumed(self.number, length, generation=self._generation)
        self._to_session.clear()
        with contextlib.suppress(VkshareError):
            if not self._has_sent:  # a lane begins with its first message, and the host waits for its end
                self._link.send(self.number, _end(), generation=self._generation)
            self._link.end(self.number, generation=self._generation)


def _end() -> bytes:
    return wire.pack(Op.NO_OP, _LAST, _GENERATION)
