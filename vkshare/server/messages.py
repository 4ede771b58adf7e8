"""The messages: opcodes, bodies with their types and bounds, and the encoding of errors.

A body that decodes is within these bounds. The request's function checks the rest (does the surface
exist, is the rectangle inside it). Bodies are arrays without names on the wire: the order of the
fields is the format.
"""

from __future__ import annotations

import builtins
import enum
import functools
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vkshare import errors
from vkshare.errors import VkshareError
from vkshare.server.wire import LostFds, ProtocolError


class Op(enum.IntEnum):
    """Opcodes. Opcodes from PLUG_INS on belong to plug-ins."""

    HELLO = 1
    NO_OP = 2
    STATISTICS = 3
    CREATE_SURFACE = 16
    OPEN_SURFACE = 17
    CLOSE_SURFACE = 18
    CREATE_FENCE = 19
    OPEN_FENCE = 20
    CLOSE_FENCE = 21
    SUBMIT = 22
    SYNC = 23
    WAIT = 24
    PLUG_INS = 0x100
    # from the server
    REPLY = 0x8000
    ERROR = 0x8001  # of the request with that sequence, in place of its reply
    DEFERRED = 0x8002  # of the request with that sequence, which has no reply
    LOST = 0x8003  # the last message of a connection: why the server ends it
    EVENT = 0x8004  # not a reply to a request; the body is Event


class Body(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Base of all bodies."""


Id = Annotated[int, Meta(ge=1, le=2**32 - 1)]  # chosen by the client
U64 = Annotated[int, Meta(ge=0)]  # msgpack has no integers above 64 bits
Value = Annotated[int, Meta(ge=1)]  # of a fence
I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Side = Annotated[int, Meta(ge=1, le=2**20)]
Name = Annotated[str, Meta(max_length=64)]
Word = Annotated[str, Meta(max_length=32)]
Fields = Annotated[bytes, Meta(max_length=1 << 18)]  # a descriptor's
Colour = tuple[float, float, float, float]
Rect = tuple[I32, I32, I32, I32]
Point = tuple[I32, I32]
Filter = Literal["linear", "nearest"]
Alpha = Literal["premultiplied", "straight"]
DepthTest = Literal["never", "less", "equal", "less_equal", "greater", "not_equal", "greater_equal", "always"]

# ---- requests ---------------------------------------------------------------------------------------------------


class Hello(Body):
    name: Name


class CreateSurface(Body):
    id: Id
    width: Side
    height: Side
    format: Word
    tiling: Word
    usage: Annotated[tuple[Word, ...], Meta(max_length=8)]
    color: tuple[Word, Word, Word, Word, Word] | None = None  # the fields of Color; None: the format's default


class OpenSurface(Body):
    id: Id
    descriptor: Fields


class CreateFence(Body):
    id: Id
    initial: U64


class OpenFence(Body):
    id: Id
    descriptor: Fields


class Close(Body):
    id: Id


class Wait(Body):
    fence: Id
    value: Value


# ---- drawing, as vkshare/core/commands.py has it ---------------------------------------------------------------------


class ClearOp(Body, tag="clear"):
    target: Id
    colour: Colour


class FillRectOp(Body, tag="fill_rect"):
    target: Id
    rect: Rect
    colour: Colour


class CopyOp(Body, tag="copy"):
    source: Id
    target: Id
    source_rect: Rect | None
    at: Point


class BlitOp(Body, tag="blit"):
    source: Id
    target: Id
    source_rect: Rect | None
    target_rect: Rect | None
    filter: Filter


class CompositeOp(Body, tag="composite"):
    source: Id
    target: Id
    at: Point
    opacity: float
    alpha: Alpha
    codes: bool = False  # a -srgb source is read as it is stored


class DrawTrianglesOp(Body, tag="draw_triangles"):
    target: Id
    vertices: Annotated[bytes, Meta(max_length=1 << 24)]  # float32 rows
    columns: Annotated[int, Meta(ge=1, le=16)]  # floats in a row
    texture: Id | None
    filter: Filter
    depth: Id | None
    depth_test: DepthTest
    depth_write: bool


Drawn = ClearOp | FillRectOp | CopyOp | BlitOp | CompositeOp | DrawTrianglesOp
Commands = Annotated[tuple[Drawn, ...], Meta(max_length=1 << 20)]


class Submit(Body):
    """The arguments of device.submit(), and the surfaces to acquire before and release after it."""

    acquires: Annotated[tuple[tuple[Id, U64], ...], Meta(max_length=64)]  # surface, key
    commands: Annotated[tuple[Drawn, ...], Meta(max_length=4096)]
    waits: Annotated[tuple[tuple[Id, Value], ...], Meta(max_length=64)]  # fence, value
    signals: Annotated[tuple[tuple[Id, Value | None], ...], Meta(max_length=64)]  # None: its next value
    releases: Annotated[tuple[tuple[Id, U64], ...], Meta(max_length=64)]


# ---- replies ----------------------------------------------------------------------------------------------------


class Welcome(Body):
    server: str  # its version
    client: int  # this client's number
    backend: str
    adapter: str
    device_uuid: bytes
    driver_uuid: bytes


class Created(Body):
    """The descriptor of a surface or fence that was created for the client."""

    descriptor: bytes


class Counters(Body):
    """Counters by name."""

    numbers: dict[str, int | float]


class Failure(Body):
    """An error, by the name of its class."""

    error: Annotated[str, Meta(max_length=64)]
    arguments: Annotated[tuple[int | float | str | None, ...], Meta(max_length=4)]


class Event(Body):
    """A plug-in's event: the plug-in's opcode and body."""

    opcode: Annotated[int, Meta(ge=0x100, le=0x3FFF)]
    body: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder: Any = functools.cache(msgspec.msgpack.Decoder)  # by the type of the body


def encode(body: Body | None) -> bytes:
    """Encodes a body; returns b"" for None."""
    return b"" if body is None else _encoder.encode(body)


def decode(kind: type[Body] | None, data: bytes) -> Any:
    """Decodes the body in `data`. ProtocolError: it is malformed, or out of its bounds."""
    if kind is None:
        if data:
            raise ProtocolError(f"{len(data)} bytes came with a request that has no body")
        return None
    try:
        return _decoder(kind).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the body is not a valid {kind.__name__}: {error}") from None


def decode_commands(data: bytes) -> tuple[Drawn, ...]:
    """Decodes an array of commands. ProtocolError: it is malformed, or out of its bounds."""
    try:
        commands: tuple[Drawn, ...] = _decoder(Commands).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the body is not a valid list of commands: {error}") from None
    return commands


# ---- errors -----------------------------------------------------------------------------------------------------

_BUILTINS = ("ValueError", "TypeError", "TimeoutError", "OSError", "MemoryError", "KeyError")
_LONGEST_TEXT = 2000


def failure(error: BaseException) -> Failure:
    """Converts an error to its wire form. Classes that the other side lacks become VkshareError."""
    if isinstance(error, LostFds):
        return Failure("OSError", (error.errno, error.strerror))
    name = type(error).__name__
    known = getattr(errors, name, None) is type(error) or (name in _BUILTINS and getattr(builtins, name) is type(error))
    if not known:
        return Failure("VkshareError", (f"{name}: {error}"[:_LONGEST_TEXT],))
    plain = all(isinstance(argument, (int, float, str, type(None))) for argument in error.args)
    if not plain or len(error.args) > 4 or any(isinstance(a, int) and abs(a) >= 2**63 for a in error.args):
        return Failure(name, (str(error)[:_LONGEST_TEXT],))
    return Failure(name, tuple(a[:_LONGEST_TEXT] if isinstance(a, str) else a for a in error.args))


def rebuilt(failure: Failure) -> Exception:
    """Returns the error that the other side raised."""
    kind: Any = getattr(errors, failure.error, None)
    if not (isinstance(kind, type) and issubclass(kind, VkshareError)):
        kind = getattr(builtins, failure.error) if failure.error in _BUILTINS else None
    try:
        if kind is not None:
            return kind(*failure.arguments)  # type: ignore[no-any-return]
    except TypeError:
        pass
    return VkshareError(f"{failure.error}: {', '.join(map(str, failure.arguments))}")
