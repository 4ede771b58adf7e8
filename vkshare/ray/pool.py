"""Pools of surfaces for frames that Ray's actors take (rule G5)."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vkshare.core.access import give_back
from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError
from vkshare.ray import offers
from vkshare.ray.offers import Offer
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.util.deadline import Deadline
from vkshare.util.forks import OwnLock

_LOOK = 0.002  # seconds between two looks whether a reader has let go
_WAIT = 0.25  # seconds at most until a call of frame() looks again, although no surface seems to have come back
_COLLECT = 1.0  # seconds of waiting after which frames in cycles of references are collected


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """A snapshot."""

    count: int  # surfaces at most
    alive: int  # frames with a reference
    frames: int  # that frame() has given
    waits: int  # calls of frame() that waited for a surface
    drops: int  # calls of frame() that raised AcquireTimeout: no surface came back in time
    recovered: int  # surfaces that a reader owned when it died


@dataclass(slots=True, eq=False)
class _Slot:
    surface: Surface
    offer: Offer

    def end(self) -> None:
        self.offer.withdraw()
        self.surface.close()


class Pool(FlagClosing):
    """Surfaces for the frames that one actor makes. Thread-safe.

    A frame's surface comes back once no reference of the frame is alive. Ray keeps a frame that a
    method has returned until no process has its ObjectRef any more.

    Parameters
    ----------
    device
        The device that draws the frames. It stays the caller's, and is closed after the pool.
    width, height, format
        As for ``device.create_surface()``.
    count
        Surfaces at most, 1 to 64: a producer that outruns its consumers has so many frames under way. They are made
        when they are needed.
    options
        Others of ``device.create_surface()``.

    Raises
    ------
    ValueError, TypeError, UnsupportedError
        As of ``device.create_surface()``.

    Examples
    --------
    >>> with vks.ray.Pool(device, 64, 48) as pool, pool.frame() as frame:
    ...     submission = device.submit(device.record().clear(frame, (0, 0, 1, 1)))
    """

    _unpicklable = "it belongs to the process that makes the frames"

    def __init__(
        self, device: Device, width: int, height: int, format: str = "rgba8unorm", *, count: int = 3, **options: Any
    ) -> None:
        self._closed = True
        self._own = OwnLock(self)
        arguments.instance("device", device, Device, "vkshare.Device")
        self._count = arguments.integer("count", count, 1, 64)
        self._device = device
        self._make: Callable[[], Surface] = lambda: device.create_surface(width, height, format, **options)
        self._lock = threading.Lock()  # guards all below but what the ends of frames change
        self._slots: set[_Slot] = set()  # all
        self._free: list[_Slot] = []
        self._frames = self._waits = self._drops = self._recovered = 0
        # A frame may end in a garbage collection, within any call, so that its end takes no lock.
        self._returned: deque[_Slot] = deque()  # slots whose frames have ended
        self._bell = threading.Lock()  # a call of frame() waits for it; free once a surface has come back
        self._bell.acquire()
        self._free.append(self._new_slot())  # its errors come here
        self._closed = False

    @contextmanager
    def frame(self, timeout: float | None = None) -> Iterator[Surface]:
        """Gives a surface to draw the next frame into, which the block owns. After the block it is read-only.

        Return it from the actor's method, alone or inside another value.

        Parameters
        ----------
        timeout
            Seconds to wait for a surface to come back; None: without limit; 0: the frame is dropped at once.

        Returns
        -------
        AbstractContextManager
            It gives the surface.

        Raises
        ------
        AcquireTimeout
            None came back in time: the consumers are slower than the producer.
        ClosedError
            The pool is closed.
        DeviceLostError, UnsupportedError
            As of ``device.create_surface()``.
        """
        self._own.check()
        frame = self._begin(Deadline(arguments.timeout(timeout)))
        try:
            yield frame
        except BaseException:
            give_back(frame, 0)
            raise
        frame.release(0)
        frame._set_read_only()

    def statistics(self) -> PoolStatistics:
        """Returns a snapshot."""
        with self._lock:
            alive = len(self._slots) - len(self._free) - len(self._returned)
            return PoolStatistics(self._count, alive, self._frames, self._waits, self._drops, self._recovered)

    def close(self) -> None:
        """Closes the surfaces. Frames that are alive keep theirs for as long. Idempotent."""
        if self._closed:
            return
        self._own.check()
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for slot in free:
            self._end(slot)
        self._end_returned()
        self._ring()

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _new_slot(self) -> _Slot:
        surface = self._make()
        slot = _Slot(surface, offers.make(surface))
        self._slots.add(slot)
        return slot

    def _end(self, slot: _Slot) -> None:
        self._slots.discard(slot)
        slot.end()

    def _end_returned(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._end(self._returned.popleft())

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is free already
            self._bell.release()

    def _begin(self, deadline: Deadline) -> Surface:
        """A handle of a surface that no frame has, which owns it. The surface comes back with the handle's end."""
        start: float | None = None  # of the wait
        while True:
            with self._lock:
                if self._closed:
                    self._ring()  # for the next one that waits
                    raise ClosedError("this Pool is closed")
                while self._returned:
                    self._free.append(self._returned.popleft())
                frame = self._next_free()
                if frame is not None:
                    if self._free:
                        self._ring()
                    return frame
                left = deadline.left()
                if left == 0:
                    self._drops += 1
                    raise AcquireTimeout(
                        f"Pool.frame: none of {self._count} frames came back within {deadline.timeout:g} s: the "
                        "consumers are slower than this producer; wait longer, drop the frame, or give the pool a "
                        "larger count"
                    )
                self._waits += start is None
                # A surface that a reader owns still is free for no call: its release wakes none.
                pause = min(_LOOK if self._free else _WAIT, _WAIT if left is None else left)
            if start is None:
                start = time.monotonic()
            elif time.monotonic() - start > _COLLECT:
                start = float("inf")
                gc.collect()
            self._bell.acquire(timeout=pause)

    def _next_free(self) -> Surface | None:
        for slot in list(self._free):
            frame = self._owned(slot)
            if frame is not None:
                return frame
        if len(self._slots) < self._count:
            self._free.append(self._new_slot())
            return self._owned(self._free[-1])
        return None

    def _owned(self, slot: _Slot) -> Surface | None:
        """A frame of a free slot; None: a reader, whose reference is gone, owns the surface."""
        frame = self._device.open_surface(slot.surface)
        try:
            frame.acquire(0, 0)
        except AcquireTimeout:
            frame.close()
            mutex = slot.surface.mutex.statistics()
            if mutex.state == "free" and mutex.key != 0:  # a reader has spoilt it: no party waits for that key
                self._free.remove(slot)
                self._end(slot)
            return None
        except AbandonedError:  # a reader died with it
            frame.recover()
            self._recovered += 1
        self._free.remove(slot)
        self._frames += 1
        weakref.finalize(frame, self._return, slot).atexit = False
        offers.note(frame, slot.offer)
        return frame

    def _return(self, slot: _Slot) -> None:
        """No reference of the frame is alive. Any thread, also in a garbage collection: takes no lock."""
        if not self._own.is_here:  # a forked child: the surface is its parent's
            return
        self._returned.append(slot)
        if self._closed:
            self._end_returned()
        else:
            self._ring()

    def _is_lost(self) -> bool:
        return not self._closed and self._own.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.statistics().alive} of {self._count} frames alive"
        return f"<vkshare.ray.Pool {state}>"
