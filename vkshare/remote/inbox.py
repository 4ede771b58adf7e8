"""The receiving half of a link: packets in, whole messages out, acknowledgements back. Pure: time is passed in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from vkshare.remote.link_messages import CONTROL, LANE_WINDOW, MAX_LANES, Acknowledgement, LinkError, Packet

ACK_BYTES = 1 << 16  # received or consumed bytes after which an acknowledgement is due at once
ACK_DELAY = 0.020  # seconds that one may be late otherwise


class LaneNumber(int):
    """The number of a delivery's lane.

    Attributes
    ----------
    incarnation
        The count of lanes that had begun before, because a lane that has ended leaves its number to another one.
    """

    def __new__(cls, number: int, incarnation: int) -> LaneNumber:
        made = super().__new__(cls, number)
        made.incarnation = incarnation
        return made

    incarnation: int


@dataclass(slots=True)
class Delivery:
    """A whole message, or the end of its lane (None). `lane` is a LaneNumber, if the lane has begun."""

    lane: int
    message: bytes | None


@dataclass(frozen=True, slots=True)
class InboxStatistics:
    """Counters of one direction since its session began.

    Attributes
    ----------
    packets, messages, nbytes
        Received, in order and once; bytes of messages.
    duplicates
        Packets that had been received before the connection broke.
    acknowledgements
        Acknowledgements that were made.
    buffered
        Bytes of incomplete messages now.
    unconsumed
        Bytes that the readers have not consumed now.
    """

    packets: int
    messages: int
    nbytes: int
    duplicates: int
    acknowledgements: int
    buffered: int
    unconsumed: int


@dataclass(slots=True, eq=False)
class _Lane:
    number: LaneNumber
    received: int = 0  # bytes since the lane began
    consumed: int = 0
    length: int = 0  # of the incomplete message
    parts: bytearray = field(default_factory=bytearray)


class Inbox:
    """Checks the numbers of packets and joins their chunks, lane by lane. Not thread-safe.

    At most MAX_LANES lanes are open, each with at most LANE_WINDOW bytes that were not consumed:
    memory is bounded whatever the peer sends. `may_begin` can refuse lanes.
    """

    def __init__(self) -> None:
        self.expected = 0  # the number of the next packet
        self.may_begin: Callable[[int], bool] = lambda lane: True  # whether the peer may begin that lane
        self._lanes: dict[int, _Lane] = {}
        self._incarnations = itertools.count()
        self._news: set[int] = set()  # lanes whose consumed bytes the peer does not know
        self._due = math.inf
        self._bytes_since = 0  # received since the last acknowledgement
        self._consumed_since = 0
        self._arrived = 0.0  # when the newest packet did
        self._packets = self._messages = self._nbytes = self._duplicates = self._acknowledgements = 0

    def receive(self, packet: Packet, now: float) -> Delivery | None:
        """Take a packet; return the message that it completes, or the end of a lane.

        Raises
        ------
        LinkError
            A number is missing, a chunk does not fit its message, or a bound is exceeded.
        """
        if packet.number < self.expected:
            self._duplicates += 1
            self._is_due_by(now + ACK_DELAY)
            return None
        if packet.number > self.expected:
            raise LinkError(f"packet {packet.number} came, and packet {self.expected} is missing")
        delivery = self._end(packet.lane) if packet.ends_lane else self._append(packet)
        self.expected += 1
        self._packets += 1
        self._arrived = now
        self._bytes_since += len(packet.payload)
        self._is_due_by(now if self._bytes_since >= ACK_BYTES else now + ACK_DELAY)
        return delivery

    def _append(self, packet: Packet) -> Delivery | None:
        number, size = packet.lane, len(packet.payload)
        lane = self._lanes.get(number)
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                raise LinkError(f"lane {number} would be one more than the {MAX_LANES} allowed ones")
            if not self.may_begin(number):
                raise LinkError(f"a message came in lane {number}, which this side has not opened")
            lane = self._lanes[number] = _Lane(LaneNumber(number, next(self._incarnations)))
        if packet.begins == bool(lane.length):
            raise LinkError(
                f"a message of lane {number} begins inside another one"
                if packet.begins
                else f"a chunk of lane {number} belongs to no message"
            )
        if not packet.begins and packet.length != lane.length:
            raise LinkError(f"a message of lane {number} declares {packet.length} bytes, and {lane.length} before")
        if len(lane.parts) + size > packet.length:
            raise LinkError(f"a message of lane {number} has more than the {packet.length} bytes that it declares")
        if lane.received + size - lane.consumed > LANE_WINDOW:
            raise LinkError(f"lane {number} has more than {LANE_WINDOW} bytes that were not consumed")
        lane.received += size
        return self._join(lane, packet)

    def _join(self, lane: _Lane, packet: Packet) -> Delivery | None:
        if len(packet.payload) == packet.length:
            whole = bytes(packet.payload)
        else:
            lane.length = packet.length
            lane.parts += packet.payload
            if len(lane.parts) < lane.length:
                return None
            whole = bytes(lane.parts)
            lane.parts = bytearray()
            lane.length = 0
        self._messages += 1
        self._nbytes += len(whole)
        return Delivery(lane.number, whole)

    def _end(self, number: int) -> Delivery:
        if number == CONTROL:
            raise LinkError(f"lane {CONTROL}, control, was ended; only lanes of other numbers end before the session")
        lane = self._lanes.get(number)
        if lane is not None and lane.length:
            raise LinkError(f"lane {number} ends inside a message")
        self._lanes.pop(number, None)
        self._news.discard(number)
        return Delivery(number if lane is None else lane.number, None)

    def consumed(self, lane: int, nbytes: int, now: float) -> None:
        """Records that the reader of a lane has consumed bytes, which makes room for its sender.

        A lane that has ended is ignored, because its reader may be behind. So is a LaneNumber of an earlier lane; a
        plain number is that of the lane which is open now.

        Raises
        ------
        ValueError
            The lane has fewer bytes that were not consumed.
        """
        it = self._lanes.get(lane)
        if it is None or (isinstance(lane, LaneNumber) and lane.incarnation != it.number.incarnation):
            return
        whole = it.received - len(it.parts) - it.consumed
        if not 0 <= nbytes <= whole:
            raise ValueError(f"lane {lane} has {whole} bytes to consume, not {nbytes}: consume each message once")
        it.consumed += nbytes
        self._news.add(lane)
        self._consumed_since += nbytes
        self._is_due_by(now if self._consumed_since >= ACK_BYTES else now + ACK_DELAY)

    def _is_due_by(self, time: float) -> None:
        self._due = min(self._due, time)

    @property
    def deadline(self) -> float:
        """When an acknowledgement is due; inf: none is."""
        return self._due

    def acknowledgement(self, now: float) -> Acknowledgement | None:
        """Return the acknowledgement that is due now, if one is."""
        if now < self._due:
            return None
        consumed = {number: self._lanes[number].consumed for number in self._news}
        self._news.clear()
        self._due = math.inf
        self._bytes_since = self._consumed_since = 0
        self._acknowledgements += 1
        return Acknowledgement(self.expected, max(0.0, now - self._arrived), consumed)

    def resumed(self, now: float) -> None:
        """Begins on a new connection: acknowledgements may have been lost with the old one."""
        self._news.update(number for number, lane in self._lanes.items() if lane.consumed)
        self._due = now

    def statistics(self) -> InboxStatistics:
        """Return the counters."""
        lanes = self._lanes.values()
        return InboxStatistics(
            self._packets,
            self._messages,
            self._nbytes,
            self._duplicates,
            self._acknowledgements,
            sum(len(lane.parts) for lane in lanes),
            sum(lane.received - lane.consumed for lane in lanes),
        )
