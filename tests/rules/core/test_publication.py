"""Names of pictures: published, found and opened. Rule W1."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.published_names import LIMIT, Pipe, clear_red, has_ended, pixels_of, service_is_at_rest, wait_for_red
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.core import watching
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError

pytest_plugins = ["support.published_names"]

Open = Callable[..., vks.Device]
pytestmark = pytest.mark.usefixtures("runtime")


def _surface(device: vks.Device, stack: ExitStack) -> Any:
    return stack.enter_context(device.create_surface(16, 8))


def _pipe(device: vks.Device, stack: ExitStack) -> Any:
    return stack.enter_context(Pipe(device)).sender


def _receiver(device: vks.Device, stack: ExitStack) -> Any:
    return stack.enter_context(Pipe(device)).receiver


def _swapchain(device: vks.Device, stack: ExitStack) -> Any:
    return stack.enter_context(device.create_swapchain(vks.Headless(16, 8)))


def _compositor(device: vks.Device, stack: ExitStack) -> Any:
    return stack.enter_context(vks.compositor.Compositor(device, vks.Headless(16, 8)))


SOURCES = {
    "surface": _surface,
    "pipe": _pipe,
    "receiver": _receiver,
    "swapchain": _swapchain,
    "compositor": _compositor,
}


@pytest.mark.rule("W1")
@pytest.mark.parametrize("kind", SOURCES)
def test_each_kind_is_found_by_its_name_until_it_is_closed(device: vks.Device, stack: ExitStack, kind: str) -> None:
    source = SOURCES[kind](device, stack)
    publication = source.publish("the picture")
    (found,) = vks.find()
    assert (found.name, found.kind, found.width, found.height) == ("the picture", kind, 16, 8)
    formats = ("rgba8unorm", "bgra8unorm") if kind in ("swapchain", "compositor") else ("rgba8unorm",)
    assert found.format in formats
    assert (found.pid, found.backend) == (os.getpid(), device.backend)
    assert found.adapter.bytes == device.adapter.uuid
    assert (publication.name, publication.kind, publication.is_closed) == ("the picture", kind, False)
    source.close()
    assert publication.is_closed
    assert vks.find() == []
    assert "closed" in repr(publication)
    stack.close()
    wait_until(service_is_at_rest)


@pytest.mark.rule("W1")
def test_a_name_is_free_once_its_publication_is_closed(device: vks.Device, runtime: Path) -> None:
    with device.create_surface(8, 8) as surface:
        with surface.publish("one"), surface.publish("two"):
            assert [each.name for each in vks.find()] == ["one", "two"]
            with pytest.raises(InvalidCallError, match="'one' is published by this process already: choose another"):
                surface.publish("one")
            assert len(vks.find()) == 2
        assert vks.find() == []
        for _ in range(3):
            publication = surface.publish("one")
            publication.close()
            publication.close()
        wait_until(lambda: list(runtime.iterdir()) == [])


@pytest.mark.rule("W1")
def test_a_publication_that_is_dropped_still_names_its_source(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface:
        surface.publish("kept")
        assert [each.name for each in vks.find()] == ["kept"]


@pytest.mark.rule("W1")
@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", ".", "ünï çode 画", "x" * 64, "-v", "name.lock", "%s\\n"])
def test_any_printable_name_is_a_file_in_the_runtime_folder_alone(device: vks.Device, runtime: Path, name: str) -> None:
    before = sorted(runtime.parent.iterdir())
    with device.create_surface(8, 8) as surface, surface.publish(name):
        files = list(runtime.rglob("*"))
        assert len(files) == 2
        assert all(file.parent == runtime and file.name.startswith("vkshare-name-") for file in files)
        assert sorted(runtime.parent.iterdir()) == before
        assert [each.name for each in vks.find()] == [name]
        vks.open_published(name, device).close()


@pytest.mark.rule("W1")
@pytest.mark.parametrize("name", ["", "x" * 65, "a\0b", "a\nb", "\ud800", "\u202e"])
def test_a_name_that_is_none_is_refused_with_what_is_allowed(device: vks.Device, name: str) -> None:
    with device.create_surface(8, 8) as surface:
        with pytest.raises(ValueError, match=r"name is .*; allowed are 1 to 64 printable characters"):
            surface.publish(name)
        with pytest.raises(ValueError, match="allowed are"):
            vks.open_published(name, device)
        with pytest.raises(TypeError, match="name must be a string, not bytes"):
            surface.publish(b"name")  # type: ignore[arg-type]
    assert vks.find() == []


@pytest.mark.rule("W1")
def test_a_surface_that_is_opened_by_its_name_is_the_same_under_the_same_mutex(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    with device.create_surface(16, 8) as surface, surface.publish("shared", key=5):
        assert vks.find()[0].key == 5
        with vks.open_published("shared", other) as theirs:
            assert isinstance(theirs, vks.Surface)
            clear_red(surface, 77, 0, 5)
            assert not theirs.is_owned
            with theirs.access(5, 0, LIMIT):
                assert theirs.read()[0, 0, 0] == 77
                assert surface.mutex.statistics().state == "owned"
        with pytest.raises(ValueError, match="key"):
            surface.publish("other", key=-1)


@pytest.mark.rule("W1")
def test_the_one_receiver_of_a_pipe_is_opened_by_the_name_without_a_copy(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    sender, descriptor = vks.pipe(device, 16, 8, metadata_size=8)
    with sender, descriptor:
        sender.publish("pipe")
        with vks.open_published("pipe", other) as receiver:
            assert isinstance(receiver, vks.Receiver)
            with sender.frame(b"first") as frame:
                device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
            with receiver.frame(LIMIT) as (surface, metadata):
                assert metadata == b"first"  # the sender's own, not a copy's stamp
                assert surface.read()[0, 0, 0] == 255
            with pytest.raises(InvalidCallError):
                vks.open_published("pipe", other)
        vks.open_published(vks.find()[0], other).close()  # another one may come after it


@pytest.mark.rule("W1", "W4")
@pytest.mark.parametrize("kind", ["receiver", "swapchain", "compositor"])
def test_the_others_are_opened_by_the_name_as_receivers_of_copies(vks_open: Open, stack: ExitStack, kind: str) -> None:
    device, other = vks_open(), vks_open()
    if kind == "receiver":
        pipe = stack.enter_context(Pipe(device))
        pipe.receiver.publish("it")
        receiver = stack.enter_context(vks.open_published("it", other))
        assert wait_for_red(receiver, pipe.turn()) == 1
    elif kind == "swapchain":
        swapchain = _swapchain(device, stack)
        swapchain.publish("it")
        receiver = stack.enter_context(vks.open_published("it", other))
        with swapchain.frame() as frame:
            device.submit(device.record().clear(frame.view, (9 / 255, 0, 0, 1)))
        assert wait_for_red(receiver, 9) == 1
    else:
        compositor = _compositor(device, stack)
        compositor.publish("it")
        source = stack.enter_context(device.create_surface(16, 8))
        compositor.open_window(source)
        receiver = stack.enter_context(vks.open_published("it", other))
        clear_red(source, 9, 0, 1)
        assert wait_for_red(receiver, 9) > 0


@pytest.mark.rule("W1")
def test_a_watch_by_the_name_gets_each_pixel_and_ends_with_the_name(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    picture = np.random.default_rng(1).integers(0, 256, (8, 16, 4), np.uint8)
    with device.create_surface(16, 8) as surface:
        publication = surface.publish("it")
        with watching.watch("it", other) as receiver:
            with surface.access():
                surface.write(picture)
            wait_until(lambda: np.array_equal(pixels_of(receiver), picture))
            assert publication.statistics().watchers == 1
            assert publication.statistics().copies > 0
            publication.close()
            wait_until(lambda: has_ended(receiver))
        clear_red(surface, 1)  # it stays a surface


@pytest.mark.rule("W1")
def test_a_closed_watcher_is_dropped_by_the_publisher(device: vks.Device) -> None:
    with Pipe(device) as pipe:
        publication = pipe.sender.publish("it")
        with watching.watch("it", device):
            assert publication.statistics().watchers == 1
        wait_until(lambda: publication.statistics().watchers == 0)
        assert pipe.sender._watched is None


@pytest.mark.rule("W1")
def test_a_name_without_an_owner_is_reported_with_those_that_there_are(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, surface.publish("there"):
        for call in (vks.open_published, watching.watch):
            with pytest.raises(FileNotFoundError, match="has published the name 'gone'; published are: 'there'"):
                call("gone", device)
        with pytest.raises(FileNotFoundError, match="'gone'"):
            watching.device_for("gone")


@pytest.mark.rule("W1")
def test_what_has_no_picture_to_copy_is_not_published(device: vks.Device, stack: ExitStack) -> None:
    sender, descriptor = vks.buffer_pipe(device, 64)
    with sender, descriptor, pytest.raises(UnsupportedError, match="buffers is not supported: a buffer has no picture"):
        sender.publish("buffers")
    surface = stack.enter_context(device.create_surface(8, 8, usage={"render", "sample"}))
    with pytest.raises(UnsupportedError, match=r"copies need 'copy'; create it with usage \"copy\" too"):
        surface.publish("no copy")
    pipe = stack.enter_context(Pipe(device))
    with pipe.sender.frame() as frame, pytest.raises(InvalidCallError, match="belongs to"):
        frame.surface.publish("a pipe's")
    closed = device.create_surface(8, 8)
    closed.close()
    with pytest.raises(ClosedError):
        closed.publish("closed")
    assert vks.find() == []


@pytest.mark.rule("W1")
def test_the_rate_is_of_the_frames_that_came_lately(device: vks.Device) -> None:
    with Pipe(device) as pipe:
        publication = pipe.sender.publish("it")
        assert vks.find()[0].rate == 0
        for _ in range(20):
            pipe.turn()
        assert 0 < vks.find()[0].rate <= 20 / 0.1
        assert publication.statistics().rate > 0
        wait_until(lambda: vks.find()[0].rate == 0)  # nothing came in the last seconds


@pytest.mark.rule("W1")
def test_the_device_of_a_name_is_opened_on_the_publishers_adapter(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, surface.publish("it"):
        for source in ("it", vks.find()[0], surface):
            with watching.device_for(source) as opened:
                assert opened.adapter.uuid == device.adapter.uuid
                assert opened.backend == device.backend
                vks.open_published("it", opened).close()


@pytest.mark.rule("W1")
def test_a_closed_device_ends_the_names_of_its_surfaces(vks_open: Open) -> None:
    device = vks_open()
    surface = device.create_surface(8, 8)
    publication = surface.publish("it")
    device.close()
    wait_until(lambda: publication.is_closed)
    assert vks.find() == []
    wait_until(service_is_at_rest)


@pytest.mark.rule("W1", "X19")
def test_a_runtime_folder_that_others_can_write_to_is_refused_on_both_sides(device: vks.Device, runtime: Path) -> None:
    with device.create_surface(8, 8) as surface, surface.publish("it"):
        runtime.chmod(0o777)
        with pytest.raises(InvalidCallError, match="not this user's alone"):
            surface.publish("another")
        with pytest.raises(InvalidCallError, match="not this user's alone"):
            vks.open_published("it", device)
        assert vks.find() == []
        runtime.chmod(0o700)
        assert len(vks.find()) == 1


@pytest.mark.rule("W1", "X19")
def test_a_publisher_and_its_clients_refuse_processes_of_another_user(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vkshare.ipc import sockets

    def check_peer(sock: object) -> int:
        if threading.current_thread().name in refused:
            raise PermissionError("the peer is another user")
        return real(sock)  # type: ignore[arg-type]

    real = sockets.check_peer
    with device.create_surface(8, 8) as surface:
        surface.publish("it")
        refused = {"MainThread"}
        monkeypatch.setattr(sockets, "check_peer", check_peer)
        with pytest.raises(PermissionError):
            vks.open_published("it", device)
        assert vks.find() == []
        refused = {"vkshare-service"}
        with pytest.raises((ClosedError, FileNotFoundError)):  # it hangs up before or after the request was sent
            vks.open_published("it", device)
        refused = set()
        vks.open_published("it", device).close()


def test_a_missing_runtime_folder_is_an_error_with_its_path(
    device: vks.Device, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / "gone"))
    with device.create_surface(8, 8) as surface, pytest.raises(FileNotFoundError, match="gone"):
        surface.publish("it")
    wait_until(service_is_at_rest)
