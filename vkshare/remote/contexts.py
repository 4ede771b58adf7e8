"""A context of the host: one program's lane to the viewer, and what it waits for."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vkshare.errors import RemoteLostError, VkshareError
from vkshare.remote import relay_messages as m
from vkshare.server import wire
from vkshare.server.messages import Body, Event, Failure, Hello, Op, decode, encode, rebuilt
from vkshare.server.request_types import Answer, Request

if TYPE_CHECKING:
    from vkshare.remote.link import Link
    from vkshare.server.session import ServedClient

_log = logging.getLogger("vkshare.remote")

Reply = Callable[[bytes | Exception], object]


@dataclass(slots=True)
class _Outgoing:
    """A message that the link has not taken yet."""

    data: bytes
    options: dict[str, Any]
    then: Callable[[], object] | None  # called once the link has it


@dataclass(slots=True, eq=False)
class Context:
    """One program. For the host's loop.

    Attributes
    ----------
    number
        Its number, which is its lane's.
    control, stream
        Its connections to the host; `stream` is None before it has joined.
    """

    number: int
    control: ServedClient
    link: Link
    generation: int  # of the link's session
    pictures: deque[Context]  # programs that wait to send a picture, of all
    secret: bytes = field(default_factory=lambda: os.urandom(16))
    stream: ServedClient | None = None
    images: Counter[int] = field(default_factory=Counter)  # the program's handles of each
    windows: set[int] = field(default_factory=set)
    stages: dict[int, tuple[int, int]] = field(default_factory=dict)  # fd, size
    reading: int = 0  # answers with pixels that are on their way
    reads: deque[tuple[Callable[[], object], Reply]] = field(default_factory=deque)  # requests for more, not sent yet
    is_open: bool = True
    has_ended: bool = False  # the program is gone
    has_lane: bool = True  # the viewer has not ended it
    _sequence: int = 0
    _outgoing: deque[_Outgoing] = field(default_factory=deque)
    _replies: dict[int, Reply] = field(default_factory=dict)
    _splitter: wire.Splitter = field(default_factory=wire.Splitter)

    def begin(self) -> None:
        """Opens the context's session at the viewer."""
        self.send(Op.HELLO, Hello(self.control.name[:64]), generation=0xFFFFFFFF, reply=lambda _: None)

    # ---- to the viewer -------------------------------------------------------------------------------------------

    def send(
        self,
        opcode: int,
        body: Body | None,
        *,
        reply: Reply | None = None,
        then: Callable[[], object] | None = None,
        generation: int = 1,
        **options: Any,
    ) -> None:
        """Queues a request for the viewer: reply(body or error) is called when it answers.

        then() is called once the link has taken the message, which bounds what waits here.
        """
        self._sequence = self._sequence + 1 & 0xFFFFFFFF
        if reply is not None:
            self._replies[self._sequence] = reply
        data = wire.pack(opcode, self._sequence, generation, encode(body))
        if "stale" in options:
            options["stale"] = wire.pack(m.Op.SKIP, self._sequence, generation, encode(options["stale"]))
        self._outgoing.append(_Outgoing(data, options, then))
        self.flush()

    def flush(self) -> None:
        """Gives the link what it has room for."""
        while self._outgoing:
            head = self._outgoing[0]
            if head.options.get("has_pixels") and not self._may_send_picture():
                return
            if not self.link.send(self.number, head.data, generation=self.generation, **head.options):
                if head.options.get("has_pixels"):
                    self.pictures.popleft()  # what this lane waits for may need another program's picture
                return
            self._outgoing.popleft()
            if head.options.get("has_pixels"):
                self.pictures.popleft()
            if head.then is not None:
                head.then()

    def _may_send_picture(self) -> bool:
        """Whether the next picture of all programs is this one's.

        A picture that waited in the link would count as drawn already, and others would wait for it
        at the viewer. So it waits here, and programs get their turns in the order in which they asked.
        """
        if self not in self.pictures:
            self.pictures.append(self)
        return self.pictures[0] is self and self.link.picture_room() > 0

    # ---- from the viewer -----------------------------------------------------------------------------------------

    def received(self, lane: int, data: bytes) -> None:
        """Handles a message of the viewer's session, on that lane. wire.ProtocolError: it is malformed."""
        for message in self._splitter.feed(data):
            self._handle(message)
        self.link.consumed(lane, len(data), generation=self.generation)

    def _handle(self, message: wire.Message) -> None:
        if message.opcode == Op.REPLY:
            reply = self._replies.pop(message.sequence, None)
            if reply is not None:
                reply(message.body)
        elif message.opcode in (Op.ERROR, Op.DEFERRED, Op.LOST):
            error = rebuilt(decode(Failure, message.body))
            reply = self._replies.pop(message.sequence, None)
            if reply is not None:
                reply(error)
            else:
                _log.warning("context %d, at the viewer: %s", self.number, error)
                self.lose(f"the viewer could not do what was asked: {error}")
        elif message.opcode == Op.EVENT:
            event: Event = decode(Event, message.body)
            if event.opcode == m.Op.WINDOW_LOST:
                self.control.tell(m.Op.WINDOW_LOST, decode(m.WindowLost, event.body))
            else:
                self.control.tell(m.Op.INPUT, decode(m.Input, event.body))

    def guarded(self, call: Callable[[], object]) -> None:
        """Makes a call that sends: if the viewer is gone, so is what this program has there."""
        try:
            call()
        except (VkshareError, ValueError) as error:
            self.lose(str(error))

    # ---- its end -------------------------------------------------------------------------------------------------

    def lose(self, why: str) -> None:
        """Notifies the program that nothing more is drawn. Its device is lost (rules M6, M17)."""
        if not self.is_open:
            return
        self.is_open = False
        error = RemoteLostError(why)
        replies, self._replies = self._replies, {}
        reads, self.reads = self.reads, deque()
        for reply in (*replies.values(), *(reply for _, reply in reads)):
            reply(error)
        self.control.tell(m.Op.LOST, m.Lost(why))
        if self.stream is not None:
            self.stream.cut_off(why)

    @property
    def has_unsent(self) -> bool:
        """Whether messages wait for room."""
        return bool(self._outgoing)

    def drop_unsent(self) -> None:
        """Drops what waits for room, because the viewer is gone."""
        waiting, self._outgoing = self._outgoing, deque()
        if self in self.pictures:
            self.pictures.remove(self)
        for each in waiting:
            for call in (each.then, each.options.get("on_sent")):
                if call is not None:
                    call()

    def close_stages(self) -> None:
        stages, self.stages = self.stages, {}
        for fd, _ in stages.values():
            os.close(fd)


@dataclass(slots=True)
class Countdown:
    """Answers a request once all messages that it has caused were given to the link."""

    client: ServedClient
    request: Request
    left: int = 1
    error: Exception | None = None

    def expect(self) -> Callable[[], None]:
        """One more message; returns what to call once the link has it."""
        self.left += 1
        return self.done

    def done(self) -> None:
        """One message fewer; the last one answers."""
        self.left -= 1
        if self.left == 0:
            self.client.answer(self.request, self.error or Answer())
