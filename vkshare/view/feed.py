"""Feed: a thread that takes the newest frame of a receiver, reads it back, and hands it to subscriptions."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare.core.watched_picture import Stamp, stamp_of
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, VkshareError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.view.display_pixels import AS_STORED as AS_STORED
from vkshare.view.display_pixels import EIGHT_BIT as EIGHT_BIT
from vkshare.view.display_pixels import to_rgba8 as to_rgba8
from vkshare.view.planar_pictures import PictureReader

if TYPE_CHECKING:
    from vkshare.core.pipe_ends import Receiver
    from vkshare.core.surface import Surface

Array = np.ndarray[Any, Any]

_OLDEST = 10_000_000_000  # nanoseconds: a stamp from before that is not believed
_LOOK = 0.25  # seconds between two looks, at rest, whether the sender is still there


@dataclass(frozen=True, eq=False)
class Picture:
    """A frame's pixels. Immutable: subscribers share it.

    Attributes
    ----------
    serial
        From 1, in the order in which the feed has taken them.
    time_ns
        CLOCK_MONOTONIC of the frame: of the copy that a watcher got, else of its arrival.
    array
        (H, W, C) as stored, C-contiguous; of planes as RGBA.
    format
        The surface's; of planes "rgba8unorm".
    """

    serial: int
    time_ns: int
    array: Array
    format: str

    @property
    def width(self) -> int:
        """Pixels."""
        return int(self.array.shape[1])

    @property
    def height(self) -> int:
        """Pixels."""
        return int(self.array.shape[0])

    @functools.cached_property
    def rgba8(self) -> Array:
        """(H, W, 4), uint8, as ``to_rgba8()`` converts the pixels."""
        return to_rgba8(self.array, self.format)

    def region(self, x: int, y: int, width: int, height: int) -> Array:
        """Return a rectangle of ``rgba8`` without converting the rest."""
        return to_rgba8(self.array[y : y + height, x : x + width], self.format)


class Feed(FlagClosing):
    """Takes the newest frames of a receiver on a thread of its own. Thread-safe.

    The feed rests while no subscription wants pictures: it holds the newest frame and reads none. A
    watched source makes no copies then; a pipe's older frames go back to its sender, which so never
    waits for a viewer.

    Parameters
    ----------
    receiver
        A pipe's, which no other thread uses until the feed is closed. It stays open.
    end_text
        The text of `end` once the receiver has ended.

    Attributes
    ----------
    end
        Why no further picture comes, as text; None while the receiver goes on.
    width, height, format
        Of the receiver's surfaces.

    Raises
    ------
    UnsupportedError
        The receiver is one of buffers.
    ClosedError
        It is closed.
    """

    _unpicklable = "it belongs to the process that receives"

    def __init__(self, receiver: Receiver[Surface], end_text: str = "its sender has closed") -> None:
        self._closed = True
        self._end_text = end_text
        self._own = OwnLock(self)
        surface = receiver._surface()
        self.width, self.height, self.format = surface.width, surface.height, surface.format
        self.end: str | None = None
        self._receiver = receiver
        self._can_hold = receiver._queues[0].count > 1
        self._changed = threading.Condition()  # guards the newest picture, the end and the subscriptions
        self._newest: Picture | None = None
        self._subscriptions: list[Subscription] = []
        self._taken = 0
        self._stopping = False
        self._reader = PictureReader()
        self._held = contextlib.ExitStack()  # the newest frame, unread
        self._held_frame: tuple[Any, Stamp | None] | None = None
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with on_error(lambda: os.close(self._wake)):
            self._poll = select.poll()
            self._poll.register(self._wake, select.POLLIN)
            self._receiver_fd = receiver.fileno()
            self._thread = threading.Thread(target=self._run, name="vkshare view feed", daemon=True)
            self._thread.start()
        self._closed = False

    def subscribe(self, on_picture: Callable[[], object] | None = None) -> Subscription:
        """Begin to get pictures; the newest one there is comes at once.

        Parameters
        ----------
        on_picture
            Called on the feed's thread whenever a picture has come, and at the end. It must not block, and may call
            ``loop.call_soon_threadsafe()``, for example.

        Returns
        -------
        Subscription
            Close it, or use it in a ``with`` block.

        Raises
        ------
        ClosedError
            The feed is closed. A feed whose receiver has ended still gives its last picture.
        """
        self._own.check()
        with self._changed:
            if self._closed:
                raise ClosedError("this Feed is closed")
            subscription = Subscription(self, on_picture, self._newest)
            self._subscriptions.append(subscription)
        self._rouse()
        return subscription

    @property
    def taken(self) -> int:
        """How many pictures were read."""
        return self._taken

    def close(self) -> None:
        """End the thread and all subscriptions. Idempotent. The receiver stays open."""
        self._own.check()
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._stopping = True
        self._rouse()
        self._thread.join()
        with self._changed:
            os.close(self._wake)
            self._wake = -1

    def _is_lost(self) -> bool:
        return not self._closed and self._own.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.end or f"{len(self._subscriptions)} subscriptions"
        return f"<vkshare.view.Feed {self.width}x{self.height} {self.format}, {self._taken} taken, {state}>"

    # ---- the thread

    def _rouse(self) -> None:
        with self._changed, contextlib.suppress(OSError):  # full, which wakes as well
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        why = "it was closed"
        try:
            while not self._stopping:
                self._step()
        except ClosedError:
            why = self._end_text
        except VkshareError as error:  # of a lost device, for example
            why = str(error) or type(error).__name__
        except Exception as error:
            why = f"the feed has failed: {error!r}"
            raise
        finally:
            self._finish(why)

    def _step(self) -> None:
        """Wait for a frame, or for a subscription that wants the held one, and handle it."""
        is_wanted = any(each._wants for each in self._subscriptions)
        if is_wanted and self._held_frame is not None:
            self._take(True)  # a newer one, if there is one
            if self._held_frame is not None:
                self._read(self._held_frame[0].surface, self._held_frame[1])
                self._let_go()
        is_resting = not is_wanted and self._held_frame is not None and self._held_frame[1] is not None
        if self._wait(not is_resting):
            self._take(is_wanted)
        elif is_resting and self._receiver.statistics().producer_pid == 0:
            self._take(True)  # the last frames, and then the end

    def _wait(self, for_frames: bool) -> bool:
        """Whether a frame, or the end, is there."""
        if for_frames:
            self._poll.register(self._receiver_fd, select.POLLIN)
        try:
            ready = {fd for fd, _ in self._poll.poll(None if for_frames else _LOOK * 1e3)}
        finally:
            if for_frames:
                self._poll.unregister(self._receiver_fd)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        return self._receiver_fd in ready

    def _take(self, is_wanted: bool) -> None:
        """Take the newest frame, and read or hold it."""
        with contextlib.ExitStack() as taking:
            try:
                frame = taking.enter_context(self._receiver.frame(0, latest=True))
            except (AcquireTimeout, AbandonedError):
                return  # of a sender that died in the frame: the next call gives it
            self._let_go()  # an older frame
            stamp = _believed(stamp_of(frame.metadata))
            if is_wanted or not self._can_hold:
                self._read(frame.surface, stamp)
                return
            self._held_frame = frame, stamp
            self._held = taking.pop_all()

    def _let_go(self) -> None:
        self._held_frame = None
        held, self._held = self._held, contextlib.ExitStack()
        held.close()

    def _read(self, surface: Any, stamp: Stamp | None) -> None:
        try:
            pixels, format = self._reader.read(surface, lambda: self._stopping)
        except (AcquireTimeout, AbandonedError):
            return  # a frame that never becomes whole; the next one comes
        self._taken += 1
        time_ns = time.monotonic_ns() if stamp is None else stamp.time_ns
        picture = Picture(self._taken, time_ns, np.ascontiguousarray(pixels), format)
        with self._changed:
            self._newest = picture
            subscriptions = tuple(self._subscriptions)
            for each in subscriptions:
                each._picture = picture
            self._changed.notify_all()
        for each in subscriptions:
            each._notify()

    def _finish(self, why: str) -> None:
        """Note the end. A held frame is read first, so that the last picture can be shown."""
        if self._held_frame is not None and not self._stopping:
            with contextlib.suppress(VkshareError):
                self._read(self._held_frame[0].surface, self._held_frame[1])
        with contextlib.suppress(VkshareError):
            self._let_go()
        with contextlib.suppress(VkshareError):
            self._reader.close()
        with self._changed:
            self.end = why
            subscriptions = tuple(self._subscriptions)
            self._changed.notify_all()
        for each in subscriptions:
            each._notify()


class Subscription(FlagClosing):
    """One consumer's view of a feed: a slot with the newest picture. Made by ``Feed.subscribe()``. Thread-safe."""

    def __init__(self, feed: Feed, on_picture: Callable[[], object] | None, picture: Picture | None) -> None:
        self._feed = feed
        self._on_picture = on_picture
        self._picture = picture
        self._wants = True
        self._closed = False

    def take(self, timeout: float | None = None) -> Picture:
        """Wait for a picture that this subscription has not taken yet, and return the newest.

        Parameters
        ----------
        timeout
            Seconds to wait; 0 only looks; None: without limit.

        Raises
        ------
        AcquireTimeout
            No picture came in time.
        ClosedError
            The feed has ended and its last picture was taken; or the subscription is closed.
        """
        limit = arguments.timeout(timeout)
        feed = self._feed
        with feed._changed:
            feed._changed.wait_for(
                lambda: self._picture is not None or feed.end is not None or self._closed, timeout=limit
            )
            if self._closed:
                raise ClosedError("this Subscription is closed")
            picture, self._picture = self._picture, None
            if picture is None and feed.end is not None:
                raise ClosedError(f"the feed has ended: {feed.end}")
        if picture is None:
            raise AcquireTimeout(f"Subscription.take: no picture came within {timeout} s")
        return picture

    @property
    def wants(self) -> bool:
        """Whether pictures are to be read for it. While no subscription wants any, the feed rests."""
        return self._wants

    @wants.setter
    def wants(self, value: bool) -> None:
        if value != self._wants:
            self._wants = value
            if value:
                self._feed._rouse()

    def close(self) -> None:
        """Get no more pictures; a take() that waits raises ClosedError. Idempotent."""
        feed = self._feed
        with feed._changed:
            self._closed = True
            if self in feed._subscriptions:
                feed._subscriptions.remove(self)
            feed._changed.notify_all()

    def _is_lost(self) -> bool:
        return False  # it has nothing that outlives the feed

    def _notify(self) -> None:
        if self._on_picture is not None and not self._closed:
            self._on_picture()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "wants pictures" if self._wants else "rests"
        return f"<vkshare.view.Subscription {state}>"


def _believed(stamp: Stamp | None) -> Stamp | None:
    """A stamp comes from another process: a time that cannot be is replaced by now."""
    if stamp is None:
        return None
    now = time.monotonic_ns()
    return stamp if now - _OLDEST <= stamp.time_ns <= now else Stamp(stamp.serial, now)
