"""FenceCore over _native.Fence, and EventQueue."""

from __future__ import annotations

import errno
import gc
import os
import select
import threading

import pytest
from support.fd_counts import no_fd_left
from support.native_objects import (
    RGBA8,
    TOP,
    Device,
    Fence,
    Surface,
    make_surface,
    open_fds,
)

from vkshare import errors
from vkshare.core import submissions
from vkshare.util.event_queue import EventQueue

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_a_fence_tells_its_state(device: Device) -> None:
    fence = Fence(device, 5)
    assert (fence.value, fence.queued_value, fence.handle) == (5, 5, 0)
    assert fence.device is device
    assert not fence.is_follower
    assert not fence.is_native
    assert not fence.is_closed
    assert fence.is_done(5)
    assert not fence.is_done(6)
    fence.close()
    fence.close()
    assert fence.is_closed
    for call in (
        lambda: fence.signal(9),
        lambda: fence.value,
        lambda: fence.queued_value,
        lambda: fence.wait(9, 0),
        fence._export,
    ):
        with pytest.raises(errors.ClosedError):
            call()


@pytest.mark.rule("X10")
def test_a_follower_is_read_only_and_follows(device: Device) -> None:
    fence, other = Fence(device, 2), Device()
    follower = Fence._open(other, *fence._export())
    assert isinstance(follower, Fence)
    assert follower.is_follower
    assert follower.value == 2
    with pytest.raises(errors.InvalidCallError, match="read-only"):
        follower.signal(3)
    timer = threading.Timer(0.05, fence.signal, (3,))
    timer.start()
    follower.wait(3, 5)
    timer.join()
    other._shutdown()


@pytest.mark.rule("X13", "X15", "X18")
def test_opening_takes_over_the_fds_whatever_happens(device: Device, fence: Fence) -> None:
    def null() -> int:
        return os.open("/dev/null", os.O_RDONLY)

    Fence._open(device, *fence._export()).close()  # the first starts the thread that watches peers
    gc.collect()  # or what earlier tests left goes in between
    before = open_fds()
    for _ in range(20):
        with pytest.raises(errors.DescriptorError):
            Fence._open(device, null(), -1)
        with pytest.raises(errors.DescriptorError):
            make_surface(device, page_fd=null(), semaphore_fd=null())
        with pytest.raises(TypeError, match="device must be"):
            Fence._open(None, null(), null())
        with pytest.raises(TypeError, match="pixels must be"):
            Surface(device, width=4, height=4, format=RGBA8, pixels=b"1234", stride=1, page_fd=null())
        Fence._open(device, *fence._export()).close()
    gc.collect()
    assert open_fds() == before
    for bad in (-2, 2**31, "1", None):
        with pytest.raises((TypeError, ValueError), match="page_fd"):
            Fence._open(device, bad, -1)


@pytest.mark.rule("X23")
def test_event_fd_becomes_readable_at_the_value(fence: Fence) -> None:
    fd = fence.event_fd(2)
    try:
        fence.signal(1)
        assert select.select([fd], [], [], 0) == ([], [], [])
        fence.signal(2)
        assert select.select([fd], [], [], 5)[0] == [fd]
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.rule("X23")
def test_a_hub_collects_events_and_failures(device: Device, fence: Fence) -> None:
    event_queue = EventQueue()
    assert event_queue.drain() == []
    for token in range(200):
        fence._notify(1, event_queue, token)
    fence._notify(2, event_queue, TOP - 1)
    submission = device.submit(waits=(fence, 1))
    submissions.notify(submission, event_queue, token=1000)
    fence.signal(1)
    submission.wait(5)
    events = []
    while len(events) < 201:
        assert select.select([event_queue.fileno()], [], [], 5)[0]
        events += event_queue.drain()
    assert sorted(events) == [(token, None) for token in [*range(200), 1000]]
    assert select.select([event_queue.fileno()], [], [], 0)[0] == []
    fence.close()
    [(token, error)] = event_queue.drain()
    assert token == TOP - 1
    assert isinstance(error, errors.ClosedError)


def test_an_adopted_semaphore_needs_a_vulkan_device(device: Device) -> None:
    with pytest.raises(ValueError, match="VK_NULL_HANDLE"):
        Fence._adopt(device, 0)
    with pytest.raises(errors.UnsupportedError):
        Fence._adopt(device, 1234)


def test_running_out_of_fds_is_an_os_error_with_its_errno(fence: Fence, surface: Surface) -> None:
    os.close(fence._export()[0])  # its page is shared from here on
    calls = [fence._export, surface._export, lambda: fence.event_fd(9), EventQueue]
    codes = []
    with no_fd_left():
        for call in calls:
            try:
                call()
            except OSError as error:
                codes.append(error.errno)
    assert codes == [errno.EMFILE] * len(calls)
