"""Device.handles: an engine runs on a device of vkshare's, and takes the lock of its queue."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.errors import ClosedError, UnsupportedError
from vkshare.testing import assert_images_equal

pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E1")]

RED = (1, 0, 0, 1)
Open = Callable[..., vks.Device]


@pytest.fixture
def host(vks_open: Open) -> vks.Device:
    device = vks_open(name="host")
    if device.backend == "cpu":
        pytest.skip("the CPU backend has no Vulkan handles")
    return device


def adopted(host: vks.Device, **locks: Any) -> vks.Device:
    """A second device on the handles of the first, as an engine is."""
    found = host.handles
    return vks.Device.from_handles(
        instance=found.instance,
        physical_device=found.physical_device,
        device=found.device,
        queue=found.queue,
        queue_family=found.queue_family,
        api_version=found.api_version,
        enabled_extensions=found.extensions,
        features=found.features,
        get_instance_proc_addr=found.get_instance_proc_addr,
        **locks,
    )


def test_the_cpu_backend_has_no_handles(vks_open: Open) -> None:
    device = vks_open()
    if device.backend != "cpu":
        pytest.skip("this device has handles")
    with pytest.raises(UnsupportedError, match="the CPU backend has no Vulkan handles"):
        _ = device.handles


def test_the_handles_name_what_an_engine_needs(host: vks.Device) -> None:
    found, needed = host.handles, vks.vulkan_requirements()
    assert found.api_version >= needed.api_version
    assert set(needed.device_extensions) <= set(found.extensions)
    assert set(needed.features) <= set(found.features)
    assert all((found.instance, found.physical_device, found.device, found.queue, found.get_instance_proc_addr))
    host.close()
    with pytest.raises(ClosedError):
        _ = host.handles


def test_an_engine_on_the_handles_shares_surfaces_with_their_device(host: vks.Device) -> None:
    lock = host.handles.lock
    with adopted(host, lock_queue=lock.acquire, unlock_queue=lock.release) as engine:
        assert engine.handles.device == host.handles.device
        with host.create_surface(16, 8) as surface, engine.open_surface(surface) as theirs:
            with theirs.access() as view:
                engine.submit(engine.record().clear(view, RED))
            with surface.access():
                assert_images_equal(surface.read(), np.full((8, 16, 4), (255, 0, 0, 255), np.uint8))


def test_what_is_submitted_while_an_engine_has_the_queue_runs_afterwards(host: vks.Device) -> None:
    with host.create_fence() as fence:
        with host.handles.lock:
            submission = host.submit(signals=(fence, 1))
            assert submission.is_held
            assert fence.value == 0
        submission.wait(10)
        assert fence.value == 1


def test_the_lock_has_one_holder_and_any_thread_may_release_it(host: vks.Device) -> None:
    lock = host.handles.lock
    lock.acquire(timeout=0)
    with pytest.raises(TimeoutError):
        host.handles.lock.acquire(timeout=0.01)
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join(10)
    lock.release()  # nothing is locked: no effect
    lock.acquire(timeout=0)
    lock.release()


def test_a_present_waits_until_an_engine_has_released_the_queue(host: vks.Device) -> None:
    if "VK_EXT_headless_surface" not in host.handles.extensions:
        pytest.skip("this driver has no VK_EXT_headless_surface: its frames are presented without its queue")
    with host.create_swapchain(vks.Headless(16, 16)) as swapchain:
        frame = swapchain.acquire(10)
        host.submit(host.record().clear(frame.view, RED)).wait(10)
        presented = threading.Event()

        def present() -> None:
            swapchain.present(frame)
            presented.set()

        thread = threading.Thread(target=present)
        with host.handles.lock:
            thread.start()
            assert not presented.wait(0.05)
        thread.join(10)
        assert presented.is_set()


@pytest.mark.parametrize("form", ["callables", "addresses"])
def test_an_engine_and_the_device_never_submit_at_once(host: vks.Device, form: str) -> None:
    # The validation layer notices two threads that use one queue at once.
    lock = host.handles.lock
    take: Callable[[], Any] = lock.acquire
    give: Callable[[], Any] = lock.release
    if form == "addresses":
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        c_lock, c_unlock = function(lock.lock_function), function(lock.unlock_function)
        take, give = partial(c_lock, lock.user), partial(c_unlock, lock.user)
    errors: list[BaseException] = []

    def submit(device: vks.Device) -> None:
        try:
            with device.create_fence() as fence:
                for value in range(1, 101):
                    device.submit(signals=(fence, value))
                fence.wait(100, 30)
        except BaseException as error:
            errors.append(error)

    with adopted(host, lock_queue=take, unlock_queue=give) as engine:
        threads = [threading.Thread(target=submit, args=(each,)) for each in (host, engine, host)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not errors


def test_the_lock_of_a_closed_device_is_refused_and_its_functions_return(host: vks.Device) -> None:
    lock = host.handles.lock
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    host.close()
    with pytest.raises(ClosedError):
        lock.acquire()
    lock.release()
    function(lock.lock_function)(lock.user)
    function(lock.unlock_function)(lock.user)
