"""Events as rendercanvas names them: merging, modifiers, double clicks; no window system."""

from __future__ import annotations

import dataclasses
import time

import pytest

from vkshare.window.events import FIELDS, Collector, Event


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that events are stamped with, in seconds: [now]."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_every_type_has_fields_that_events_have_and_tells_these_only() -> None:
    names = {field.name for field in dataclasses.fields(Event)}
    for kind, fields in FIELDS.items():
        assert set(fields) < names
        reported = Event(kind, 1.5).as_dict()
        assert list(reported) == ["event_type", *fields, "time_stamp"]
    assert repr(Event("wheel", 0.0, dy=100.0)) == (
        "Event('wheel', dx=0.0, dy=100.0, x=0.0, y=0.0, buttons=(), modifiers=())"
    )


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Event("close", 0.0).x = 1.0  # type: ignore[misc]


def test_of_moves_that_follow_one_another_the_last_counts_and_turns_of_the_wheel_add_up() -> None:
    collector = Collector()
    for x in range(5):
        collector.pointer_move(x, 2 * x)
    for _ in range(3):
        collector.wheel(0.5, -1)
    collector.resize(10, 10, 2)
    collector.resize(20, 30, 2)
    move, wheel, resize = collector.take()
    assert (move.x, move.y) == (4, 8)
    assert (wheel.dx, wheel.dy, wheel.x) == (150.0, 300.0, 4)
    assert (resize.width, resize.height, resize.pixel_ratio) == (20, 30, 2)
    assert collector.merged == 4 + 2 + 1
    assert collector.take() == []


def test_moves_are_kept_apart_where_a_button_or_a_modifier_changed_between_them() -> None:
    collector = Collector()
    collector.pointer_move(1, 1)
    collector.pointer_button(1, True)
    collector.pointer_move(2, 2)
    collector.pointer_move(3, 3)
    collector.pointer_button(1, False)
    reported = [(event.event_type, event.x, event.buttons) for event in collector.take()]
    assert reported == [
        ("pointer_move", 1, ()),
        ("pointer_down", 1, (1,)),
        ("pointer_move", 3, (1,)),
        ("pointer_up", 3, ()),
    ]


def test_letters_are_large_while_shift_is_held_and_modifiers_are_told_sorted() -> None:
    collector = Collector()
    for key in ("Shift", "Control", "ä", "5", "Escape"):
        collector.key(key, True)
    collector.key("Shift", False)
    collector.key("ä", False)
    reported = [(event.key, event.modifiers) for event in collector.take()]
    assert reported == [
        ("Shift", ("Shift",)),
        ("Control", ("Control", "Shift")),
        ("Ä", ("Control", "Shift")),
        ("5", ("Control", "Shift")),
        ("Escape", ("Control", "Shift")),
        ("Shift", ("Control",)),
        ("ä", ("Control",)),
    ]


def _click(collector: Collector, button: int = 1) -> list[str]:
    collector.pointer_button(button, True)
    collector.pointer_button(button, False)
    return [event.event_type for event in collector.take()]


def test_two_clicks_near_in_time_and_place_with_one_button_are_a_double_click(clock: list[float]) -> None:
    collector = Collector()
    assert _click(collector) == ["pointer_down", "pointer_up"]
    clock[0] += 0.3
    collector.pointer_move(3, 3)
    assert _click(collector)[-1] == "double_click"
    clock[0] += 0.1
    assert _click(collector)[-1] == "pointer_up"  # a third click is the first of another pair
    clock[0] += 0.1
    assert _click(collector)[-1] == "double_click"


@pytest.mark.parametrize(("seconds", "distance", "button"), [(0.5, 0, 1), (0.1, 9, 1), (0.1, 0, 2)])
def test_clicks_that_are_late_far_apart_or_of_another_button_are_no_double_click(
    clock: list[float], seconds: float, distance: float, button: int
) -> None:
    collector = Collector()
    _click(collector)
    clock[0] += seconds
    collector.pointer_move(distance, 0)
    assert _click(collector, button)[-1] == "pointer_up"
