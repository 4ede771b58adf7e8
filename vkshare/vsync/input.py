"""The queue of input events that wait for a tick, and the resampling of pointer positions (rule V15).

The resampling is that of Android's InputConsumer and Chromium's LinearResampling: the pointer's
position a few milliseconds before the frame, interpolated between the two samples around that time,
or extrapolated a little beyond the newest one. Pointers and displays have different rates, so the
age of the newest sample varies from frame to frame, and an object that followed that sample would
move unevenly.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
import threading
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from vkshare.errors import InvalidCallError
from vkshare.util import arguments
from vkshare.window.events import FIELDS, Event

# Nanoseconds, as Android and Chromium have them.
# before the frame: the next sample has often arrived by then, which makes extrapolation rare
LATENCY = 5_000_000
CLOSEST = 2_000_000  # samples closer than this give no speed
WIDEST = 20_000_000  # nor do samples further apart
# longest extrapolation; also at most half of the time between the last two samples
FURTHEST = 8_000_000

_SAMPLES = 32  # kept of one move that waits: some 64 ms of a fast mouse
_LIMIT = 4096  # events that wait, after merging

# Events of these types are merged: the last one counts, or they add up. All others are returned one
# by one.
_MERGED = ("pointer_move", "wheel", "resize")


class Sample(NamedTuple):
    """A position of the pointer."""

    time: int  # ns
    x: float  # logical pixels
    y: float


class Resampler:
    """Interpolates a pointer's position between its samples, or a little beyond them. Pure; not thread-safe.

    Keeps the samples around the times of at(): a few, as long as these times grow.
    """

    def __init__(self) -> None:
        self._samples: list[Sample] = []  # oldest first; at least CLOSEST apart, the newest excepted

    @property
    def newest(self) -> Sample | None:
        """The last sample, unchanged."""
        return self._samples[-1] if self._samples else None

    def add(self, time: int, x: float, y: float) -> None:
        """Adds a sample of the device. A time before the newest one is replaced by that one."""
        samples = self._samples
        if samples:
            time = max(time, samples[-1].time)
        _add(samples, Sample(time, x, y))
        if len(samples) > _SAMPLES:
            del samples[0]

    def clear(self) -> None:
        """Forgets all samples, because the pointer left or jumped."""
        self._samples.clear()

    def at(self, time: int, *, predict: bool = True) -> Sample | None:
        """Returns the pointer's position at `time`, in ns; None before the first sample.

        After the newest sample it is extrapolated for min(FURTHEST, half of the time between the
        last two samples), if these are CLOSEST to WIDEST apart; with ``predict=False``, and
        otherwise, it stays at the newest sample. The returned Sample's time is the time of its
        position. Before the oldest sample kept, it is that sample.
        """
        samples = self._samples
        if not samples:
            return None
        after = bisect.bisect_right(samples, time, key=lambda sample: sample.time)
        if after == 0:
            return samples[0]
        if after < len(samples):
            there = _between(samples[after - 1], samples[after], time)
        else:
            there = self._beyond(time) if predict else samples[-1]
        # times grow; three samples give a speed, even if two are too close
        del samples[: max(0, after - 3)]
        return there

    def _beyond(self, time: int) -> Sample:
        newest = self._samples[-1]
        before = next((s for s in reversed(self._samples) if newest.time - s.time >= CLOSEST), None)
        if before is None or newest.time - before.time > WIDEST:
            return newest
        furthest = newest.time + min(FURTHEST, (newest.time - before.time) // 2)
        return _between(before, newest, min(time, furthest))


def _add(samples: list[Sample] | deque[Sample], sample: Sample) -> None:
    """Appends a sample; replaces the newest one if that is closer than CLOSEST to the one before it."""
    if len(samples) > 1 and samples[-1].time - samples[-2].time < CLOSEST:
        samples[-1] = sample
    else:
        samples.append(sample)


def _between(a: Sample, b: Sample, time: int) -> Sample:
    """Returns the point at `time` on the line through both; b is later than a."""
    part = (time - a.time) / (b.time - a.time)
    return Sample(time, a.x + part * (b.x - a.x), a.y + part * (b.y - a.y))


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """A snapshot of an InputQueue's counters."""

    posted: int
    taken: int  # events that take() returned
    merged: int  # merged into another event
    resampled: int  # of those taken: moves to a position that no event had
    pending: int  # waiting for a tick


@dataclass(slots=True)
class _Waiting:
    """An event that waits, with the events merged into it."""

    event: Event  # the newest of them
    since: int  # ns: when the oldest of them was posted
    samples: deque[Sample]  # of a move


class InputQueue:
    """Passes events from the thread that polls a window to the thread that composites it. Thread-safe.

    ``post()`` events as ``Window.poll()`` returns them, and notify the scheduler
    (``input_arrived()``); at a tick, ``take(tick.vsync_time)`` returns the events posted before it.
    Moves, turns of the wheel and resizes are merged with waiting ones, as browsers and rendercanvas
    do, but never across another event: buttons, keys and all others are returned one by one, in
    order, and none is lost.

    An event's time is its `time_stamp`: seconds of ``time.perf_counter()``, which is
    CLOCK_MONOTONIC on Linux, the clock of ticks. GLFW does not report when the device or the X
    server saw an event, so vkshare stamps events when ``poll()`` receives them, and merges the
    moves of one poll. So poll more often than the display ticks: preferably wait for events on the
    main thread (``poll(timeout)``) and composite on another. Events of other sources:
    ``post(Event(**rendercanvas_event))``, or ``post(event, time)`` with the source's own time.

    Parameters
    ----------
    resample
        Whether ``take()`` returns the pointer's position at LATENCY before the tick, rather than
        its newest sample.
    """

    def __init__(self, *, resample: bool = True) -> None:
        arguments.flag("resample", resample)
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._resampler = Resampler() if resample else None
        self._interpolated_move: Event | None = None  # the last move returned, while the newest sample is elsewhere
        # ns: the latest time stamp returned; earlier positions are too late
        self._last_reported = 0
        self._posted = self._taken = self._merged = self._resampled = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether the next tick has nothing to take.

        False also while the pointer's newest sample was not returned yet.
        """
        with self._lock:
            return not self._waiting and self._interpolated_move is None

    def post(self, event: Event, time: int | None = None) -> None:
        """Adds an event.

        Parameters
        ----------
        event
            As ``Window.poll()`` returns it.
        time
            When it happened, in ns of CLOCK_MONOTONIC; None takes it from ``event.time_stamp``.

        Raises
        ------
        TypeError, ValueError
            `event` is not an Event, or has no valid time.
        InvalidCallError
            4096 events wait, because take() is not called. The event was not added.
        """
        if not isinstance(event, Event):
            raise TypeError(f"event must be a vkshare Event, not {type(event).__name__}; Event(**fields) makes one")
        time = _time_of(event) if time is None else arguments.integer("time", time)
        if time != _time_of(event):
            event = dataclasses.replace(event, time_stamp=time / 1e9)
        with self._lock:
            if not self._merge(event, time):
                if len(self._waiting) >= _LIMIT:
                    raise InvalidCallError(f"{_LIMIT} events wait: call take() at each tick")
                self._waiting.append(_Waiting(event, time, _samples_of(event, time)))
            self._posted += 1

    def take(self, vsync_time: int | None = None) -> list[Event]:
        """Returns the events posted before `vsync_time` (ns; None: all), oldest first, and the events merged with them.

        With resampling, a move that is the last event gets the position and time of LATENCY before
        the tick; ``is_idle`` is then False until the pointer's newest position was returned, which
        needs no further event. Moves before other events, and other events, keep their positions.

        Parameters
        ----------
        vsync_time
            The tick's ``vsync_time``, in ns of CLOCK_MONOTONIC.
        """
        if vsync_time is not None:
            vsync_time = arguments.integer("vsync_time", vsync_time)
        with self._lock:
            waiting = self._take_waiting(vsync_time)
            if self._resampler is None:
                events = [entry.event for entry in waiting]
            else:
                events = self._resample(waiting, self._resampler, vsync_time)
            self._taken += len(events)
            return events

    def clear(self) -> None:
        """Drops all waiting events and the pointer's samples, because the window lost the input."""
        with self._lock:
            self._waiting.clear()
            self._interpolated_move = None
            if self._resampler is not None:
                self._resampler.clear()

    def statistics(self) -> InputStatistics:
        """Returns a snapshot of the counters."""
        with self._lock:
            return InputStatistics(self._posted, self._taken, self._merged, self._resampled, len(self._waiting))

    # ---- merging

    def _merge(self, event: Event, time: int) -> bool:
        """Merges it into a waiting event of its type, if only mergeable events came after that one."""
        if event.event_type not in _MERGED:
            return False
        for index, entry in enumerate(reversed(self._waiting)):
            if entry.event.event_type not in _MERGED:
                return False
            other = entry.event
            if (other.event_type, other.buttons, other.modifiers) == (event.event_type, event.buttons, event.modifiers):
                self._into(entry, event, time)
                del self._waiting[len(self._waiting) - 1 - index]
                self._waiting.append(entry)  # it is the newest now
                self._merged += 1
                return True
        return False

    def _into(self, entry: _Waiting, event: Event, time: int) -> None:
        if event.event_type == "wheel":
            event = dataclasses.replace(event, dx=entry.event.dx + event.dx, dy=entry.event.dy + event.dy)
        if entry.samples:
            _add(entry.samples, Sample(max(time, entry.samples[-1].time), event.x, event.y))
        entry.event = event
        entry.since = min(entry.since, time)  # due when the oldest of them is due

    def _take_waiting(self, vsync_time: int | None) -> list[_Waiting]:
        """Removes and returns all events up to the last one that is due, so that none overtakes another."""
        count = len(self._waiting)
        if vsync_time is not None:
            due = (index for index in reversed(range(count)) if self._waiting[index].since < vsync_time)
            count = next(due, -1) + 1
        return [self._waiting.popleft() for _ in range(count)]

    # ---- resampling

    def _resample(self, waiting: list[_Waiting], resampler: Resampler, vsync_time: int | None) -> list[Event]:
        events: list[Event] = []
        if self._interpolated_move is not None and not (waiting and waiting[0].event.event_type == "pointer_move"):
            until = None if waiting else vsync_time
            events += self._move(self._interpolated_move, resampler, until, is_new=False)
        for entry in waiting:
            _follow(resampler, entry)
            if entry.event.event_type == "pointer_move":
                until = vsync_time if entry is waiting[-1] else None
                events += self._move(entry.event, resampler, until, is_new=True)
            else:
                events.append(entry.event)
                self._last_reported = max(self._last_reported, _time_of(entry.event))
        return events

    def _move(self, event: Event, resampler: Resampler, vsync_time: int | None, *, is_new: bool) -> list[Event]:
        """Returns the pointer's move for the frame of `vsync_time`; nothing if it is unchanged.

        None stands for the time of the newest sample.
        """
        newest = resampler.newest
        if newest is None:
            return []
        sample = newest
        if vsync_time is not None:
            # Without a new sample the pointer has probably stopped: extrapolation would overshoot.
            sample = resampler.at(max(vsync_time - LATENCY, self._last_reported), predict=is_new) or newest
        if is_new and sample is newest:
            self._interpolated_move, self._last_reported = None, max(self._last_reported, sample.time)
            return [event]
        if not is_new and (sample.x, sample.y) == (event.x, event.y):
            return []
        self._resampled += sample is not newest
        # an extrapolated time may be ahead of the device
        self._last_reported = max(self._last_reported, sample.time)
        shown = dataclasses.replace(event, x=sample.x, y=sample.y, time_stamp=self._last_reported / 1e9)
        self._interpolated_move = shown if (sample.x, sample.y) != (newest.x, newest.y) else None
        return [shown]

    def __repr__(self) -> str:
        how = "resampled" if self._resampler is not None else "as they are"
        return f"<vkshare.InputQueue {len(self._waiting)} events wait, moves {how}>"


def _follow(resampler: Resampler, entry: _Waiting) -> None:
    """Adds the event's samples to the resampler."""
    if entry.event.event_type in ("pointer_enter", "pointer_leave"):
        resampler.clear()
    for sample in entry.samples:
        resampler.add(*sample)


def _samples_of(event: Event, time: int) -> deque[Sample]:
    has_position = "x" in FIELDS.get(event.event_type, ())
    return deque([Sample(time, event.x, event.y)] if has_position else (), maxlen=_SAMPLES)


def _time_of(event: Event) -> int:
    """Returns an event's time in ns of CLOCK_MONOTONIC."""
    if not math.isfinite(event.time_stamp):
        raise ValueError(f"time_stamp is {event.time_stamp}; allowed are seconds of time.perf_counter()")
    return round(event.time_stamp * 1e9)
