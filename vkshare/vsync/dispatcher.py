"""Delivery of ticks: a dispatcher for each window, with an observer for each consumer (Silk's
VsyncDispatcher).
"""

from __future__ import annotations

import threading

from vkshare import _native
from vkshare.util.closing import NativeClosing
from vkshare.vsync.display import Display
from vkshare.vsync.tick import Tick, from_native


class VsyncDispatcher(NativeClosing, _native.Dispatcher):
    """A window's ticks, from one display at a time, with ids that only grow. Thread-safe.

    Any two of its ticks are at least half an interval apart, also over moves, stops and changes of
    source. close() closes its observers: their waits raise ClosedError.
    """

    def __init__(self, display: Display) -> None:
        """ClosedError: the display was closed."""
        super().__init__(_core_of(display))
        self._display = display
        self._moving = threading.Lock()
        self._closed = False

    @property
    def display(self) -> Display:
        """The display that it is bound to now."""
        return self._display

    def move(self, display: Display) -> None:
        """Binds it to another display, after the window was moved there.

        After it has returned no tick of the old display arrives, not even one that was delivered
        and not taken. Observers keep their state. The gap is at most the sum of both intervals.

        Raises
        ------
        ClosedError
            The display or the dispatcher is closed; the dispatcher stays on its display.
        """
        core = _core_of(display)
        with self._moving:
            self._move(core)
            self._display = display

    def observe(self) -> Observer:
        """Returns a new observer, which attends from now on. ClosedError: the dispatcher or its
        display is closed.
        """
        observer = Observer(self)
        try:
            observer.attend()
        except BaseException:
            observer.close()
            raise
        return observer

    def __repr__(self) -> str:
        return f"<vkshare.vsync.VsyncDispatcher on {self._display!r}{' closed' if self._closed else ''}>"


class Observer(NativeClosing, _native.Observer):
    """A consumer of a window's ticks, which takes them on its own thread. Created by
    VsyncDispatcher.observe().

    The display's thread only stores the newest tick: a slow consumer delays no other, and gets the
    newest tick with the number of ticks that it missed. Thread-safe: if two threads wait, one of
    them gets the tick.

    attend() starts delivery and rest() stops it; a display without attending observers sleeps.
    fileno() is for select, poll and asyncio. close() makes waits raise ClosedError.
    """

    def __init__(self, dispatcher: VsyncDispatcher) -> None:
        super().__init__(dispatcher)
        self._dispatcher = dispatcher
        self._closed = False

    @property
    def dispatcher(self) -> VsyncDispatcher:
        return self._dispatcher

    def take(self) -> Tick | None:
        """Returns the newest tick, if it was not taken yet. ClosedError: as wait()."""
        fields = self._wait(0)
        return None if fields is None else from_native(fields)

    def wait(self, timeout: float | None = None) -> Tick:
        """Waits for the newest tick.

        Raises
        ------
        TimeoutError
            No tick arrived within `timeout` seconds.
        ClosedError
            The observer, its dispatcher or its display is closed, before or during the wait.
        """
        fields = self._wait(timeout)
        if fields is None:
            raise TimeoutError(f"Observer.wait: no tick within {timeout} s")
        return from_native(fields)

    def __repr__(self) -> str:
        return f"<vkshare.vsync.Observer of {self._dispatcher!r}{' closed' if self._closed else ''}>"


def _core_of(display: Display) -> _native.Display:
    if not isinstance(display, Display):
        raise TypeError(f"display must be a vkshare.vsync.Display, not {type(display).__name__}")
    return display._core
