"""Input events of those that watch a published picture, at the publisher and at the viewer (rule W5)."""

from __future__ import annotations

import contextlib
import threading
import time

from vkshare.errors import InvalidCallError
from vkshare.ipc import names, viewer_events
from vkshare.ipc.input_events import Event
from vkshare.ipc.viewer_events import EventLog, Held, ViewerEvent
from vkshare.util import arguments
from vkshare.util.deadline import Deadline

_RETRY_INTERVAL = 1.0  # seconds between attempts to reach a publisher


class ViewerEvents:
    """Events of all viewers, until the program takes them. Thread-safe."""

    def __init__(self) -> None:
        self._log = EventLog()
        self._changed = threading.Condition()
        self._is_closed = False
        self.count = 0  # events, ever

    @property
    def merged(self) -> int:
        return self._log.merged

    @property
    def dropped(self) -> int:
        return self._log.dropped

    def add(self, event: ViewerEvent) -> None:
        with self._changed:
            self.count += 1
            self._log.add(event)
            self._changed.notify_all()

    def take(self, timeout: float | None) -> list[ViewerEvent]:
        """Returns the events since the last call; waits so many seconds for the first, but not after close()."""
        deadline = Deadline(arguments.timeout(timeout))
        with self._changed:
            while not len(self._log) and not self._is_closed:
                left = deadline.left()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return self._log.take()

    def close(self) -> None:
        """Ends all waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class PublishedInput:
    """One viewer's input at the publisher, on the service thread."""

    def __init__(self, events: ViewerEvents, viewer: int) -> None:
        self._events, self._viewer = events, viewer
        self._held = Held()

    def take(self, data: bytes) -> None:
        event = viewer_events.event_of(viewer_events.parse(data), self._viewer, time.perf_counter())
        if self._held.note(event):
            self._events.add(event)

    def close(self) -> None:
        """The viewer has gone: what it held is released."""
        for event in self._held.end(self._viewer, time.perf_counter()):
            self._events.add(event)


class InputSender:
    """Sends the input of one viewer to the publisher of a name, which may change. Never waits. For one thread.

    A publisher that asked for no input, has gone, or does not read, gets nothing: the connection ends,
    by which everything that is held is released, and a later event begins a new one.

    Attributes
    ----------
    lost
        Events that a publisher did not read in time.
    """

    def __init__(self, name: str) -> None:
        self.lost = 0
        self._is_full = False  # the publisher did not read, and has no new connection yet
        self._name = name
        self._call: names.Call | None = None
        self._retry_at = 0.0  # time.monotonic()

    def send(self, event: Event) -> bool:
        """Sends the event; says whether it went out. ``close`` ends the connection instead."""
        if event.event_type == "close":
            self.close()
            return False
        if self._call is not None and self._call.is_refused():
            self.close()
        if self._call is None and not self._connect():
            self.lost += self._is_full
            return False
        assert self._call is not None
        try:
            self._call.sock.send(viewer_events.pack(event))
        except OSError as error:
            self.close()
            self._is_full = isinstance(error, BlockingIOError)
            self.lost += self._is_full
            self._retry_at = time.monotonic() + _RETRY_INTERVAL
            return False
        self._is_full = False
        return True

    def close(self) -> None:
        """Ends the connection. Idempotent."""
        call, self._call = self._call, None
        if call is not None:
            call.close()

    def _connect(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + _RETRY_INTERVAL
        for path in names.paths_of(self._name):
            with contextlib.suppress(OSError, InvalidCallError):
                self._call = names.Call(path, names.INPUT)
                return True
        return False
