"""Fences and surfaces that the GPU itself orders: exported timeline semaphores between devices and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.shared_handles import followed

import vkshare as vks

pytest_plugins = ["support.peer_processes"]
pytestmark = pytest.mark.vks_gpu
Open = Callable[..., vks.Device]

SIDE = 4096  # one clear of it is long enough to be seen unfinished by the CPU, when there are a hundred


def slow_commands(
    device: vks.Device, surface: vks.Surface, colour: tuple[float, float, float, float], times: int = 400
) -> Any:
    """Work of some 10 ms and more that ends with the whole surface in one colour."""
    commands = device.record()
    for n in range(times):
        commands.fill_rect(surface, (0, 0, SIDE, SIDE), (n / times, 0, 0, 1))
    return commands.clear(surface, colour)


def opened(surface: vks.Surface, device: vks.Device) -> vks.Surface:
    with surface.export() as descriptor:
        return device.open_surface(descriptor)


@pytest.mark.rule("X4")
def test_a_wait_for_a_queued_value_of_another_device_goes_to_the_gpu_and_is_not_held(gpu: Open) -> None:
    one, two = gpu(name="one"), gpu(name="two")
    surface = one.create_surface(SIDE, SIDE)
    fence, done = one.create_fence(), two.create_fence()
    follower = followed(fence, two)
    assert follower.is_native
    surface.acquire()
    one.submit(slow_commands(one, surface, (0, 1, 0, 1)), signals=(fence, 1))
    waiting = two.submit(waits=(follower, 1), signals=(done, 1))
    assert not waiting.is_held
    assert not waiting.is_done()
    done.wait(1, 20)
    assert fence.value == 1


@pytest.mark.rule("X4", "X6")
def test_a_wait_for_a_value_that_nobody_queued_is_held_and_the_device_can_be_closed(gpu: Open) -> None:
    one, two = gpu(), gpu()
    fence = one.create_fence()
    follower = followed(fence, two)
    waiting = two.submit(waits=(follower, 1))
    assert waiting.is_held
    two.close()
    with pytest.raises(vks.ClosedError):
        waiting.wait(1)


@pytest.mark.rule("K18", "K17")
def test_release_returns_while_the_gpu_works_and_the_next_owner_works_behind_it(gpu: Open) -> None:
    one, two = gpu(name="one"), gpu(name="two")
    mine = one.create_surface(SIDE, SIDE, tiling="optimal")
    theirs = opened(mine, two)
    for n in range(5):
        green = (n % 3 == 0, n % 3 == 1, n % 3 == 2, 1)
        mine.acquire(0, 10)
        drawn = one.submit(slow_commands(one, mine, green))
        mine.release(1)
        assert not drawn.is_done(), "the release waited for the GPU"
        theirs.acquire(1, 10)
        copy = two.create_surface(16, 16)
        copy.acquire()
        behind = two.submit(two.record().copy(theirs, copy, (100, 100, 16, 16)))
        assert not behind.is_held
        theirs.release(0)
        behind.wait(20)
        assert drawn.is_done()
        assert np.array_equal(copy.read()[3, 4], np.array(green) * 255)
        copy.release()


@pytest.mark.rule("K26")
def test_three_devices_hand_one_surface_round_without_the_cpu_waiting(gpu: Open) -> None:
    devices = [gpu(name=f"party {n}") for n in range(3)]
    surface = devices[0].create_surface(64, 64, tiling="optimal")
    handles = [surface, *(opened(surface, device) for device in devices[1:])]
    lists = [
        device.record().fill_rect(handle, (n * 8, 0, 8, 8), (1, 1, 1, 1))
        for n, (device, handle) in enumerate(zip(devices, handles, strict=True))
    ]
    for _ in range(500):
        for n in range(3):
            handles[n].acquire(n, 10)
            devices[n].submit(lists[n])
            handles[n].release((n + 1) % 3)
    surface.acquire(0, 10)
    assert np.all(surface.read()[:8, :24] == 255)


@pytest.mark.rule("K9", "K27", "X9")
def test_an_owner_killed_while_its_gpu_works_is_seen_and_the_surface_recovers(gpu: Open, peers: Any) -> None:
    device = gpu(name="here")
    surface = device.create_surface(1024, 1024)
    for _ in range(3):
        peer = peers(name="doomed")
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        theirs.acquire(0, 10)
        peer.kill()
        with pytest.raises(vks.AbandonedError):
            surface.acquire(0, 5)
        surface.recover(10)
        device.submit(device.record().clear(surface, (0, 0, 1, 1)))
        assert surface.read()[0, 0].tolist() == [0, 0, 255, 255]
        surface.release(0)


@pytest.mark.rule("X5", "X4")
def test_a_signaller_killed_before_it_queued_leaves_nothing_pending(gpu: Open, peers: Any) -> None:
    device = gpu(name="here")
    peer = peers(name="doomed")
    theirs = peer.device.create_fence()
    follower = device.open_fence(theirs.export())
    waiting = device.submit(waits=(follower, 3))
    assert waiting.is_held
    peer.kill()
    with pytest.raises(vks.AbandonedError):
        waiting.wait(5)
    device.submit().wait(5)


# ---- one dies whose work, with the driver already, waits for another party's ----------------------------------------


def keep_busy(device: vks.Device, surface: vks.Surface, seconds: float = 1.2) -> None:
    """Queues so much work, in short lists: one that lasts 5 s costs others their devices when its process is killed."""
    commands = slow_commands(device, surface, (1, 0, 0, 1), times=10)
    device.submit(commands).wait(10)
    start = time.monotonic()
    device.submit(commands).wait(10)
    for _ in range(int(seconds / (time.monotonic() - start))):
        device.submit(commands)


@pytest.mark.rule("X5", "X4")
def test_gpu_work_that_waits_for_the_fence_of_one_killed_behind_other_work_ends(gpu: Open, peers: Any) -> None:
    busy, here = gpu(name="busy"), gpu(name="here")
    peer = peers(name="doomed")
    surface, first = busy.create_surface(SIDE, SIDE), busy.create_fence()
    surface.acquire()
    second = peer.device.create_fence()
    follower = here.open_fence(second.export())
    theirs = peer.device.open_fence(first.export())
    keep_busy(busy, surface)
    slow = busy.submit(signals=(first, 1))
    assert not peer.device.submit(waits=(theirs, 1), signals=(second, 1)).is_held
    mine = here.create_fence()
    waiting = here.submit(waits=(follower, 1), signals=(mine, 1))
    assert not waiting.is_held
    assert not slow.is_done()
    peer.kill()
    slow.wait(20)
    waiting.wait(5)  # what never came was signalled for it: the queue goes on
    assert mine.value == 1
    for device in (busy, here):
        device.submit().wait(5)


@pytest.mark.rule("K9", "K27", "X9")
def test_gpu_work_behind_an_owner_killed_behind_other_work_ends_and_the_surface_recovers(gpu: Open, peers: Any) -> None:
    busy, here = gpu(name="busy"), gpu(name="here")
    peer = peers(name="doomed")
    one = busy.create_surface(SIDE, SIDE)
    theirs = peer.device.open_surface(one.export())
    mine = opened(one, here)
    one.acquire(0, 5)
    keep_busy(busy, one)
    one.release(1)
    theirs.acquire(1, 5)
    assert not peer.run(access_patterns.fill_column, theirs, 3, 255).is_held
    theirs.release(2)
    mine.acquire(2, 5)
    behind = access_patterns.fill_column(mine, 4, 255)
    assert not behind.is_held
    assert not behind.is_done()
    peer.kill()
    behind.wait(20)
    try:
        mine.release(0)
        one.acquire(0, 5)  # the whole chain was done before the kill: nothing was lost
    except vks.AbandonedError:
        one.recover(10)
    busy.submit(busy.record().clear(one, (0, 0, 1, 1)))
    assert one.read()[0, 0].tolist() == [0, 0, 255, 255]
    for device in (busy, here):
        device.submit().wait(5)


@pytest.mark.rule("X17")
def test_memory_of_the_cpu_backend_opens_on_the_gpu_by_host_pointer(gpu: Open) -> None:
    device = gpu()
    if "host_pointer" not in device.capabilities.surface_memory:
        pytest.skip("no host-pointer import here")
    with vks.open(backend="cpu") as cpu:
        surface = cpu.create_surface(64, 64)
        theirs = opened(surface, device)
        theirs.acquire(0, 5)
        device.submit(device.record().clear(theirs, (1, 0, 0, 1)))
        theirs.release(1)
        with surface.access(1, 0, 5) as view:
            assert np.all(view.array == (255, 0, 0, 255))
        theirs.close()
