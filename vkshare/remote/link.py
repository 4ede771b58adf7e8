"""A link: ordered lanes of messages to another machine, which survive a broken connection (rule M17).

LinkListener (link_listener.py) makes the host's end, connect() (link_client.py) the viewer's. Each
end has one thread, which owns the socket (link_thread.py); the methods here are for any thread.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from vkshare.errors import ClosedError, RemoteLostError
from vkshare.remote.inbox import Delivery
from vkshare.remote.link_messages import LANE_WINDOW, MAX_MESSAGE, Acknowledgement, Close, Item
from vkshare.remote.link_types import LinkEvents, LinkState, LinkStatistics
from vkshare.remote.stream import Session, Stream
from vkshare.util import arguments, forks
from vkshare.util.closing import FlagClosing
from vkshare.util.deadline import Deadline

if TYPE_CHECKING:
    from vkshare.remote.link_thread import LinkThread

_log = logging.getLogger("vkshare.remote")

Events = LinkEvents | Callable[["Link"], LinkEvents]
KEEPALIVE = 1.0  # seconds
GRACE = 10.0  # seconds
MOST_SECONDS = 86_400  # of both


class Link(FlagClosing):
    """One end of a link. Thread-safe. Made by LinkListener and connect()."""

    def __init__(self, events: Events, keepalive: float, grace: float) -> None:
        self.keepalive = arguments.number("keepalive", keepalive, 0.001, MOST_SECONDS)
        self.grace = arguments.number("grace", grace, 0, MOST_SECONDS)
        self._own = forks.OwnLock(self)
        self._changed = threading.Condition(threading.Lock())  # guards all below
        self._state = LinkState.CONNECTING
        self._why = ""
        self._session = Session(0)
        self._stream: Stream | None = None
        self._is_waking = False  # the thread knows that there is something to send
        self._connections = self._resumes = self._refused = self._stale = 0
        self._sent = self._received = 0
        self._thread: LinkThread | None = None
        self._closed = False
        self._pid = os.getpid()
        self._events = events if isinstance(events, LinkEvents) else events(self)

    def __repr__(self) -> str:
        return f"<vkshare.remote.Link {self._state}, generation {self._session.generation}>"

    @property
    def state(self) -> LinkState:
        """The state: connecting, up, broken, lost or closed."""
        return self._state

    @property
    def generation(self) -> int:
        """The number of the session; 0 before a viewer's first one."""
        return self._session.generation

    # ---- messages ---------------------------------------------------------------------------------------------

    def send(
        self,
        lane: int,
        message: bytes,
        *,
        replaces: Hashable = None,
        stale: bytes | None = None,
        has_pixels: bool = False,
        on_sent: Callable[[], object] | None = None,
        generation: int | None = None,
    ) -> bool:
        """Queue a message for the other side, which receives it once, and after the lane's earlier ones.

        Parameters
        ----------
        lane
            Its lane, 0 to 2**32 - 1; 0 is served before the others. A lane begins with its first
            message.
        message
            1 byte to 1 MiB.
        replaces
            A queued message of the same lane and key that has not begun to be sent becomes its
            `stale` bytes, in its place.
        stale
            What this message becomes when a newer one replaces it; None or b"": it is removed.
        has_pixels
            It carries pictures: at most three such messages are sent and not acknowledged (rule M7).
        on_sent
            on_sent() is called on the link's thread, and must not block, once the connection has all of it: messages
            that are sent from then on arrive after it.
        generation
            The session that the message is for; None: the present one.

        Returns
        -------
        bool
            False: the lane has no room for it, and nothing has changed; see wait_room().

        Raises
        ------
        RemoteLostError
            The session is over, or it is not the given generation's.
        InvalidCallError
            The lane has ended, or 1,024 lanes are open.
        ValueError
            The lane's number or a size is out of its range.
        ClosedError
            The link was closed.
        """
        with self._changed:
            self._check(generation)
            is_queued = self._session.outbox.put(
                lane, message, replaces=replaces, stale=stale, has_pixels=has_pixels, on_sent=on_sent
            )
        if is_queued:
            self._wake()
        return is_queued

    def end(self, lane: int, *, generation: int | None = None) -> None:
        """End a lane after its queued messages; the other side's on_end() is called. Idempotent.

        Parameters
        ----------
        lane
            The lane's number, which cannot be used for another lane before the other side has
            received the end: count up. Lane 0 ends with the session only.
        generation
            The session that the lane is of; None: the present one.

        Raises
        ------
        RemoteLostError
            The session is over, or it is not the given generation's.
        ValueError
            The lane is lane 0.
        ClosedError
            The link was closed.
        """
        with self._changed:
            self._check(generation)
            self._session.outbox.end(lane)
        self._wake()

    def consumed(self, lane: int, nbytes: int, *, generation: int | None = None) -> None:
        """Report that a message has been handled: its bytes make room for the lane's sender.

        No effect after the lane's end, or if the session is over.

        Parameters
        ----------
        lane
            The number that on_message() was called with: it has no effect on a later lane of the same number. A plain
            number is that of the lane which is open now.
        nbytes
            Length of the message, or of several.
        generation
            The session that they are of; None: the present one.

        Raises
        ------
        ValueError
            The lane has fewer bytes that were not consumed.
        """
        with self._changed:
            if generation is not None and generation != self._session.generation:
                return
            self._session.inbox.consumed(lane, nbytes, time.monotonic())
        self._wake()

    def room(self, lane: int) -> int:
        """Return how many bytes the lane takes now."""
        with self._changed:
            return self._session.outbox.room(lane)

    def picture_room(self) -> int:
        """Return how many messages with pixels may be sent now before one has to wait for an acknowledgement."""
        with self._changed:
            return self._session.outbox.picture_room

    def wait_room(self, lane: int, nbytes: int, timeout: float | None = None) -> bool:
        """Wait until the lane has room.

        Parameters
        ----------
        lane
            The lane's number.
        nbytes
            Bytes that it has to take, at most 1 MiB.
        timeout
            Seconds; None waits for ever, 0 tests.

        Returns
        -------
        bool
            False: it had none in time.

        Raises
        ------
        RemoteLostError
            The session is over.
        ValueError
            No lane ever takes so many bytes.
        ClosedError
            The link was closed.
        """
        if not 0 <= nbytes <= min(MAX_MESSAGE, LANE_WINDOW):
            raise ValueError(f"a lane takes 0 to {MAX_MESSAGE} bytes at a time, not {nbytes}")
        return self._wait(lambda: self._session.outbox.room(lane) >= nbytes, timeout)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the other side has received every message.

        Parameters
        ----------
        timeout
            Seconds; None waits for ever, 0 tests.

        Returns
        -------
        bool
            False: it has not in time.

        Raises
        ------
        RemoteLostError
            The session is over.
        ClosedError
            The link was closed.
        """
        return self._wait(lambda: self._session.outbox.is_settled, timeout)

    def wait_up(self, timeout: float | None = None) -> bool:
        """Wait until the connection works.

        Parameters
        ----------
        timeout
            Seconds; None waits for ever, 0 tests.

        Returns
        -------
        bool
            False: it does not in time.

        Raises
        ------
        RemoteLostError
            The session is over.
        ClosedError
            The link was closed.
        """
        return self._wait(lambda: self._state is LinkState.UP, timeout)

    def _wait(self, is_reached: Callable[[], bool], timeout: float | None) -> bool:
        deadline = Deadline(timeout)
        with self._changed:
            while True:
                self._check(None)
                if is_reached():
                    return True
                left = deadline.left()
                if left == 0:
                    return False
                self._changed.wait(left)

    def _check(self, generation: int | None) -> None:
        self._own.check()
        if self._state is LinkState.CLOSED:
            raise ClosedError("the link was closed")
        if self._state is LinkState.LOST:
            raise RemoteLostError(self._why)
        if generation is not None and generation != self._session.generation:
            raise RemoteLostError(
                f"session {generation} is over: the other side began session {self._session.generation}"
            )

    def _wake(self) -> None:
        thread = self._thread
        if thread is not None and not self._is_waking:
            self._is_waking = True
            thread.wake()

    # ---- the link's thread ------------------------------------------------------------------------------------

    def _enter(self, state: LinkState, why: str = "") -> None:
        """Changes the state and reports it."""
        with self._changed:
            if self._state is LinkState.CLOSED:
                return
            # messages for a new session may be sent before its connection is up
            self._state = LinkState.CONNECTING if state is LinkState.REPLACED else state
            self._why = why
            if state is not LinkState.UP:
                self._drop_stream()
            self._changed.notify_all()
        _log.info("link %s: %s", state, why or "-")
        try:
            self._events.on_state(state, why)
        except Exception:
            _log.exception("on_state() of a link has failed")

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stale += self._stream.stale
            self._stream = None

    def _deliver(self, items: list[Item], now: float) -> Close | None:
        """Handles packets of the connection; returns the peer's last one. LinkError: one breaks the protocol."""
        deliveries, last = [], None
        with self._changed:
            if self._stream is None:
                return None
            for item in items:
                result = self._stream.take(item, now)
                if isinstance(result, Delivery):
                    deliveries.append(result)
                elif result is not None:
                    last = result
            self._changed.notify_all()
            has_room = any(isinstance(item, Acknowledgement) for item in items)
        if has_room:
            self._events.on_room()
        for each in deliveries:
            if each.message is None:
                self._events.on_end(each.lane)
            else:
                self._events.on_message(each.lane, each.message)
        return last

    def reject(self, why: str, *, generation: int) -> None:
        """End that session, because its messages make no sense: it is lost on both sides. Does not wait.

        Parameters
        ----------
        why
            A clause for both sides' programs.
        generation
            The session; no effect if it is over.
        """
        thread = self._thread
        if thread is not None:
            thread.reject(why, generation)

    def close(self) -> None:
        """Close the link; the other side's state becomes lost. Messages that were not sent are dropped. Idempotent."""
        self._own.check()
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._state = LinkState.CLOSED
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.stop()

    def statistics(self) -> LinkStatistics:
        """Return a snapshot of the state and the counters."""
        with self._changed:
            stream = self._stream
            return LinkStatistics(
                self._state,
                self._session.generation,
                self._connections,
                self._resumes,
                self._refused,
                self._sent,
                self._received,
                math.nan if stream is None else stream.round_trip,
                self._stale + (0 if stream is None else stream.stale),
                self._session.outbox.statistics(),
                self._session.inbox.statistics(),
            )
