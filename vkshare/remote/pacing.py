"""Decide how many bytes of a link may be on their way, so that no queue grows in the network (rule M8).

A queue in front of a slow link would delay every control message behind it. The estimate follows
BBR (Cardwell et al., 2016): the window is the highest rate of delivery times the shortest round
trip, and one chunk. Pure: time is passed in.
"""

from __future__ import annotations

import math

from vkshare.remote.link_messages import CHUNK

_SLACK = 0.010  # seconds; threads of a loaded machine are that late, and a fast link must not idle for it
_QUEUE = 0.030  # seconds of queueing below which the window doubles, to find a higher rate
_BASE_AGE = 10.0  # seconds after which the shortest round trip is measured again, with the queue drained
_PROBE = CHUNK // 2  # bytes on their way meanwhile


class Pacing:
    """Estimates the window from round trips and rates of delivery."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.reset()

    def reset(self) -> None:
        """Forgets the path, because a new connection may have another one."""
        self.round_trip = math.inf  # the shortest one, in seconds
        self.rate = 0.0  # bytes a second
        self._base_at = 0.0
        self._has_queue = False
        self._probe_end: float | None = None
        self._probe_best = math.inf

    @property
    def window(self) -> int:
        """Bytes that may be on their way now."""
        if self._probe_end is not None:
            return _PROBE
        if not self.rate:
            return CHUNK
        gain = 1 if self._has_queue else 2
        return min(self._most, int(gain * self.rate * (self.round_trip + _SLACK)) + CHUNK)

    def measured(self, round_trip: float, rate: float, is_limited: bool, now: float) -> None:
        """Adds one measurement.

        Parameters
        ----------
        round_trip
            Seconds from the sending of a packet to its acknowledgement, less the receiver's delay.
        rate
            Bytes acknowledged meanwhile, for each second.
        is_limited
            Whether the window was nearly full then, so that a low rate is the link's and not the sender's.
        now
            The time, in seconds of any monotonic clock.
        """
        round_trip = max(round_trip, 1e-6)
        if rate >= self.rate:
            self.rate = rate
        elif is_limited and self._probe_end is None:
            self.rate += (rate - self.rate) / 8
        if round_trip <= self.round_trip:
            self.round_trip, self._base_at = round_trip, now
        self._has_queue = round_trip - self.round_trip > _QUEUE
        self._probe(round_trip, now)

    def _probe(self, round_trip: float, now: float) -> None:
        """Drains the queue for two round trips where no short round trip was seen for long: the path may be longer."""
        if self._probe_end is None:
            if now - self._base_at > _BASE_AGE:
                self._probe_end, self._probe_best = now + 2 * round_trip, math.inf
            return
        self._probe_best = min(self._probe_best, round_trip)
        if now >= self._probe_end:
            self.round_trip, self._base_at = self._probe_best, now
            self._probe_end = None
