"""The packets of a link, and the frames that carry them. See docs/spec/remote-protocol.md.

A *message* is whole and belongs to a lane; a *packet* carries at most one chunk of it; a *frame*
carries packets, compressed. Pure: bytes in, objects out. The peer is untrusted, so each number is
checked before use.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

VERSION = 1
MAX_MESSAGE = 1 << 20  # bytes
CHUNK = 1 << 15  # bytes of a message in one packet, at most
MAX_LANES = 1024  # open at a time, in each direction
CONTROL = 0  # the lane that is served first
LANE_WINDOW = 1 << 20  # bytes of a lane that its reader has not consumed, at most
MAX_NUMBER = (1 << 64) - 1

BEGIN, CONTINUE, END, ACK, PING, PONG, CLOSE = range(1, 8)
PACKET = struct.Struct("<BIQIIH")  # kind, generation, number, lane, bytes of the message, bytes that follow
_ACK = struct.Struct("<BIQIH")  # kind, generation, received, delay in us, number of lanes
_CONSUMED = struct.Struct("<IQ")  # lane, bytes consumed since the lane began
_PING = struct.Struct("<BQ")  # kind, the sender's stamp
_CLOSE = struct.Struct("<BB")  # kind, reason

# Encoded and decoded size. A frame has whole packets, and room for one of the longest.
FRAME = struct.Struct("<HH")
MAX_DECODED = CHUNK + 1024
MAX_ENCODED = MAX_DECODED + 512  # zstd adds a few bytes to what it cannot compress

CLOSED_BY_PROGRAM, CLOSED_BY_ERROR = range(2)
REASONS = {
    CLOSED_BY_PROGRAM: "the other side closed the link",
    CLOSED_BY_ERROR: "the other side closed the link because of an error, which its log has",
}


class LinkError(Exception):
    """The peer broke the protocol of the link: the session ends (rule M13)."""


@dataclass(slots=True)
class Packet:
    """A chunk of a message, or the end of a lane.

    Attributes
    ----------
    number
        Position in the order of all packets of this direction and session.
    length
        Bytes of the whole message; 0: the lane ends.
    begins
        Whether it is the first chunk of its message.
    """

    number: int
    lane: int
    length: int
    begins: bool
    payload: bytes | memoryview

    @property
    def ends_lane(self) -> bool:
        return not self.length


@dataclass(slots=True)
class Acknowledgement:
    """The state of a receiver.

    Attributes
    ----------
    received
        All packets with a lower number have arrived.
    delay
        Seconds between the arrival of the newest packet and this acknowledgement.
    consumed
        Bytes that each lane's reader has consumed since the lane began; lanes without news are left out.
    """

    received: int
    delay: float
    consumed: dict[int, int]


@dataclass(slots=True)
class Ping:
    """A keep-alive; the peer returns the stamp in a Pong."""

    stamp: int


@dataclass(slots=True)
class Pong:
    """The answer to a Ping."""

    stamp: int


@dataclass(slots=True)
class Close:
    """The last packet of a session."""

    reason: int


@dataclass(slots=True)
class Stale:
    """A packet of another generation, which has no effect (rule M12)."""

    generation: int


Item = Packet | Acknowledgement | Ping | Pong | Close | Stale


def encode(item: Item, generation: int) -> bytes:
    """Return the bytes of a packet."""
    match item:
        case Packet():
            kind = END if item.ends_lane else BEGIN if item.begins else CONTINUE
            head = PACKET.pack(kind, generation, item.number, item.lane, item.length, len(item.payload))
            return b"".join((head, item.payload))
        case Acknowledgement():
            delay = min(int(item.delay * 1e6), 0xFFFFFFFF)
            parts = [_ACK.pack(ACK, generation, item.received, delay, len(item.consumed))]
            parts += [_CONSUMED.pack(lane, total) for lane, total in item.consumed.items()]
            return b"".join(parts)
        case Ping():
            return _PING.pack(PING, item.stamp)
        case Pong():
            return _PING.pack(PONG, item.stamp)
        case Close():
            return _CLOSE.pack(CLOSE, item.reason)
    raise TypeError(f"a {type(item).__name__} is never sent")


def decode(data: bytes, generation: int) -> Iterator[Item]:
    """Yield the packets of a decoded frame.

    Raises
    ------
    LinkError
        A kind is unknown, a number is out of its range, the last packet is incomplete, or a frame has two of a kind of
        which it has one at most.
    """
    if len(data) > MAX_DECODED:
        raise LinkError(f"a frame has {len(data)} decoded bytes; allowed are {MAX_DECODED}")
    at, single = 0, set()
    try:
        while at < len(data):
            kind = data[at]
            item, at = _DECODERS[kind](data, at, generation)
            if kind >= ACK:
                if kind in single:
                    raise LinkError(f"a frame has two packets of the kind {kind}; allowed is one")
                single.add(kind)
            yield item
    except KeyError:
        raise LinkError(f"a packet is of the unknown kind {data[at]}") from None
    except struct.error:
        raise LinkError(f"a packet of the kind {data[at]} is cut short at byte {len(data)}") from None


def _decode_packet(data: bytes, at: int, generation: int) -> tuple[Item, int]:
    kind, of, number, lane, length, size = PACKET.unpack_from(data, at)
    begin = at + PACKET.size
    at = begin + size
    if at > len(data):
        raise LinkError(f"a packet declares {size} bytes, and {len(data) - begin} came")
    if kind == END:
        if length or size:
            raise LinkError(f"the end of lane {lane} has {max(length, size)} bytes; allowed are 0")
    elif not 1 <= length <= MAX_MESSAGE:
        raise LinkError(f"a message declares {length} bytes; allowed are 1 to {MAX_MESSAGE}")
    elif not 1 <= size <= min(length, CHUNK):
        raise LinkError(f"a packet has {size} bytes of a message of {length}; allowed are 1 to {min(length, CHUNK)}")
    if of != generation:
        return Stale(of), at
    return Packet(number, lane, length, kind != CONTINUE, data[begin:at]), at


def _decode_ack(data: bytes, at: int, generation: int) -> tuple[Item, int]:
    _, of, received, delay, count = _ACK.unpack_from(data, at)
    at += _ACK.size
    if count > MAX_LANES:
        raise LinkError(f"an acknowledgement names {count} lanes; allowed are {MAX_LANES}")
    consumed = dict(_CONSUMED.unpack_from(data, at + i * _CONSUMED.size) for i in range(count))
    at += count * _CONSUMED.size
    if of != generation:
        return Stale(of), at
    return Acknowledgement(received, delay / 1e6, consumed), at


def _decode_ping(data: bytes, at: int, generation: int) -> tuple[Item, int]:
    return Ping(_PING.unpack_from(data, at)[1]), at + _PING.size


def _decode_pong(data: bytes, at: int, generation: int) -> tuple[Item, int]:
    return Pong(_PING.unpack_from(data, at)[1]), at + _PING.size


def _decode_close(data: bytes, at: int, generation: int) -> tuple[Item, int]:
    reason = _CLOSE.unpack_from(data, at)[1]
    if reason not in REASONS:
        raise LinkError(f"the link is closed for the unknown reason {reason}")
    return Close(reason), at + _CLOSE.size


_DECODERS = {
    BEGIN: _decode_packet,
    CONTINUE: _decode_packet,
    END: _decode_packet,
    ACK: _decode_ack,
    PING: _decode_ping,
    PONG: _decode_pong,
    CLOSE: _decode_close,
}


class FrameSplitter:
    """Splits a stream of bytes into frames, whose declared sizes it has checked (rule M10)."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the encoded bytes and the decoded size of each complete frame. Keeps at most one incomplete frame.

        Raises
        ------
        LinkError
            A declared size is out of its range. The frames before it were yielded.
        """
        self._bytes += data
        at = 0
        try:
            while len(self._bytes) - at >= FRAME.size:
                encoded, decoded = FRAME.unpack_from(self._bytes, at)
                if not 1 <= encoded <= MAX_ENCODED or not 1 <= decoded <= MAX_DECODED:
                    raise LinkError(
                        f"a frame declares {encoded} bytes, and {decoded} when decoded; allowed are 1 to "
                        f"{MAX_ENCODED}, and 1 to {MAX_DECODED}"
                    )
                begin = at + FRAME.size
                if len(self._bytes) < begin + encoded:
                    return
                at = begin + encoded
                yield bytes(self._bytes[begin:at]), decoded
        finally:
            del self._bytes[:at]
