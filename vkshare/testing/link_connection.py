"""One connection through a simulated link: two sockets, and a flow for each direction. For the link's thread alone."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from collections.abc import Mapping
from typing import Literal

from vkshare.testing.link_model import Flow, LinkModel
from vkshare.testing.link_taps import Taps
from vkshare.testing.link_types import Direction

Cut = Literal["reset", "end", "blackhole"]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_CHUNK = 65536  # bytes read or written at once
_DRAINED = 1024  # chunks
_BUFFER = 65536  # bytes of the kernel's buffers: larger ones would hide the bounds of the link
_RESET = struct.pack("ii", 1, 0)  # struct linger: close() sends an RST


def prepare(sock: socket.socket) -> socket.socket:
    """Return the socket, without delays and large buffers of its own."""
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def reset(sock: socket.socket) -> None:
    """Close a socket with an RST (a Unix socket: with an end)."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


def finish(sock: socket.socket) -> None:
    """Close a socket with a FIN; bytes that were not read would make an RST of it."""
    with contextlib.suppress(OSError):
        for _ in range(_DRAINED):
            if not sock.recv(_CHUNK):
                break
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
    sock.close()


class _Lane:
    """One direction of a connection."""

    def __init__(self, direction: Direction, model: LinkModel, source: socket.socket, sink: socket.socket) -> None:
        self.direction = direction
        self.model = model
        self.flow: Flow = model.flow()
        self.source, self.sink = source, sink
        self.out = memoryview(b"")  # taken from the flow, and not yet in the kernel
        self.is_at_end = False  # the source has no more bytes
        self.is_blocked = False  # the sink takes none now
        self.is_done = False  # the sink has its end

    def wants_room(self, now: float) -> bool:
        """Whether the source may have bytes for which there is no room. A packet's worth is worth a look."""
        return not self.is_at_end and self.flow.room(now) < self.model.settings.mtu

    def wants_bytes(self, now: float) -> bool:
        return not self.is_at_end and not self.wants_room(now)

    @property
    def is_due(self) -> bool:
        """Whether something has arrived that the sink can take."""
        ended = self.flow.ended
        has_end = ended == "reset" or (ended == "end" and not self.is_done)
        return not self.is_blocked and (self.flow.has_arrived or has_end)

    def read(self, now: float) -> None:
        """Reads what is there and has room. Raises OSError."""
        data = self.source.recv(min(_CHUNK, self.flow.room(now)))
        if data:
            self.flow.push(data, now)
        else:
            self.is_at_end = True
            self.flow.end("end", now)


class Connection:
    """Two sockets of a link. `near` is the client's, `far` the target's, which may still be connecting.

    The owner calls turn() with what is ready, then watches `interest`.
    """

    def __init__(
        self,
        number: int,
        near: socket.socket,
        far: socket.socket,
        models: Mapping[Direction, LinkModel],
        taps: Taps,
        *,
        is_connecting: bool = False,
    ) -> None:
        self.number = number
        self.is_connecting = is_connecting
        self.is_open, self.is_black = True, False
        self._taps = taps
        self._sockets = near, far
        self._far = far
        self._lanes = _Lane("up", models["up"], near, far), _Lane("down", models["down"], far, near)

    @property
    def is_live(self) -> bool:
        """Whether bytes may pass."""
        return self.is_open and not self.is_black

    def turn(self, ready: Mapping[socket.socket, int], now: float) -> bool:
        """Moves bytes; returns False if the target could not be reached."""
        if not self.is_live:
            return True
        if self.is_connecting:
            return self._connect(ready.get(self._far, 0))
        for lane in self._lanes:
            if ready.get(lane.source, 0) & READ and lane.wants_bytes(now):
                self._read(lane, now)
        for lane in self._lanes:
            if self.is_live and (not lane.is_blocked or ready.get(lane.sink, 0) & WRITE):
                self._write(lane, now)
        if self.is_live and any(lane.flow.ended == "reset" for lane in self._lanes):
            self.cut("reset", now)
        elif self.is_live and all(lane.is_done for lane in self._lanes):
            self.cut("end", now)
        return True

    def interest(self, now: float) -> dict[socket.socket, int]:
        """Return the events that the next turn needs, by socket."""
        if not self.is_live:
            return {}
        if self.is_connecting:
            return {self._far: WRITE}
        found: dict[socket.socket, int] = {}
        for lane in self._lanes:
            if lane.wants_bytes(now):
                found[lane.source] = found.get(lane.source, 0) | READ
            if lane.is_blocked:
                found[lane.sink] = found.get(lane.sink, 0) | WRITE
        return found

    def wants_room(self, now: float) -> bool:
        """Whether a source waits until a queue has room."""
        return self.is_live and not self.is_connecting and any(lane.wants_room(now) for lane in self._lanes)

    def is_due(self) -> bool:
        """Whether the next turn has something to do now: time has passed in the models since the last one."""
        return self.is_live and not self.is_connecting and any(lane.is_due for lane in self._lanes)

    def cut(self, how: Cut, now: float) -> None:
        """Ends both sides; what travels is lost. A black hole keeps the sockets open, and neither reads nor writes."""
        for lane in self._lanes:
            lane.flow.drop(now)
            lane.out = memoryview(b"")
        if how == "blackhole":
            self.is_black = True
            return
        self.is_open = self.is_black = False
        for sock in self._sockets:
            if sock.fileno() >= 0:
                (reset if how == "reset" else finish)(sock)

    def _connect(self, events: int) -> bool:
        if events:
            self.is_connecting = False
            return not self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return True

    def _read(self, lane: _Lane, now: float) -> None:
        try:
            lane.read(now)
        except BlockingIOError:
            pass  # the kernel has changed its mind (select(2), BUGS)
        except OSError:
            self._failed(lane.source, now)

    def _write(self, lane: _Lane, now: float) -> None:
        """Writes what has arrived, as far as the kernel takes it, and then the end."""
        try:
            while lane.out or self._take(lane, now):
                lane.is_blocked = True
                lane.out = lane.out[lane.sink.send(lane.out) :]
                lane.is_blocked = False
            if self.is_live and lane.flow.ended == "end" and not lane.is_done:
                lane.is_done = True
                lane.sink.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._failed(lane.sink, now)

    def _take(self, lane: _Lane, now: float) -> bool:
        """Takes bytes from the flow, and shows them to the taps; returns whether there are any."""
        while self.is_live and (data := lane.flow.take(_CHUNK, now)):
            found = self._taps.passed(lane.direction, self.number, data)
            if found is None:
                self.cut("reset", now)
            elif found and self.is_live:  # a function of a tap may cut the connection
                lane.out = memoryview(found)
                return True
        return False

    def _failed(self, sock: socket.socket, now: float) -> None:
        """One side has reset the connection; the other side learns it in order."""
        for lane in self._lanes:
            lane.is_at_end = True
            if lane.source is sock:
                lane.flow.end("reset", now)
            else:
                lane.flow.drop(now)
                lane.out, lane.is_blocked, lane.is_done = memoryview(b""), False, True
        sock.close()
