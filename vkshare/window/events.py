"""Window events and their collection.

Free of any window system: window.py feeds it with what GLFW's callbacks tell.
"""

from __future__ import annotations

import dataclasses
import math
import time

from vkshare.ipc.input_events import FIELDS as FIELDS
from vkshare.ipc.input_events import Event as Event
from vkshare.ipc.input_events import event_of as event_of

# A second press within this many seconds and logical pixels makes a double click.
_DOUBLE_CLICK_TIME = 0.4
_DOUBLE_CLICK_DISTANCE = 5.0

_WHEEL_STEP = 100.0  # one notch of a wheel, as browsers and rendercanvas have it


class Collector:
    """Turns what the window system tells into events, and keeps them until they are taken. For one thread.

    Events that follow one another and say the same thing are merged, as rendercanvas merges them:
    of moves and resizes the last counts, turns of the wheel add up.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._buttons: set[int] = set()
        self._modifiers: set[str] = set()
        self._at = (0.0, 0.0)
        self._presses: list[tuple[float, int, float, float]] = []  # up to two that may make a double click
        self.merged = 0

    def __len__(self) -> int:
        return len(self._events)

    def take(self) -> list[Event]:
        """Returns the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def resize(self, width: float, height: float, pixel_ratio: float) -> None:
        self._add(Event("resize", time.perf_counter(), width=width, height=height, pixel_ratio=pixel_ratio))

    def close(self) -> None:
        self._add(Event("close", time.perf_counter()))

    def pointer_move(self, x: float, y: float) -> None:
        self._at = (x, y)
        self._add(self._pointer("pointer_move"))

    def pointer_cross(self, is_inside: bool) -> None:
        self._add(self._pointer("pointer_enter" if is_inside else "pointer_leave"))

    def pointer_button(self, button: int, is_down: bool) -> None:
        (self._buttons.add if is_down else self._buttons.discard)(button)
        event = self._pointer("pointer_down" if is_down else "pointer_up", button)
        self._add(event)
        if is_down:
            self._presses = [*self._presses[-1:], (event.time_stamp, button, *self._at)]
        elif self._is_double_click(button):
            self._presses = []
            self._add(dataclasses.replace(event, event_type="double_click"))

    def wheel(self, right: float, up: float) -> None:
        """Scale wheel notches to rendercanvas' units."""
        turned = self._pointer("wheel")
        self._add(dataclasses.replace(turned, dx=_WHEEL_STEP * right, dy=-_WHEEL_STEP * up))

    def key(self, key: str, is_down: bool) -> None:
        if key in ("Alt", "Control", "Meta", "Shift"):
            (self._modifiers.add if is_down else self._modifiers.discard)(key)
        elif len(key) == 1 and "Shift" in self._modifiers:
            key = key.upper()
        kind = "key_down" if is_down else "key_up"
        self._add(Event(kind, time.perf_counter(), key=key, modifiers=self._held()))

    def char(self, text: str) -> None:
        self._add(Event("char", time.perf_counter(), char_str=text, modifiers=self._held()))

    def _held(self) -> tuple[str, ...]:
        return tuple(sorted(self._modifiers))

    def _pointer(self, kind: str, button: int = 0) -> Event:
        x, y = self._at
        buttons = tuple(sorted(self._buttons))
        return Event(kind, time.perf_counter(), x=x, y=y, button=button, buttons=buttons, modifiers=self._held())

    def _is_double_click(self, button: int) -> bool:
        if len(self._presses) < 2:
            return False
        (then, first, x0, y0), (now, second, x1, y1) = self._presses
        near = math.hypot(x1 - x0, y1 - y0) <= _DOUBLE_CLICK_DISTANCE
        return first == second == button and now - then <= _DOUBLE_CLICK_TIME and near

    def _add(self, event: Event) -> None:
        last = self._events[-1] if self._events else None
        if last is not None and _merge(last, event):
            self.merged += 1
            if event.event_type == "wheel":
                event = dataclasses.replace(event, dx=last.dx + event.dx, dy=last.dy + event.dy)
            self._events[-1] = event
        else:
            self._events.append(event)


def _merge(last: Event, event: Event) -> bool:
    if last.event_type != event.event_type or event.event_type not in ("resize", "pointer_move", "wheel"):
        return False
    return (last.buttons, last.modifiers) == (event.buttons, event.modifiers)
