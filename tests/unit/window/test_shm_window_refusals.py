"""CPU surfaces shown on X11 windows: what is lost, what is refused, and the end of it."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import struct
import subprocess
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import private_displays
from support.child_processes import in_child
from support.display_servers import missing
from support.fd_counts import open_fds
from support.private_displays import wait_for
from support.required_parts import need
from support.shm_windows import Client, Memory, only_on_cpu, settle

from vkshare.errors import ClosedError, DescriptorError, InvalidCallError, SurfaceLostError, UnsupportedError
from vkshare.window import x11_connection
from vkshare.window.shm_segment import Segment
from vkshare.window.shm_window import ShmWindow
from vkshare.window.x11_connection import X11Connection

pytest_plugins = ["support.shm_windows"]
pytestmark = [pytest.mark.slow, only_on_cpu]

# ---- what is lost ----------------------------------------------------------------------------------------------------


def _all_lost(window: ShmWindow, segment: Segment, picture: Memory) -> None:
    for call in (
        lambda: picture.show(window, segment),
        lambda: picture.show(window, segment, "rgba8unorm"),
        lambda: window.attach(picture.fd, picture.size),
        window.geometry,
        window.capture,
    ):
        with pytest.raises(SurfaceLostError):
            call()
    assert window.is_lost


def test_a_destroyed_window_is_noticed_without_using_it(client: Client, memory: Callable[..., Memory]) -> None:
    window_id, picture = client.window(), memory(120, 80)
    with ShmWindow(client.display.name, window_id) as window:
        segment = window.attach(picture.fd, picture.size)
        done = picture.show(window, segment)
        window.wait(done, 5)
        client.display.destroy(window_id)
        wait_for(lambda: window.is_lost, "the loss is noticed", 1)
        assert window.is_done(done)
        _all_lost(window, segment, picture)
    assert window.is_closed


def test_a_window_destroyed_under_a_picture_ends_the_wait_for_it(
    client: Client, memory: Callable[..., Memory], shared: bool | None
) -> None:
    window_id, picture = client.window(), memory(120, 80)
    with ShmWindow(client.display.name, window_id, shared_memory=shared) as window:
        segment = window.attach(picture.fd, picture.size)
        client.display.destroy(window_id)

        def show_for_ever() -> None:
            while True:
                window.wait(picture.show(window, segment))

        with pytest.raises(SurfaceLostError, match=f"0x{window_id:x}"):
            show_for_ever()
        _all_lost(window, segment, picture)


def test_a_killed_server_is_a_lost_surface_and_another_one_works(
    client: Client, memory: Callable[..., Memory], shared: bool | None
) -> None:
    picture = memory(120, 80)
    before = open_fds()
    with private_displays.xvfb(200, 100, window_manager=False) as doomed:
        owner = Client(doomed)
        window = ShmWindow(doomed.name, owner.window(), shared_memory=shared)
        segment = window.attach(picture.fd, picture.size)
        os.kill(doomed.pid, signal.SIGSTOP)
        token = picture.show(window, segment)
        threading.Timer(0.1, doomed.kill).start()
        with pytest.raises(SurfaceLostError):
            settle(window, token)
        _all_lost(window, segment, picture)
        segment.close()
        window.close()
        with pytest.raises(SurfaceLostError, match="cannot be reached"):
            ShmWindow(doomed.name, 1)
        owner.connection.disconnect()
    with ShmWindow(client.display.name, client.window()) as other:
        settle(other, picture.show(other, other.attach(picture.fd, picture.size)))
    del segment, other
    wait_for(lambda: open_fds() == before, "no fd is left", 2)


# ---- wrong arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "stride", "says"),
    [
        (0, 80, 480, "width is 0"),
        (120, 0, 480, "height is 0"),
        (-1, 80, 480, "width is -1"),
        (120, 81, 480, "81 rows of 480 bytes do not fit"),
        (120, 80, 484, "80 rows of 484 bytes do not fit"),
        (120, 80, 476, "stride is 476"),
        (119, 80, 478, "multiple of 4"),
        (121, 80, 480, "stride is 480"),
        (32768, 1, 32768 * 4, "width is 32768"),
        (1, 2**40, 480, "height is"),
        (120, 80, 2**40, "stride is"),
    ],
)
def test_sizes_beyond_the_segment_never_reach_the_server(
    client: Client, memory: Callable[..., Memory], width: int, height: int, stride: int, says: str
) -> None:
    picture = memory(120, 80)
    with ShmWindow(client.display.name, client.window()) as window:
        segment = window.attach(picture.fd, picture.size)
        for format in ("bgra8unorm", "rgba8unorm"):
            with pytest.raises(ValueError, match=says):
                window.show(segment, width, height, stride, format)
        settle(window, picture.show(window, segment))  # nothing was broken by it


def test_other_arguments_that_are_wrong_say_what_is_allowed(client: Client, memory: Callable[..., Memory]) -> None:
    picture, window_id, name = memory(120, 80), client.window(), client.display.name
    with ShmWindow(name, window_id) as window, ShmWindow(name, client.window()) as other:
        segment = window.attach(picture.fd, picture.size)
        with pytest.raises(UnsupportedError, match="bgra8unorm or rgba8unorm"):
            picture.show(window, segment, "rgba16float")
        with pytest.raises(TypeError, match="format"):
            picture.show(window, segment, 3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="width"):
            window.show(segment, 1.5, 80, 480)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"attach\(\)"):
            window.show(b"pixels", 1, 1, 4)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="another window"):
            picture.show(other, segment)
        token = picture.show(window, segment)
        with pytest.raises(ValueError, match="another window"):
            other.is_done(token)
        with pytest.raises(TypeError, match="token"):
            window.is_done(1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout"):
            window.wait(token, -1)
        segment.close()
        segment.close()
        with pytest.raises(ClosedError):
            picture.show(window, segment)
        window.wait(token, 5)  # what was shown before is read all the same
    with pytest.raises(ValueError, match="window_id is 0"):
        ShmWindow(name, 0)
    with pytest.raises(SurfaceLostError, match="0x1ffffff0"):
        ShmWindow(name, 0x1FFFFFF0)
    with pytest.raises(ValueError, match="must read like"):
        ShmWindow("garbage", window_id)
    with pytest.raises(ValueError, match="no such screen"):
        ShmWindow(f"{name}.7", window_id)
    with pytest.raises(ValueError, match="null"):
        ShmWindow(":\0", window_id)
    with pytest.raises(UnsupportedError, match="InputOnly"):
        ShmWindow(name, client.window(mapped=False, kind=2))


def test_fds_that_are_no_sealed_memory_are_refused(
    client: Client, memory: Callable[..., Memory], tmp_path: Any
) -> None:
    picture = memory(120, 80)
    unsealed = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 4096)
    closed = os.dup(unsealed)
    os.close(closed)
    read, write = os.pipe()
    ends = socket.socketpair()
    with ShmWindow(client.display.name, client.window()) as window, open(tmp_path / "file", "w+b") as file:
        file.truncate(4096)
        before = open_fds()
        for fd in (unsealed, closed, -1, read, write, ends[0].fileno(), file.fileno()):
            with pytest.raises(DescriptorError):
                window.attach(fd, 64)
        with pytest.raises(DescriptorError, match="has 38400 bytes"):
            window.attach(picture.fd, picture.size + 1)
        for size in (0, -5, 2**40):
            with pytest.raises(ValueError, match="size is"):
                window.attach(picture.fd, size)
        with pytest.raises(TypeError, match="fd"):
            window.attach("3", 64)  # type: ignore[arg-type]
        assert open_fds() == before
        assert window.statistics().segments == 0
        settle(window, picture.show(window, window.attach(picture.fd, picture.size)))
    for fd in (unsealed, read, write):
        os.close(fd)
    for end in ends:
        end.close()


def test_a_screen_of_16_bits_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    need("x11", not (lacking := missing("Xvfb")), lacking)
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "64x64x16", "-nolisten", "tcp", "-noreset"]
    server = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with os.fdopen(read) as pipe:
            name = f":{pipe.readline().strip()}"
        probe = X11Connection(name)
        root = probe.setup.roots[0].root
        probe.close()
        with pytest.raises(UnsupportedError, match="16 bits deep"):
            ShmWindow(name, root)
    finally:
        server.terminate()
        server.wait(5)


def test_without_an_x_server_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(UnsupportedError, match="DISPLAY is not set"):
        ShmWindow(None, 1)
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    with pytest.raises(UnsupportedError, match=r"Wayland.*Xwayland"):
        ShmWindow(None, 1)
    with pytest.raises(SurfaceLostError, match="':4242'"):
        ShmWindow(":4242", 1)


# ---- the end of it ---------------------------------------------------------------------------------------------------


def test_nothing_is_left_open_whatever_happened(client: Client, memory: Callable[..., Memory]) -> None:
    picture, window_id = memory(120, 80), client.window()
    resources = Resources(client)
    before, there = open_fds(), resources()
    for number in range(20):
        with ShmWindow(client.display.name, window_id, shared_memory=None if number % 3 else False) as window:
            for _ in range(3):
                with window.attach(picture.fd, picture.size) as segment:
                    picture.show(window, segment, ("bgra8unorm", "rgba8unorm")[number % 2])
            window.attach(picture.fd, picture.size)
        with contextlib.suppress(SurfaceLostError):
            ShmWindow(client.display.name, 0x1FFFFFF0)
    assert window.is_closed
    del window, segment
    assert open_fds() == before
    wait_for(lambda: resources() == there, "the server has unmapped all of it", 2)


class Resources:
    """How many memfds of surfaces the server has mapped."""

    def __init__(self, client: Client) -> None:
        self._maps = f"/proc/{client.display.pid}/maps"

    def __call__(self) -> int:
        with open(self._maps) as file:
            return sum("memfd:" in line for line in file)


def test_a_closed_window_says_so_and_one_that_is_forgotten_warns(client: Client, memory: Callable[..., Memory]) -> None:
    picture, window_id = memory(120, 80), client.window()
    window = ShmWindow(client.display.name, window_id)
    segment = window.attach(picture.fd, picture.size)
    picture.show(window, segment)
    assert "24 bits, shared" in repr(window)
    window.close()
    window.close()
    assert segment.is_closed
    assert "closed" in repr(window)
    assert "closed" in repr(segment)
    for call in (lambda: picture.show(window, segment), lambda: window.attach(picture.fd, 64), window.geometry):
        with pytest.raises(ClosedError):
            call()
    before = open_fds()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = ShmWindow(client.display.name, window_id)
        made.attach(picture.fd, picture.size)
        del made
        gc.collect()
    assert [w.category for w in seen if "ShmWindow" in str(w.message)] == [ResourceWarning]
    assert open_fds() == before
    assert client.display.is_running


def test_the_window_of_the_owner_lives_on_after_close(client: Client, memory: Callable[..., Memory]) -> None:
    picture, window_id = memory(120, 80), client.window()
    with ShmWindow(client.display.name, window_id) as window:
        picture.show(window, window.attach(picture.fd, picture.size))
    assert np.array_equal(client.display.picture(window_id), picture.rgba(120, 80))  # also without a wait
    assert client.display.place(window_id) == (0, 0, 120, 80)


@pytest.mark.rule("X11")
def test_after_fork_a_child_is_refused_and_the_parent_does_not_notice(
    client: Client, memory: Callable[..., Memory]
) -> None:
    picture, window_id = memory(120, 80), client.window()
    with ShmWindow(client.display.name, window_id) as window:
        segment = window.attach(picture.fd, picture.size)
        token = picture.show(window, segment)

        def body() -> None:
            for call in (
                lambda: picture.show(window, segment),
                lambda: window.attach(picture.fd, 64),
                lambda: window.is_done(token),
                lambda: window.wait(token, 0),
                lambda: window.is_lost,
                window.geometry,
                window.capture,
                window.statistics,
                segment.close,
                window.close,
            ):
                with pytest.raises(InvalidCallError, match="fork"):
                    call()
            with ShmWindow(client.display.name, window_id) as mine:
                mine.wait(picture.show(mine, mine.attach(picture.fd, picture.size)), 5)

        in_child(body)
        settle(window, picture.show(window, segment))
        assert np.array_equal(client.display.picture(window_id), picture.rgba(120, 80))


def test_a_window_cannot_be_pickled(client: Client) -> None:
    import pickle

    with ShmWindow(client.display.name, client.window()) as window, pytest.raises(TypeError, match="pickled"):
        pickle.dumps(window)


def test_a_window_of_32_bits_shows_the_alpha_of_the_surface(client: Client, memory: Callable[..., Memory]) -> None:
    visuals = [v.visual_id for d in client.screen.allowed_depths if d.depth == 32 for v in d.visuals if v._class == 4]
    colours, window_id = client.connection.generate_id(), client.connection.generate_id()
    client.core.CreateColormap(0, colours, client.screen.root, visuals[0], is_checked=True).check()
    client.core.CreateWindow(
        32, window_id, client.screen.root, 0, 0, 60, 40, 0, 1, visuals[0], 8 | 0x2000, [0, colours], is_checked=True
    ).check()
    client.core.MapWindow(window_id, is_checked=True).check()
    picture = memory(60, 40)
    with ShmWindow(client.display.name, window_id) as window:
        assert window.depth == 32
        settle(window, picture.show(window, window.attach(picture.fd, picture.size)))
        assert np.array_equal(window.capture(), np.array(picture.pixels).reshape(40, 60, 4))


def test_errors_of_the_server_read_like_the_protocol_names_them() -> None:
    packet = struct.pack("=xBHIHBx20x", 9, 77, 0x40001, 3, 130)
    error = x11_connection.XError(packet)
    assert (error.code, error.sequence, error.resource) == (9, 77, 0x40001)
    assert str(error) == "BadDrawable for 0x40001 (request 130.3)"
