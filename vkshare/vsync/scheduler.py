"""Scheduling of composites: a pure state machine, without thread or clock (rules V7, V15, V16).

The model is Firefox's CompositorVsyncScheduler, of the "Silk" project. Inputs are events, outputs
are decisions:

    decision = scheduler.tick(tick, now)
    if decision.action is Action.INPUT:  # first the events posted before the tick (V15)
        handle(inputs.take(tick.vsync_time))  # may call scheduler.request()
        decision = scheduler.input_handled(now, is_idle=inputs.is_idle)
    if decision.action is Action.COMPOSITE:
        composite()  # scheduler.finished() once the next one may begin
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from vkshare.errors import InvalidCallError
from vkshare.vsync.tick import Tick

UNUSED_LIMIT = 10  # consecutive unused ticks, after which the scheduler stops observing (V7)


class Action(enum.Enum):
    """The action to perform now."""

    NOTHING = "nothing"
    INPUT = "input"  # handle the events posted before the tick, then call input_handled()
    COMPOSITE = "composite"  # and call finished() once it is done


class Skip(enum.Enum):
    """Why a tick, or a forced composite, begins no composite."""

    OLD = "old"  # the last composite is younger than the tick, or was the same tick's
    BUSY = "busy"  # the last composite is unfinished; the request waits for the next tick
    UNUSED = "unused"  # no composite was requested
    RESTING = "resting"  # the tick was on its way when the scheduler stopped observing
    SHUT_DOWN = "shut down"


class Decision(NamedTuple):
    """The result of an event. Perform `observe` before `action`."""

    action: Action = Action.NOTHING
    skipped: Skip | None = None  # why the action is not COMPOSITE
    observe: bool | None = None  # True: Observer.attend(); False: Observer.rest(); None: leave it


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """A snapshot of a scheduler's counters. Each tick is counted in exactly one of `composites` to `resting`."""

    ticks: int  # decided
    composites: int  # at ticks; forced ones count below
    old: int  # skipped: older than the last composite
    busy: int  # skipped: the last composite was unfinished
    input_only: int  # input was handled, and no composite was requested
    unused: int  # no input, and no composite was requested
    resting: int  # arrived after the scheduler had stopped observing, or was shut down
    forced: int  # composites that did not wait for a tick
    unused_in_a_row: int  # at UNUSED_LIMIT it stops observing
    observations: int  # times that it began to observe
    latest: int  # ns: the longest from a tick's vsync time to the decision to composite


_NOTHING = Decision()
_INPUT = Decision(Action.INPUT)
_COMPOSITE = Decision(Action.COMPOSITE)
_SKIPPED = {reason: Decision(skipped=reason) for reason in Skip}
_BEGIN = Decision(observe=True)
_END = Decision(observe=False)
_REST = Decision(skipped=Skip.UNUSED, observe=False)


class CompositorScheduler:
    """Decides at which ticks a compositor composites, and when it observes ticks.

    The owner reports all events, and performs each Decision. The initial state is resting; after
    shut_down() every event is skipped. Times are nanoseconds of CLOCK_MONOTONIC, the clock of
    ticks. Not thread-safe: usually only the compositor's thread calls it.
    """

    def __init__(self) -> None:
        self._is_observing = False
        self._is_needed = False  # a requested composite has not begun
        self._is_busy = False  # a composite is unfinished
        self._has_input = False
        self._is_shut_down = False
        self._open: Tick | None = None  # the tick whose input is being handled
        self._last: int | None = None  # time of the last composite: its tick's, or when it was forced
        self._unused = 0  # in a row
        self._counts = dict.fromkeys(("composites", "input_only", *_COUNTED.values()), 0)
        self._forced = self._observations = self._latest = 0

    @property
    def is_observing(self) -> bool:
        """Whether it wants ticks."""
        return self._is_observing

    @property
    def is_compositing(self) -> bool:
        """Whether a composite is unfinished."""
        return self._is_busy

    @property
    def is_shut_down(self) -> bool:
        """Whether shut_down() was called."""
        return self._is_shut_down

    # ---- events

    def request(self) -> Decision:
        """Requests a composite at the next tick, because the screen should change. Several requests count as one.

        Returns
        -------
        Decision
            No action; `observe` is True if the scheduler was resting.
        """
        if self._is_shut_down:
            return _SKIPPED[Skip.SHUT_DOWN]
        self._is_needed = True
        return self._begin()

    def force(self, now: int) -> Decision:
        """Composites without waiting for a tick: the window was resized, or is uncovered. Fulfils a pending request.

        While a composite is unfinished it becomes a request (V16). In both cases ticks count as
        used (V7), because a long resize must not switch the source on and off.

        Parameters
        ----------
        now
            The time, ns.

        Returns
        -------
        Decision
            COMPOSITE; while a composite is unfinished as request(), with `skipped` BUSY.
        """
        if self._is_shut_down:
            return _SKIPPED[Skip.SHUT_DOWN]
        self._unused = 0
        if self._is_busy:
            return self.request()._replace(skipped=Skip.BUSY)
        self._forced += 1
        return self._composite(now)

    def input_arrived(self) -> Decision:
        """Notes that an event was posted. Begins observing if idle, so that the next tick handles the event (V15).

        Returns
        -------
        Decision
            No action; `observe` is True if the scheduler was resting.
        """
        if self._is_shut_down:
            return _SKIPPED[Skip.SHUT_DOWN]
        self._has_input = True
        return self._begin()

    def input_idle(self) -> None:
        """Notes that no event waits any more, because they were taken outside a tick."""
        self._has_input = False

    def tick(self, tick: Tick, now: int) -> Decision:
        """Decides about a tick.

        Parameters
        ----------
        tick
            The tick that the observer returned.
        now
            When it was taken, ns.

        Returns
        -------
        Decision
            INPUT if an event was posted: input_handled() decides next. Else COMPOSITE, or no action
            for the reason in `skipped`; `observe` is False after UNUSED_LIMIT unused ticks (V7).
        """
        if self._open is not None:  # handling its input raised an error
            self._open = None
            self._counts["input_only"] += 1
        skip = self._skip(tick)
        if skip is not None:
            return self._skipped(skip)
        if self._has_input:
            self._open = tick
            return _INPUT
        return self._decide(tick, now, had_input=False)

    def input_handled(self, now: int, *, is_idle: bool) -> Decision:
        """Decides after the events posted before the last tick were handled.

        Parameters
        ----------
        now
            The time, ns.
        is_idle
            Whether no event waits for the next tick: InputQueue.is_idle.

        Returns
        -------
        Decision
            COMPOSITE, or no action for the reason in `skipped`.

        Raises
        ------
        InvalidCallError
            The last decision about a tick was not INPUT.
        """
        tick, self._open = self._open, None
        if tick is None:
            raise InvalidCallError("input_handled() answers a tick() that said INPUT; there is none")
        self._has_input = not is_idle
        skip = self._skip(tick)  # a composite may have been forced meanwhile
        return self._skipped(skip) if skip is not None else self._decide(tick, now, had_input=True)

    def finished(self) -> None:
        """Notes that the composite is complete, or failed: the next one may begin.

        Raises
        ------
        InvalidCallError
            No composite is unfinished.
        """
        if not self._is_busy:
            raise InvalidCallError("finished() ends a composite that a decision began; there is none")
        self._is_busy = False

    def shut_down(self) -> Decision:
        """Shuts down, at any time and from any callback: no action begins any more. Idempotent.

        Returns
        -------
        Decision
            No action; `observe` is False if the scheduler was observing.
        """
        was_observing, self._is_observing = self._is_observing, False
        self._is_shut_down = True
        self._is_needed = self._has_input = False
        return _END if was_observing else _NOTHING

    def statistics(self) -> SchedulerStatistics:
        """Returns a snapshot of the counters."""
        return SchedulerStatistics(
            ticks=sum(self._counts.values()),
            forced=self._forced,
            unused_in_a_row=self._unused,
            observations=self._observations,
            latest=self._latest,
            **self._counts,
        )

    # ---- decisions

    def _begin(self) -> Decision:
        if self._is_observing:
            return _NOTHING
        self._is_observing = True
        self._observations += 1
        self._unused = 0
        return _BEGIN

    def _skip(self, tick: Tick) -> Skip | None:
        """Returns why this tick must be skipped, even if a composite is requested."""
        if self._is_shut_down:
            return Skip.SHUT_DOWN
        if not self._is_observing:
            return Skip.RESTING
        if self._last is not None and tick.vsync_time <= self._last:
            return Skip.OLD
        return Skip.BUSY if self._is_busy else None

    def _skipped(self, reason: Skip) -> Decision:
        self._counts[_COUNTED[reason]] += 1
        return _SKIPPED[reason]

    def _decide(self, tick: Tick, now: int, *, had_input: bool) -> Decision:
        if self._is_needed:
            self._unused = 0
            self._counts["composites"] += 1
            self._latest = max(self._latest, now - tick.vsync_time)
            return self._composite(tick.vsync_time)
        if had_input:
            self._unused = 0
            self._counts["input_only"] += 1
            return _SKIPPED[Skip.UNUSED]
        self._unused += 1
        self._counts["unused"] += 1
        if self._unused < UNUSED_LIMIT:
            return _SKIPPED[Skip.UNUSED]
        self._is_observing = False
        return _REST

    def _composite(self, time: int) -> Decision:
        self._is_needed = False
        self._is_busy = True
        self._last = time
        return _COMPOSITE

    def __repr__(self) -> str:
        if self._is_shut_down:
            return "<vkshare.CompositorScheduler shut down>"
        state = "observing" if self._is_observing else "resting"
        parts = [state, *(["compositing"] if self._is_busy else []), *(["needed"] if self._is_needed else [])]
        return f"<vkshare.CompositorScheduler {', '.join(parts)}, {self._unused} ticks unused>"


# The counter of ticks without a composite, by reason.
_COUNTED = {reason: reason.value for reason in Skip} | {Skip.SHUT_DOWN: "resting"}
