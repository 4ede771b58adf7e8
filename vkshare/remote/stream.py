"""One connection of a session, after the handshake: bytes in, deliveries and bytes out. Pure: time is passed in."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from vkshare.remote.compression import Compressor, Decompressor
from vkshare.remote.inbox import Delivery, Inbox
from vkshare.remote.link_messages import (
    CLOSED_BY_PROGRAM,
    MAX_DECODED,
    PACKET,
    Acknowledgement,
    Close,
    FrameSplitter,
    Item,
    Packet,
    Ping,
    Pong,
    Stale,
    decode,
    encode,
)
from vkshare.remote.outbox import Outbox

_LEAST_ROOM = 512  # bytes of a frame that are worth another packet


@dataclass(slots=True)
class Session:
    """The state that survives a broken connection: packets that may have to be sent again, and those received.

    The host chooses id and generation when a session begins (rule M12).
    """

    generation: int
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    outbox: Outbox = field(default_factory=Outbox)
    inbox: Inbox = field(default_factory=Inbox)

    def resumed(self, received: int, now: float) -> None:
        """Continues on a new connection. Raises LinkError as Outbox.resumed() does."""
        self.outbox.resumed(received)
        self.inbox.resumed(now)


class Stream:
    """The frames of one connection. read() and frame() compress, and touch no session; the others are quick.

    Parameters
    ----------
    session
        Whose packets it carries.
    keepalive
        Seconds between two keep-alives; a peer that is silent for two of them has gone (rule M6).
    now
        The time, in seconds of any monotonic clock.
    """

    def __init__(self, session: Session, keepalive: float, now: float) -> None:
        self.session = session
        self.round_trip = math.nan  # seconds, of the last keep-alive that was answered
        self.stale = 0  # packets of another generation, which were dropped
        self._keepalive = keepalive
        self._heard = now
        self._next_ping = now
        self._pong: Pong | None = None
        self._splitter = FrameSplitter()
        self._compressor, self._decompressor = Compressor(), Decompressor()

    # ---- from the peer ----------------------------------------------------------------------------------------

    def read(self, data: bytes) -> Iterator[Item]:
        """Yields the packets that bytes of the connection complete. LinkError: they are malformed.

        A frame is decompressed when its first packet is taken, so at most one is in memory; before the
        next call, all are taken.
        """
        for encoded, size in self._splitter.feed(data):
            yield from decode(self._decompressor.decode(encoded, size), self.session.generation)

    def take(self, item: Item, now: float) -> Delivery | Close | None:
        """Handles a packet; returns what its receiver has to know. LinkError: it breaks the protocol."""
        match item:
            case Packet():
                return self.session.inbox.receive(item, now)
            case Acknowledgement():
                self.session.outbox.acknowledged(item, now)
            case Ping():
                self._pong = Pong(item.stamp)
            case Pong():
                self.round_trip = max(0.0, now - item.stamp / 1e6)
            case Stale():
                self.stale += 1
            case Close():
                return item
        return None

    def heard(self, now: float) -> None:
        """Records that bytes have arrived, whatever they are: the peer is alive."""
        self._heard = now

    # ---- to the peer ------------------------------------------------------------------------------------------

    def gather(self, now: float) -> bytes:
        """Returns the packets of the next frame; b"": nothing is to be sent now."""
        generation = self.session.generation
        parts: list[bytes] = []
        if ack := self.session.inbox.acknowledgement(now):
            parts.append(encode(ack, generation))
        if self._pong is not None:
            parts.append(encode(self._pong, generation))
            self._pong = None
        if now >= self._next_ping:
            parts.append(encode(Ping(int(now * 1e6)), generation))
            self._next_ping = now + self._keepalive
        # A frame is useful when all of it has arrived, so it is short where the link is slow. A packet that is sent
        # again has the size that it had, which may be more.
        left = MAX_DECODED - sum(map(len, parts))
        enough = max(left - self.session.outbox.chunk, _LEAST_ROOM)
        while left >= enough and (packet := self.session.outbox.next(now, left - PACKET.size)):
            parts.append(encode(packet, generation))
            left -= len(parts[-1])
        return b"".join(parts)

    def frame(self, packets: bytes) -> bytes:
        """Returns the frame of what gather() has returned, in the same order: a frame's history is those before it."""
        return self._compressor.frame(packets)

    def framed(self, packets: bytes, frame: bytes) -> None:
        """Records the size of a frame, which the window counts."""
        self.session.outbox.compressed(len(frame) / len(packets))

    def closing(self, reason: int = CLOSED_BY_PROGRAM) -> bytes:
        """Returns the last frame of a session."""
        return self.frame(encode(Close(reason), self.session.generation))

    # ---- time -------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        """When gather() or is_silent() may have news although nothing arrives."""
        return min(self.session.inbox.deadline, self._next_ping, self._silent_at)

    @property
    def _silent_at(self) -> float:
        return self._heard + 2 * self._keepalive

    def is_silent(self, now: float) -> bool:
        """Whether the peer has sent nothing for two keep-alives."""
        return now >= self._silent_at
