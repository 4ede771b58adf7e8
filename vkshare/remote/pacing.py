"""Decide how many bytes of a link may be on their way, so that no queue grows in the network (rule M8).

A queue in front of a slow link would delay every control message behind it. The estimate follows
BBR (Cardwell et al., 2016): the window is the highest rate of delivery times the shortest round
trip, and a little more, by which it finds a higher rate. Pure: time is passed in.
"""

from __future__ import annotations

import math

from vkshare.remote.link_messages import CHUNK

_LEAST_CHUNK = 1 << 12  # bytes
_CHUNK_TIME = 0.012  # seconds that a chunk takes, about, where the link is slower than CHUNK allows
# A window for a longer round trip than the shortest one: packets that wait for lost ones, and threads of a loaded
# machine, are late without a queue. The queue that this may cause delays control by less than a round trip.
_STRETCH = 1.25
_SLACK = 0.020  # seconds
_QUEUE = 0.030  # seconds of queueing that end the start, in which the window doubles each round trip
_BASE_AGE = 10.0  # seconds after which the shortest round trip is measured again, with the queue drained


class Pacing:
    """Estimates the window from round trips and rates of delivery."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.reset()

    def reset(self) -> None:
        """Forgets the path, because a new connection may have another one."""
        self.round_trip = math.inf  # the shortest one, in seconds
        self.rate = 0.0  # bytes a second
        self._is_starting = True
        self._base_at = 0.0
        self._probe_end: float | None = None
        self._probe_best = math.inf

    @property
    def chunk(self) -> int:
        """Bytes of a message that one packet should carry: fewer on a slow link, which a control message waits for."""
        return max(_LEAST_CHUNK, min(CHUNK, int(self.rate * _CHUNK_TIME)))

    @property
    def window(self) -> int:
        """Bytes that may be on their way now."""
        if not self.rate:
            return CHUNK
        chunk = self.chunk
        if self.is_probing:  # half of the path, so that what follows is no long burst
            return max(chunk, int(self.rate * self.round_trip / 2))
        gain = 2 if self._is_starting else 1
        return min(self._most, int(gain * self.rate * (self.round_trip * _STRETCH + _SLACK)) + 2 * chunk)

    @property
    def is_probing(self) -> bool:
        """Whether the queue is being drained, to measure the shortest round trip."""
        return self._probe_end is not None

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
        if rate >= self.rate:  # acknowledgements come in bursts: a high sample counts in part, except at the start
            self.rate += (rate - self.rate) * (1 if self._is_starting else 0.25)
        elif is_limited:
            self.rate += (rate - self.rate) / 8
        if round_trip <= self.round_trip:
            self.round_trip, self._base_at = round_trip, now
        if round_trip - self.round_trip > _QUEUE:
            self._is_starting = False
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
