"""A view server of a name, whose publishers come and go (rules W2 and W7)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support.shared_handles import wait_until
from support.view_servers import HANG, RawPage, need_aiohttp

import vkshare as vks
from vkshare import view
from vkshare.errors import UnsupportedError
from vkshare.view import messages
from vkshare.view import show as view_show

pytest_plugins = ["support.chromium_pages", "support.published_names", "support.view_servers"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W2", "W7"), pytest.mark.usefixtures("runtime")]

NAME = "it"
RESTART = 1012  # the code of a WebSocket whose page connects again


@contextlib.contextmanager
def published(device: vks.Device, width: int, height: int, shade: int, form: str = "rgba8unorm") -> Iterator[Any]:
    """A surface of one shade under the name."""
    with device.create_surface(width, height, form) as surface:
        with surface.access():
            surface.write(np.full(surface.shape, shade, surface.spec.format.numpy_dtype))
        with surface.publish(NAME):
            yield surface


def message(page: RawPage, kind: messages.Kind) -> bytes:
    """The page's next message of this kind. The pictures before it are acknowledged."""
    while True:
        opcode, body = page.frame()
        assert opcode != 8, "the connection has ended"
        if opcode == 2 and body[0] == messages.Kind.TILES:
            page.say({"type": "ack", "frame": int.from_bytes(body[8:16], "little")})
        if opcode == 2 and body[0] == kind:
            return body


def size_in(config: bytes) -> tuple[int, int]:
    return int.from_bytes(config[4:8], "little"), int.from_bytes(config[8:12], "little")


@pytest.fixture
def server(vks_device: vks.Device, stack: ExitStack) -> Any:
    """The server of a name whose publisher has ended; a page has seen its picture."""
    need_aiohttp()
    with published(vks_device, 8, 4, 7):
        server = stack.enter_context(view.serve(NAME))
        page = stack.enter_context(RawPage(server)).open()
        message(page, messages.Kind.TILES)
    server_page = message(page, messages.Kind.WAIT)[4:].decode()
    assert server_page == server.waiting
    return server


def test_a_page_is_notified_that_the_server_waits_and_connects_again_to_the_next_publisher(
    vks_device: vks.Device, stack: ExitStack, server: Any
) -> None:
    page = stack.enter_context(RawPage(server)).open()
    assert size_in(message(page, messages.Kind.CONFIG)) == (8, 4)
    message(page, messages.Kind.TILES)  # a page that comes meanwhile gets the last picture, too
    text = message(page, messages.Kind.WAIT)[4:].decode()
    assert text.startswith("waiting for it to be published again: its publisher (pid ")
    with published(vks_device, 16, 6, 9, "r8unorm"):
        assert page.until_closed() == RESTART
        assert server.waiting is None
        again = stack.enter_context(RawPage(server)).open()
        assert size_in(message(again, messages.Kind.CONFIG)) == (16, 6)
        message(again, messages.Kind.TILES)


def test_a_server_that_waits_for_its_name_has_not_ended(vks_device: vks.Device, server: Any) -> None:
    assert server.end is None
    assert server.wait(0) is False
    assert server.waiting in repr(server)
    for _ in range(2):
        with published(vks_device, 8, 4, 1):
            wait_until(lambda: server.waiting is None, HANG)
        wait_until(lambda: server.waiting is not None, HANG)
    assert server.end is None


def test_a_server_that_waits_can_be_closed(server: Any) -> None:
    server.close()
    assert server.wait(0)


def test_a_name_of_find_is_waited_for_as_its_text_is(vks_device: vks.Device, stack: ExitStack) -> None:
    need_aiohttp()
    with published(vks_device, 8, 4, 7):
        (found,) = vks.find()
        server = stack.enter_context(view.serve(found))
    wait_until(lambda: server.waiting is not None, HANG)
    with published(vks_device, 8, 4, 7):
        wait_until(lambda: server.waiting is None, HANG)


def test_a_page_sees_why_a_name_that_is_published_again_cannot_be_shown(
    vks_device: vks.Device, stack: ExitStack, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = stack.enter_context(RawPage(server)).open()
    message(page, messages.Kind.WAIT)

    def refuse(*_: Any) -> Any:
        raise UnsupportedError("watching it", "a reason of the test")

    monkeypatch.setattr(view_show, "_Pictures", refuse)
    assert page.until_closed() == RESTART
    again = stack.enter_context(RawPage(server)).open()
    text = message(again, messages.Kind.WAIT)[4:].decode()
    assert "published again, and cannot be shown" in text
    assert "a reason of the test" in text
    assert server.end is None


def test_a_surface_without_a_name_ends_with_its_close(vks_device: vks.Device, stack: ExitStack) -> None:
    need_aiohttp()
    surface = stack.enter_context(vks_device.create_surface(8, 4))
    server = stack.enter_context(view.serve(surface))
    surface.close()
    assert server.wait(HANG)
    assert (server.end, server.waiting) == ("the surface was closed", None)


def test_a_notebooks_picture_of_a_name_waits_too(vks_device: vks.Device, stack: ExitStack) -> None:
    with published(vks_device, 8, 4, 7):
        shown = stack.enter_context(vks.show(NAME))
    wait_until(lambda: "waiting for it" in repr(shown), HANG)
    with published(vks_device, 8, 4, 7):
        wait_until(lambda: "0 views" in repr(shown), HANG)


@pytest.mark.rule("W3")
def test_the_page_keeps_the_last_picture_in_grey_and_shows_the_next_publishers_without_a_reload(
    vks_device: vks.Device, stack: ExitStack, new_page: Any
) -> None:
    from support.chromium_pages import equals, state

    need_aiohttp()
    with published(vks_device, 40, 30, 7):
        server = stack.enter_context(view.serve(NAME))
        page = new_page(server.url)
        equals(page, np.full((30, 40, 3), 7, np.uint8))
        page.evaluate("window.isTheSamePage = true")
    state(page, "waiting")
    assert page.text_content("#notice-text").startswith("Waiting for it to be published again: its publisher (pid ")
    equals(page, np.full((30, 40, 3), 7, np.uint8))
    assert "saturate" in page.evaluate('getComputedStyle(document.getElementById("picture")).filter')
    with published(vks_device, 24, 20, 99, "r8unorm"):
        equals(page, np.full((20, 24, 3), 99, np.uint8))
        state(page, "shown")
        assert page.evaluate("window.isTheSamePage")
