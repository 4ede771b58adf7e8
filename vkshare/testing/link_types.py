"""The settings of a simulated link, and snapshots of its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vkshare.util import arguments

Direction = Literal["up", "down"]
DIRECTIONS: tuple[Direction, Direction] = ("up", "down")

_QUEUE_TIME = 0.1  # seconds, as a home router's queue has
_LEAST_QUEUE = 65536  # bytes
WINDOW = 6 << 20  # bytes; Linux's largest receive buffer by default (net.ipv4.tcp_rmem)
MTU = 1448  # payload of a TCP segment on Ethernet, with timestamps
_LONGEST = 3600.0  # seconds
_FASTEST = 1e12  # bytes a second
_MOST_BYTES = 1 << 30
_WORST = 0.9  # of the packets are lost; at 1 nothing would ever arrive, and stall() does that


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The properties of one direction of a link.

    Parameters
    ----------
    delay
        Seconds that each packet travels, one way.
    jitter
        Each packet travels up to so many seconds longer. The stream stays in order, so packets wait
        for a late one before them: a dense stream is late by nearly all of the jitter.
    rate
        Payload bytes a second, headers not counted; all connections share them. None: no limit.
    loss
        The fraction of packets that are lost, 0 to 0.9. Lost packets are sent again, see LinkModel.
    queue
        Bytes that wait in front of the bottleneck before the sender is pushed back (bufferbloat);
        they add up to ``queue / rate`` seconds of delay. None: 100 ms of the rate, and at least
        64 KiB. A queue of less than 10 ms runs empty where the machine is busy, and lowers the rate.
    window
        Bytes of one connection that wait, travel or are unread by the receiver, as TCP's window
        limits them. A link carries at most ``window`` bytes per delay and connection.
    mtu
        Payload bytes of a packet.

    Raises
    ------
    TypeError
        A value is no number.
    ValueError
        A value is out of its range.
    """

    delay: float = 0.0
    jitter: float = 0.0
    rate: float | None = None
    loss: float = 0.0
    queue: int | None = None
    window: int = WINDOW
    mtu: int = MTU

    def __post_init__(self) -> None:
        arguments.number("delay", self.delay, 0, _LONGEST)
        arguments.number("jitter", self.jitter, 0, _LONGEST)
        if self.rate is not None:
            arguments.number("rate", self.rate, 1, _FASTEST)
        arguments.number("loss", self.loss, 0, _WORST)
        arguments.integer("mtu", self.mtu, 1, 65536)
        if self.queue is not None:
            arguments.integer("queue", self.queue, self.mtu, _MOST_BYTES)
        arguments.integer("window", self.window, self.mtu, _MOST_BYTES)

    @property
    def queue_bytes(self) -> int:
        """The queue's bound, also where `queue` is None."""
        if self.queue is not None:
            return self.queue
        return min(max(_LEAST_QUEUE, self.mtu, int((self.rate or 0) * _QUEUE_TIME)), _MOST_BYTES)


@dataclass(frozen=True, slots=True)
class DirectionStatistics:
    """A snapshot of the counters of one direction, over all of its connections."""

    accepted: int  # bytes taken from senders
    delivered: int  # bytes given to receivers
    queued: int  # bytes in front of the bottleneck now
    queued_most: int  # the most there ever were
    pending: int  # bytes accepted and not delivered: those queued, travelling, or not read by the receiver
    pending_most: int
    packets: int  # sent through the bottleneck, retransmissions included
    lost: int  # packets
    retransmissions: int  # packets sent again
    is_stalled: bool


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """A snapshot of a link's counters."""

    up: DirectionStatistics  # from the client to the target, or from the first socket to the second
    down: DirectionStatistics
    connections: int  # open now
    accepted: int  # connections since the start
    cut: int  # connections that disconnect() ended
    failed: int  # connections whose target refused them or was not there
    black: int  # connections that are open and of which nothing is delivered any more
    wakeups: int  # of the thread
