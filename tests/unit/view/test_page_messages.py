"""Messages between a view server and its page: what is refused, and what the bytes are (docs/spec/view-protocol.md)."""

from __future__ import annotations

import json
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.ipc.viewer_events import InputMessage
from vkshare.view import messages as m

pytestmark = pytest.mark.no_driver


def test_the_bytes_to_the_page_are_those_of_the_specification() -> None:
    assert m.config(640, 480, "avc1.42002a", "ä") == (
        struct.pack("<BBHIIHH", 1, 0, 1, 640, 480, 11, 2) + b"avc1.42002a" + "ä".encode()
    )
    head = struct.pack("<BBHIQQII", 2, 1, 0, 1, 7, 9, 64, 48)
    assert m.tiles(7, 9, 64, 48, [(1, 2, 3, 4)], b"packed") == head + struct.pack("<4I", 1, 2, 3, 4) + b"packed"
    assert m.video(7, 9, 64, 48, True, b"unit") == struct.pack("<BBHIQQII", 3, 1, 0, 0, 7, 9, 64, 48) + b"unit"
    assert m.end("it is over") == b"\x04\0\0\0it is over"
    assert m.wait("waiting for it") == b"\x05\0\0\0waiting for it"
    assert json.loads(m.pong(1.5, 2_500_000)) == {"type": "pong", "time": 1.5, "clock": 2.5}


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ({"type": "hello", "version": 1}, m.Hello(1)),
        ({"type": "ack", "frame": 3}, m.Ack(3)),
        ({"type": "mode", "mode": "video"}, m.Mode("video")),
        ({"type": "ping", "time": 2.5}, m.Ping(2.5)),
        ({"type": "event", "event_type": "char", "char_str": "a"}, InputMessage("char", char_str="a")),
    ],
)
def test_messages_of_a_page_are_read(sent: Any, wanted: Any) -> None:
    assert m.decode(json.dumps(sent)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "1", "null", '{"type": "x"}', '{"type": 1}', '{"type": "ack"}', '{"type": "hello"}'),
        '{"type": "hello", "version": 2}',
        '{"type": "ack", "frame": 1.5}',
        '{"type": "ack", "frame": 18014398509481984}',
        '{"type": "ack", "frame": 1, "x": 1}',
        '{"type": "mode", "mode": "best"}',
        '{"type": "ping", "time": -1}',
        '{"type": "ping", "time": "1"}',
        '{"type": "event", "event_type": "close"}',
        '{"type": "event", "event_type": "char", "char_str": "%s"}' % ("x" * 65),
        '{"type": "event", "event_type": "wheel", "dx": 1e7}',
        '{"type": "event", "event_type": "pointer_up", "button": 65}',
        '{"type": "event", "event_type": "key_up", "modifiers": ["Hyper"]}',
        '{"type": "event", "event_type": "resize", "pixel_ratio": 0}',
    ],
)
@pytest.mark.rule("W6")
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        m.decode(text)


@given(st.text(max_size=200))
def test_any_text_is_a_message_or_refused(text: str) -> None:
    try:
        m.decode(text)
    except msgspec.MsgspecError:
        pass
