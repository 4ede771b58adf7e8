"""A viewer without a GPU: each lane's messages by themselves, and a turn when the image's key is its number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vkshare.remote import relay_messages as m
from vkshare.server import wire
from vkshare.server.messages import Op, decode

Pixels = npt.NDArray[np.uint8]
_BODIES: dict[int, Any] = {
    m.Op.PART: m.Part,
    m.Op.DRAW: m.Draw,
    m.Op.WRITE: m.Write,
    m.Op.READ: m.Read,
    m.Op.SHOW: m.Show,
    m.Op.SKIP: m.Skip,
    m.Op.WINDOW: m.Window,
    m.Op.END_WINDOW: m.ById,
}


def mixed(pixels: Pixels, tag: int) -> Pixels:
    """Pixels after a draw: they tell which draws there were, and in which order."""
    return pixels * np.uint8(3) + np.uint8(tag % 251 + 1)


@dataclass
class Image:
    """One image. `turns` has the lane of each turn that is over."""

    pixels: Pixels
    key: int = 0
    owner: int = 0  # a lane; 0: none
    turns: list[int] = field(default_factory=list)
    last: int = -1  # the number of turns after which it is forgotten; -1: it is in use


@dataclass
class Lane:
    """One program's session."""

    splitter: wire.Splitter = field(default_factory=wire.Splitter)
    messages: deque[tuple[int, wire.Message]] = field(default_factory=deque)  # with the bytes that they count
    owned: list[m.Turn] = field(default_factory=list)  # of the first message
    parts: bytes = b""
    copies: dict[tuple[int, int], Pixels] = field(default_factory=dict)  # of images that are being read
    has_ended: bool = False


class Replay:
    """The viewer of one session of the link."""

    def __init__(self, consumed: Callable[[int, int], object], answer: Callable[[int, bytes], object]) -> None:
        self.images: dict[int, Image] = {}
        self.lanes: dict[int, Lane] = {}
        self.windows: dict[int, Pixels] = {}  # the picture that each shows
        self.skipped = 0
        self._consumed = consumed
        self._answer = answer

    def arrived(self, lane: int, message: bytes | None) -> None:
        if lane == 0:
            assert message is not None
            (control,) = wire.Splitter().feed(message)
            self._control(control)
            self._consumed(0, len(message))
            return
        it = self.lanes.setdefault(lane, Lane())
        assert not it.has_ended, "a message came after the end of its lane"
        if message is None:
            it.has_ended = True
        else:
            (found,) = it.splitter.feed(message)
            it.messages.append((len(message), found))

    def _control(self, message: wire.Message) -> None:
        if message.opcode == m.Op.IMAGE:
            spec = decode(m.Image, message.body)
            assert spec.id not in self.images
            self.images[spec.id] = Image(np.zeros((spec.height, spec.width), np.uint8))
        else:
            assert message.opcode == m.Op.FORGET_IMAGE
            forgotten = decode(m.Forget, message.body)
            self.images[forgotten.id].last = forgotten.turns

    # ---- execution

    def advance(self, number: int) -> bool:
        """Lets a lane execute its first message, or take one image for it. False: it waits, or has none."""
        lane = self.lanes.get(number)
        if lane is None or not lane.messages:
            return False
        length, message = lane.messages[0]
        body = None if message.opcode == Op.HELLO else decode(_BODIES[message.opcode], message.body)
        for turn in self._needed(lane, message, body):
            image = self.images[turn.image]
            if image.owner or image.key != turn.number:
                assert image.key <= turn.number, "a turn came twice"
                return False
            image.owner = number
            lane.owned.append(turn)
            return True
        self._execute(number, lane, message, body)
        lane.messages.popleft()
        self._consumed(number, length)
        return True

    def _needed(self, lane: Lane, message: wire.Message, body: Any) -> list[m.Turn]:
        """The turns that the message still waits for, in their order."""
        if message.opcode == m.Op.READ and (body.turn.image, body.turn.number) in lane.copies:
            return []
        turns = getattr(body, "turns", None) or ((body.turn,) if hasattr(body, "turn") else ())
        return [turn for turn in turns if turn not in lane.owned]

    def _execute(self, number: int, lane: Lane, message: wire.Message, body: Any) -> None:
        if message.opcode == m.Op.PART:
            lane.parts += body.data
        elif message.opcode == m.Op.DRAW:
            self._draw(lane, body)
        elif message.opcode == m.Op.WRITE:
            self._write(body)
        elif message.opcode == m.Op.READ:
            self._read(number, lane, message, body)
        elif message.opcode == m.Op.SHOW:
            self.windows[body.window] = self.images[body.turn.image].pixels.copy()
        elif message.opcode == m.Op.SKIP:
            self.skipped += 1
        if message.opcode != m.Op.WRITE or body.is_last:
            self._release(number, lane)

    def _release(self, number: int, lane: Lane) -> None:
        for turn in lane.owned:
            image = self.images[turn.image]
            image.owner = 0
            image.key += 1
            image.turns.append(number)
            assert image.last < 0 or image.key <= image.last, "a turn came after the last one"
        lane.owned.clear()

    def _draw(self, lane: Lane, body: m.Draw) -> None:
        commands = lane.parts + body.commands
        lane.parts = b""
        tag = commands[:4]
        assert commands == tag * (len(commands) // 4), "the parts of a list are mixed"
        for turn in body.turns:
            if turn.writes:
                image = self.images[turn.image]
                image.pixels = mixed(image.pixels, int.from_bytes(tag, "little"))

    def _write(self, body: m.Write) -> None:
        at = 0
        for x, y, width, height in body.rects:
            rows = np.frombuffer(body.pixels, np.uint8, width * height, at).reshape(height, width)
            self.images[body.turn.image].pixels[y : y + height, x : x + width] = rows
            at += width * height
        assert at == len(body.pixels)

    def _read(self, number: int, lane: Lane, message: wire.Message, body: m.Read) -> None:
        key = body.turn.image, body.turn.number
        copy = lane.copies.setdefault(key, self.images[body.turn.image].pixels.copy())
        x, y, width, height = body.rect
        rows = copy[y : y + height, x : x + width].tobytes()
        if body.is_last:
            del lane.copies[key]
        self._answer(number, wire.pack(Op.REPLY, message.sequence, message.generation, rows))
