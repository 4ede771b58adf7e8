"""A watcher's pipe, seen from the publisher: copies go in, and none of its calls waits for the watcher."""

from __future__ import annotations

import contextlib
import select

from vkshare.core.pipe import _pipe_of
from vkshare.core.queue import EARLY, FULL, SurfaceQueue
from vkshare.core.surface import Surface
from vkshare.core.watched_picture import STAMP_SIZE, Picture, Stamp
from vkshare.errors import AcquireTimeout, VkshareError

_MOST_LISTS = 64  # command lists that a watcher keeps
_UNFINISHED_INTERVAL = 0.02  # seconds between checks of surfaces that came back with work on them


class Watcher:
    """The sending end of one watcher's pipe. For one thread at a time.

    The thread that made it sends `descriptor` to the watcher, and closes it: close() may come from
    another thread meanwhile.

    Only surfaces that the watcher has given back, and whose work is complete, are used: a copy to
    another would wait for the watcher, and the source's next owner for the copy.
    """

    def __init__(self, picture: Picture, count: int) -> None:
        self.picture = picture
        self.serial = 0  # of the last copy
        self.is_behind = False  # a copy was skipped since the last one
        self.seen = (-1, -1)  # of a surface: value and generation of its page at the last copy
        self._lists: dict[tuple[int, int], object] = {}
        self._free: list[Surface] = []  # that came back
        device, width, height, format, color = picture
        root: SurfaceQueue[Surface] = SurfaceQueue(
            device, width, height, format, count, color=color, _kind=FULL | EARLY
        )
        self._sender, self.descriptor = _pipe_of(root, device, STAMP_SIZE)
        self._back = self._sender._free

    def free_surface(self) -> Surface | None:
        """Return a surface that may be copied into now. VkshareError: the watcher is gone."""
        with contextlib.suppress(AcquireTimeout):
            while True:
                self._free.append(self._back.dequeue(0)[0])
        for surface in self._free:
            with contextlib.suppress(TimeoutError):
                surface._cpu_access(0)
                return surface
        return None

    def commands(self, source: Surface, target: Surface) -> object:
        """Return a command list that copies the source."""
        if source._is_frame:  # of a swapchain, which may replace it
            return self.picture.device.record().copy(source, target)
        key = id(source), id(target)  # the list keeps both
        if key not in self._lists:
            if len(self._lists) >= _MOST_LISTS:
                self._lists.clear()
            self._lists[key] = self.picture.device.record().copy(source, target)
        return self._lists[key]

    def send(self, target: Surface, stamp: Stamp) -> None:
        """Send the surface of free_surface(). VkshareError: the watcher is gone."""
        self._free.remove(target)
        self._sender._out.enqueue(target, stamp.pack(), wait="gpu")
        self.serial, self.is_behind = stamp.serial, False

    def interest(self, now: float) -> tuple[dict[int, int], float]:
        """Return what a watcher that is behind waits for, as Task.interest() does."""
        if self._free:
            return {}, now + _UNFINISHED_INTERVAL
        return {self._back.fileno(): select.POLLIN}, float("inf")

    def close(self) -> None:
        """Ends the pipe: its receiver gets ClosedError after the last copy. Idempotent. May wait half a second."""
        self._lists.clear()
        self._free.clear()
        with contextlib.suppress(VkshareError):
            self._sender.close()
