"""Delivery of ticks: a dispatcher for each window, with an observer for each consumer (Silk's VsyncDispatcher)."""

from __future__ import annotations

import threading
from functools import partial

from vkshare.util import arguments, library_calls
from vkshare.util.closing import NativeClosing, on_error
from vkshare.util.library_calls import LibraryObject, check, ffi, lib
from vkshare.vsync.display import Display
from vkshare.vsync.display_core import DisplayCore
from vkshare.vsync.tick import Tick, from_native

_TICK, _COUNT = map(ffi.typeof, ("vks_tick *", "uint64_t *"))


class VsyncDispatcher(NativeClosing, LibraryObject):
    """A window's ticks, from one display at a time, with ids that only grow. Thread-safe.

    Any two of its ticks are at least half an interval apart, also over moves, stops and changes of
    source. close() closes its observers: their waits raise ClosedError.

    Parameters
    ----------
    display
        The display that the window is on; stays the caller's.

    Raises
    ------
    ClosedError
        The display was closed.
    """

    def __init__(self, display: Display) -> None:
        self._make("vks_dispatcher", "VsyncDispatcher", lib.vks_dispatcher_create, _core_of(display)._pointer)
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

        Parameters
        ----------
        display
            The other display; stays the caller's.

        Raises
        ------
        ClosedError
            The display or the dispatcher is closed; the dispatcher stays on its display.
        """
        core = _core_of(display)
        with self._moving:
            check(lib.vks_dispatcher_move(self._pointer, core._pointer), "VsyncDispatcher.move")
            self._display = display

    def observe(self) -> Observer:
        """Returns a new observer, which attends from now on and which the caller closes.

        Raises
        ------
        ClosedError
            The dispatcher or its display is closed.
        """
        observer = Observer(self)
        with on_error(observer.close):
            observer.attend()
        return observer

    def _close(self) -> None:
        lib.vks_dispatcher_close(self._pointer)

    def __repr__(self) -> str:
        return f"<vkshare.vsync.VsyncDispatcher on {self._display!r}{' closed' if self._closed else ''}>"


class Observer(NativeClosing, LibraryObject):
    """A consumer of a window's ticks, which takes them on its own thread. Created by VsyncDispatcher.observe().

    The display's thread only stores the newest tick: a slow consumer delays no other, and gets the
    newest tick with the number of ticks that it missed. Thread-safe: if two threads wait, one of
    them gets the tick.

    attend() starts delivery and rest() stops it; a display without attending observers sleeps.
    fileno() is for select, poll and asyncio. close() makes waits raise ClosedError.
    """

    def __init__(self, dispatcher: VsyncDispatcher) -> None:
        if not isinstance(dispatcher, VsyncDispatcher):
            raise TypeError(f"dispatcher must be a VsyncDispatcher, not {type(dispatcher).__name__} ({dispatcher!r})")
        self._make("vks_observer", "Observer", lib.vks_observer_create, dispatcher._pointer, ffi.NULL)
        self._dispatcher = dispatcher
        self._closed = False

    @property
    def dispatcher(self) -> VsyncDispatcher:
        return self._dispatcher

    def take(self) -> Tick | None:
        """Returns the newest tick; None: it was taken already. Does not wait.

        Raises
        ------
        ClosedError
            As wait().
        """
        return self._take(0)

    def wait(self, timeout: float | None = None) -> Tick:
        """Waits for a tick that was not taken yet.

        Parameters
        ----------
        timeout
            Seconds to wait; None: without limit.

        Returns
        -------
        Tick
            The newest tick; its `missed` counts the ticks since the one that was taken before.

        Raises
        ------
        TimeoutError
            No tick arrived in time.
        ClosedError
            The observer, its dispatcher or its display is closed, before or during the wait.
        """
        tick = self._take(timeout)
        if tick is None:
            raise TimeoutError(f"Observer.wait: no tick within {timeout} s")
        return tick

    def attend(self) -> None:
        """Starts or resumes delivery.

        Idempotent. The first observer of a display gets the last tick at once, flagged MISSED, if
        that is younger than an interval.

        Raises
        ------
        ClosedError
            The observer, its dispatcher or its display is closed.
        """
        check(lib.vks_observer_attend(self._pointer), "Observer.attend")

    def rest(self) -> None:
        """Stops delivery: after it returns no tick arrives, and a posted one that was not taken is removed.

        Idempotent, also after a close. A display without observers sleeps.
        """
        check(lib.vks_observer_rest(self._pointer), "Observer.rest")

    def fileno(self) -> int:
        """Returns an eventfd that is readable while there is a tick to take, for select and poll.

        The observer owns it.

        Raises
        ------
        ClosedError
            The dispatcher is closed.
        OSError
            Too many file descriptors are open.
        """
        return library_calls.borrow_fd(partial(lib.vks_observer_fd, self._pointer), "Observer.fileno")

    def _take(self, timeout: float | None) -> Tick | None:
        """Returns the newest tick, or None if the timeout has passed."""
        pointer, tick, missed = self._pointer, ffi.new(_TICK), ffi.new(_COUNT)
        status = library_calls.wait(lambda until: lib.vks_observer_wait(pointer, until, tick, missed), timeout)
        if status == library_calls.TIMEOUT:
            return None
        check(status, "Observer.wait")
        return from_native(tick, missed[0])

    def _close(self) -> None:
        lib.vks_observer_close(self._pointer)

    def __repr__(self) -> str:
        return f"<vkshare.vsync.Observer of {self._dispatcher!r}{' closed' if self._closed else ''}>"


def _core_of(display: Display) -> DisplayCore:
    arguments.instance("display", display, Display, "vkshare.vsync.Display")
    return display._core
