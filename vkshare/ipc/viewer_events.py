"""Input events of viewers: from their messages to rendercanvas's vocabulary, in order and bounded (rule W5).

Free of sockets, threads and clocks.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vkshare.errors import DescriptorError
from vkshare.ipc.input_events import FIELDS, Event

MOST_EVENTS = 4096  # that wait for events(); of more than these the oldest are dropped, and counted

_MERGED = ("resize", "pointer_move", "wheel")
_Number = Annotated[float, Meta(ge=-1e6, le=1e6)]
_Count = Annotated[int, Meta(ge=0, le=64)]
_Key = Annotated[str, Meta(max_length=64)]


class InputMessage(msgspec.Struct, tag_field="type", tag="event", forbid_unknown_fields=True, frozen=True):
    """An input event on its way from a viewer. The fields are those of Event, within bounds."""

    event_type: Literal[
        "resize",
        "pointer_down",
        "pointer_up",
        "pointer_move",
        "pointer_enter",
        "pointer_leave",
        "double_click",
        "wheel",
        "key_down",
        "key_up",
        "char",
    ]
    x: _Number = 0.0
    y: _Number = 0.0
    button: _Count = 0
    buttons: Annotated[list[_Count], Meta(max_length=16)] = []
    modifiers: Annotated[list[Literal["Alt", "Control", "Meta", "Shift"]], Meta(max_length=4)] = []
    ntouches: _Count = 0
    dx: _Number = 0.0
    dy: _Number = 0.0
    key: _Key = ""
    char_str: _Key = ""
    width: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    height: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    pixel_ratio: Annotated[float, Meta(gt=0, le=100)] = 1.0


@dataclass(frozen=True, slots=True)
class ViewerEvent(Event):
    """An event of a viewer: a page or a window that shows the picture.

    Positions are pixels of the picture, from its upper left corner. A pointer that was pressed in the
    picture and moved out of it has positions outside of it. The fields of ``resize`` are the room that
    the viewer has for the picture, in CSS or logical pixels. ``close`` comes when the viewer is closed
    or its connection ends.

    Attributes
    ----------
    viewer
        The number of the viewer's connection, from 1.
    """

    viewer: int = 0

    def __repr__(self) -> str:
        fields = "".join(f", {name}={getattr(self, name)!r}" for name in FIELDS[self.event_type])
        return f"ViewerEvent({self.event_type!r}, viewer={self.viewer}{fields})"


def event_of(message: InputMessage, viewer: int, time_stamp: float) -> ViewerEvent:
    """Return the event of a message, with the fields of its type only."""
    own: dict[str, Any] = {name: getattr(message, name) for name in FIELDS[message.event_type]}
    for name in ("buttons", "modifiers"):
        if name in own:
            own[name] = tuple(sorted(set(own[name])))
    return ViewerEvent(message.event_type, time_stamp, viewer=viewer, **own)


_decoder = msgspec.msgpack.Decoder(InputMessage)


def pack(event: Event) -> bytes:
    """Return the message of an event, for a publisher. The publisher makes ``close`` itself."""
    names = ("event_type", *FIELDS[event.event_type])
    return msgspec.msgpack.encode({"type": "event"} | {name: getattr(event, name) for name in names})


def parse(data: bytes) -> InputMessage:
    """Return the message. DescriptorError: it is none, or a field is out of its bounds."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DescriptorError(f"a malformed input event: {error}") from None


class EventLog:
    """Events that wait for the program, in order. For one thread at a time.

    Events that follow one another and say the same thing are merged, as rendercanvas merges them: of
    moves and resizes the last counts, turns of the wheel add up. Events of different viewers are not
    merged.
    """

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._events: deque[ViewerEvent] = deque()
        self._most = most
        self.merged = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: ViewerEvent) -> None:
        """Append an event, or merge it into the last one."""
        last = self._events[-1] if self._events else None
        if last is not None and _can_merge(last, event):
            self.merged += 1
            if event.event_type == "wheel":
                event = dataclasses.replace(event, dx=last.dx + event.dx, dy=last.dy + event.dy)
            self._events[-1] = event
            return
        if len(self._events) >= self._most:
            self._events.popleft()
            self.dropped += 1
        self._events.append(event)

    def take(self) -> list[ViewerEvent]:
        """Return the events since the last call, oldest first."""
        events = list(self._events)
        self._events.clear()
        return events


def _can_merge(last: ViewerEvent, event: ViewerEvent) -> bool:
    if last.event_type != event.event_type or event.event_type not in _MERGED:
        return False
    same = (event.viewer, event.buttons, event.modifiers)
    return (last.viewer, last.buttons, last.modifiers) == same


@dataclass
class Held:
    """Keys and buttons that a viewer holds, so that the end of its connection releases them.

    One more key or button than `most` is not held, and its event does not count.
    """

    keys: dict[str, None] = dataclasses.field(default_factory=dict)
    buttons: dict[int, tuple[float, float]] = dataclasses.field(default_factory=dict)
    most: int = 64

    def note(self, event: ViewerEvent) -> bool:
        """Follow an event; False: it does not count."""
        match event.event_type:
            case "key_down":
                if len(self.keys) >= self.most and event.key not in self.keys:
                    return False
                self.keys[event.key] = None
            case "key_up":
                self.keys.pop(event.key, None)
            case "pointer_down":
                if len(self.buttons) >= self.most and event.button not in self.buttons:
                    return False
                self.buttons[event.button] = (event.x, event.y)
            case "pointer_up":
                self.buttons.pop(event.button, None)
        return True

    def end(self, viewer: int, time_stamp: float) -> list[ViewerEvent]:
        """Return the events that release everything, and ``close``."""
        ends = [ViewerEvent("key_up", time_stamp, key=key, viewer=viewer) for key in self.keys]
        left = sorted(self.buttons)
        while left:
            button = left.pop(0)
            x, y = self.buttons[button]
            ends.append(
                ViewerEvent("pointer_up", time_stamp, x=x, y=y, button=button, buttons=tuple(left), viewer=viewer)
            )
        self.keys.clear()
        self.buttons.clear()
        return [*ends, ViewerEvent("close", time_stamp, viewer=viewer)]
