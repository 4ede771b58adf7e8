"""Two ends of a link in one thread, over a connection that may be lost at any byte, with a clock of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from vkshare.remote.inbox import Delivery
from vkshare.remote.link_messages import LANE_WINDOW, MAX_LANES
from vkshare.remote.outbox import MOST_PICTURES, Outbox
from vkshare.remote.stream import Session, Stream

MOST_BYTES = 1 << 18
KEEPALIVE = 1.0


@dataclass
class Put:
    """A message as it was queued."""

    data: bytes
    key: str | None
    stale: bytes


@dataclass
class End:
    """One end: its session and stream, its bytes on the way, and what it has sent and received."""

    session: Session
    stream: Stream | None = None
    way: bytearray = field(default_factory=bytearray)  # sent, and not arrived
    put: dict[int, list[Put | None]] = field(default_factory=dict)  # by lane; None: its end
    arrived: dict[int, list[bytes | None]] = field(default_factory=dict)
    unconsumed: list[tuple[int, int]] = field(default_factory=list)  # of whole messages, which readers may keep long


class Machine:
    """Two ends, host first. Each step may be called at any time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.steps = self.losses = 0
        ids = random.Random(1).randbytes(16)
        self.ends = [End(Session(7, ids, Outbox(MOST_BYTES))) for _ in range(2)]
        self._number = 0
        self.connect()

    # ---- steps

    def put(
        self, end: int, lane: int, size: int, key: str | None = None, has_stale: bool = False, pixels: bool = False
    ) -> bool:
        it = self.ends[end]
        if not it.session.outbox.room(lane) and it.put.get(lane, [None])[-1] is None:
            return False  # the other end has not received the lane's end
        self._number += 1
        mark = b"%08d" % self._number
        data = (mark * (size // 8 + 1))[: max(size, 8)]
        stale = b"s" + mark[1:] if key is not None and has_stale else b""
        room = it.session.outbox.room(lane)
        taken = it.session.outbox.put(lane, data, replaces=key, stale=stale, has_pixels=pixels)
        assert taken or len(data) > room
        if taken:
            it.put.setdefault(lane, []).append(Put(data, key, stale))
        return taken

    def end_lane(self, end: int, lane: int) -> None:
        it = self.ends[end]
        if lane and it.put.get(lane, [None])[-1] is not None:
            it.session.outbox.end(lane)
            it.put[lane].append(None)

    def send(self, end: int, frames: int = 1) -> int:
        """Sends so many frames at most; returns how many."""
        it = self.ends[end]
        for number in range(frames):
            if it.stream is None or not (packets := it.stream.gather(self.now)):
                return number
            frame = it.stream.frame(packets)
            it.stream.framed(packets, frame)
            it.way += frame
        return frames

    def carry(self, end: int, nbytes: int) -> None:
        """Lets so many bytes of an end arrive at the other."""
        it, other = self.ends[end], self.ends[1 - end]
        data = bytes(it.way[:nbytes])
        del it.way[:nbytes]
        if data and other.stream is not None:
            other.stream.heard(self.now)
            for item in other.stream.read(data):
                result = other.stream.take(item, self.now)
                if isinstance(result, Delivery):
                    other.arrived.setdefault(result.lane, []).append(result.message)
                    other.unconsumed.append((result.lane, len(result.message or b"")))

    def consume(self, end: int, lane: int) -> None:
        it = self.ends[end]
        for number, nbytes in it.unconsumed:
            if number == lane:
                it.session.inbox.consumed(number, nbytes, self.now)
        it.unconsumed = [(number, nbytes) for number, nbytes in it.unconsumed if number != lane]

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def lose(self) -> None:
        """The connection breaks: the bytes on the way are lost."""
        self.losses += self.ends[0].stream is not None
        for end in self.ends:
            end.stream = None
            end.way.clear()

    def connect(self) -> None:
        """Both report what they have received, and go on."""
        if self.ends[0].stream is None:
            received = [end.session.inbox.expected for end in self.ends]
            for end, number in zip(self.ends, reversed(received), strict=True):
                end.session.resumed(number, self.now)
                end.stream = Stream(end.session, KEEPALIVE, self.now)

    # ---- what has to hold

    def check(self) -> None:
        """Bounds that hold at all times."""
        self.steps += 1
        for end in self.ends:
            sent, got = end.session.outbox.statistics(), end.session.inbox.statistics()
            assert sent.unacknowledged <= MOST_BYTES
            assert sent.pictures <= MOST_PICTURES
            assert sent.lanes <= MAX_LANES
            assert all(0 <= end.session.outbox.room(lane) <= LANE_WINDOW for lane in end.put)
            assert got.buffered <= got.unconsumed <= LANE_WINDOW * MAX_LANES

    def settle(self) -> None:
        """Lets everything arrive, and compares it."""
        self.connect()
        for _ in range(5000):
            self.wait(0.021)
            for end in (0, 1):
                self.send(end, 100)
                self.carry(end, 1 << 30)
                for lane in {number for number, _ in self.ends[end].unconsumed}:
                    self.consume(end, lane)
            if all(end.session.outbox.is_settled for end in self.ends):
                break
        for sender, receiver in zip(self.ends, reversed(self.ends), strict=True):
            replaced = sum(_compare(puts, receiver.arrived.get(lane, [])) for lane, puts in sender.put.items())
            assert set(receiver.arrived) <= set(sender.put)
            assert sender.session.outbox.statistics().replaced == replaced
            assert sender.session.outbox.statistics().unacknowledged == 0


def _compare(puts: Iterable[Put | None], arrived: list[bytes | None]) -> int:
    """Each message arrived once, whole and in order, or as its stale bytes; returns how many were replaced."""
    left, replaced = list(reversed(arrived)), 0
    keys: list[str | None] = [None if put is None else put.key for put in puts]
    for number, put in enumerate(puts):
        if put is None or (left and left[-1] == put.data):
            assert left.pop() == (put and put.data)
            continue
        assert put.key is not None, "a message is missing that no other replaces"
        assert put.key in keys[number + 1 :], "a message is missing, and no newer one came"
        replaced += 1
        if put.stale:
            assert left.pop() == put.stale
    assert not left, "a message arrived twice"
    return replaced
