"""The watchers of one source: each frame of the source is copied to those that have room (rule W4).

The thread that draws calls copy(), which waits for no watcher. A watcher without a free surface
misses the copy. The picture is then kept, in one surface for all watchers, and the service thread
sends it as soon as a surface has come back, unless a newer frame was first: the newest picture
always arrives.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from vkshare.core.service_thread import service
from vkshare.core.surface import Surface
from vkshare.core.watched_picture import Picture, Stamp
from vkshare.core.watcher import Watcher
from vkshare.errors import ClosedError, InvalidCallError, VkshareError
from vkshare.util.closing import common_deadline, on_error

if TYPE_CHECKING:
    from vkshare.core.watchable import Watchable

MOST_WATCHERS = 16  # of one source
_HEARTBEAT = 1.0  # seconds between looks whether the source's device is still there
_SHOW_AGAIN = 0.02  # seconds until the last picture of a source that could not give it is asked for again, at first
_log = logging.getLogger("vkshare.watching")


class Outlet:
    """Copies frames of a Sender, Receiver, Swapchain or Compositor to watchers. Thread-safe. A task of the service."""

    def __init__(self, source: Watchable) -> None:
        self._source = weakref.ref(source)
        self._lock = (
            threading.RLock()
        )  # never held while a thread waits for a watcher; a destructor may drop() anywhere
        self._watchers: tuple[Watcher, ...] = ()
        self._over: list[Watcher] = []  # to be closed by the service thread
        self._spare: Surface | None = None  # the newest picture, where a watcher has missed it
        self._spare_stamp = Stamp(0, 0)
        self._serial = 0  # of the last frame
        self.copies = 0  # of one frame to one watcher
        self.skipped = 0  # copies for which a watcher had no surface
        self._show_at, self._show_pause = math.inf, 0.0  # when the last picture is asked for again, and after that
        self.takes = 0  # of a surface: times that the service thread had it
        self._closed = False

    # ---- watchers -------------------------------------------------------------------------------------------------

    @property
    def watchers(self) -> tuple[Watcher, ...]:
        return self._watchers

    def add(self, count: int) -> Watcher:
        """Makes a pipe for one more watcher. The caller closes the descriptor.

        Raises
        ------
        InvalidCallError
            MOST_WATCHERS are there.
        ClosedError
            The source is closed.
        UnsupportedError
            The source's device cannot make such surfaces.
        """
        source = self._source()
        if source is None or self._closed:
            raise ClosedError("the source is closed")
        if len(self._watchers) >= MOST_WATCHERS:
            raise InvalidCallError(f"{MOST_WATCHERS} watchers are there, which is the limit of a source: close some")
        watcher = Watcher(source._picture(), count)
        with on_error(watcher.close), on_error(watcher.descriptor.close):
            with self._lock:
                if self._closed:
                    raise ClosedError("the source is closed")
                self._begin(watcher.picture)
                self._watchers = (*self._watchers, watcher)
                source._set_watched(self)
            with on_error(lambda: self.drop(watcher)):
                service.add(self)
                self._show(source, time.monotonic(), _SHOW_AGAIN)
                service.wake()
        return watcher

    def _show(self, source: Watchable, now: float, pause: float) -> None:
        """Have the last picture copied for watchers that have none, or ask again after a pause.

        A frame that is being presented was copied for the watchers of before, and is no last picture
        yet: without a second look, one that joins now would wait for the next frame.
        """
        self._show_pause = min(2 * pause, _HEARTBEAT)
        self._show_at = math.inf if source._show_last(self) else now + pause

    def drop(self, watcher: Watcher) -> None:
        """Ends a watcher's pipe. Idempotent."""
        with self._lock:
            self._remove(watcher)
            over = self._settle()
        _close(over)

    def close(self) -> None:
        """Ends all pipes: the source is closed. Idempotent."""
        with self._lock:
            self._closed = True
            self._remove(*self._watchers)
            over = self._settle()
        _close(over)
        service.wake()

    def _begin(self, picture: Picture) -> None:
        """Before a watcher joins, under the lock."""

    def _remove(self, *gone: Watcher) -> None:
        """Move watchers to those that are to be closed. Caller holds the lock, and settles afterwards."""
        self._over += [each for each in self._watchers if each in gone]
        self._watchers = tuple(each for each in self._watchers if each not in gone)

    def _settle(self) -> list[Watcher]:
        """End what no watcher needs. Return the watchers to be closed without the lock, which the caller holds."""
        if not self._watchers:
            source = self._source()
            if source is not None:
                source._set_watched(None)
            self._end()
        over, self._over = self._over, []
        return over

    def _end(self) -> None:
        """After the last watcher has gone, under the lock. Idempotent."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with contextlib.suppress(VkshareError):
                spare.close()

    # ---- copies ---------------------------------------------------------------------------------------------------

    def copy(self, surface: Surface) -> None:
        """Submits copies of a frame that the device owns, for each watcher with a free surface.

        Called at the end of each frame by the thread that draws. Waits for no watcher, and raises
        nothing: a watcher that fails is dropped.
        """
        with self._lock:
            self._guarded(self._copy_frame, surface)
            needs_service = bool(self._over) or any(watcher.is_behind for watcher in self._watchers)
        if needs_service:
            service.wake()

    def show_last(self, surface: Surface) -> None:
        """Submits copies of the last picture, which the device owns, for watchers that have got none."""
        with self._lock:
            self._guarded(self._copy_last, surface)

    def _guarded(self, copy: Callable[[Surface], None], surface: Surface) -> None:
        try:
            if self._watchers and surface._may_submit:
                copy(surface)
        except Exception as error:
            _log.info("the watchers of %r are dropped: %s: %s", self._source(), type(error).__name__, error)
            self._remove(*self._watchers)

    def _copy_frame(self, surface: Surface) -> None:
        self._serial += 1
        self._remove_unlike(surface)
        missed = self._send(surface, self._watchers, Stamp.now(self._serial))
        if missed:
            self._keep(surface)
        for watcher in missed:
            watcher.is_behind = True
        self.skipped += len(missed)

    def _copy_last(self, surface: Surface) -> None:
        self._remove_unlike(surface)
        self._serial = max(self._serial, 1)
        self._send(surface, [each for each in self._watchers if not each.serial], Stamp.now(self._serial))

    def _remove_unlike(self, surface: Surface) -> None:
        """The source has another size or another device now: these pipes end, and their watchers may watch again."""
        picture = Picture.of(surface)
        self._remove(*(each for each in self._watchers if each.picture != picture))

    def _send(self, source: Surface, watchers: Iterable[Watcher], stamp: Stamp) -> list[Watcher]:
        """Send a copy to each watcher; return those that have no free surface."""
        targets: list[tuple[Watcher, Surface]] = []
        missed: list[Watcher] = []
        for watcher in watchers:
            try:
                target = watcher.free_surface()
            except VkshareError:
                self._remove(watcher)
                continue
            if target is None:
                missed.append(watcher)
            else:
                targets.append((watcher, target))
        for watcher, target in self._submit(source, targets):
            try:
                watcher.send(target, stamp)
                self.copies += 1
            except VkshareError:
                self._remove(watcher)
        return missed

    def _submit(self, source: Surface, targets: list[tuple[Watcher, Surface]]) -> list[tuple[Watcher, Surface]]:
        """Submit the copies at once; return those that were. Where one is refused, its watcher is dropped alone."""
        try:
            if targets:
                source.device.submit(*(watcher.commands(source, target) for watcher, target in targets))
            return targets
        except VkshareError:
            if len(targets) == 1:
                self._remove(targets[0][0])
                return []
        return [one for each in targets for one in self._submit(source, [each])]

    def _keep(self, surface: Surface) -> None:
        """Copy a frame that a watcher has missed."""
        spare = self._spare
        if spare is None or Picture.of(spare) != Picture.of(surface):
            if spare is not None:
                spare.close()
            self._spare = None
            size = surface.width, surface.height
            spare = surface.device.create_surface(*size, surface.format, color=surface.color)
            spare.acquire(0, 0)
            self._spare = spare
        surface.device.submit(surface.device.record().copy(surface, spare))
        self._spare_stamp = Stamp.now(self._serial)

    def _catch_up(self, _: Surface) -> None:
        """Send the kept picture to watchers that have missed it."""
        assert self._spare is not None
        behind = [each for each in self._watchers if each.is_behind]
        self._send(self._spare, behind, self._spare_stamp)

    # ---- a task of the service thread -----------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return not self._watchers and not self._over

    def interest(self, now: float) -> tuple[dict[int, int], float]:
        fds: dict[int, int] = {}
        until = now if self._over else now + _HEARTBEAT
        for watcher in self._watchers:
            if not watcher.serial:
                until = min(until, self._show_at)
            if watcher.is_behind:
                try:
                    more, due = watcher.interest(now)
                except (VkshareError, OSError):  # gone, or no fd left
                    more, due = {}, now + 0.1
                fds |= more
                until = min(until, due)
        return fds, until

    def turn(self, now: float, ready: Mapping[int, int]) -> None:
        source = self._source()
        if source is None or (self._watchers and self._watchers[0].picture.device._is_unusable):
            self.close()
            return
        if now >= self._show_at:
            self._show_at = math.inf
            if not all(watcher.serial for watcher in self._watchers):
                self._show(source, now, self._show_pause)
        with self._lock:
            self._work(now)
            over = self._settle()
        _close(over)

    def _work(self, now: float) -> None:
        if self._spare is not None and any(watcher.is_behind for watcher in self._watchers):
            self._guarded(self._catch_up, self._spare)

    def fail(self, error: Exception) -> None:
        self.close()

    def forget(self) -> None:
        self._watchers, self._over, self._spare = (), [], None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<vkshare outlet of {self._source()!r}, {len(self._watchers)} watchers>"


def _close(watchers: list[Watcher]) -> None:
    with common_deadline():
        for watcher in watchers:
            watcher.close()
