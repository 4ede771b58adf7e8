"""Messages between a client and the compositor: requests and events of vkshare.server."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from msgspec import Meta

from vkshare.server.messages import U64, Body, Fields, Id, Name

Output = Annotated[int, Meta(ge=0, le=255)]


class Op(enum.IntEnum):
    """Opcodes; the loop answers all requests at once."""

    OPEN = 0x100
    MOVE = 0x101
    FADE = 0x102
    STACK = 0x103
    SEND = 0x104
    CLOSE = 0x105
    STATISTICS = 0x106
    # events
    ENDED = 0x110
    INPUT = 0x111


class Open(Body):
    """Opens a window. The message's fds are the descriptor's."""

    id: Id
    output: Output  # index of the service's compositor
    title: Name
    at: tuple[float, float]
    opacity: float
    is_opaque: bool
    takes_input: bool
    keys: tuple[U64, U64]  # for a surface: the compositor's acquire and release keys
    kind: Literal["pipe", "surface"]
    descriptor: Fields


class Opened(Body):
    """The reply: the size of the window's target, and a VsyncDescriptor, whose fd is the message's."""

    width: int
    height: int
    descriptor: Fields


class Move(Body):
    id: Id
    x: float
    y: float
    seconds: float


class Fade(Body):
    id: Id
    opacity: float
    seconds: float


class Stack(Body):
    id: Id
    on_top: bool


class Send(Body):
    id: Id
    output: Output


class Close(Body):
    id: Id
    seconds: float


class WindowId(Body):
    id: Id


class Ended(Body):
    """No further frame of the window will be shown."""

    id: Id
    is_closed: bool  # False: the last frame stays until the client closes the window
    why: str


class Input(Body):
    """An input event on a window, with the fields of vkshare's Event; positions are the window's pixels."""

    id: Id
    event_type: Name
    time_stamp: float
    x: float
    y: float
    button: int
    buttons: tuple[int, ...]
    modifiers: tuple[str, ...]
    dx: float
    dy: float
    key: str
    char_str: str


EVENT_FIELDS = Input.__struct_fields__[1:]
