"""CPU surfaces shown on X11 windows: what is really on the screen, and when memory is free again."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable

import numpy as np
import pytest
from support import private_displays
from support.fd_counts import open_fds
from support.shm_windows import BACKGROUND, Client, Memory, only_on_cpu, settle, stopped
from support.time_limits import at_least

import vkshare as vks
from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.window import x11_connection
from vkshare.window.shm_segment import Token
from vkshare.window.shm_window import ShmWindow
from vkshare.window.x11_connection import X11Connection

pytest_plugins = ["support.shm_windows"]
pytestmark = [pytest.mark.slow, pytest.mark.wheel, only_on_cpu]

# ---- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["bgra8unorm", "rgba8unorm"])
@pytest.mark.parametrize("stride", [480, 512, 2048])
def test_the_screen_shows_the_bytes_of_the_surface(
    client: Client, memory: Callable[..., Memory], shared: bool | None, format: str, stride: int
) -> None:
    window_id, picture = client.window(120, 80), memory(120, 80, stride)
    with ShmWindow(client.display.name, window_id, shared_memory=shared) as window:
        segment = window.attach(picture.fd, picture.size)
        assert segment.is_shared == (shared is None)
        settle(window, picture.show(window, segment, format))
        expected = picture.rgba(120, 80, format)
        assert np.array_equal(client.display.picture(window_id), expected)
        assert np.array_equal(window.capture()[..., [2, 1, 0, 3]], expected)
        assert window.geometry() == (120, 80)


@pytest.mark.parametrize("format", ["bgra8unorm", "rgba8unorm"])
@pytest.mark.parametrize("size", [(1, 1), (17, 80), (120, 5), (63, 33)])
def test_a_picture_smaller_than_the_window_leaves_the_rest_alone(
    client: Client, memory: Callable[..., Memory], shared: bool | None, format: str, size: tuple[int, int]
) -> None:
    window_id, picture = client.window(120, 80), memory(120, 80, 512)
    width, height = size
    with ShmWindow(client.display.name, window_id, shared_memory=shared) as window:
        segment = window.attach(picture.fd, picture.size)
        settle(window, window.show(segment, width, height, picture.stride, format))
        seen = client.display.picture(window_id)
        assert np.array_equal(seen[:height, :width], picture.rgba(width, height, format))
        assert (seen[height:] == BACKGROUND).all()
        assert (seen[:, width:] == BACKGROUND).all()


def test_a_picture_larger_than_the_window_is_cut_off(
    client: Client, memory: Callable[..., Memory], shared: bool | None
) -> None:
    window_id, picture = client.window(50, 40), memory(300, 200)
    with ShmWindow(client.display.name, window_id, shared_memory=shared) as window:
        settle(window, picture.show(window, window.attach(picture.fd, picture.size)))
        screen = client.display.screen()
        assert np.array_equal(screen[:40, :50], picture.rgba(50, 40))
        assert not screen[40:, :, :3].any()
        assert not screen[:, 50:, :3].any()


@pytest.mark.parametrize("largest", [400, 3000])  # bytes: 94 pixels of a row, or two rows and a half
def test_pixels_that_are_sent_cross_in_pieces_of_rows_and_of_columns(
    client: Client, memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(X11Connection, "max_request", largest)
    window_id, picture = client.window(250, 80), memory(250, 80, 1024)
    with ShmWindow(client.display.name, window_id, shared_memory=False) as window:
        settle(window, picture.show(window, window.attach(picture.fd, picture.size)))
        assert np.array_equal(client.display.picture(window_id), picture.rgba(250, 80))


def test_a_surface_of_the_cpu_backend_is_shown_from_its_own_memory(client: Client, vks_device: vks.Device) -> None:
    window_id = client.window(70, 30)
    surface = vks_device.create_surface(70, 30, "bgra8unorm")
    with surface.access(0, 0) as view:
        vks_device.submit(vks_device.record().clear(view, (1, 0.5, 0, 1))).wait(
            30
        )  # a Swapchain does so before it shows
    with surface.export() as descriptor, ShmWindow(client.display.name, window_id) as window:
        fds = descriptor._open_fds()
        handle = descriptor._memory(fds[0])
        segment = window.attach(handle.fd, handle.size)
        for fd in fds:  # the server has a duplicate
            with contextlib.suppress(OSError):
                os.close(fd)
        with surface.access(0, 0):
            settle(window, window.show(segment, 70, 30, handle.stride))
        assert (abs(client.display.picture(window_id).astype(int) - (255, 128, 0, 255)) <= 1).all()
        assert window.statistics().copied_bytes == 0
    surface.close()


def test_a_window_made_by_glfw_is_shown_on(client: Client) -> None:
    done = private_displays.run_child(
        """
        import os, fcntl, glfw
        from vkshare.window.shm_window import ShmWindow
        assert glfw.init()
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        made = glfw.create_window(64, 32, "shm", None, None)
        window_id = glfw.get_x11_window(made)
        fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.write(fd, bytes((1, 2, 3, 4)) * (64 * 32))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        with ShmWindow(None, window_id) as window:
            segment = window.attach(fd, 64 * 32 * 4)
            while not (seen := window.capture())[..., :3].any():
                glfw.poll_events()
                window.wait(window.show(segment, 64, 32, 256), 5)
            print(sorted({tuple(map(int, pixel)) for pixel in seen.reshape(-1, 4)}), window.geometry())
        assert not glfw.window_should_close(made)
        glfw.terminate()
        """,
        client.display.environment,
    )
    assert done.strip() == "[(1, 2, 3, 255)] (64, 32)"


def test_a_thousand_frames_from_a_ring_of_three_all_arrive(client: Client, memory: Callable[..., Memory]) -> None:
    window_id = client.window(64, 48)
    ring = [memory(64, 48) for _ in range(3)]
    before = open_fds()
    with ShmWindow(client.display.name, window_id) as window:
        segments = [window.attach(one.fd, one.size) for one in ring]
        tokens: list[Token | None] = [None] * 3
        for frame in range(1000):
            slot = frame % 3
            token = tokens[slot]
            if token is not None:
                window.wait(token, 5)
            ring[slot].pixels[...] = frame % 251
            tokens[slot] = ring[slot].show(window, segments[slot])
            if frame % 100 == 99:
                last = tokens[slot]
                assert last is not None
                window.wait(last, 5)
                assert (client.display.picture(window_id)[..., :3] == frame % 251).all()
        assert window.statistics().shown == 1000
        assert window.statistics().pending == 0
    gc.collect()
    assert open_fds() == before


def test_rgba_may_grow_from_one_picture_to_the_next(client: Client, memory: Callable[..., Memory]) -> None:
    window_id, picture = client.window(120, 80), memory(120, 80)
    with ShmWindow(client.display.name, window_id) as window:
        segment = window.attach(picture.fd, picture.size)
        for width, height in ((10, 10), (120, 80), (30, 70)):
            settle(window, window.show(segment, width, height, picture.stride, "rgba8unorm"))
            expected = picture.rgba(width, height, "rgba8unorm")
            assert np.array_equal(client.display.picture(window_id)[:height, :width], expected)


def test_a_server_that_refuses_the_memory_is_sent_the_pixels(
    client: Client, memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = os.memfd_create("empty")  # what the server refuses, as it does when a proxy lost the fd
    send = X11Connection.send_with_fd
    monkeypatch.setattr(X11Connection, "send_with_fd", lambda self, opcode, body, fd: send(self, opcode, body, empty))
    window_id, picture = client.window(), memory(120, 80)
    with ShmWindow(client.display.name, window_id) as window:
        for format in ("bgra8unorm", "rgba8unorm"):
            segment = window.attach(picture.fd, picture.size)
            assert not segment.is_shared
            settle(window, picture.show(window, segment, format))
            assert np.array_equal(client.display.picture(window_id), picture.rgba(120, 80, format))
        assert not window.statistics().is_shared
    with ShmWindow(client.display.name, window_id, shared_memory=True) as window:
        with pytest.raises(UnsupportedError, match="refused the memory: BadMatch"):
            window.attach(picture.fd, picture.size)
        assert not window.is_lost
    os.close(empty)


def test_a_memory_that_is_refused_later_does_not_disturb_those_before(
    client: Client, memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = memory(120, 80)
    with ShmWindow(client.display.name, client.window()) as window:
        shared = window.attach(picture.fd, picture.size)
        token = picture.show(window, shared)
        empty, send = os.memfd_create("empty"), X11Connection.send_with_fd
        monkeypatch.setattr(X11Connection, "send_with_fd", lambda self, op, body, fd: send(self, op, body, empty))
        assert not window.attach(picture.fd, picture.size).is_shared
        os.close(empty)
        window.wait(token, 5)
        window.wait(picture.show(window, shared), 5)


def test_a_window_that_is_not_on_the_screen_cannot_be_captured(client: Client, memory: Callable[..., Memory]) -> None:
    picture = memory(120, 80)
    with ShmWindow(client.display.name, client.window(mapped=False)) as window:
        window.wait(picture.show(window, window.attach(picture.fd, picture.size)), 5)
        with pytest.raises(InvalidCallError, match="must be mapped"):
            window.capture()
        assert not window.is_lost


# ---- when memory may be drawn into again -----------------------------------------------------------------------------


def test_a_token_is_done_when_the_server_has_read_the_picture_and_not_before(
    client: Client, memory: Callable[..., Memory]
) -> None:
    window_id, pictures = client.window(), [memory(120, 80), memory(120, 80)]
    with ShmWindow(client.display.name, window_id) as window:
        segments = [window.attach(one.fd, one.size) for one in pictures]
        with stopped(client.display):
            first, second = (one.show(window, segment) for one, segment in zip(pictures, segments, strict=True))
            assert not window.is_done(first)
            assert not window.is_done(second)
            with at_least(0.1), pytest.raises(TimeoutError):
                window.wait(second, 0.12)
            with pytest.raises(TimeoutError):
                window.wait(second, 0)
            assert not window.is_lost
            assert window.statistics().pending == 2
            pictures[0].pixels[...] = 1
            pictures[1].pixels[...] = 2  # as it was not read yet, this is what is shown
        window.wait(second)
        assert window.is_done(first)
        assert window.is_done(second)
        assert (client.display.picture(window_id)[..., :3] == 2).all()


def test_ctrl_c_ends_a_wait_for_a_server_that_isstopped(client: Client, memory: Callable[..., Memory]) -> None:
    picture = memory(120, 80)
    with ShmWindow(client.display.name, client.window()) as window:
        segment = window.attach(picture.fd, picture.size)
        with stopped(client.display):
            token = picture.show(window, segment)
            for call in (lambda: window.wait(token), window.geometry, window.capture):
                timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                with pytest.raises(KeyboardInterrupt):
                    call()
                timer.join()
        window.wait(token, 5)
        assert window.geometry() == (120, 80)


def test_a_server_that_takes_nothing_any_more_is_a_timeout_and_no_hang(
    client: Client, memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x11_connection, "REPLY_TIMEOUT", 0.2)
    picture = memory(120, 80)
    with ShmWindow(client.display.name, client.window(), shared_memory=False) as window:
        segment = window.attach(picture.fd, picture.size)
        with stopped(client.display):
            with pytest.raises(TimeoutError, match="grabbed"):
                [picture.show(window, segment) for _ in range(100)]
            with pytest.raises(TimeoutError, match="grabbed"):
                window.geometry()
            assert not window.is_lost
        assert window.geometry() == (120, 80)


def test_events_that_another_client_sends_are_not_believed(client: Client, memory: Callable[..., Memory]) -> None:
    import xcffib.shm
    import xcffib.xproto

    window_id, picture = client.window(), memory(120, 80)
    with ShmWindow(client.display.name, window_id) as window:
        client.send(window_id, xcffib.xproto.DestroyNotifyEvent.synthetic(window_id, window_id))
        window.geometry()
        assert not window.is_lost
        settle(window, picture.show(window, window.attach(picture.fd, picture.size)))


def test_threads_may_share_a_window(client: Client, memory: Callable[..., Memory]) -> None:
    failures: list[BaseException] = []

    def work(picture: Memory, format: str) -> None:
        try:
            segment = window.attach(picture.fd, picture.size)
            for _ in range(30):
                window.wait(picture.show(window, segment, format), 5)
                window.geometry()
            segment.close()
        except BaseException as error:
            failures.append(error)

    with ShmWindow(client.display.name, client.window()) as window:
        formats = ("bgra8unorm", "rgba8unorm", "bgra8unorm", "rgba8unorm")
        threads = [threading.Thread(target=work, args=(memory(120, 80), format)) for format in formats]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert window.statistics().shown == 120
