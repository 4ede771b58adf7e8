"""The sending half of a link: messages in, packets out, until they are acknowledged. Pure: time is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from vkshare.errors import InvalidCallError
from vkshare.remote.link_messages import (
    CHUNK,
    CONTROL,
    LANE_WINDOW,
    MAX_LANES,
    MAX_MESSAGE,
    Acknowledgement,
    LinkError,
    Packet,
)
from vkshare.remote.pacing import Pacing

MOST_BYTES = 4 << 20  # of packets that are not acknowledged
MOST_PICTURES = 3  # messages with pixels that are not acknowledged (rule M7)
PACKET_COST = 64  # bytes that a kept packet costs beside its payload, about
_RESERVE = 2 * CHUNK  # bytes of MOST_BYTES for the control lane alone
# While acknowledgements are late, as after a lost packet, messages of up to so many bytes pass the window by a chunk:
# presents and short lists go on behind uploads and long lists.
_SHORT = 2 << 10


@dataclass(slots=True, eq=False)
class _Message:
    data: bytes
    key: Hashable
    stale: bytes
    has_pixels: bool
    on_sent: Callable[[], object] | None = None
    sent: int = 0  # bytes


@dataclass(slots=True, eq=False)
class _Lane:
    number: int
    queue: deque[_Message] = field(default_factory=deque)
    newest: dict[Hashable, _Message] = field(default_factory=dict)  # queued, by the key that replaces it
    queued: int = 0  # bytes that were not sent
    sent: int = 0  # bytes since the lane began
    consumed: int = 0  # of these, by the reader
    is_ending: bool = False  # its end is queued, or was sent

    @property
    def room(self) -> int:
        return 0 if self.is_ending else LANE_WINDOW - self.queued - self.sent + self.consumed


@dataclass(slots=True, eq=False)
class _Kept:
    """A packet that is not acknowledged."""

    packet: Packet
    cost: int
    ends_picture: bool  # it is the last packet of a message with pixels
    size: int = 0  # bytes on the way: of the payload, and once it is compressed, of that
    sent_at: float = 0.0
    delivered: int = 0  # acknowledged bytes when it was sent
    is_limited: bool = False  # the window was nearly full then


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """Counters of one direction since its session began.

    Attributes
    ----------
    messages, nbytes
        Messages that were accepted, and their bytes.
    replaced
        Messages that a newer one replaced before they were sent (rule M7).
    packets, resent
        Packets that were sent for the first time, and again after a broken connection.
    acknowledged
        Packets that the peer has received.
    queued
        Bytes now that were not sent.
    unacknowledged, pictures
        Bytes and messages with pixels now that were sent and not acknowledged.
    lanes
        Lanes that are open now.
    window
        Bytes that may be on their way now.
    round_trip
        The shortest round trip of late, in seconds; inf: none was measured.
    """

    messages: int
    nbytes: int
    replaced: int
    packets: int
    resent: int
    acknowledged: int
    queued: int
    unacknowledged: int
    pictures: int
    lanes: int
    window: int
    round_trip: float


class Outbox:
    """Keeps messages in lanes, cuts them into packets, and keeps these until they are acknowledged. Not thread-safe.

    The control lane is served first and the others in turn, a chunk each (rule M8). A lane's bytes
    count from put() until its reader has consumed them, at most LANE_WINDOW, so a reader that waits
    stops its own lane only (rule M4).

    Parameters
    ----------
    most_bytes
        Bytes of packets that are kept until they are acknowledged.
    most_pictures
        Messages with pixels that are sent and not acknowledged.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_pictures: int = MOST_PICTURES) -> None:
        self.number = 0  # of the next new packet
        self._most_bytes = most_bytes
        self._most_pictures = most_pictures
        self._pacing = Pacing(most_bytes)
        self._lanes: dict[int, _Lane] = {}
        self._ready: deque[_Lane] = deque()  # lanes other than the control lane that have something to send
        self._kept: deque[_Kept] = deque()  # by number, without gaps
        self._resend = 0  # index in _kept of the first packet that has to be sent again, and ...
        self._again = 0  # ... how many have to be, after a broken connection
        self._ending: deque[tuple[int, _Lane]] = deque()  # ends that were sent, by number
        self._cost = self._pictures = self._delivered = 0
        self._on_sent: list[Callable[[], object]] = []
        self._queued_pictures = 0  # messages with pixels of which nothing was sent
        self._on_way = 0  # bytes on the connection
        self._fresh: list[_Kept] = []  # packets whose compressed size is not known
        self._messages = self._nbytes = self._replaced = self._packets = self._resent = self._acknowledged = 0

    # ---- messages in ------------------------------------------------------------------------------------------

    def put(
        self,
        lane: int,
        message: bytes,
        *,
        replaces: Hashable = None,
        stale: bytes | None = None,
        has_pixels: bool = False,
        on_sent: Callable[[], object] | None = None,
    ) -> bool:
        """Queue a message.

        Parameters
        ----------
        lane
            The message's lane, 0 to 2**32 - 1. A lane begins with its first message.
        message
            1 byte to 1 MiB.
        replaces
            A queued message of the same lane and key that has not begun to be sent becomes its
            `stale` bytes, in its place. None: the message neither replaces nor is replaced.
        stale
            What this message becomes when a newer one replaces it; None or b"": it is removed.
        has_pixels
            It counts as one of the `most_pictures`.
        on_sent
            Is among those of take_sent() once all of it was sent.

        Returns
        -------
        bool
            False: the lane has no room for it, and nothing has changed.

        Raises
        ------
        ValueError
            The lane's number or a size is out of its range.
        InvalidCallError
            The lane has ended, or it would be one too many.
        """
        _check(lane, message, replaces, stale)
        it = self._lanes.get(lane)
        if it is None:
            if len(self._lanes) >= MAX_LANES:
                raise InvalidCallError(f"{MAX_LANES} lanes are open, as many as allowed: end one before lane {lane}")
            it = self._lanes[lane] = _Lane(lane)
        elif it.is_ending:
            raise InvalidCallError(f"lane {lane} has ended: use another number")
        old = None if replaces is None else it.newest.get(replaces)
        freed = 0 if old is None else len(old.data) - len(old.stale)
        if len(message) > it.room + freed:
            return False
        if old is not None:
            self._make_stale(it, old, freed)
        new = _Message(bytes(message), replaces, bytes(stale or b""), has_pixels, on_sent)
        if replaces is not None:
            it.newest[replaces] = new
        self._append(it, new)
        it.queued += len(message)
        self._queued_pictures += has_pixels
        self._messages += 1
        self._nbytes += len(message)
        return True

    def _append(self, lane: _Lane, message: _Message | None) -> None:
        """None: the lane's end."""
        if not lane.queue and lane.number != CONTROL:
            self._ready.append(lane)
        lane.queue.append(message if message is not None else _Message(b"", None, b"", False))

    def _make_stale(self, lane: _Lane, message: _Message, freed: int) -> None:
        self._replaced += 1
        self._queued_pictures -= message.has_pixels
        lane.queued -= freed
        if message.stale:
            message.data, message.has_pixels = message.stale, False
            return
        lane.queue.remove(message)
        if not lane.queue and lane.number != CONTROL:
            self._ready.remove(lane)

    def end(self, lane: int) -> None:
        """End a lane after its queued messages. Its number is free again once the peer has received the end.

        No effect on a lane that is not open.

        Raises
        ------
        ValueError
            The lane is the control lane, which the peer does not let end before the session.
        """
        if lane == CONTROL:
            raise ValueError(f"the lane is {CONTROL}, control, which ends with the session: end lanes from 1")
        it = self._lanes.get(lane)
        if it is not None and not it.is_ending:
            self._append(it, None)
            it.is_ending = True

    def take_sent(self) -> list[Callable[[], object]]:
        """Return the `on_sent` of the messages that were sent since the last call."""
        found, self._on_sent = self._on_sent, []
        return found

    @property
    def picture_room(self) -> int:
        """Messages with pixels that would be sent at once, without a wait for an acknowledgement."""
        return max(0, self._most_pictures - self._pictures - self._queued_pictures)

    def room(self, lane: int) -> int:
        """Return how many bytes the lane takes now; a new lane takes LANE_WINDOW."""
        it = self._lanes.get(lane)
        return LANE_WINDOW if it is None else it.room

    # ---- packets out ------------------------------------------------------------------------------------------

    def next(self, now: float, most: int = CHUNK) -> Packet | None:
        """Return the packet to be sent now, at most `most` bytes long; None: none may be sent."""
        if self._again:
            return self._next_again(now, most)
        most = min(most, self._pacing.chunk)
        control = self._lanes.get(CONTROL)
        if control is not None and control.queue and (cut := self._cut(control, now, most, self._most_bytes)):
            return cut
        if not self._ready:
            return None
        room = self._pacing.window - self._on_way
        is_full = self._on_way > 0 and most > room
        for _ in range(len(self._ready)):
            lane = self._ready[0]
            self._ready.rotate(-1)
            if is_full and not self._is_short(lane, room + self._pacing.chunk):
                continue
            if cut := self._cut(lane, now, most, self._most_bytes - _RESERVE):
                if not lane.queue:
                    self._ready.pop()
                return cut
        return None

    def _is_short(self, lane: _Lane, room: int) -> bool:
        """Whether a lane's first message is so short that it passes the window, in the given room."""
        message = lane.queue[0]
        return not message.has_pixels and not message.sent and len(message.data) <= min(_SHORT, room)

    def _next_again(self, now: float, most: int) -> Packet | None:
        kept = self._kept[self._resend]
        size = len(kept.packet.payload)
        if size > most or (self._on_way and self._on_way + size > self._pacing.window):
            return None
        self._resend += 1
        self._again -= 1
        self._resent += 1
        self._sent(kept, now)
        return kept.packet

    def _cut(self, lane: _Lane, now: float, most: int, most_bytes: int) -> Packet | None:
        """Cuts the next chunk of a lane's first message, where the bounds allow it."""
        message = lane.queue[0]
        size = min(len(message.data) - message.sent, most)
        cost = size + PACKET_COST
        if self._kept and self._cost + cost > most_bytes:
            return None
        if message.has_pixels and not message.sent:
            if self._pictures >= self._most_pictures:
                return None
            self._pictures += 1
            self._queued_pictures -= 1
        if lane.newest.get(message.key) is message:
            del lane.newest[message.key]  # once it has begun, it is no longer replaced
        payload = message.data if size == len(message.data) else memoryview(message.data)[message.sent :][:size]
        packet = Packet(self.number, lane.number, len(message.data), not message.sent, payload)
        message.sent += size
        lane.sent += size
        lane.queued -= size
        is_whole = message.sent == len(message.data)
        if is_whole:
            lane.queue.popleft()
            if message.on_sent is not None:
                self._on_sent.append(message.on_sent)
        if packet.ends_lane:
            self._ending.append((self.number, lane))
        self.number += 1
        self._packets += 1
        self._cost += cost
        kept = _Kept(packet, cost, is_whole and message.has_pixels)
        self._kept.append(kept)
        self._sent(kept, now)
        return packet

    def _sent(self, kept: _Kept, now: float) -> None:
        kept.size = len(kept.packet.payload)
        self._on_way += kept.size
        kept.sent_at, kept.delivered = now, self._delivered
        self._fresh.append(kept)

    def compressed(self, ratio: float) -> None:
        """Record that the packets since the last call have become so many times as long: the window counts that."""
        limit = self._pacing.window * 3 // 4
        for kept in self._fresh:
            size = max(1, int(kept.size * ratio))
            self._on_way += size - kept.size
            kept.size = size
            kept.is_limited = not self._pacing.is_probing and self._on_way >= limit
        self._fresh.clear()

    # ---- what the peer has ------------------------------------------------------------------------------------

    def acknowledged(self, ack: Acknowledgement, now: float) -> None:
        """Take an acknowledgement.

        Raises
        ------
        LinkError
            It names packets or bytes that were not sent, or takes some back.
        """
        sent = self.number - self._again
        if ack.received > sent:
            raise LinkError(f"packets before {ack.received} are acknowledged; sent were those before {sent}")
        if newest := self._forget(ack.received):
            seconds = max(now - newest.sent_at, 1e-6)
            rate = (self._delivered - newest.delivered) / seconds
            self._pacing.measured(seconds - min(ack.delay, seconds), rate, newest.is_limited, now)
        self._take_consumed(ack.consumed)

    def _forget(self, received: int) -> _Kept | None:
        """Drops the packets before a number; returns the newest of them."""
        newest = None
        while self._kept and self._kept[0].packet.number < received:
            newest = self._kept.popleft()
            self._cost -= newest.cost
            self._pictures -= newest.ends_picture
            self._delivered += newest.size
            self._acknowledged += 1
            self._on_way -= newest.size
            self._resend -= bool(self._resend)
        while self._ending and self._ending[0][0] < received:
            del self._lanes[self._ending.popleft()[1].number]
        return newest

    def _take_consumed(self, consumed: Mapping[int, int]) -> None:
        for number, total in consumed.items():
            lane = self._lanes.get(number)
            if lane is None or not lane.consumed <= total <= lane.sent:
                has = "is not open" if lane is None else f"has sent {lane.sent}, of which {lane.consumed} were consumed"
                raise LinkError(f"{total} bytes of lane {number} are called consumed, and the lane {has}")
            lane.consumed = total

    def resumed(self, received: int) -> None:
        """Continue on a new connection, after the packets before `received`: later ones are sent again (rule M17).

        Raises
        ------
        LinkError
            The peer forgot what it had acknowledged, or names packets that were never sent.
        """
        first = self._kept[0].packet.number if self._kept else self.number
        if not first <= received <= self.number:
            raise LinkError(
                f"the peer resumes at packet {received}; packets {first} to {self.number} are possible: begin anew"
            )
        self._again = self._resend = 0
        self._forget(received)
        self._again = len(self._kept)
        self._on_way = 0
        self._fresh.clear()
        self._pacing.reset()

    @property
    def chunk(self) -> int:
        """Bytes that a packet or a frame should carry now, CHUNK at most."""
        return self._pacing.chunk

    @property
    def has_unsent(self) -> bool:
        """Whether a message or a packet waits to be sent, or to be sent again."""
        control = self._lanes.get(CONTROL)
        return bool(self._again or self._ready or (control is not None and control.queue))

    @property
    def is_settled(self) -> bool:
        """Whether the peer has received everything."""
        return not self._kept and not self.has_unsent

    def statistics(self) -> OutboxStatistics:
        """Return the counters."""
        return OutboxStatistics(
            self._messages,
            self._nbytes,
            self._replaced,
            self._packets,
            self._resent,
            self._acknowledged,
            sum(lane.queued for lane in self._lanes.values()),
            self._cost,
            self._pictures,
            len(self._lanes),
            self._pacing.window,
            self._pacing.round_trip,
        )


def _check(lane: int, message: bytes, replaces: Hashable, stale: bytes | None) -> None:
    if not 0 <= lane < 1 << 32:
        raise ValueError(f"the lane is {lane}; allowed are 0 to {(1 << 32) - 1}")
    if not 1 <= len(message) <= MAX_MESSAGE:
        raise ValueError(f"the message has {len(message)} bytes; allowed are 1 to {MAX_MESSAGE}")
    if stale and (replaces is None or len(stale) > len(message)):
        raise ValueError(
            f"stale has {len(stale)} bytes: it needs `replaces`, and no more bytes than its message, {len(message)}"
        )
