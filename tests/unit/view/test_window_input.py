"""Input of a window that shows a picture, as events at the picture (rule W5)."""

from __future__ import annotations

from typing import Any

import pytest

from vkshare.ipc.input_events import Event
from vkshare.view.window_input import WindowInput

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W5")]

PICTURE, ROOM = (10, 20), (60, 80)  # the picture is enlarged 4 times, and begins at (10, 0)


def seen(*events: Event, scale: float = 1.0, room: tuple[int, int] = ROOM) -> list[tuple[str, float, float]]:
    found = WindowInput().at_picture(events, PICTURE, room, scale)
    return [(each.event_type, each.x, each.y) for each in found]


def at(kind: str, x: float, y: float, **fields: Any) -> Event:
    return Event(kind, 0.0, x=x, y=y, **fields)


def test_positions_are_pixels_of_the_picture() -> None:
    assert seen(at("pointer_move", 10, 0), at("wheel", 30, 40)) == [("pointer_move", 0, 0), ("wheel", 5, 10)]
    assert seen(at("pointer_move", 15, 20), scale=2.0) == [("pointer_move", 5, 10)]
    assert seen(at("pointer_move", 5, 9.5), room=(10, 19)) == [("pointer_move", 5, 10)]  # it is reduced


def test_what_happens_beside_the_picture_is_left_out() -> None:
    beside = [at("pointer_down", 9, 5, button=1), at("pointer_up", 9, 5, button=1), at("pointer_move", 51, 5)]
    assert seen(*beside) == []


def test_a_pointer_that_was_pressed_in_the_picture_is_followed_until_it_is_released() -> None:
    drag = [
        at("pointer_down", 10, 0, button=1),
        at("pointer_move", 2, -4),
        at("pointer_up", 2, -4, button=1),
        at("pointer_move", 2, -4),
    ]
    assert seen(*drag) == [("pointer_down", 0, 0), ("pointer_move", -2, -1), ("pointer_up", -2, -1)]


def test_keys_and_sizes_pass_and_what_ends_the_window_does_not() -> None:
    events = [Event("resize", 0.0, width=60), Event("key_down", 0.0, key="a"), Event("char", 0.0, char_str="a")]
    found = WindowInput().at_picture(
        [*events, Event("key_down", 0.0, key="Escape"), Event("close", 0.0)], PICTURE, ROOM, 1.0
    )
    assert list(found) == events
