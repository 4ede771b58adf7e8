"""A model of one direction of a bad network link: bytes arrive at t, and are delivered at t'.

    model = LinkModel(LinkSettings(delay=0.1, rate=2_500_000, loss=0.01), seed=1)
    flow = model.flow()                      # one connection's stream
    flow.push(data[: flow.room(now)], now)
    model.next_delivery(now)                 # when to look again
    flow.take(65536, now)

Pure: no socket, thread or clock. Times are seconds of the caller's clock, and never go back.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Literal

from vkshare.testing.link_types import DirectionStatistics, LinkSettings
from vkshare.util import arguments

End = Literal["end", "reset"]

_LEAST_ROUND_TRIP = 0.001  # seconds; TCP's timers are no finer
_LEAST_TIMEOUT, _MOST_TIMEOUT = 0.2, 120.0  # seconds; Linux's TCP_RTO_MIN and TCP_RTO_MAX
_SMALL = 256  # bytes of memory that a packet of one byte takes: the window counts packets, too


@dataclass(slots=True, eq=False)
class _Packet:
    flow: Flow
    number: int  # in its flow
    data: bytes
    end: End | None = None  # the last one of its flow has no data
    losses: int = 0


class LinkModel:
    """One direction of a link, whose bottleneck all of its flows share. Not thread-safe.

    A packet waits in the queue, passes the bottleneck at the link's rate, and travels for the delay
    and its jitter. The seed and the calls decide everything.

    Flows are reliable streams, so loss shows as TCP shows it: as time. A lost packet is sent again
    one round trip later (twice the delay, and the jitter), as TCP's fast retransmit does it. A
    packet that is lost again waits for TCP's timeout, 200 ms or the round trip, doubled each time.
    Retransmissions pass the bottleneck again, before the queue. Later packets of the same flow arrive
    and wait for the lost one (head-of-line blocking), and are then delivered at once. The flow does
    not slow down, as with TCP's BBR; CUBIC would lower its rate at each loss.

    Parameters
    ----------
    settings
        The properties of the link.
    seed
        Of the random numbers for jitter and loss.
    """

    def __init__(self, settings: LinkSettings | None = None, seed: int | str = 0) -> None:
        self._settings = settings or LinkSettings()
        self._random = random.Random(seed)
        self._order = itertools.count()  # breaks ties in the heaps
        self._queue: deque[_Packet] = deque()
        self._sending: _Packet | None = None  # passes the bottleneck
        self._finish = 0.0  # when it has passed, by the link's clock
        self._again: list[tuple[float, int, _Packet]] = []  # heap of the lost packets, by the time of the next try
        self._travelling: list[tuple[float, int, _Packet]] = []  # heap, by the time of arrival
        self._pauses = 0.0  # seconds of all stalls that are over: the link's clock is slow by these
        self._stall: tuple[float, float] | None = None  # when it began, and when it ends
        self._queued = self._queued_most = self._pending = self._pending_most = 0
        self._accepted = self._delivered = self._packets = self._lost = self._retransmissions = 0

    @property
    def settings(self) -> LinkSettings:
        """The properties that the link has now."""
        return self._settings

    def flow(self) -> Flow:
        """Return a new stream through the link."""
        return Flow(self)

    def set(self, settings: LinkSettings, now: float) -> None:
        """Change the link's properties.

        The rate changes for what has not passed the bottleneck, the rest for what has not left it.
        Bytes beyond a smaller queue or window stay.

        Parameters
        ----------
        settings
            The new properties.
        now
            The time in seconds.
        """
        self.advance(now)
        if self._sending is not None and self._settings.rate is not None:
            clock = self._clock(now)
            left = (self._finish - clock) * self._settings.rate
            self._finish = clock + (left / settings.rate if settings.rate is not None else 0.0)
        self._settings = settings
        self.advance(now)

    # ---- stalls --------------------------------------------------------------------------------------------------

    def stall(self, seconds: float | None, now: float) -> None:
        """Let nothing pass or arrive for a time: the link's clock stands still.

        Packets on their way arrive later by that time. The queue fills, and the senders are pushed back. A
        call during a stall replaces its end.

        Parameters
        ----------
        seconds
            The duration; None: until resume().
        now
            The time in seconds.

        Raises
        ------
        ValueError
            `seconds` is negative.
        """
        length = arguments.timeout(seconds)
        self.advance(now)
        began = self._stall[0] if self._stall else now
        self._stall = began, math.inf if length is None else now + length
        self.advance(now)

    def resume(self, now: float) -> None:
        """End a stall. Without a stall, nothing happens."""
        self.advance(now)
        if self._stall:
            self._stall = self._stall[0], now
            self.advance(now)

    def is_stalled(self, now: float) -> bool:
        """Return whether a stall lasts."""
        self._clock(now)
        return self._stall is not None

    def _clock(self, now: float) -> float:
        """Return the link's time, and forget a stall that is over."""
        if self._stall:
            began, end = self._stall
            if now < end:
                return began - self._pauses
            self._pauses += end - began
            self._stall = None
        return now - self._pauses

    def _caller_time(self, clock: float) -> float:
        """Return when the link's clock will show that time, if no other stall comes."""
        pause = self._stall[1] - self._stall[0] if self._stall else 0.0
        return clock + self._pauses + pause

    # ---- time passes ---------------------------------------------------------------------------------------------

    def next_delivery(self, now: float) -> float:
        """Return the earliest time at which a flow may have more to take; math.inf: none without further events."""
        self.advance(now)
        delay = self._settings.delay
        times = [self._travelling[0][0]] if self._travelling else []
        if self._sending is not None:
            times.append(self._finish + delay)
        elif self._again:  # else the bottleneck sends it in its turn
            times.append(self._again[0][0] + delay)
        return self._caller_time(min(times)) if times else math.inf

    def next_room(self, now: float) -> float:
        """Return the earliest time at which the queue may have more room; math.inf: none without further events."""
        self.advance(now)
        return self._caller_time(self._finish) if self._queued and self._sending is not None else math.inf

    def advance(self, now: float) -> None:
        """Handle all that has happened until now."""
        clock = self._clock(now)
        if self._stall:
            return  # what was due when it began is done, and what was pushed since then waits
        while True:
            if self._sending is not None:
                if self._finish > clock:
                    break
                self._passed(self._sending, self._finish)
                self._send_next(self._finish)
            elif self._again and self._again[0][0] <= clock:
                self._send_next(self._again[0][0])
            else:
                break
        while self._travelling and self._travelling[0][0] <= clock:
            packet = heapq.heappop(self._travelling)[2]
            packet.flow._arrive(packet)

    def _send_next(self, at: float) -> None:
        """Begin to send a packet whose retransmission is due, else the first of the queue."""
        if self._again and self._again[0][0] <= at:
            packet = heapq.heappop(self._again)[2]
            self._retransmissions += 1
        elif self._queue:
            packet = self._queue.popleft()
        else:
            self._sending = None
            return
        rate = self._settings.rate
        self._sending, self._finish = packet, at + (len(packet.data) / rate if rate else 0.0)
        self._packets += 1

    def _passed(self, packet: _Packet, at: float) -> None:
        """Decide when a packet that has passed the bottleneck arrives, or is sent again."""
        settings = self._settings
        if not packet.losses:
            self._queued -= len(packet.data)
        if packet.flow.is_dropped:
            return
        if settings.loss and self._random.random() < settings.loss:
            packet.losses += 1
            self._lost += 1
            heapq.heappush(self._again, (at + self._patience(packet.losses), next(self._order), packet))
            return
        travel = settings.delay + (settings.jitter * self._random.random() if settings.jitter else 0.0)
        heapq.heappush(self._travelling, (at + travel, next(self._order), packet))

    def _patience(self, losses: int) -> float:
        """Seconds until a packet that was lost so many times is sent again."""
        round_trip = max(2 * self._settings.delay + self._settings.jitter, _LEAST_ROUND_TRIP)
        if losses == 1:
            return round_trip
        return min(max(_LEAST_TIMEOUT, round_trip) * 2.0 ** min(losses - 2, 20), _MOST_TIMEOUT)

    # ---- for the flows -------------------------------------------------------------------------------------------

    def _enqueue(self, packets: list[_Packet], now: float) -> None:
        nbytes = sum(len(packet.data) for packet in packets)
        self._queue.extend(packets)
        self._accepted += nbytes
        self._queued += nbytes
        self._pending += nbytes
        self._queued_most = max(self._queued_most, self._queued)
        self._pending_most = max(self._pending_most, self._pending)
        if self._sending is None:
            self._send_next(self._clock(now))
        self.advance(now)

    def _took(self, nbytes: int) -> None:
        self._delivered += nbytes
        self._pending -= nbytes

    def _drop(self, flow: Flow, pending: int) -> None:
        self._pending -= pending
        self._queued -= sum(len(packet.data) for packet in self._queue if packet.flow is flow)
        self._queue = deque(packet for packet in self._queue if packet.flow is not flow)
        for heap in (self._again, self._travelling):
            heap[:] = [entry for entry in heap if entry[2].flow is not flow]
            heapq.heapify(heap)

    def statistics(self, now: float) -> DirectionStatistics:
        """Return a snapshot of the counters."""
        self.advance(now)
        return DirectionStatistics(
            self._accepted,
            self._delivered,
            self._queued,
            self._queued_most,
            self._pending,
            self._pending_most,
            self._packets,
            self._lost,
            self._retransmissions,
            self.is_stalled(now),
        )


class Flow:
    """One reliable stream through a LinkModel, which makes it. Not thread-safe."""

    def __init__(self, model: LinkModel) -> None:
        self._model = model
        self._pushed = 0  # packets
        self._expected = 0  # the number of the packet that is delivered next
        self._early: dict[int, _Packet] = {}  # arrived before a lost one that they follow
        self._arrived: deque[bytes] = deque()  # in order, and not taken
        self._pending = 0  # bytes pushed and not taken
        self._last: End | None = None  # the end that the sender has said
        self._end: End | None = None
        self.is_dropped = False
        """Whether drop() was called: nothing goes in or comes out."""

    def room(self, now: float) -> int:
        """Return how many bytes may be pushed now: neither the queue nor the window is exceeded."""
        self._model.advance(now)
        if self.is_dropped or self._last:
            return 0
        settings = self._model.settings
        packets = self._pushed - self._expected + len(self._arrived)
        if packets > settings.window // min(settings.mtu, _SMALL):
            return 0
        return max(0, min(settings.queue_bytes - self._model._queued, settings.window - self._pending))

    def push(self, data: bytes, now: float) -> None:
        """Give bytes to the link.

        Parameters
        ----------
        data
            At most room() bytes.
        now
            The time in seconds.

        Raises
        ------
        ValueError
            There is no room for so many bytes.
        """
        room = self.room(now)
        if len(data) > room:
            raise ValueError(f"data has {len(data)} bytes; the link has room for {room} now: push no more than room()")
        settings = self._model.settings
        is_plain = settings.rate is None and not settings.loss and not settings.jitter
        size = len(data) if is_plain else settings.mtu  # packets of one push would all arrive at once
        parts = [data[at : at + size] for at in range(0, len(data), size)] if data else []
        self._pending += len(data)
        self._model._enqueue([self._packet(part) for part in parts], now)

    def end(self, how: End, now: float) -> None:
        """Say that no bytes follow. A reset may follow an end; further calls change nothing.

        Parameters
        ----------
        how
            Which `ended` the receiver sees after the last byte, "end" (a FIN) or "reset" (an RST).
        now
            The time in seconds.
        """
        if not self.is_dropped and self._last not in ("reset", how):
            self._model.advance(now)
            self._last = how
            self._model._enqueue([self._packet(b"", how)], now)

    def _packet(self, data: bytes, end: End | None = None) -> _Packet:
        packet = _Packet(self, self._pushed, data, end)
        self._pushed += 1
        return packet

    def _arrive(self, packet: _Packet) -> None:
        self._early[packet.number] = packet
        while (found := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            self._end = found.end
            if found.data:
                self._arrived.append(found.data)

    @property
    def has_arrived(self) -> bool:
        """Whether bytes have arrived that were not taken, at the time of the last call."""
        return bool(self._arrived)

    @property
    def ended(self) -> End | None:
        """The end that has arrived, at the time of the last call; bytes may be left to be taken before it."""
        return self._end

    def take(self, most: int, now: float) -> bytes:
        """Take bytes that have arrived, in their order.

        Parameters
        ----------
        most
            The number of bytes, at most.
        now
            The time in seconds.

        Returns
        -------
        bytes
            b"": none has arrived.
        """
        self._model.advance(now)
        parts: list[bytes] = []
        left = most
        while left and self._arrived:
            part = self._arrived.popleft()
            if len(part) > left:
                self._arrived.appendleft(part[left:])
                part = part[:left]
            parts.append(part)
            left -= len(part)
        nbytes = most - left
        self._pending -= nbytes
        self._model._took(nbytes)
        return b"".join(parts)

    def drop(self, now: float) -> None:
        """Lose all bytes of the flow, for ever. Idempotent."""
        if not self.is_dropped:
            self._model.advance(now)
            self.is_dropped = True
            self._model._drop(self, self._pending)
            self._pending = 0
            self._early.clear()
            self._arrived.clear()
