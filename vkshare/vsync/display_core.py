"""The part of a display that ticks: a thread in C (native/vsync/display.h)."""

from __future__ import annotations

from typing import Any

from vkshare.util import library_calls
from vkshare.util.library_calls import LibraryObject, check, ffi, lib
from vkshare.vsync.tick import KINDS


class DisplayCore(LibraryObject):
    """A thread that delivers ticks. Intervals are nanoseconds as a fraction, times nanoseconds."""

    def __init__(self, numerator: int, denominator: int, is_estimated: bool) -> None:
        interval = _interval(numerator, denominator)
        self._make("vks_display", "Display", lib.vks_display_create, interval, is_estimated)

    @property
    def number(self) -> int:
        """The number in Tick.display, unique in this process."""
        return int(lib.vks_display_number(self._pointer))

    def set_interval(self, numerator: int, denominator: int, is_estimated: bool) -> None:
        """Set the interval, from the tick after the next one on."""
        interval = _interval(numerator, denominator)
        check(lib.vks_display_set_interval(self._pointer, interval, is_estimated), "Display.set_interval")

    def listen(self, kind: str) -> int:
        """Set a hardware source of that kind, "software" for none, and return the source's number."""
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}, allowed are {', '.join(map(repr, KINDS[:-1]))} and {KINDS[-1]!r}")
        source = ffi.new("uint32_t *")
        check(lib.vks_display_set_source(self._pointer, KINDS.index(kind), ffi.NULL, source), "Display")
        return int(source[0])

    def report(self, source: int, time: int) -> None:
        """Report a hardware tick at `time`. ClosedError."""
        check(lib.vks_display_hardware_tick(self._pointer, source, library_calls.u64("time", time)), "Display")

    def wait_wanted(self, source: int, is_wanted: bool) -> None:
        """Wait until the display has observers, or has none. ClosedError: it has another source."""
        pointer = self._pointer
        status = library_calls.wait(lambda until: lib.vks_display_wait_wanted(pointer, source, is_wanted, until), None)
        check(status, "Display")

    def shutdown(self) -> None:
        """End the thread. Idempotent."""
        lib.vks_display_shutdown(self._pointer)

    def counters(self) -> Any:
        """Return vks_display_statistics."""
        out = ffi.new("vks_display_statistics *")
        lib.vks_display_get_statistics(self._pointer, out)
        return out


def _interval(numerator: int, denominator: int) -> Any:
    interval = ffi.new("vks_interval *", (numerator, denominator))[0]
    if lib.vks_interval_check(interval):
        raise ValueError(ffi.string(lib.vks_last_error().text).decode())
    return interval
