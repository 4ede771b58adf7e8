"""_native.Device and DeviceCore: its state and its options."""

from __future__ import annotations

from typing import Any

import pytest
from support.native_objects import (
    Device,
    Fence,
)

from vkshare import errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_a_device_tells_its_name_and_state(device: Device) -> None:
    assert device.name == "extension"
    assert not device.is_closed
    assert not device.is_lost
    device._check()
    device._count_copy(12)
    counters = device._counters()
    assert counters["copied_bytes"] == 12
    assert counters["held_limit"] > 0
    assert set(counters) == {
        "submitted", "completed", "transfers", "submissions", "held", "held_limit", "held_total", "failed",
        "backpressure_waits", "copied_bytes", "fences", "surfaces",
    }  # fmt: skip
    device._shutdown()
    device._shutdown()
    assert device.is_closed
    with pytest.raises(errors.ClosedError):
        device._check()
    with pytest.raises(errors.ClosedError):
        device.submit()


@pytest.mark.rule("X21")
def test_a_device_that_is_marked_lost_says_so(device: Device, fence: Fence) -> None:
    device._mark_lost()
    assert device.is_lost
    for call in (device._check, device.submit, lambda: fence.wait(1, 5)):
        with pytest.raises(errors.DeviceLostError):
            call()


HANDLES: dict[Any, int] = {"get_device_proc_addr": 1, "device": 1, "queue": 1}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"name": 1}, TypeError, "name must be a str"),
        ({"name": "\ud800"}, UnicodeError, "surrogates"),
        ({"held_limit": -1}, ValueError, "held_limit is -1; allowed is 0 to 4294967295"),
        ({"held_limit": "1"}, TypeError, "held_limit must be an integer"),
        ({"raster_threads": 5000}, ValueError, "raster_threads is 5000; allowed is 0 to 1024"),
        ({"vulkan": 1}, TypeError, "must be a mapping, not int"),
        ({"vulkan": {}}, TypeError, "missing 3 required keyword-only arguments: 'get_device_proc_addr'"),
        ({"vulkan": HANDLES | {"devise": 1}}, TypeError, "unexpected keyword argument 'devise'"),
        ({"vulkan": HANDLES | {1: 1}}, TypeError, "keywords must be strings"),
        ({"vulkan": HANDLES | {"get_device_proc_addr": 0}}, ValueError, "get_device_proc_addr is 0"),
        ({"unknown": 1}, TypeError, "unknown"),
    ],
)
def test_bad_device_options_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Device(**options)


@pytest.mark.parametrize(
    ("locks", "error", "text"),
    [
        ({"lock_queue": print}, ValueError, "give both or neither"),
        ({"unlock_queue": 4096}, ValueError, "give both or neither"),
        ({"lock_queue": print, "unlock_queue": 4096}, TypeError, "unlock_queue must be a callable"),
        ({"lock_queue": 4096, "unlock_queue": print}, TypeError, "lock_queue must be a callable"),
        ({"lock_queue": "x", "unlock_queue": "y"}, TypeError, "lock_queue must be an integer"),
        ({"lock_queue": 0, "unlock_queue": 0}, ValueError, "lock_queue is 0"),
        ({"lock_queue": 4096, "unlock_queue": 4096, "lock_user": "x"}, TypeError, "lock_user must be an integer"),
    ],
)
def test_bad_queue_locks_are_refused(locks: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Device(vulkan=HANDLES | locks)
