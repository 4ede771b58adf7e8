"""Input events of viewers: their fields, their order, and what is merged and dropped (rule W5)."""

from __future__ import annotations

from typing import Any

import pytest

from vkshare.errors import DescriptorError
from vkshare.ipc import viewer_events
from vkshare.ipc.input_events import FIELDS, Event
from vkshare.ipc.viewer_events import EventLog, Held, InputMessage, ViewerEvent, event_of

pytestmark = pytest.mark.no_driver


def event(kind: str, viewer: int = 1, **fields: Any) -> ViewerEvent:
    return ViewerEvent(kind, 0.0, viewer=viewer, **fields)


@pytest.mark.rule("W5")
def test_an_event_has_the_fields_of_its_type_and_no_others() -> None:
    sent = InputMessage("key_down", key="a", modifiers=["Shift", "Alt"], x=5.0, buttons=[1])
    got = event_of(sent, 3, 1.5)
    assert got == ViewerEvent("key_down", 1.5, viewer=3, key="a", modifiers=("Alt", "Shift"))
    assert set(got.as_dict()) == {"event_type", "time_stamp", *FIELDS["key_down"]}


@pytest.mark.rule("W5")
def test_events_keep_their_order_and_moves_that_follow_each_other_are_one() -> None:
    log = EventLog()
    for each in (
        event("pointer_move", x=1.0),
        event("pointer_move", x=2.0),
        event("pointer_down", x=2.0, button=1, buttons=(1,)),
        event("pointer_move", x=3.0, buttons=(1,)),
        event("key_down", key="a"),
        event("pointer_move", x=4.0, buttons=(1,)),
    ):
        log.add(each)
    assert [(each.event_type, each.x) for each in log.take()] == [
        ("pointer_move", 2.0),
        ("pointer_down", 2.0),
        ("pointer_move", 3.0),
        ("key_down", 0.0),
        ("pointer_move", 4.0),
    ]
    assert log.merged == 1
    assert log.take() == []


@pytest.mark.rule("W5")
def test_turns_of_the_wheel_add_up_and_those_of_two_viewers_do_not() -> None:
    log = EventLog()
    for each in (event("wheel", dy=100.0, dx=1.0), event("wheel", dy=50.0), event("wheel", viewer=2, dy=7.0)):
        log.add(each)
    assert [(each.viewer, each.dx, each.dy) for each in log.take()] == [(1, 1.0, 150.0), (2, 0.0, 7.0)]


def test_moves_with_other_buttons_or_modifiers_are_not_merged() -> None:
    log = EventLog()
    for each in (event("pointer_move"), event("pointer_move", buttons=(1,)), event("pointer_move", modifiers=("Alt",))):
        log.add(each)
    assert len(log) == 3


def test_of_too_many_events_the_oldest_are_dropped_and_counted() -> None:
    log = EventLog(most=3)
    for number in range(5):
        log.add(event("char", char_str=str(number)))
    assert [each.char_str for each in log.take()] == ["2", "3", "4"]
    assert log.dropped == 2


@pytest.mark.rule("W5")
def test_the_end_of_a_connection_releases_what_is_held_and_closes() -> None:
    held = Held()
    for each in (
        event("key_down", key="a"),
        event("key_down", key="Shift"),
        event("key_up", key="a"),
        event("pointer_down", x=5.0, y=6.0, button=1, buttons=(1,)),
        event("pointer_down", x=7.0, y=8.0, button=2, buttons=(1, 2)),
    ):
        held.note(each)
    ends = held.end(4, 2.0)
    assert [each.as_dict() | {"viewer": each.viewer} for each in ends[:1]] == [
        {"event_type": "key_up", "key": "Shift", "modifiers": (), "time_stamp": 2.0, "viewer": 4}
    ]
    assert [(each.event_type, each.button, each.buttons, each.x) for each in ends[1:]] == [
        ("pointer_up", 1, (2,), 5.0),
        ("pointer_up", 2, (), 7.0),
        ("close", 0, (), 0.0),
    ]
    assert [each.event_type for each in held.end(4, 3.0)] == ["close"]


def test_a_viewer_that_holds_ever_more_keys_costs_no_memory() -> None:
    held = Held()
    counted = [held.note(event("key_down", key=str(number))) for number in range(10_000)]
    assert counted == [True] * held.most + [False] * (10_000 - held.most)  # what is not released is not pressed
    counted = [held.note(event("pointer_down", button=number)) for number in range(10_000)]
    assert counted == [True] * held.most + [False] * (10_000 - held.most)
    assert len(held.keys) == len(held.buttons) == held.most
    assert held.note(event("key_down", key="0"))  # a key that repeats


@pytest.mark.rule("W5")
@pytest.mark.parametrize("kind", sorted({*FIELDS} - {"close"}))
def test_an_event_is_read_as_it_was_packed(kind: str) -> None:
    values: dict[str, Any] = {"key": "a", "char_str": "b", "buttons": (1, 2), "modifiers": ("Alt",), "button": 2}
    own = {name: values.get(name, 3) for name in FIELDS[kind]}
    message = viewer_events.parse(viewer_events.pack(Event(kind, 0.5, **own)))
    assert event_of(message, 2, 1.5) == ViewerEvent(kind, 1.5, viewer=2, **own)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        viewer_events.pack(Event("close", 0.0)),
        viewer_events.pack(Event("char", 0.0, char_str="x" * 65)),
        viewer_events.pack(Event("pointer_move", 0.0, x=float("nan"))),
        viewer_events.pack(Event("wheel", 0.0, dx=1e7)),
        viewer_events.pack(Event("char", 0.0, char_str="x"))[:-1],
    ],
)
def test_a_malformed_event_is_refused(data: bytes) -> None:
    with pytest.raises(DescriptorError, match="a malformed input event"):
        viewer_events.parse(data)
