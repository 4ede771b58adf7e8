"""A device that is lost: every wait ends, everybody is told, and nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns
from support.peer_processes import Peer, later
from support.queue_faults import DEVICE_LOST, FaultyQueue, has_queue
from support.time_limits import Measured, no_hang

import vkshare as vks
from vkshare.errors import AbandonedError, DeviceLostError, VkshareError

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

Open = Callable[..., vks.Device]
LIMIT = 0.1  # seconds from the loss to DeviceLostError (rule X21)


class Scene:
    """A device with a wait of every kind, and a peer that waits for each of its promises."""

    def __init__(self, device: vks.Device, other: Any) -> None:
        self.device, self.other = device, other
        self.mine, self.owned = device.create_surface(16, 16), device.create_surface(16, 16)
        self.never, self.promised, self.idle = device.create_fence(), device.create_fence(), device.create_fence()
        with self.mine.export() as a, self.owned.export() as b, self.promised.export() as c:
            self.theirs, self.wanted = other.open_surface(a), other.open_surface(b)
            self.their_view = other.open_fence(c)
        self.theirs.acquire(0, 0)
        self.owned.acquire(0, 0)
        self.promised.signal(2)
        self.held = device.submit(waits=(self.never, 1), signals=(self.promised, 5))

    def wait(self) -> tuple[list[Any], list[Any]]:
        """Starts all waits: those of the device, and those of its peers."""
        local = [
            later(self.never.wait, 1),
            later(self.promised.wait, 5, 60),
            later(self.mine.acquire, 9),
            later(self.held.wait),
            later(self.device.wait_idle),
        ]
        peers = [later(self.wanted.acquire, 0)]
        if isinstance(self.other, vks.Device):  # a peer process waits for one thing at a time
            peers.append(later(self.their_view.wait, 5))
        assert not any(call.done(0.02) for call in (*local, *peers))
        return local, peers

    def check(self, local: list[Any], peers: list[Any]) -> None:
        """That all are told, and that nothing else is lost."""
        for call in local:
            with pytest.raises(DeviceLostError):
                call.result(5)
        for call in peers:
            with pytest.raises(AbandonedError):
                call.result(5)
        with pytest.raises(AbandonedError):
            self.their_view.wait(5, 5)
        self.their_view.wait(2, 0)
        device = self.device
        assert device.is_lost
        assert "lost" in repr(device)
        for use in (
            lambda: device.submit(),
            lambda: device.create_fence(),
            lambda: device.create_surface(8, 8),
            lambda: self.mine.acquire(0, 1),
            lambda: self.owned.release(0),
            lambda: self.owned.read(),
            lambda: self.idle.signal(1),
            lambda: self.idle.wait(1, 1),
        ):
            with pytest.raises(VkshareError):
                use()
        self.theirs.release(0)
        self.theirs.acquire(0, 0)
        self.wanted.recover(5)
        self.wanted.release(0)
        with no_hang(10):
            device.close()


@pytest.fixture(params=["device", "process"])
def other(request: pytest.FixtureRequest, vks_open: Open) -> Any:
    """A peer's device: here, or in another process."""
    return vks_open() if request.param == "device" else request.getfixturevalue("peers")().device


@pytest.mark.rule("X21", "K7", "K8")
def test_when_a_device_is_marked_lost_every_wait_fails_and_its_peers_see_abandonment(
    vks_open: Open, other: Any
) -> None:
    scene = Scene(vks_open(), other)
    local, peers = scene.wait()
    scene.device._mark_lost()
    scene.check(local, peers)


@pytest.mark.rule("X21")
def test_when_the_driver_says_that_the_device_is_lost_every_wait_fails(vks_adapter: vks.Adapter, other: Any) -> None:
    if not has_queue(vks_adapter):
        pytest.skip("the CPU backend cannot lose its device but by _mark_lost()")
    with FaultyQueue(vks_adapter) as (device, queue):
        scene = Scene(device, other)
        local, peers = scene.wait()
        queue.fail_next(DEVICE_LOST)
        with pytest.raises(DeviceLostError):
            device.submit(signals=scene.idle)
        scene.check(local, peers)


@pytest.mark.rule("X21")
def test_a_driver_that_really_loses_its_device_is_noticed_by_a_wait_on_it(
    vks_open: Open, vks_adapter: vks.Adapter, peers: Callable[..., Peer]
) -> None:
    if vks_adapter.backend != "vulkan" or "llvmpipe" not in vks_adapter.name:
        pytest.skip("only lavapipe is known to lose its device over a signal that does not increase")
    peer, other = peers(validation=False), vks_open()
    surface = other.create_surface(8, 8)
    with surface.export() as descriptor:
        theirs = peer.device.open_surface(descriptor)
    theirs.acquire(0, 0)
    fence = peer.device.create_fence(5)
    assert peer.run(access_patterns.signal_without_increasing, fence) == DEVICE_LOST
    with pytest.raises(DeviceLostError):
        peer.run(access_patterns.submit_and_wait, peer.device)
    assert peer.device.is_lost
    with pytest.raises(AbandonedError):
        surface.acquire(0, 5)
    surface.recover()
    with no_hang(10):
        peer.device.close()


@pytest.mark.rule("X21")
@pytest.mark.serial
def test_a_lost_device_fails_its_waits_within_100_ms(vks_open: Open, measured: Measured) -> None:
    def lose() -> float:
        device = vks_open()
        fence, surface = device.create_fence(), device.create_surface(8, 8)
        held = device.submit(waits=(fence, 1))
        waits = [later(fence.wait, 1), later(surface.acquire, 1), later(held.wait)]
        assert not any(call.done(0.01) for call in waits)
        start = time.monotonic()
        device._mark_lost()
        for call in waits:
            with pytest.raises(DeviceLostError):
                call.result(5)
        return time.monotonic() - start

    for _ in range(5):
        measured(lose, LIMIT)


def test_the_hook_counts_what_reaches_the_driver(vks_adapter: vks.Adapter) -> None:
    if not has_queue(vks_adapter):
        pytest.skip("the CPU backend has no VkQueue")
    with FaultyQueue(vks_adapter) as (device, queue):
        before = queue.submits
        device.submit().wait(5)
        assert queue.submits == before + 1
