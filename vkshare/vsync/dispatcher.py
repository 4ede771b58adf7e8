"""Who is told of ticks: a dispatcher for each window, observers for each who asked (Silk's VsyncDispatcher)."""

from __future__ import annotations

import threading

from vkshare import _native
from vkshare._closing import NativeClosing
from vkshare.vsync.display import Display
from vkshare.vsync.tick import Tick, from_native


class VsyncDispatcher(NativeClosing, _native.Dispatcher):
    """A window's ticks: of one display at a time, with ids of their own that only grow. Thread-safe.

    Any two of its ticks are half an interval apart, also over moves, stops and changes of source. close() ends its
    observers: who waits gets ClosedError.
    """

    def __init__(self, display: Display) -> None:
        """ClosedError: the display was closed."""
        super().__init__(_core_of(display))
        self._display = display
        self._moving = threading.Lock()
        self._closed = False

    @property
    def display(self) -> Display:
        """The one that it is bound to now."""
        return self._display

    def move(self, display: Display) -> None:
        """Binds it to another display: the window was moved there.

        After it has returned no tick of the old display arrives, also none that was told and not taken. Observers stay
        as they are. The gap is at most the sum of both intervals.

        Raises
        ------
        ClosedError
            Either is closed; the dispatcher is where it was.
        """
        core = _core_of(display)
        with self._moving:
            self._move(core)
            self._display = display

    def observe(self) -> Observer:
        """One more who is told, beginning now. ClosedError."""
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
    """One who is told of a window's ticks, and takes them on the thread of his own. Made by VsyncDispatcher.observe().

    The display's thread only puts the newest tick down: who is slow delays nobody, and gets the newest one with the
    number of those he missed. Thread-safe: of two threads that wait one gets a tick.

    attend() and rest() begin and stop; a display that nobody attends sleeps. fileno() is for select, poll and asyncio.
    After close() who waits gets ClosedError.
    """

    def __init__(self, dispatcher: VsyncDispatcher) -> None:
        super().__init__(dispatcher)
        self._dispatcher = dispatcher
        self._closed = False

    @property
    def dispatcher(self) -> VsyncDispatcher:
        return self._dispatcher

    def take(self) -> Tick | None:
        """The newest tick, if there is one that was not taken. ClosedError."""
        told = self._wait(0)
        return None if told is None else from_native(told)

    def wait(self, timeout: float | None = None) -> Tick:
        """The newest tick, waited for.

        Raises
        ------
        TimeoutError
            There was none within `timeout` seconds.
        ClosedError
            The observer, its dispatcher or its display was closed, before or meanwhile.
        """
        told = self._wait(timeout)
        if told is None:
            raise TimeoutError(f"Observer.wait: no tick within {timeout} s")
        return from_native(told)

    def __repr__(self) -> str:
        return f"<vkshare.vsync.Observer of {self._dispatcher!r}{' closed' if self._closed else ''}>"


def _core_of(display: Display) -> _native.Display:
    if not isinstance(display, Display):
        raise TypeError(f"display must be a vkshare.vsync.Display, not {type(display).__name__}")
    return display._core
