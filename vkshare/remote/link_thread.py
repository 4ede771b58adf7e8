"""The thread that owns a link's socket: it reads, delivers, sends what the session has, and keeps the time."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from vkshare.remote.handshake import HostHandshake, ViewerHandshake
from vkshare.remote.link import Link
from vkshare.remote.link_messages import CLOSED_BY_ERROR, REASONS, Item, LinkError
from vkshare.remote.link_types import LinkState
from vkshare.remote.stream import Session, Stream
from vkshare.remote.wire import Wire
from vkshare.server.loop import READ, WRITE, Loop

_log = logging.getLogger("vkshare.remote")

_LINGER = 1.0  # seconds that close() waits for the other side, which has to know that it was no break
_FRAMES = 16  # sent in one turn of the loop, so that reading gets its turn too
_ITEMS = 32  # packets that are delivered together
_READING = 0.005  # seconds of a turn of the loop that go to packets: some KiB can hold millions of them


class Attempt:
    """A connection that has not passed the handshake."""

    def __init__(self, wire: Wire, deadline: float, peer: str = "") -> None:
        self.wire = wire
        self.peer = peer  # the address of the other end
        self.deadline = deadline
        self.handshake: HostHandshake | ViewerHandshake | None = None

    def feed(self) -> bool:
        """Reads once and answers; returns whether the connection goes on. Raises LinkError or OSError."""
        data = self.wire.receive()
        if data is None:
            return False
        if data and self.handshake is not None:
            self.wire.send(self.handshake.feed(data))
        return True


class LinkThread:
    """The base of both ends. Methods with an underscore are for the thread itself."""

    def __init__(self, link: Link, name: str) -> None:
        self.link = link
        self.loop = Loop()
        self._wire: Wire | None = None
        self._stream: Stream | None = None
        self._interest = READ
        self._arrived: Iterator[Item] | None = None  # packets that were read and are not delivered yet
        self._grace = link.grace
        self._grace_end = math.inf
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Has the thread look for something to send."""
        self.loop.call_soon(lambda: None)

    def stop(self) -> None:
        """Ends the thread, which announces the end to the other side, and waits for it."""
        self.loop.call_soon(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def reject(self, why: str, generation: int) -> None:
        """Has the thread end that session."""
        self.loop.call_soon(lambda: self._reject(why, generation))

    def _reject(self, why: str, generation: int) -> None:
        if self.link.generation == generation and self.link.state in (LinkState.UP, LinkState.BROKEN):
            self._fail(why)

    def _stop(self) -> None:
        self._is_stopping = True

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                now = time.monotonic()
                wait = self._deadline() - now
                self.loop.turn(None if wait == math.inf else max(0.0, wait))
                self._guarded(self._deliver)
                self._on_time(time.monotonic())
                self._pump()
        except Exception as error:
            _log.exception("a link has failed")
            with contextlib.suppress(Exception):
                self._fail(f"{type(error).__name__} on the link's thread: {error}")
        finally:
            self._say_goodbye()
            if self._wire is not None:
                self._wire.linger(_LINGER)
            self._close_all()
            self.loop.close()

    # ---- the connection ---------------------------------------------------------------------------------------

    def _attach(self, wire: Wire, session: Session, keepalive: float, is_resumed: bool) -> None:
        """Begins to carry the session on a connection that has passed the handshake, and that the loop watches."""
        link = self.link
        stream = Stream(session, keepalive, time.monotonic())
        self._wire, self._stream, self._interest, self._grace_end = wire, stream, READ, math.inf
        session.inbox.may_begin = link._events.may_begin
        wire.is_trusted = True
        with link._changed:
            link._session, link._stream = session, stream
            link._connections += 1
            link._resumes += is_resumed
        link._enter(LinkState.UP, "the session goes on" if is_resumed else "")
        self.loop.watch(wire.fileno(), READ)

    def _on_events(self, events: int, _: Sequence[int] = ()) -> None:
        wire = self._wire
        if wire is None:
            return

        def handle() -> None:
            wire.flush()
            if events & ~WRITE and self._arrived is None:
                self._feed(wire.receive())

        self._guarded(handle)

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except LinkError as error:
            self._fail(str(error))
        except OSError as error:
            self._break(f"the connection failed: {error.strerror or error}")

    def _feed(self, data: bytes | None) -> None:
        """Takes bytes of the connection; None: its end."""
        stream = self._stream
        if data is None or stream is None:
            return self._break("the other side ended the connection")
        self._arrived = stream.read(data)
        self._deliver()

    def _deliver(self) -> None:
        """Delivers packets that have been read, for some milliseconds. The next turns of the loop go on."""
        now = time.monotonic()
        until = now + _READING
        while self._arrived is not None:
            items = list(itertools.islice(self._arrived, _ITEMS))
            if self._stream is not None:
                self._stream.heard(now)
            if len(items) < _ITEMS:
                self._arrived = None
            self._deliver_all(items, now)
            now = time.monotonic()
            if now >= until:
                break

    def _deliver_all(self, items: list[Item], now: float) -> None:
        try:
            last = self.link._deliver(items, now)
        except LinkError:
            raise
        except Exception as error:  # of the program's function; the message would be lost
            _log.exception("a function of a link's events has failed")
            return self._fail(f"a function of its events raised {type(error).__name__}: {error}")
        if last is not None:
            self._lose(REASONS[last.reason])

    def _pump(self) -> None:
        """Sends what may be sent, while the socket takes it."""
        wire, stream = self._wire, self._stream
        if wire is None or stream is None:
            return
        has_more = True
        try:
            for _ in range(_FRAMES):
                if wire.wants_write:
                    break
                with self.link._changed:
                    self.link._is_waking = False
                    packets = stream.gather(time.monotonic())
                if not packets:
                    has_more = False
                    break
                frame = stream.frame(packets)
                with self.link._changed:
                    stream.framed(packets, frame)
                    sent = stream.session.outbox.take_sent()
                wire.send(frame)
                for call in sent:
                    call()
        except OSError as error:
            return self._break(f"the connection failed: {error.strerror or error}")
        interest = (WRITE if has_more else 0) | (READ if self._arrived is None else 0)
        if interest != self._interest:
            self._interest = interest
            self.loop.watch(wire.fileno(), interest)

    def _drop_wire(self) -> None:
        wire, self._wire, self._stream, self._arrived = self._wire, None, None, None
        if wire is not None:
            self._count(wire)
            self.loop.remove(wire.fileno())
            wire.close()

    def _count(self, wire: Wire) -> None:
        with self.link._changed:
            self.link._sent += wire.sent
            self.link._received += wire.received
        wire.sent = wire.received = 0

    # ---- ends -------------------------------------------------------------------------------------------------

    def _break(self, why: str) -> None:
        """The connection broke: the session waits for another one (rule M17)."""
        self._drop_wire()
        if not self._grace:
            return self._lose(why)
        now = time.monotonic()
        self._grace_end = now + self._grace
        self.link._enter(LinkState.BROKEN, why)
        self._on_broken(now)

    def _fail(self, why: str) -> None:
        """The peer broke the protocol: the session is over (rule M13)."""
        self._say_goodbye(CLOSED_BY_ERROR)
        self._lose(why)

    def _lose(self, why: str) -> None:
        self._drop_wire()
        self._grace_end = math.inf
        has_begun = self.link.state is not LinkState.CONNECTING
        self.link._enter(LinkState.LOST, f"the session is over: {why}" if has_begun else why)

    def _say_goodbye(self, *reason: int) -> None:
        """Sends the last frame, if the socket takes it now."""
        wire, stream = self._wire, self._stream
        if wire is not None and stream is not None:
            with contextlib.suppress(OSError):
                wire.send(stream.closing(*reason))

    def _on_time(self, now: float) -> None:
        if self._wire is not None:
            self._count(self._wire)
        if self._stream is not None and self._stream.is_silent(now):
            self._break("the other side is silent")
        if now >= self._grace_end:
            self._lose(f"the connection did not come back within {self._grace:g} s")

    def _deadline(self) -> float:
        """When the thread has something to do although nothing happens."""
        stream = self._stream
        if stream is None:
            return self._grace_end
        if self._arrived is not None:
            return 0.0
        with self.link._changed:
            return stream.deadline

    # ---- of the two ends --------------------------------------------------------------------------------------

    def _on_broken(self, now: float) -> None:
        """Called when the connection broke and may come back."""

    def _close_all(self) -> None:
        """Closes the connection and all else that the end has."""
        self._drop_wire()
