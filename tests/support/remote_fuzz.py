"""Random messages for both ends of remoting, most of them nearly right."""

from __future__ import annotations

import functools
import operator
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from vkshare.remote import relay_messages as m
from vkshare.server import messages as s
from vkshare.server import wire
from vkshare.util import shared_memory

MALFORMED = 0.03  # of the messages
_FORMATS = ("rgba8unorm", "r8unorm", "rgba32float", "d32float", "nonsense")


class Liar:
    """Makes messages. It holds the memory that those to a host carry."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.images = 1
        self.fds = [shared_memory.memfd_create("liar", 4096), os.open("/dev/null", os.O_RDWR)]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)

    def to_host(self) -> tuple[int, s.Body | bytes, list[int]]:
        """A program's request: its opcode, its body and its fds, which stay here."""
        opcode = self.rng.choice([*_REQUESTS])
        body = self._bent(_REQUESTS[opcode](self))
        has_fd = opcode in (m.Op.CREATE_IMAGE, m.Op.OPEN_IMAGE, m.Op.ADD_STAGE)
        return opcode, body, [self.rng.choice(self.fds)] if has_fd and self.rng.random() < 0.95 else []

    def to_viewer(self) -> tuple[int, s.Body | bytes]:
        """A host's request, of a program."""
        opcode = self.rng.choice([*_COMMANDS])
        return opcode, self._bent(_COMMANDS[opcode](self))

    def control(self) -> tuple[int, s.Body | bytes]:
        """A host's message about images."""
        if self.rng.random() < 0.7:
            self.images += self.rng.random() < 0.95  # else it is there already
            return m.Op.IMAGE, self._bent(m.Image(self.images, *self._size(), self._format(), ("copy", "render")))
        return m.Op.FORGET_IMAGE, self._bent(m.Forget(self._id(), self._number()))

    def _bent(self, body: s.Body) -> s.Body | bytes:
        if self.rng.random() >= MALFORMED:
            return body
        data = bytearray(s.encode(body))
        change = self.rng.randrange(3)
        if change == 0 and data:
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        elif change == 1:
            del data[self.rng.randrange(len(data) + 1) :]
        else:
            data += self.rng.randbytes(self.rng.randrange(20))
        return bytes(data)

    # ---- parts of bodies --------------------------------------------------------------------------------------------

    def _id(self) -> int:
        return self.rng.choice([1, 1, 2, 3, 4, 2**32 - 1])

    def _number(self) -> int:
        return self.rng.choice([0, 1, 2, 3, 2**32, 2**63, 2**64 - 1])

    def _size(self) -> tuple[int, int]:
        return self.rng.choice([1, 8, 40]), self.rng.choice([1, 8, 30])

    def _format(self) -> str:
        return self.rng.choice(_FORMATS)

    def _rect(self) -> tuple[int, int, int, int]:
        return tuple(self.rng.choice([-1, 0, 1, 8, 1 << 30]) for _ in range(4))  # type: ignore[return-value]

    def _turn(self) -> m.Turn:
        return m.Turn(self._id(), self.rng.choice([0, 0, 1, self._number()]), self.rng.random() < 0.5)

    def _commands(self) -> bytes:
        drawn: list[Any] = [
            s.ClearOp(self._id(), (1.0, 0.0, 0.0, 1.0)),
            s.FillRectOp(self._id(), self._rect(), (0.0, 1.0, 0.0, 1.0)),
            s.CopyOp(self._id(), self._id(), None, (0, 0)),
        ]
        data = encoded(*self.rng.sample(drawn, 2))
        return self.rng.choice([data, data, data[:-1], self.rng.randbytes(9), b""])

    def _image(self) -> m.NewImage:
        strides, sizes = self.rng.choice([256, 1024, 4]), self.rng.choice([4096, 1 << 40])
        return m.NewImage(*self._size(), self._format(), self.rng.choice([("copy",), ()]), strides, sizes)

    def _batch(self) -> m.Batch:
        uses = tuple((self._id(), self.rng.random() < 0.5) for _ in range(self.rng.choice([0, 1, 1, 2])))
        return m.Batch(uses, self._commands(), self.rng.choice([0, 0, 1, 2]), self.rng.random() < 0.5)

    def _write(self) -> m.Write:
        rects = tuple(self._rect() for _ in range(self.rng.choice([0, 1, 2])))
        size = functools.reduce(operator.mul, rects[0][2:], 4) if rects else 0
        pixels = bytes(size) if 0 <= size < 4096 else b"1234"
        return m.Write(self._turn(), rects, pixels, self.rng.random() < 0.7)


_REQUESTS: dict[int, Callable[[Liar], s.Body]] = {
    m.Op.OPEN_CONTEXT: lambda self: m.OpenContext("liar"),
    m.Op.JOIN: lambda self: m.Join(self._id(), self.rng.randbytes(16)),
    m.Op.CREATE_IMAGE: Liar._image,
    m.Op.OPEN_IMAGE: Liar._image,
    m.Op.CLOSE_IMAGE: lambda self: m.ById(self._id()),
    m.Op.ADD_STAGE: lambda self: m.NewStage(self.rng.choice([1, 4096, 1 << 32])),
    m.Op.DROP_STAGE: lambda self: m.ById(self._id()),
    m.Op.BATCH: Liar._batch,
    m.Op.OPEN_WINDOW: lambda self: m.NewWindow(*self._size(), "liar"),
    m.Op.CLOSE_WINDOW: lambda self: m.ById(self._id()),
    m.Op.PRESENT: lambda self: m.Present(self._id(), self._id()),
}

_COMMANDS: dict[int, Callable[[Liar], s.Body]] = {
    m.Op.PART: lambda self: m.Part(self._commands()),
    m.Op.DRAW: lambda self: m.Draw(tuple(self._turn() for _ in range(self.rng.choice([0, 1, 1, 2]))), self._commands()),
    m.Op.WRITE: Liar._write,
    m.Op.READ: lambda self: m.Read(self._turn(), self._rect(), self.rng.random() < 0.5),
    m.Op.SHOW: lambda self: m.Show(self._id(), self._turn(), self.rng.randrange(1 << 64)),
    m.Op.SKIP: lambda self: m.Skip(self._turn()),
    m.Op.WINDOW: lambda self: m.Window(self._id(), *self._size(), "liar"),
    m.Op.END_WINDOW: lambda self: m.ById(self._id()),
}


def encoded(*operations: Any) -> bytes:
    """A command list, as a Batch has it."""
    return msgspec.msgpack.encode(operations)


def host_messages(rng: random.Random, count: int) -> Iterator[tuple[int, bytes]]:
    """Messages of a host that lies to its viewer: lanes and bytes. A lane begins with a hello, as a rule."""
    liar, begun, sequence = Liar(rng), set[int](), 0
    try:
        for _ in range(count):
            lane = rng.choice([0, 1, 2])
            sequence += 1
            if lane == 0:
                opcode, body = liar.control()
                generation = 0
            elif lane not in begun and rng.random() < 0.95:
                begun.add(lane)
                opcode, body, generation = s.Op.HELLO, s.Hello("liar"), 0xFFFFFFFF
            else:
                opcode, body = liar.to_viewer()
                generation = 1
            data = body if isinstance(body, bytes) else s.encode(body)
            yield lane, wire.pack(opcode, sequence, generation, data)
    finally:
        liar.close()
