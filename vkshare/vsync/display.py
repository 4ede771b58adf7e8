"""What ticks: one thread for each display, in C, and where its ticks come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from vkshare import _native, _trace
from vkshare._closing import Closing
from vkshare._forks import OwnLock
from vkshare.vsync.descriptor import VsyncDescriptor
from vkshare.vsync.source_monitor import SourceMonitor
from vkshare.vsync.sources import VsyncSource
from vkshare.vsync.tick import seconds

_USUAL = Fraction(1, 60)  # V1: where nobody knows better
_LARGEST_NUMERATOR, _LARGEST_DENOMINATOR = 2**64 - 1, 2**32 - 1  # the C core's
_OF_FLOATS = 10**6  # 1 / 59.94 is meant, and not what is old_bridge of it in binary


@dataclass(frozen=True, slots=True)
class DisplayStatistics:
    """A snapshot of a display's counters."""

    ticks: int  # told
    hardware: int  # of these by hardware
    skipped: int  # that were due, and too late to be told
    discontinuities: int
    wakeups: int  # of its thread
    late: float  # seconds from the newest software tick's time to its being told
    latest: float  # the most of these
    observing: int  # dispatchers with an observer that attends
    kind: str  # who ticks now
    interval: Fraction
    is_estimated: bool


class Display(Closing):
    """Something that ticks (a monitor, or a clock that stands for one) for the windows on it. Thread-safe.

    Ticks come from a timer, on a grid that never drifts, and from the source where there is one that has proven itself
    (three ticks as they should be). A source that falls silent for 250 ms is replaced by the timer, in its phase, until
    it has proven itself again. Nobody observes: the thread sleeps, and the source is stopped.
    """

    def __init__(
        self,
        name: str = "",
        *,
        interval: Fraction | float | None = None,
        source: VsyncSource | VsyncDescriptor | None = None,
    ) -> None:
        """
        Parameters
        ----------
        name
            For people.
        interval
            Seconds between ticks, exact as a Fraction (``Fraction(1001, 60000)``); a float is taken for the nearest
            fraction with a denominator up to a million; 1 us to 100 s. None: the source's; where that does not know,
            1/60, and ticks are flagged ESTIMATED.
        source
            A VsyncSource, which stays the caller's to close; a VsyncDescriptor of another process's bridge, which can
            be closed afterwards; None: the timer alone.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        _check_source(source)
        if interval is None and isinstance(source, VsyncSource):
            interval = source.interval
        _trace.tell_names()
        self._core = _native.Display(*_nanoseconds(_USUAL if interval is None else interval), interval is None)
        self._name = name
        self._changing = OwnLock(self)  # guards what follows
        self._monitor: SourceMonitor | None = None
        self._bridge: _native.BridgeEnd | None = None
        self._closed = False
        if source is not None:
            try:
                self.set_source(source)
            except BaseException:
                self.close()
                raise

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def number(self) -> int:
        """What Tick.display says; no other display of this process has it."""
        return self._core.number

    @property
    def interval(self) -> Fraction:
        """Seconds between its ticks."""
        return self.statistics().interval

    @property
    def source(self) -> VsyncSource | None:
        """What it listens to; None also where that is another process."""
        monitor = self._monitor
        return monitor.source if monitor is not None else None

    @property
    def source_error(self) -> Exception | None:
        """Why the source is not asked any more (it was lost, or could not be started), and the timer ticks for good."""
        monitor = self._monitor
        return monitor.error if monitor is not None else None

    def statistics(self) -> DisplayStatistics:
        """A snapshot of the counters."""
        told = self._core._counters()
        return DisplayStatistics(
            ticks=told["ticks"],
            hardware=told["hardware"],
            skipped=told["skipped"],
            discontinuities=told["breaks"],
            wakeups=told["wakeups"],
            late=told["late"] * 1e-9,
            latest=told["latest"] * 1e-9,
            observing=told["observing"],
            kind=told["kind"],
            interval=seconds(told["numerator"], told["denominator"]),
            is_estimated=told["is_estimated"],
        )

    # ---- what changes it -----------------------------------------------------------------------------------------

    def set_interval(self, interval: Fraction | float) -> None:
        """The tick in flight is old_bridge alone, the one after it is at the new interval. ClosedError."""
        self._core._set_interval(*_nanoseconds(interval), False)

    def set_source(self, source: VsyncSource | VsyncDescriptor | None) -> None:
        """Where its ticks come from, from now on: all dispatchers stay, no tick is doubled and none is lost.

        When it has returned the source before is stopped, and is the caller's again.

        Raises
        ------
        ClosedError
            The display was closed.
        DescriptorError
            The bridge's page is not as it must be; the display listens to what it did before.
        """
        _check_source(source)
        monitor: SourceMonitor | None = None
        bridge: _native.BridgeEnd | None = None
        with self._changing:
            if isinstance(source, VsyncDescriptor):
                bridge = source.open_end(self._core)
            elif source is not None:
                monitor = SourceMonitor(self._core, source)
            else:
                self._core._listen("software")
            before, old_bridge = self._monitor, self._bridge  # that are over only now: what failed has changed nothing
            self._monitor, self._bridge = monitor, bridge
        del old_bridge  # outside the lock, like what follows: each waits for a thread
        try:
            if before is not None:
                before.join()
        finally:  # also after Ctrl-C
            if monitor is not None:
                monitor.start()

    # ---- its end -------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Ends the thread: observers' waits get ClosedError, and nobody is told of a tick any more. Idempotent.

        May be called by whoever was told of a tick, and by several at once.
        """
        self._closed = True
        self._core._shutdown()
        if not self._changing.is_here:  # a thread of the parent's may hold the lock for ever
            return
        with self._changing:
            monitor, old_bridge = self._monitor, self._bridge
            self._monitor = self._bridge = None
        del old_bridge
        if monitor is not None:
            monitor.join()

    def __repr__(self) -> str:
        told = self.statistics()
        rate = f"{float(1 / told.interval):.6g} Hz{' (estimated)' if told.is_estimated else ''}"
        state = "closed" if self._closed else f"{told.kind}, {told.observing} observing"
        return f"<vkshare.vsync.Display {self._name!r} {rate}, {state}>"


def _check_source(source: object) -> None:
    if source is not None and not isinstance(source, (VsyncSource, VsyncDescriptor)):
        raise TypeError(f"source must be a VsyncSource, a VsyncDescriptor or None, not {type(source).__name__}")


def _nanoseconds(interval: Fraction | float) -> tuple[int, int]:
    """An interval in seconds as a fraction of ns, whose range the C core checks."""
    if isinstance(interval, bool) or not isinstance(interval, (int, float, Fraction)):
        raise TypeError(f"interval must be a Fraction or a float in seconds, not {type(interval).__name__}")
    if not 1e-6 <= interval <= 100:  # nor nan
        raise ValueError(f"interval is {interval} s; allowed is 1 us to 100 s")
    exact = Fraction(interval).limit_denominator(_OF_FLOATS) if isinstance(interval, float) else Fraction(interval)
    largest = min(_LARGEST_DENOMINATOR, _LARGEST_NUMERATOR // math.ceil(exact * 10**9))
    nanoseconds = (exact * 10**9).limit_denominator(largest)
    return nanoseconds.numerator, nanoseconds.denominator
