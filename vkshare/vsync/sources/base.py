"""The base of vsync sources, and their runs: a thread that waits for ticks between start() and stop()."""

from __future__ import annotations

import atexit
import logging
import os
import select
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from vkshare.errors import ClosedError, InvalidCallError, VkshareError
from vkshare.util.closing import FlagClosing

_log = logging.getLogger("vkshare.vsync")
_running: weakref.WeakSet[VsyncSource] = weakref.WeakSet()


class Blank(NamedTuple):
    """A vertical blank that a source has observed."""

    time_ns: int  # of CLOCK_MONOTONIC
    # the display's own count of blanks, if it has one (OML's and X11's media stream counter)
    msc: int | None = None


TickCallback = Callable[[Blank], object]
LossCallback = Callable[[Exception], object]


class Run:
    """Any thread can end a run, also its own callback. `changed` is its source's condition, and guards all fields."""

    def __init__(
        self, heard: TickCallback, lost: LossCallback | None, before: Run | None, changed: threading.Condition
    ) -> None:
        self.thread: threading.Thread | None = None
        self.is_over = False  # no tick is delivered any more
        self.is_done = False  # its thread does not use the source any more
        self._on_tick = heard
        self._on_loss = lost
        self._before = before
        self._changed = changed
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    # ---- from any thread

    def end(self) -> None:
        """Ends the run, and wakes its thread. Idempotent."""
        with self._changed:
            self.is_over = True
            if not self.is_done:
                os.eventfd_write(self._wake, 1)
            self._changed.notify_all()

    def finish(self) -> None:
        """Notes that its thread has ended, or was never started. Idempotent."""
        with self._changed:
            if not self.is_done:
                os.close(self._wake)
            self.is_over = self.is_done = True
            self._before = None
            self._changed.notify_all()

    # ---- on its own thread

    def await_previous(self) -> bool:
        """Waits until the previous run, if it was stopped within its own callback, has left that.

        False: this run is over.

        The callback may stop this run, and wait for it, so the wait ends with either event.
        """
        with self._changed:
            before = self._before
            self._changed.wait_for(lambda: self.is_over or before is None or before.is_done)
            self._before = None
            return not self.is_over

    def wait(self, seconds: float | None, fd: int = -1) -> bool:
        """Waits until `fd` is readable (True), or until the timeout or the end of the run (False)."""
        waiter = select.poll()
        waiter.register(self._wake, select.POLLIN)
        if fd >= 0:
            waiter.register(fd, select.POLLIN)
        found = waiter.poll(None if seconds is None else seconds * 1000)
        return not self.is_over and any(each == fd for each, _ in found)

    def deliver(self, blank: Blank) -> bool:
        """Delivers a tick; returns False, without delivering, once the run is over."""
        if self.is_over:
            return False
        try:
            self._on_tick(blank)
        except Exception:
            _log.exception("a tick callback of a vsync source raised")
        return True

    def deliver_loss(self, error: Exception) -> None:
        """Delivers the loss; call it once, as the last delivery."""
        if self._on_loss is not None:
            try:
                self._on_loss(error)
            except Exception:
                _log.exception("a loss callback of a vsync source raised")


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """A snapshot of a source's counters."""

    runs: int  # times that it was started
    ticks: int  # delivered
    ignored: int  # not delivered: repeated, without a time, or of an unknown time
    is_running: bool
    is_lost: bool


class VsyncSource(FlagClosing, ABC):
    """A source of a display's ticks. Every method is thread-safe.

    A source reports only ticks with a measured time: it fills no gaps (V2). It keeps waiting
    through any silence (V14).

    Attributes
    ----------
    kind
        The ``Tick.kind`` of its ticks, e.g. ``"x11-present"``.
    """

    kind = ""
    _unpicklable = "other processes get ticks over a VsyncBridge"

    def __init__(self, interval: Fraction | None = None) -> None:
        self._changed = threading.Condition()  # guards the attributes below
        self._run: Run | None = None  # the latest
        self._error: Exception | None = None
        self._closed = self._is_released = False
        self._pid = os.getpid()
        self._reported_interval = interval
        self._measured_interval: Fraction | None = None
        self._runs = self._ticks = self._ignored = 0

    # ---- properties

    @property
    def interval(self) -> Fraction | None:
        """Seconds between ticks: as measured by a trial, else as reported by the window system.

        None if both are unknown.
        """
        return self._measured_interval or self._reported_interval

    @property
    def is_running(self) -> bool:
        """Whether it is between start() and stop()."""
        run = self._run
        return run is not None and not run.is_over

    @property
    def is_lost(self) -> bool:
        """Whether its window, device or server is gone for good."""
        return self._error is not None

    def statistics(self) -> SourceStatistics:
        """Returns a snapshot of the counters."""
        with self._changed:
            return SourceStatistics(self._runs, self._ticks, self._ignored, self.is_running, self.is_lost)

    # ---- for callers

    def start(self, heard: Callable[[int], object], lost: LossCallback | None = None) -> None:
        """Starts waiting for ticks, on a thread of the source's own.

        Parameters
        ----------
        heard
            ``heard(time_ns)`` is called on that thread for each tick, with the vsync's time in nanoseconds of
            CLOCK_MONOTONIC. Drivers may report the first pixel out a little before its time.
        lost
            ``lost(error)`` is called there once, when the source is lost; no tick follows. The
            error is a SurfaceLostError, a DeviceLostError, or another error that ended the source;
            it is logged too.

        Raises
        ------
        InvalidCallError
            It is running, or belongs to the parent of this forked process.
        SurfaceLostError, DeviceLostError
            It was lost before.
        ClosedError
            After close().
        """
        if not callable(heard) or not (lost is None or callable(lost)):
            raise TypeError("heard and lost must be functions of one argument: start(heard), start(heard, lost)")
        self._start(lambda blank: heard(blank.time_ns), lost)

    def _start(self, heard: TickCallback, lost: LossCallback | None = None) -> None:
        """Does the same as start(), but passes Blanks, with the display's count."""
        if self._pid != os.getpid():  # before the lock, which may have been held at the fork
            raise InvalidCallError(f"{self!r} belongs to process {self._pid}, before os.fork(): open another here")
        with self._changed:
            self._check()
            before = self._run
            if before is not None and not before.is_over:
                raise InvalidCallError(f"{self!r} is running already: stop() it first")
            run = Run(heard, lost, before, self._changed)
            # A daemon, so that a source that was not stopped does not block exit; _stop_all() runs
            # first there.
            run.thread = threading.Thread(target=self._listen, args=(run,), name=f"vkshare {self.kind}", daemon=True)
            self._run = run
            self._runs += 1
            _running.add(self)
            try:
                run.thread.start()
            except BaseException:  # no thread can be started; or Ctrl-C, and the thread may have started
                run.end()
                if run.thread.ident is None:
                    run.finish()
                    self._run = before
                raise

    def stop(self) -> None:
        """Stops it. Idempotent. When it has returned, `heard` is not called any more, and no thread wakes up.

        Waits for a call of `heard` in progress, so hold no lock that `heard` takes. Called within
        `heard` or `lost` it does not wait; the thread then ends when the callback has returned.
        """
        if self._pid != os.getpid():  # fork() did not copy its thread
            return
        with self._changed:
            run = self._run
            if run is None:
                return
            run.end()
        if run.thread is not None and run.thread is not threading.current_thread():
            run.thread.join()
        _running.discard(self)

    def close(self) -> None:
        """Stops it, and frees its resources. Idempotent; also for a lost source."""
        if self._pid != os.getpid():  # its resources are the parent's
            self._closed = True
            return
        with self._changed:
            self._closed = True  # before stop(), so that no thread can start it again
        self.stop()
        with self._changed:
            is_mine, self._is_released = not self._is_released, True
        if is_mine:
            self._release()

    def __repr__(self) -> str:
        lost = "lost" if self.is_lost else "running" if self.is_running else "stopped"
        return f"<vkshare.vsync.{type(self).__name__} {self._where()}, {'closed' if self._closed else lost}>"

    # ---- for subclasses: called on the run's thread, one run at a time, except _release() and _where()

    @abstractmethod
    def _begin(self) -> None:
        """Begins a run: drops ticks from before it."""

    @abstractmethod
    def _next(self, run: Run) -> Blank | None:
        """Waits for the next tick; may return None at any time, and at once when the run is over.

        Raises the error after which no tick will come.
        """

    @abstractmethod
    def _release(self) -> None:
        """Frees its resources. Called once, while not running."""

    @abstractmethod
    def _where(self) -> str:
        """Returns a description of its window, swapchain or display, for the repr."""

    # ---- within the package

    def _count_ignored(self) -> None:
        with self._changed:
            self._ignored += 1

    def _check(self) -> None:
        if self._closed:
            raise ClosedError(f"{self!r} was closed; open another")
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _is_own_thread(self) -> bool:
        run = self._run
        return run is not None and run.thread is threading.current_thread()

    def _listen(self, run: Run) -> None:
        try:
            if run.await_previous():
                self._begin()
            while not run.is_over:
                blank = self._next(run)
                if blank is not None and run.deliver(blank):
                    with self._changed:
                        self._ticks += 1
        except Exception as error:
            self._mark_lost(run, error)
        finally:
            run.finish()

    def _mark_lost(self, run: Run, error: Exception) -> None:
        with self._changed:
            self._error = error
            was_over, run.is_over = run.is_over, True
        if isinstance(error, VkshareError):
            _log.warning("%r: %s", self, error)
        else:
            _log.error("%r", self, exc_info=error)
        if not was_over:
            run.deliver_loss(error)


def _stop_all() -> None:
    """Stops all sources before the interpreter exits."""
    for source in list(_running):
        source.stop()


atexit.register(_stop_all)
