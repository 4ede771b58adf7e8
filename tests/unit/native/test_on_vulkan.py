"""What needs a Vulkan device: an engine's queue lock, retired command buffers, an adopted semaphore."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.native_objects import Device, Fence

from vkshare import _native

pytestmark = [pytest.mark.driver_dependent, pytest.mark.wheel]

MakeDevice = Callable[..., Device]


@pytest.fixture
def backend(vks_adapter: Any) -> Iterator[Any]:
    if vks_adapter.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    from vkshare.backends import vulkan

    backend = vulkan.open(vks_adapter, name="native")
    yield backend
    backend.close()


@pytest.fixture
def make_device(backend: Any) -> Iterator[MakeDevice]:
    """Makes one core device on the backend's VkDevice, with the lock that it is given."""
    made: list[weakref.ref[Device]] = []

    def make(**locks: Any) -> Device:
        handles = {key: value for key, value in backend.native_handles().items() if "lock" not in key}
        device = Device(vulkan=handles | locks)
        made.append(weakref.ref(device))
        return device

    yield make
    for reference in made:
        if (device := reference()) is not None:
            device._shutdown()


class EngineLock:
    """Counts how often it was taken."""

    def __init__(self) -> None:
        self.lock, self.locked, self.unlocked = threading.RLock(), 0, 0

    def acquire(self) -> None:
        self.locked += 1
        self.lock.acquire()

    def release(self) -> None:
        self.unlocked += 1
        self.lock.release()


def test_the_lock_is_taken_round_every_submission(make_device: MakeDevice) -> None:
    engine = EngineLock()
    device = make_device(lock_queue=engine.acquire, unlock_queue=engine.release)
    for _ in range(10):
        device.submit()
    device.wait_idle(5)
    assert engine.locked >= 10
    assert engine.locked == engine.unlocked


@pytest.mark.serial
def test_threads_that_hold_the_lock_and_want_the_gil_do_not_deadlock(make_device: MakeDevice) -> None:
    engine = EngineLock()
    device = make_device(lock_queue=engine.acquire, unlock_queue=engine.release)
    fence = Fence(device)
    stop = False
    wrong: list[tuple[int, int]] = []

    def render() -> None:
        while not stop:
            with engine.lock:
                sum(range(1000))  # Python code: wants the GIL while it holds the lock

    def look() -> None:
        while not stop:
            completed, value = device._completed, fence.value
            if value > fence.queued_value or completed > device._counters()["submitted"]:
                wrong.append((completed, value))
            device._counters()

    threads = [threading.Thread(target=work) for work in (render, render, look)]
    for thread in threads:
        thread.start()
    count, end = 0, time.monotonic() + 1
    while time.monotonic() < end:
        submission = device.submit(signals=fence)
        count += 1
        if count % 7 == 0:
            submission.wait(5)
        if count % 5 == 0:
            fence.wait(fence.queued_value, 5)
    device.wait_idle(5)
    stop = True
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not wrong
    assert fence.value == count


def test_a_lock_that_raises_is_told_and_the_work_goes_on(
    make_device: MakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: reported.append(str(event.exc_value)))

    def broken() -> None:
        raise RuntimeError("from the lock")

    device = make_device(lock_queue=broken, unlock_queue=lambda: None)
    device.submit().wait(5)
    assert "from the lock" in reported


def test_the_callables_are_let_go_with_the_device(make_device: MakeDevice) -> None:
    engine = EngineLock()
    gone = weakref.ref(engine)
    device = make_device(lock_queue=engine.acquire, unlock_queue=engine.release)
    device.submit()
    del engine
    assert gone() is not None
    del device
    gc.collect()
    assert gone() is None


def test_the_lock_may_be_a_pair_of_c_addresses(make_device: MakeDevice) -> None:
    taken: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    lock, unlock = kind(lambda user: taken.append(user)), kind(lambda user: taken.append(-user))
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in (lock, unlock)]
    device = make_device(lock_queue=addresses[0], unlock_queue=addresses[1], lock_user=77)
    device.submit().wait(5)
    device._shutdown()
    assert taken[:2] == [77, -77]


class Recorded(_native.CommandList):
    """One command buffer with nothing in it."""

    def __init__(self, device: Device, command_buffer: int, retire: Callable[[], None]) -> None:
        super().__init__(device)
        self.command_buffer, self.retire = command_buffer, retire

    def _compile(self) -> None:
        self._set_vulkan(self.command_buffer, [], self.retire)


@pytest.fixture
def command_buffer(backend: Any) -> int:
    from vkshare.backends.vulkan.api import address
    from vkshare.backends.vulkan.objects import Objects

    return address(Objects(backend.context).record(lambda commands: None, name="empty"))


def test_a_command_buffer_is_retired_by_reap_once_its_last_use_has_run(
    make_device: MakeDevice, command_buffer: int
) -> None:
    device, retired = make_device(), []
    fence = Fence(device)
    commands = Recorded(device, command_buffer, lambda: retired.append(threading.get_ident()))
    submission = device.submit(commands, commands, waits=(fence, 1))
    del commands
    gc.collect()
    assert device._reap() == 0
    fence.signal(1)
    submission.wait(5)
    assert retired == []  # never from a thread of the core
    while not retired:
        device._reap()
    assert retired == [threading.get_ident()]
    assert device._reap(all=True) == 0


def test_what_was_not_reaped_is_retired_with_the_device(make_device: MakeDevice, command_buffer: int) -> None:
    device, retired = make_device(), []
    device.submit(Recorded(device, command_buffer, lambda: retired.append(1)))
    gc.collect()
    del device
    gc.collect()
    assert retired == [1]


def test_a_retire_that_raises_is_told(
    make_device: MakeDevice, command_buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: reported.append(str(event.exc_value)))

    def broken() -> None:
        raise RuntimeError("from retire")

    device = make_device()
    device.submit(Recorded(device, command_buffer, broken)).wait(5)
    gc.collect()
    assert device._reap(all=True) == 1
    assert reported == ["from retire"]


def test_raw_command_buffers_run_after_lists(make_device: MakeDevice, command_buffer: int) -> None:
    device = make_device()
    fence = Fence(device)
    commands = Recorded(device, command_buffer, lambda: None)
    device.submit(commands, command_buffer, command_buffer, signals=fence).wait(5)
    assert fence.value == 1
    with pytest.raises(ValueError, match="give the raw ones last"):
        device.submit(command_buffer, commands)


def test_an_adopted_semaphore_counts_as_it_does(make_device: MakeDevice) -> None:
    device = make_device()
    fence = Fence(device, 3)
    adopted = Fence._adopt(device, fence.handle)
    assert adopted.handle == fence.handle != 0
    assert adopted.value == 3
    assert not adopted.is_follower
    device.submit(signals=(fence, 4)).wait(5)
    assert adopted.value == 4
    adopted.close()
    assert fence.value == 4
