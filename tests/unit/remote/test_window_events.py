"""Input events of a viewer's windows, as programs take them. Rule M13."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vkshare.errors import DescriptorError
from vkshare.ipc.input_events import FIELDS, Event
from vkshare.remote.window_events import parse

pytestmark = pytest.mark.no_driver

RESIZE = {"event_type": "resize", "time_stamp": 1.5, "width": 640, "height": 480.0, "pixel_ratio": 2}
KEY = {"event_type": "key_down", "time_stamp": 0, "key": "a", "modifiers": ["Shift"]}


@pytest.mark.parametrize("kind", FIELDS)
def test_an_event_arrives_as_it_was_sent(kind: str) -> None:
    sent = {"button": 1, "buttons": (1, 3), "modifiers": ("Alt", "Shift"), "x": -3.5, "key": "Escape", "width": 640.0}
    event = Event(kind, 12.25, **{name: value for name, value in sent.items() if name in FIELDS[kind]})  # type: ignore[arg-type]
    assert parse(json.dumps(event.as_dict()).encode()) == event


@pytest.mark.rule("M13")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (RESIZE | {"width": "x"}, "width is 'x': Expected `float`, got `str`"),
        (RESIZE | {"width": -5}, "width is '-5': Expected `float` >= 0"),
        (RESIZE | {"height": 1e300}, r"height is '1e\+300': Expected `float` <= 1000000"),
        (RESIZE | {"width": float("nan")}, "JSON is malformed"),
        (RESIZE | {"width": float("inf")}, "JSON is malformed"),
        (RESIZE | {"pixel_ratio": 0}, "pixel_ratio is '0': Expected `float` > 0"),
        (RESIZE | {"time_stamp": "now"}, "time_stamp is 'now': Expected `float`"),
        (RESIZE | {"time_stamp": 1e300}, r"time_stamp is '1e\+300'"),
        ({"event_type": "close", "time_stamp": None}, "time_stamp is 'None'"),
        (RESIZE | {"key": "a"}, "no event has the fields event_type, height, key"),
        (KEY | {"key": 5}, "key is '5': Expected `str`"),
        (KEY | {"key": "a" * 100}, "key is 'a+': Expected `str` of length <= 64"),
        (KEY | {"modifiers": [[]]}, "modifiers is"),
        (KEY | {"modifiers": ["Hyper"]}, "modifiers is .*Invalid enum value 'Hyper'"),
        (KEY | {"event_type": "key"}, "no event has the fields"),
        (KEY | {"event_type": ["key_down"]}, "event_type is .* allowed are resize, close"),
        ({}, "event_type is None; allowed are resize"),
        ([], "the event is a list; allowed is an object"),
        (7, "the event is a int"),
    ],
)
def test_an_event_that_is_out_of_bounds_is_an_error_that_names_the_field(fields: Any, why: str) -> None:
    with pytest.raises(DescriptorError, match=f"a malformed input event of the viewer: .*{why}"):
        parse(json.dumps(fields).encode())


@pytest.mark.rule("M13")
@pytest.mark.parametrize("text", [b"", b"\xff", b"[" * 4000, b'{"":' * 900, b"{", b'{"event_type":"close"} 1'])
def test_a_text_that_is_no_event_is_an_error(text: bytes) -> None:
    with pytest.raises(DescriptorError, match="a malformed input event") as raised:
        parse(text)
    assert len(str(raised.value)) <= 300
