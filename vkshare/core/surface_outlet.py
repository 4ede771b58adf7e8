"""The watchers of one surface: its contents are copied whenever an owner has released it with a certain key."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from vkshare.core.outlet import Outlet
from vkshare.core.surface import Surface
from vkshare.core.watched_picture import Picture, Stamp
from vkshare.core.watcher import Watcher
from vkshare.errors import AbandonedError, AcquireTimeout, VkshareError
from vkshare.util import pages

if TYPE_CHECKING:
    from vkshare.core.watchable import Watchable

_INTERVAL = 1 / 120  # seconds between looks at the page
_RETRY_INTERVAL = 0.001  # after another party had the surface
_MOST_RETRIES = 8
_FREE = 0  # state of a page


class SurfaceOutlet(Outlet):
    """Takes the surface through a handle of its own, on the service thread, for the time of a submit().

    Any process may draw to the surface. The thread looks at the shared page at 120 Hz while there
    are watchers. When the page has changed and the surface is free with the key, the thread acquires
    it without waiting, submits the copies, and releases it with the same key.
    """

    def __init__(self, source: Watchable, key: int) -> None:
        super().__init__(source)
        self._key = key
        self._handle: Surface | None = None
        self._page = -1
        self._last = (-1, -1)  # value and generation of the last picture
        self._next = 0.0  # time.monotonic() of the next look
        self._retries = 0

    def _begin(self, picture: Picture) -> None:
        if self._handle is None:
            source = self._source()
            assert isinstance(source, Surface)
            self._handle = picture.device.open_surface(source)
            self._page = self._handle._page()
        self._next = 0.0

    def _end(self) -> None:
        super()._end()
        handle, self._handle, page, self._page = self._handle, None, self._page, -1
        if page >= 0:
            os.close(page)
        if handle is not None:
            with contextlib.suppress(VkshareError):
                handle.close()

    def interest(self, now: float) -> tuple[dict[int, int], float]:
        return {}, now if self._over else self._next

    def _work(self, now: float) -> None:
        if self._handle is None or now < self._next:
            return
        self._next = now + _INTERVAL
        try:
            if self._look(self._handle):
                self._retries = 0
            elif self._retries < _MOST_RETRIES:
                self._retries += 1
                self._next = now + _RETRY_INTERVAL
            else:
                self._retries = 0
        except AbandonedError:
            pass  # another party may recover it
        except VkshareError:
            self._remove(*self._watchers)

    def _look(self, handle: Surface) -> bool:
        """Copy the surface if it has changed. False: another party has it, or another key."""
        page = pages.page_inspect(self._page)
        mark = page["value"], page["generation"]
        behind = [each for each in self._watchers if each.seen != mark and self._has_room(each)]
        if not behind:
            return True
        if page["state"] != _FREE or page["key"] != self._key:
            return False
        try:
            handle.acquire(self._key, 0)
        except AcquireTimeout:
            return False
        try:
            page = pages.page_inspect(self._page)  # no other party changes it now
            mark = page["value"], page["generation"]
            if mark != self._last:
                self._serial += 1
            missed = self._send(handle, behind, Stamp.now(self._serial))
        finally:
            handle.release(self._key)
            self.takes += 1
        # Each release counts: a page that has another value then was released by another party.
        self._last = mark = mark[0] + 1, mark[1]
        for watcher in behind:
            if watcher not in missed:
                watcher.seen = mark
        return True

    def _has_room(self, watcher: Watcher) -> bool:
        try:
            return watcher.free_surface() is not None
        except VkshareError:
            self._remove(watcher)
            return False

    def forget(self) -> None:
        super().forget()
        if self._page >= 0:
            os.close(self._page)
        self._handle, self._page = None, -1
