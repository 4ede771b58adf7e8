"""SurfaceCore over _native.Surface, PendingAcquire and page_inspect."""

from __future__ import annotations

import os
import select
from typing import Any

import pytest
from support.native_objects import (
    DRAWABLE,
    HEIGHT,
    RGBA8,
    STRIDE,
    WIDTH,
    Device,
    Fence,
    List,
    Surface,
    make_surface,
)

from vkshare import errors
from vkshare.util import pages
from vkshare.util.event_queue import EventQueue

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


@pytest.mark.rule("K2", "K3", "K4", "K5")
def test_a_surface_goes_from_owner_to_owner(device: Device, surface: Surface) -> None:
    peer = make_surface(Device(), page_fd=(fds := surface._export())[0], semaphore_fd=fds[1])
    assert not surface.is_owned
    surface.acquire()
    assert surface.is_owned
    with pytest.raises(errors.InvalidCallError, match="owns the surface already"):
        surface.acquire(7, None)
    with pytest.raises(errors.NotOwnerError):
        peer.release()
    surface.release(1)
    peer.acquire(1, 5)
    assert surface.generation == peer.generation
    assert peer._next_key() == surface._next_key() - 1
    assert peer._close() >= 0
    assert peer._close() >= 0
    assert peer.is_closed
    with pytest.raises(errors.AbandonedError, match=r"recover\(\)"):
        surface.acquire(0, 5)
    surface.recover(5)
    assert surface.is_owned
    surface.release()
    with pytest.raises(errors.InvalidCallError, match="not abandoned"):
        surface.recover(0)


@pytest.mark.rule("K25")
def test_gpu_mode_returns_at_once(device: Device, surface: Surface) -> None:
    surface.acquire(9, mode="gpu")
    assert not surface.is_owned
    submission = device.submit(List(surface))
    assert submission.is_held
    surface.release(1)


def test_a_pending_acquire_is_granted_or_cancelled(device: Device, surface: Surface) -> None:
    fds = surface._export()
    peer = make_surface(Device(), page_fd=fds[0], semaphore_fd=fds[1])
    event_queue = EventQueue()
    assert surface._acquire_start(0) is None
    assert surface.is_owned
    pending = peer._acquire_start(4)
    assert pending is not None
    assert not pending.is_done()
    pending._notify(event_queue, 11)
    surface.release(4)
    assert select.select([event_queue.fileno()], [], [], 5)[0]
    assert event_queue.drain() == [(11, None)]
    assert pending.is_done()
    assert pending.cancel() is False
    assert peer.is_owned
    peer.release(0)
    pending = surface._acquire_start(99)
    assert pending is not None
    assert pending.cancel() is True
    surface.acquire(0, 5)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"width": 0}, ValueError, "width is 0, allowed is 1 to"),
        ({"height": -3}, ValueError, "height is -3"),
        ({"width": 2**40}, ValueError, "width is"),
        ({"format": "rgba8unorm"}, TypeError, "format must be an integer"),
        ({"stride": -1}, ValueError, "stride is -1"),
        ({"stride": 0}, ValueError, "stride 0"),
        ({"stride": 65}, ValueError, "stride 65"),
        ({"pixels": bytes(512)}, TypeError, "pixels must be a writable"),
        ({"pixels": 5}, TypeError, "pixels must be a writable"),
        ({"pixels": bytearray(100)}, ValueError, "pixels holds 100 bytes"),
        ({"pixels": bytearray()}, ValueError, "pixels holds 0 bytes"),
        ({"page_fd": "x"}, TypeError, "page_fd must be an integer"),
        ({"semaphore_fd": -2}, ValueError, "semaphore_fd is -2"),
    ],
)
def test_bad_surface_options_are_refused(
    device: Device, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    given = {"width": WIDTH, "height": HEIGHT, "format": RGBA8, "pixels": bytearray(HEIGHT * STRIDE), "stride": STRIDE}
    with pytest.raises(error, match=text):
        Surface(device, **given | options)
    with pytest.raises(TypeError, match="missing 2 required keyword-only arguments: 'height' and 'format'"):
        Surface(device, width=1)


def test_a_surface_lends_its_pixels_until_its_work_has_run(device: Device) -> None:
    memory = bytearray(HEIGHT * STRIDE)
    surface = Surface(device, width=WIDTH, height=HEIGHT, format=RGBA8, pixels=memory, stride=STRIDE)
    DRAWABLE.give_to(surface)
    with pytest.raises(BufferError):
        memory.clear()
    surface.acquire()
    commands = List(surface)
    device.submit(commands)
    surface._close()
    del surface, commands
    device.wait_idle(5)
    device._reap()
    memory.clear()


def test_sync_is_for_vulkan(surface: Surface) -> None:
    surface._set_commands(0, 0)
    surface.acquire()
    with pytest.raises(errors.VkshareError):
        surface._sync()


@pytest.mark.rule("K33")
def test_page_look_reads_a_page_and_refuses_other_files(device: Device, surface: Surface, fence: Fence) -> None:
    surface.acquire()
    page_fd, _ = surface._export()
    page = pages.page_inspect(page_fd)
    os.close(page_fd)
    assert (page["kind"], page["width"], page["height"], page["format"]) == (2, WIDTH, HEIGHT, RGBA8)
    assert page["owner_pid"] == os.getpid()
    [slot] = [slot for slot in page["slots"] if slot["slot"] == page["owner_slot"]]
    assert slot["name"] == "extension"
    fence_fd, _ = fence._export()
    assert pages.page_inspect(fence_fd)["kind"] == 1
    os.close(fence_fd)
    with open("/dev/null") as other, pytest.raises(errors.DescriptorError):
        pages.page_inspect(other.fileno())
    for bad in (-1, "1", 2**31):
        with pytest.raises((TypeError, OverflowError, errors.DescriptorError)):
            pages.page_inspect(bad)
