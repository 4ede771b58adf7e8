"""Nothing is leaked, and nothing goes too early."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from typing import Any

import pytest
from support.native_objects import (
    Device,
    Fence,
    List,
    Surface,
    make_surface,
    open_fds,
)

from vkshare import _native, errors
from vkshare.backends.drawing import Drawable
from vkshare.core.pending_acquire import PendingAcquire
from vkshare.util.event_queue import EventQueue
from vkshare.util.library_calls import lib

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_submitting_leaves_reference_counts_as_they_were(device: Device, surface: Surface, fence: Fence) -> None:
    surface.acquire()
    commands = List(surface)
    device.submit(commands)
    items: list[Any] = [device, commands, fence, surface, _native.Submission, List, Fence]

    def submit_and_fail(value: int) -> None:
        device.submit(commands, signals=((fence, 2 * value),))
        device.submit(commands, waits=[(fence, 2 * value)], signals=fence).is_done()
        with pytest.raises(TypeError):
            device.submit(commands, waits=((fence, 1), 3))
        with pytest.raises(ValueError, match="signal"):
            device.submit(commands, waits=iter([(fence, 1)]), signals=((fence, 1),))

    submit_and_fail(1)  # the first error of a kind keeps its class
    gc.collect()  # what other tests left
    before = [sys.getrefcount(item) for item in items]
    for value in range(2, 500):
        submit_and_fail(value)
    device.wait_idle(5)
    device._reap()
    assert [sys.getrefcount(item) for item in items] == before


def test_objects_of_all_kinds_leave_nothing_behind(device: Device) -> None:
    kinds = [
        Device,
        Fence,
        Surface,
        List,
        EventQueue,
        _native.Submission,
        PendingAcquire,
    ]

    def a_round() -> None:
        fence, surface, event_queue = Fence(device), make_surface(device), EventQueue()
        surface.acquire()
        device.submit(List(surface), signals=fence).wait(5)
        surface.release(0)
        pending = surface._acquire_start(5)
        assert pending is not None
        pending._notify(event_queue, 1)
        pending.cancel()
        Fence._open(device, *fence._export())
        for bad in (
            lambda: Fence(device, -1),
            lambda: make_surface(device, page_fd=os.dup(0)),
            lambda: Drawable(width=1, height=1, format=99, usage=1),
        ):
            with pytest.raises((ValueError, TypeError, errors.VkshareError)):
                bad()

    a_round()
    gc.collect()
    device._reap()
    before, fds = [sys.getrefcount(kind) for kind in kinds], open_fds()
    for _ in range(100):
        a_round()
    gc.collect()
    device._reap()
    assert [sys.getrefcount(kind) for kind in kinds] == before
    assert open_fds() <= fds
    assert device._counters()["fences"] == 0
    assert device._counters()["surfaces"] == 0


def test_devices_leave_no_thread_and_no_fd_behind() -> None:
    Device()._shutdown()
    threads, fds = lib.vks_thread_count(), open_fds()
    for index in range(10):
        device = Device()
        make_surface(device).acquire()
        if index % 2:
            device._shutdown()
        del device
        gc.collect()
    assert lib.vks_thread_count() <= threads
    assert open_fds() <= fds


def test_cycles_through_a_device_are_collected() -> None:
    device = Device()
    surface, fence = make_surface(device), Fence(device)
    commands = List(surface)
    commands._compile()
    device.children = [surface, fence, commands]  # type: ignore[attr-defined]
    gone = [weakref.ref(item) for item in (device, surface, fence, commands)]
    del device, surface, fence, commands
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4


def test_weak_references_work_on_all_objects(device: Device, surface: Surface, fence: Fence) -> None:
    submission = device.submit(waits=(fence, 1))
    pending = surface._acquire_start(8)
    items = [
        device,
        surface,
        fence,
        submission,
        pending,
        EventQueue(),
        _native.CommandList(device),
    ]
    references = [weakref.ref(item) for item in items]
    assert [reference() for reference in references] == items
    fence.signal(1)
    submission.wait(5)
    device._reap()
    del submission
    items.clear()
    assert references[3]() is None
