"""Displays: each has a thread in C that ticks, and a source of ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from vkshare.util import trace
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.vsync.descriptor import BridgeEnd, VsyncDescriptor
from vkshare.vsync.display_core import DisplayCore
from vkshare.vsync.source_monitor import SourceMonitor
from vkshare.vsync.sources import VsyncSource
from vkshare.vsync.tick import KINDS, seconds

_USUAL = Fraction(1, 60)  # the interval if none is known (rule V1)
_LARGEST_NUMERATOR, _LARGEST_DENOMINATOR = 2**64 - 1, 2**32 - 1  # the C core's
_OF_FLOATS = 10**6  # largest denominator for floats: recovers 1 / 59.94 from its binary rounding


@dataclass(frozen=True, slots=True)
class DisplayStatistics:
    """A snapshot of a display's counters."""

    ticks: int  # delivered
    hardware: int  # of these, from hardware
    skipped: int  # due, and too late to deliver
    discontinuities: int
    wakeups: int  # of its thread
    late: float  # seconds from the newest software tick's time to its delivery
    latest: float  # the largest of these
    observing: int  # dispatchers with an attending observer
    kind: str  # the Tick.kind of its ticks now
    interval: Fraction
    is_estimated: bool


class Display(FlagClosing):
    """A monitor, or a clock in place of one, that ticks for its windows. Thread-safe.

    Ticks come from a timer, on a grid that does not drift, or from the source, after three regular
    ticks of it. If the source is silent for 250 ms, the timer replaces it, in its phase, until
    three ticks are regular again. While no observer attends, the thread sleeps and the source is
    stopped.

    Parameters
    ----------
    name
        A name for logs and reprs.
    interval
        Seconds between ticks, 1 us to 100 s. A Fraction is exact (``Fraction(1001, 60000)``); a
        float is rounded to the nearest fraction with a denominator up to a million. None: the
        source's interval; if that is unknown, 1/60, and ticks are flagged ESTIMATED.
    source
        A VsyncSource, which the caller closes; or a VsyncDescriptor of another process's bridge,
        which can be closed afterwards; None: only the timer.

    Raises
    ------
    ValueError, TypeError
        An argument is not as above.
    DescriptorError
        The bridge's page is not valid.
    ClosedError
        The descriptor is closed.
    """

    def __init__(
        self,
        name: str = "",
        *,
        interval: Fraction | float | None = None,
        source: VsyncSource | VsyncDescriptor | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        _check_source(source)
        if interval is None and isinstance(source, VsyncSource):
            interval = source.interval
        trace.tell_names()
        self._core = DisplayCore(*_nanoseconds(_USUAL if interval is None else interval), interval is None)
        self._name = name
        self._changing = OwnLock(self)  # guards the attributes below
        self._monitor: SourceMonitor | None = None
        self._bridge: BridgeEnd | None = None
        self._closed = False
        if source is not None:
            with on_error(self.close):
                self.set_source(source)

    # ---- properties ----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def number(self) -> int:
        """The value of Tick.display; unique in this process."""
        return self._core.number

    @property
    def interval(self) -> Fraction:
        """Seconds between its ticks."""
        return self.statistics().interval

    @property
    def source(self) -> VsyncSource | None:
        """Its VsyncSource; None also if it follows another process."""
        monitor = self._monitor
        return monitor.source if monitor is not None else None

    @property
    def source_error(self) -> Exception | None:
        """Why the source is not used any more (it was lost, or could not be started); only the timer ticks then."""
        monitor = self._monitor
        return monitor.error if monitor is not None else None

    def statistics(self) -> DisplayStatistics:
        """Returns a snapshot of the counters."""
        counters = self._core.counters()
        return DisplayStatistics(
            ticks=counters.ticks,
            hardware=counters.hardware,
            skipped=counters.skipped,
            discontinuities=counters.breaks,
            wakeups=counters.wakeups,
            late=counters.late * 1e-9,
            latest=counters.latest * 1e-9,
            observing=counters.observing,
            kind=KINDS[counters.kind],
            interval=seconds(counters.interval.numerator, counters.interval.denominator),
            is_estimated=counters.is_estimated,
        )

    # ---- changes -----------------------------------------------------------------------------------------

    def set_interval(self, interval: Fraction | float) -> None:
        """Sets the interval, from the tick after the pending one on.

        Parameters
        ----------
        interval
            Seconds, as of Display().

        Raises
        ------
        ValueError, TypeError
            It is not as of Display().
        ClosedError
            The display was closed.
        """
        self._core.set_interval(*_nanoseconds(interval), False)

    def set_source(self, source: VsyncSource | VsyncDescriptor | None) -> None:
        """Changes the source of ticks: all dispatchers stay, no tick is doubled and none is lost.

        When it returns, the previous source is stopped, and can be used elsewhere.

        Parameters
        ----------
        source
            As of Display().

        Raises
        ------
        ClosedError
            The display, or the descriptor, was closed.
        DescriptorError
            The bridge's page is not valid; the display keeps its source.
        """
        _check_source(source)
        monitor: SourceMonitor | None = None
        bridge: BridgeEnd | None = None
        with self._changing:
            if isinstance(source, VsyncDescriptor):
                bridge = source._open_end(self._core)
            elif source is not None:
                monitor = SourceMonitor(self._core, source)
            else:
                self._core.listen("software")
            # ended only now, so that a failure above changes nothing
            before, old_bridge = self._monitor, self._bridge
            self._monitor, self._bridge = monitor, bridge
        del old_bridge  # outside the lock, because this and the join below wait for a thread
        try:
            if before is not None:
                before.join()
        finally:  # also after Ctrl-C
            if monitor is not None:
                monitor.start()

    # ---- closing -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the thread: observers' waits raise ClosedError, and no tick is delivered any more. Idempotent.

        Callbacks of ticks may call it, and several threads at once.
        """
        self._closed = True
        self._core.shutdown()
        # a forked child: a thread of the parent may have held the lock
        if not self._changing.is_here:
            return
        with self._changing:
            monitor, old_bridge = self._monitor, self._bridge
            self._monitor = self._bridge = None
        del old_bridge
        if monitor is not None:
            monitor.join()

    def __repr__(self) -> str:
        counters = self.statistics()
        rate = f"{float(1 / counters.interval):.6g} Hz{' (estimated)' if counters.is_estimated else ''}"
        state = "closed" if self._closed else f"{counters.kind}, {counters.observing} observing"
        return f"<vkshare.vsync.Display {self._name!r} {rate}, {state}>"


def _check_source(source: object) -> None:
    if source is not None and not isinstance(source, (VsyncSource, VsyncDescriptor)):
        raise TypeError(f"source must be a VsyncSource, a VsyncDescriptor or None, not {type(source).__name__}")


def _nanoseconds(interval: Fraction | float) -> tuple[int, int]:
    """Converts an interval in seconds to a fraction of ns, whose range the C core checks."""
    if isinstance(interval, bool) or not isinstance(interval, (int, float, Fraction)):
        raise TypeError(f"interval must be a Fraction or a float in seconds, not {type(interval).__name__}")
    if not 1e-6 <= interval <= 100:  # also refuses nan
        raise ValueError(f"interval is {interval} s; allowed is 1 us to 100 s")
    exact = Fraction(interval).limit_denominator(_OF_FLOATS) if isinstance(interval, float) else Fraction(interval)
    largest = min(_LARGEST_DENOMINATOR, _LARGEST_NUMERATOR // math.ceil(exact * 10**9))
    nanoseconds = (exact * 10**9).limit_denominator(largest)
    return nanoseconds.numerator, nanoseconds.denominator
