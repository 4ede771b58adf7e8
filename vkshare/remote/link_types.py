"""States, events and counters of a link."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from vkshare.remote.inbox import InboxStatistics
from vkshare.remote.outbox import OutboxStatistics


class LinkState(enum.StrEnum):
    """States of a link, and events that on_state() reports.

    Attributes
    ----------
    CONNECTING
        No viewer has come yet, or connect() has not returned. The host's messages wait.
    UP
        The connection works.
    BROKEN
        The connection broke, and may resume within the grace. Messages wait.
    REPLACED
        No state: the other side does not know the session, and a new one begins, whose `generation`
        is another. All messages, lanes and bytes of the old one are void. UP follows.
    LOST
        The session is over. A viewer's link stays lost; a host's waits for another viewer, and goes
        on with REPLACED.
    CLOSED
        close() was called.
    """

    CONNECTING = "connecting"
    UP = "up"
    BROKEN = "broken"
    REPLACED = "replaced"
    LOST = "lost"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """Functions that a link calls on its own thread, one at a time and in order. They must not block.

    Attributes
    ----------
    on_message
        on_message(lane, message): a message has arrived. Call Link.consumed() once it is handled, with that `lane`.
    on_end
        on_end(lane): the other side has ended the lane, and its messages have all arrived.
    on_state
        on_state(state, why): the state is another one now; `why` is a sentence, or empty.
    on_room
        on_room(): a lane, or pictures, may have more room than before.
    may_begin
        may_begin(lane): whether the other side may send in that lane, before its first message; False ends the session.
    """

    on_message: Callable[[int, bytes], object]
    on_end: Callable[[int], object] = lambda lane: None
    on_state: Callable[[LinkState, str], object] = lambda state, why: None
    on_room: Callable[[], object] = lambda: None
    may_begin: Callable[[int], bool] = lambda lane: True


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """A snapshot of a link.

    Attributes
    ----------
    state, generation
        The state, and the number of the session; 0 before a viewer's first one.
    connections, resumes
        Connections that passed the handshake; those of them that continued a session.
    refused
        Connections that did not pass it.
    bytes_sent, bytes_received
        Bytes of all connections that passed it, compressed, with TLS.
    round_trip
        Seconds of the last keep-alive that was answered; nan: none was.
    stale
        Packets of another generation, which were dropped.
    outbox, inbox
        Counters of the session's two directions.
    """

    state: LinkState
    generation: int
    connections: int
    resumes: int
    refused: int
    bytes_sent: int
    bytes_received: int
    round_trip: float
    stale: int
    outbox: OutboxStatistics
    inbox: InboxStatistics
