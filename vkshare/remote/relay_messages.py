"""The requests of remoting, beside those of the render server (vkshare/server/messages.py).

Programs send the first group to the host, over a Unix socket. The host sends the second group to
the viewer, over a lane of the link for each program. Both are requests of the render server's
protocol: the same header, the same session, the same errors (rule M16).
"""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import Meta

from vkshare.server.messages import U64, Body, Id, Rect, Side, Word

Title = Annotated[str, Meta(max_length=256)]
Pixels = Annotated[bytes, Meta(max_length=1 << 20)]
Usage = Annotated[tuple[Word, ...], Meta(max_length=8)]


class Op(enum.IntEnum):
    """Opcodes of plug-ins."""

    # from a program to the host
    OPEN_CONTEXT = 0x200
    JOIN = 0x201
    CREATE_IMAGE = 0x202
    OPEN_IMAGE = 0x203
    CLOSE_IMAGE = 0x204
    ADD_STAGE = 0x205
    DROP_STAGE = 0x206
    BATCH = 0x207
    OPEN_WINDOW = 0x208
    CLOSE_WINDOW = 0x209
    PRESENT = 0x20A
    # events of the host
    LOST = 0x210
    INPUT = 0x211
    WINDOW_LOST = 0x212
    # from the host to the viewer
    IMAGE = 0x220
    FORGET_IMAGE = 0x221
    PART = 0x222
    DRAW = 0x223
    WRITE = 0x224
    READ = 0x225
    SHOW = 0x226
    WINDOW = 0x227
    END_WINDOW = 0x228
    SKIP = 0x229
    # from the viewer to the host, on the control lane
    READY = 0x230


# ---- from a program to the host ---------------------------------------------------------------------------------


class OpenContext(Body):
    name: Annotated[str, Meta(max_length=64)]


class Context(Body):
    """The answer: the context's number, what its second connection joins with, and the viewer's adapter."""

    number: int
    secret: bytes
    adapter: str
    formats: tuple[str, ...]
    max_dimension: int
    subpixel_bits: int


class Join(Body):
    context: Id
    secret: Annotated[bytes, Meta(max_length=64)]


class NewImage(Body):
    """An image of zeros; the fd is its memory on this machine."""

    width: Side
    height: Side
    format: Word
    usage: Usage
    stride: U64
    size: U64


class Number(Body):
    number: int


class ById(Body):
    id: Id


class NewStage(Body):
    """Memory for the pixels of one read or write; its fd comes beside it."""

    size: Annotated[int, Meta(ge=1, le=1 << 32)]


class Batch(Body):
    """A command list, or a copy from or to a stage.

    The list is messages.Drawn, encoded; its surfaces are 1 + the index of a use.
    native/record/encode.c writes the first form.
    """

    uses: Annotated[tuple[tuple[Id, bool], ...], Meta(max_length=4096)]  # the image, and whether it is written
    commands: Annotated[bytes, Meta(max_length=1 << 24)] = b""
    stage: U64 = 0
    is_upload: bool = False


class NewWindow(Body):
    width: Side
    height: Side
    title: Title


class Present(Body):
    window: Id
    image: Id


class Lost(Body):
    why: str


class Input(Body):
    """An event of a window at the viewer, as JSON."""

    window: Id
    event: Annotated[bytes, Meta(max_length=4096)]


class WindowLost(Body):
    """The viewer cannot show a window, now or later."""

    window: Id
    why: Annotated[str, Meta(max_length=1024)]


# ---- from the host to the viewer --------------------------------------------------------------------------------


class Image(Body):
    id: Id
    width: Side
    height: Side
    format: Word
    usage: Usage


class Forget(Body):
    """The image is used no more, after so many turns."""

    id: Id
    turns: U64


class ViewerReady(Body):
    """The viewer's first message, on the control lane: what it draws with."""

    adapter: Annotated[str, Meta(max_length=256)]
    formats: Annotated[tuple[Word, ...], Meta(max_length=64)]
    max_dimension: Annotated[int, Meta(ge=1, le=1 << 20)]
    subpixel_bits: Annotated[int, Meta(ge=4, le=8)]


class Turn(Body):
    """One party's use of an image, in the order of the host's grants: it comes after the turn before it."""

    image: Id
    number: U64
    writes: bool


class Part(Body):
    """The first bytes of the next request's commands, which are too long for one message."""

    data: Pixels


class Draw(Body):
    turns: Annotated[tuple[Turn, ...], Meta(max_length=4096)]
    commands: Annotated[bytes, Meta(max_length=1 << 20)]


class Write(Body):
    """Rows of rectangles, one after the other; the turn ends with the last message of it (rule M5)."""

    turn: Turn
    rects: Annotated[tuple[Rect, ...], Meta(max_length=4096)]
    pixels: Pixels
    is_last: bool


class Read(Body):
    """The answer has the rows of the rectangle."""

    turn: Turn
    rect: Rect
    is_last: bool


class Show(Body):
    """A present. `stamp` is the host's time of it, in microseconds of any clock: the viewer keeps its pace."""

    window: Id
    turn: Turn
    stamp: U64


class Skip(Body):
    """A turn without a use: a present that a newer one has replaced."""

    turn: Turn


class Window(Body):
    id: Id
    width: Side
    height: Side
    title: Title
