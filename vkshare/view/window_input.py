"""Input of a window that shows a picture, as events at the picture. Pure (rule W5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from vkshare.ipc.input_events import FIELDS, Event
from vkshare.view.fitting import fit, to_picture

_OWN_KEY = "Escape"  # ends the window, as its close button does


class WindowInput:
    """Turns positions in the window into positions in the picture. Events beside the picture are left out.

    A pointer that was pressed in the picture belongs to it until it is released.
    """

    def __init__(self) -> None:
        self._pressed: set[int] = set()  # buttons, in the picture

    def at_picture(
        self, events: Iterable[Event], picture: tuple[int, int], room: tuple[int, int], scale: float
    ) -> Iterator[Event]:
        """Yields the events at the picture.

        Parameters
        ----------
        events
            Of the window.
        picture, room
            (width, height) of the picture and of the inside of the window, in pixels.
        scale
            Pixels of a logical pixel, which the events have.
        """
        place = fit(picture, room)
        for event in events:
            if event.event_type == "close" or event.key == _OWN_KEY:
                continue
            if "x" not in FIELDS[event.event_type]:
                yield event
                continue
            x, y = to_picture(place, picture, event.x * scale, event.y * scale)
            if self._is_at_the_picture(event, 0 <= x < picture[0] and 0 <= y < picture[1]):
                yield dataclasses.replace(event, x=x, y=y)

    def _is_at_the_picture(self, event: Event, is_inside: bool) -> bool:
        if event.event_type == "pointer_down" and (is_inside or self._pressed):
            self._pressed.add(event.button)
            return True
        if event.event_type == "pointer_up" and event.button in self._pressed:
            self._pressed.remove(event.button)
            return True
        return is_inside or bool(self._pressed) or event.event_type == "pointer_leave"
