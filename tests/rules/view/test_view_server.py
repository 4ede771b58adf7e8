"""A view server as its program sees it: events, statistics, its end (rules W2 and W5)."""

from __future__ import annotations

import copy
import gc
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fd_counts import open_fds
from support.view_servers import HANG, RawPage, need_aiohttp

import vkshare as vks
from vkshare import view
from vkshare.view import messages, tiles

pytest_plugins = ["support.published_names", "support.view_servers"]
pytestmark = pytest.mark.no_driver


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait for a thread of the server."""
    limit = time.monotonic() + HANG
    while not is_true():
        assert time.monotonic() < limit, "it does not come"
        time.sleep(0.005)


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "event", "event_type": kind, **fields}


@pytest.mark.rule("W5")
def test_events_wait_in_order_until_they_are_taken(show: Any) -> None:
    source = show()
    with RawPage(source.server) as page:
        page.open()
        page.say(event("pointer_down", x=3.5, y=4.5, button=1, buttons=[1], modifiers=["Shift"]))
        page.say(event("key_down", key="a"))
        assert source.server.events(HANG)[0].event_type == "pointer_down"
    events: list[Any] = []
    wait_until(lambda: events.extend(source.server.events()) or (bool(events) and events[-1].event_type == "close"))
    assert [each.event_type for each in events if each.event_type != "key_down"] == ["key_up", "pointer_up", "close"]
    assert source.server.events() == []


@pytest.mark.rule("W5")
def test_a_callback_gets_each_event_and_its_errors_end_nothing(show: Any, caplog: Any) -> None:
    got: list[str] = []

    def on_event(each: Any) -> None:
        got.append(each.event_type)
        if each.event_type == "wheel":
            raise RuntimeError("a mistake of the program")

    source = show(on_event=on_event)
    with RawPage(source.server) as page:
        page.open()
        for kind in ("wheel", "pointer_move", "pointer_move"):
            page.say(event(kind))
    wait_until(lambda: "close" in got)
    assert got == ["wheel", "pointer_move", "pointer_move", "close"]
    assert "a mistake of the program" in caplog.text
    assert source.server.events() == []


@pytest.mark.rule("W5")
@pytest.mark.usefixtures("runtime")
def test_the_publisher_of_a_name_gets_the_events_of_each_page(vks_device: vks.Device) -> None:
    with vks_device.create_surface(8, 8) as surface:
        publication = surface.publish("it", wants_input=True)
        with view.serve("it") as server, RawPage(server) as first, RawPage(server) as second:
            first.open()
            first.say(event("key_down", key="a"))
            (pressed,) = publication.events(HANG)
            second.open()
            second.say(event("pointer_down", x=3, y=4, button=1, buttons=[1]))
            (clicked,) = publication.events(HANG)
            first.close()
            released = publication.events(HANG)
            wait_until(lambda: len(released) == 2 or bool(released.extend(publication.events())))
            assert [each.event_type for each in server.events()][:2] == ["key_down", "pointer_down"]  # as before
    assert (pressed.viewer, pressed.event_type, pressed.key) == (1, "key_down", "a")
    assert (clicked.viewer, clicked.event_type, clicked.x, clicked.y) == (2, "pointer_down", 3, 4)
    assert [(each.viewer, each.event_type) for each in released] == [(1, "key_up"), (1, "close")]


@pytest.mark.rule("W5")
def test_a_wait_for_events_ends_with_the_server(show: Any) -> None:
    source = show()
    got: list[list[Any]] = []
    waiting = threading.Thread(target=lambda: got.append(source.server.events(None)))
    waiting.start()
    source.server.close()
    waiting.join(HANG)
    assert got == [[]]


def test_a_callback_that_closes_its_server_is_refused_and_does_not_hang(show: Any) -> None:
    errors: list[BaseException] = []

    def on_event(_: Any) -> None:
        try:
            source.server.close()
        except vks.InvalidCallError as error:
            errors.append(error)

    source = show(on_event=on_event)
    with RawPage(source.server) as page:
        page.open()
        page.say(event("wheel"))
        wait_until(lambda: bool(errors))
    assert "another thread" in str(errors[0])


def test_a_viewer_that_is_connected_is_told_of_the_end_of_the_server(show: Any) -> None:
    source = show()
    with RawPage(source.server) as page:
        page.open()
        page.say({"type": "ping", "time": 1})
        while (got := page.frame())[0] != 1:
            pass
        assert json.loads(got[1])["type"] == "pong"
        threading.Thread(target=source.server.close).start()
        assert page.until_closed() == 1001
    wait_until(lambda: source.server.is_closed)
    assert repr(source.server).endswith("closed>")
    source.server.close()


@pytest.mark.rule("W3")
def test_an_encoder_that_fails_is_the_end_for_each_page_now_and_later(
    show: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def pack(*_: Any) -> bytes:
        raise RuntimeError("a mistake of vkshare")

    monkeypatch.setattr(tiles, "pack", pack)
    source = show(16, 16)
    source.send(np.zeros((16, 16, 4), np.uint8))
    with caplog.at_level(logging.CRITICAL, "vkshare.view"):
        for _ in range(2):
            with RawPage(source.server) as page:
                page.open()
                while (got := page.frame()[1])[0] != messages.Kind.END:
                    pass
                assert got[4:] == b"the encoder has failed"
        assert source.server.wait(HANG)
    assert source.server.end == "the encoder has failed"


def test_the_end_of_the_source_is_seen_by_wait(show: Any) -> None:
    source = show()
    assert source.server.wait(0) is False
    assert source.server.end is None
    with RawPage(source.server) as page:
        page.open()
        source.sender.close()
        assert source.server.wait(HANG)
    assert source.server.end
    assert "ended" in repr(source.server)


def test_a_server_leaves_no_thread_and_no_fd(show: Any) -> None:
    source = show(16, 16)
    source.server.close()  # the pipe stays
    before = {each.name for each in threading.enumerate()}, open_fds()
    source.serve_again()
    source.send(np.zeros((16, 16, 4), np.uint8))
    with RawPage(source.server) as page:
        page.open()
        page.frame()
        source.server.close()
    gc.collect()
    assert ({each.name for each in threading.enumerate()}, open_fds()) == before


def test_a_server_that_is_not_closed_is_a_resource_warning(show: Any) -> None:
    source = show(16, 16)
    server = view.serve(source.receiver)
    with pytest.warns(ResourceWarning, match="ViewServer"):
        server.__del__()
    assert server.is_closed


def test_a_server_cannot_be_copied_or_pickled(show: Any) -> None:
    with pytest.raises(TypeError, match="url"):
        copy.copy(show(16, 16).server)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_cannot_use_the_server(show: Any) -> None:
    source = show(16, 16)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            source.server.close()
        except vks.InvalidCallError:
            status = 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not source.server.is_closed


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"bind": "nowhere"}, ValueError),
        ({"bind": 80}, TypeError),
        ({"token": "short"}, ValueError),
        ({"token": 5}, TypeError),
        ({"hosts": "name"}, TypeError),
        ({"certificate": ("missing.pem", "missing.pem")}, OSError),
        ({"certificate": "missing.pem"}, TypeError),
        ({"on_event": 3}, TypeError),
        ({"name": "\ud800"}, ValueError),
        ({"name": "x" * 1001}, ValueError),
        ({"name": 5}, TypeError),
    ],
)
def test_wrong_arguments_are_refused_and_leave_nothing(
    show: Any, wrong: dict[str, Any], error: type[Exception]
) -> None:
    source = show(16, 16)
    before = open_fds()
    with pytest.raises(error):
        view.serve(source.receiver, **wrong)
    assert open_fds() == before


@pytest.mark.parametrize("wrong", [3, None, object()])
def test_what_is_no_source_is_a_type_error_that_lists_those(wrong: Any, tmp_path: Path) -> None:
    need_aiohttp()
    calls = (view.serve, vks.show, lambda source: view.record(source, tmp_path / "out.png"))
    for call in calls:
        with pytest.raises(TypeError, match=r"source must be a Receiver, Surface, .* or a published name"):
            call(wrong)


def test_an_on_event_that_cannot_be_called_is_a_type_error(show: Any) -> None:
    calls: tuple[Any, ...] = (view.serve, vks.show)
    for call in calls:
        with pytest.raises(TypeError, match="on_event must be a function of one event, or None, not int"):
            call(show(16, 16).receiver, on_event=3)


@pytest.mark.rule("W4")
def test_a_viewer_that_acknowledges_nothing_gets_three_pictures_and_the_producer_goes_on(show: Any) -> None:
    source = show(16, 16)
    with RawPage(source.server) as page:
        page.open()
        for shade in range(60):
            source.send(np.full((16, 16, 4), shade, np.uint8))
            time.sleep(0.002)
        page.say({"type": "ping", "time": 9})
        kinds: list[int] = []
        while (got := page.frame())[0] != 1:
            kinds.append(got[0])
    assert kinds
    assert len(kinds) <= 3 + 3  # pictures, and words about them


def picture_of(page: RawPage) -> bytes:
    """The unpacked pixels of the next lossless picture, which is whole."""
    while True:
        opcode, body = page.frame()
        assert opcode != 8, "the viewer was cut off"
        if opcode == 2 and body[0] == messages.Kind.TILES:
            page.say({"type": "ack", "frame": int.from_bytes(body[8:16], "little")})
            return zlib.decompress(body[32 + 16 * int.from_bytes(body[4:8], "little") :], -15)


@pytest.mark.rule("W2")
def test_a_surface_is_watched_while_its_owners_take_turns(device: Any, stack: Any) -> None:
    need_aiohttp()
    surface = stack.enter_context(device.create_surface(8, 4))
    server = stack.enter_context(view.serve(surface))
    page = stack.enter_context(RawPage(server)).open()
    for shade in (10, 20):
        with surface.access(acquire=0, release=0):
            surface.write(np.full((4, 8, 4), shade, np.uint8))
        while picture_of(page) != bytes([shade]) * (8 * 4 * 4):
            pass


@pytest.mark.rule("W2")
def test_a_sender_is_watched_beside_its_receiver(device: Any, stack: Any) -> None:
    need_aiohttp()
    sender, descriptor = vks.pipe(device, 8, 4)
    stack.enter_context(sender)
    stack.enter_context(descriptor)
    receiver = stack.enter_context(vks.open_receiver(device, descriptor))
    server = stack.enter_context(view.serve(sender))
    page = stack.enter_context(RawPage(server)).open()
    for shade in (10, 20):
        with sender.frame(timeout=HANG) as frame:
            frame.surface.write(np.full((4, 8, 4), shade, np.uint8))
        with receiver.frame(timeout=HANG) as (surface, _):
            assert surface.read()[0, 0, 0] == shade
        while picture_of(page) != bytes([shade]) * (8 * 4 * 4):
            pass
