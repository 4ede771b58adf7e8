"""What all vsync sources have in common: a thread that listens between start() and stop(), and none else."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from vkshare._closing import Closing
from vkshare.errors import ClosedError, InvalidCallError, VkshareError
from vkshare.vsync.sources.run import Blank, LossCallback, Run, TickCallback

_log = logging.getLogger("vkshare.vsync")
_running: weakref.WeakSet[VsyncSource] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """A snapshot of a source's counters."""

    runs: int  # times that it was started
    ticks: int  # told
    ignored: int  # reported to it, and not told: repeated, without a time, or of nobody knows when
    is_running: bool
    is_lost: bool


class VsyncSource(Closing, ABC):
    """Something that tells when a display ticks. Every method is thread-safe.

    A source reports what it hears: it fills no gap, and tells no time that was not measured (V2). It goes on listening
    through any silence (V14).

    kind
        The ``Tick.kind`` of its ticks, e.g. ``"x11-present"``.
    """

    kind = ""

    def __init__(self, interval: Fraction | None = None) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._run: Run | None = None  # the latest
        self._error: Exception | None = None
        self._is_closed = self._is_released = False
        self._pid = os.getpid()
        self._reported_interval = interval
        self._measured_interval: Fraction | None = None
        self._runs = self._ticks = self._ignored = 0

    # ---- what it is

    @property
    def interval(self) -> Fraction | None:
        """Seconds between ticks: what a trial found, else what the window system says; None where neither is known."""
        return self._measured_interval or self._reported_interval

    @property
    def is_running(self) -> bool:
        """Between start() and stop()."""
        run = self._run
        return run is not None and not run.is_over

    @property
    def is_lost(self) -> bool:
        """What it listens to has gone away, for good."""
        return self._error is not None

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._is_closed

    def statistics(self) -> SourceStatistics:
        """A snapshot of the counters."""
        with self._changed:
            return SourceStatistics(self._runs, self._ticks, self._ignored, self.is_running, self.is_lost)

    # ---- what one does with it

    def start(self, heard: Callable[[int], object], lost: LossCallback | None = None) -> None:
        """Begins to listen, on a thread of the source's own.

        Parameters
        ----------
        heard
            ``heard(time_ns)`` is called on that thread for each tick, with the vsync's time in nanoseconds of
            CLOCK_MONOTONIC. Drivers may report the first pixel out a little before it comes.
        lost
            ``lost(error)`` is called there once, when what it listens to goes away; no tick comes after it. The error
            is a SurfaceLostError, a DeviceLostError, or what else ended it; it is logged too.

        Raises
        ------
        InvalidCallError
            It is running, or belongs to the process that this one was forked from.
        SurfaceLostError, DeviceLostError
            It was lost before.
        ClosedError
            After close().
        """
        if not callable(heard) or not (lost is None or callable(lost)):
            raise TypeError("heard and lost must be functions of one argument: start(heard), start(heard, lost)")
        self._start(lambda blank: heard(blank.time_ns), lost)

    def _start(self, heard: TickCallback, lost: LossCallback | None = None) -> None:
        """start() for those who want the display's count too."""
        if self._pid != os.getpid():  # before the lock, which was perhaps held at the fork
            raise InvalidCallError(f"{self!r} belongs to process {self._pid}, before os.fork(): open another here")
        with self._changed:
            self._check()
            before = self._run
            if before is not None and not before.is_over:
                raise InvalidCallError(f"{self!r} is running already: stop() it first")
            run = Run(heard, lost, before, self._changed)
            # A daemon: who forgets to stop it need not wait for it at exit, where _stop_all() comes first.
            run.thread = threading.Thread(target=self._listen, args=(run,), name=f"vkshare {self.kind}", daemon=True)
            self._run = run
            self._runs += 1
            _running.add(self)
            try:
                run.thread.start()
            except BaseException:  # no thread can be had, or Ctrl-C: then there may be one
                run.end()
                if run.thread.ident is None:
                    run.finish()
                    self._run = before
                raise

    def stop(self) -> None:
        """Ends the listening. Idempotent. When it has returned, `heard` is not called any more and nothing wakes up.

        Waits for a call of `heard` that is under way: hold no lock that it takes. Called within `heard` or `lost` it
        does not wait; the thread then ends when that has returned.
        """
        if self._pid != os.getpid():  # neither did its thread come along with fork()
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
        """Stops, and lets go of what it listens to. Idempotent; works when that is lost."""
        if self._pid != os.getpid():  # what it listens to is the parent's
            self._is_closed = True
            return
        with self._changed:
            self._is_closed = True  # before it is stopped: nobody starts it anew then
        self.stop()
        with self._changed:
            is_mine, self._is_released = not self._is_released, True
        if is_mine:
            self._release()

    def _is_lost(self) -> bool:
        return not self._is_closed and self._pid == os.getpid()

    def __repr__(self) -> str:
        lost = "lost" if self.is_lost else "running" if self.is_running else "stopped"
        return f"<vkshare.vsync.{type(self).__name__} {self._where()}, {'closed' if self._is_closed else lost}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: other processes get ticks over a VsyncBridge")

    # ---- for the kinds of source: all on the run's thread, one run at a time, but for _release() and _where()

    @abstractmethod
    def _begin(self) -> None:
        """A run begins: what came before it is of nobody knows when, or of no interest."""

    @abstractmethod
    def _next(self, run: Run) -> Blank | None:
        """Waits for the next tick; None now and then, and at once when the run is over.

        Raises what says that no more will come.
        """

    @abstractmethod
    def _release(self) -> None:
        """Lets go of what it listens to. Not running; called once."""

    @abstractmethod
    def _where(self) -> str:
        """What it listens to, for the repr."""

    # ---- within the package

    def _count_ignored(self) -> None:
        with self._changed:
            self._ignored += 1

    def _check(self) -> None:
        if self._is_closed:
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
    """Before the interpreter ends under their threads."""
    for source in list(_running):
        source.stop()


atexit.register(_stop_all)
