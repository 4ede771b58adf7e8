"""Applies the user's input to windows: raises, drags, and routes events. For the compositor's thread."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from vkshare.errors import ClosedError

if TYPE_CHECKING:
    from vkshare.compositor.compositor import Compositor
    from vkshare.compositor.window import ClientWindow
    from vkshare.window.events import Event

_log = logging.getLogger("vkshare.compositor")

_LEFT = 1
_KEYS = ("key_down", "key_up", "char")
_POSITIONED = ("pointer_down", "pointer_up", "pointer_move", "double_click", "wheel")


class Pointer:
    """One pointer and one keyboard on one compositor's target.

    A press raises the window under it and gives it the keyboard focus. The left button drags a
    window that takes no input, and any window while Alt is held. While a button is down, the window
    that was pressed gets the pointer events.

    Any thread may close a window at any time, and forget() it, so each method reads each attribute
    once.
    """

    def __init__(self, compositor: Compositor, on_input: Callable[[Event], object] | None) -> None:
        self._compositor = compositor
        self._on_input = on_input
        self._focus: ClientWindow | None = None  # gets key events
        self._pressed: ClientWindow | None = None  # gets pointer events until the buttons are up
        # The window that the pointer moves, and the pointer's position in it.
        self._dragged: tuple[ClientWindow, float, float] | None = None

    def forget(self, window: ClientWindow) -> None:
        """Drops a window that is closed."""
        if self._focus is window:
            self._focus = None
        if self._pressed is window:
            self._pressed = None
        dragged = self._dragged
        if dragged is not None and dragged[0] is window:
            self._dragged = None

    def handle(self, event: Event) -> None:
        """Handles one event; positions are logical pixels of the target."""
        if self._on_input is not None and _call(self._on_input, event) is True:
            return
        if event.event_type in _KEYS:
            self._send(self._focus, event, 0, 0)
        elif event.event_type in _POSITIONED:
            # the target's pixels per logical pixel
            scale = float(getattr(self._compositor._output.target, "scale", (1.0, 1.0))[0]) or 1.0
            self._handle_positioned(dataclasses.replace(event, x=event.x * scale, y=event.y * scale))

    def _handle_positioned(self, event: Event) -> None:
        if event.event_type == "pointer_down":
            self._press(event)
        dragged = self._dragged
        if dragged is not None:
            self._drag(*dragged, event)
        else:
            window = self._pressed or self._compositor.window_at(event.x, event.y)
            if window is not None:
                self._send(window, event, window.x, window.y)
        if event.event_type == "pointer_up" and not event.buttons:
            self._pressed = self._dragged = None

    def _press(self, event: Event) -> None:
        if self._pressed is not None:
            return  # another button is down already
        window = self._pressed = self._focus = self._compositor.window_at(event.x, event.y)
        if window is None:
            return
        try:
            window.raise_to_top()
            if event.button == _LEFT and ("Alt" in event.modifiers or not window.takes_input):
                self._dragged = window, event.x - window.x, event.y - window.y
        except ClosedError:
            self.forget(window)

    def _drag(self, window: ClientWindow, dx: float, dy: float, event: Event) -> None:
        if event.event_type in ("pointer_move", "pointer_up"):
            try:
                window.move(event.x - dx, event.y - dy)
            except (ClosedError, ValueError):  # closed; or the position is out of bounds
                self.forget(window)

    def _send(self, window: ClientWindow | None, event: Event, x: float, y: float) -> None:
        if window is not None and (on_input := window._on_input) is not None:
            _call(on_input, dataclasses.replace(event, x=event.x - x, y=event.y - y))


def _call(handler: Callable[[Event], object], event: Event) -> object:
    try:
        return handler(event)
    except Exception:
        _log.exception("on_input failed with %r", event)
        return None
