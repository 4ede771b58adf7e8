"""A present that does not return from the driver: other calls end at Ctrl-C, or with an error, and go on afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from support import adopted_devices
from support.headless_swapchains import clearing, create, expected, is_ring, show
from support.private_displays import run_child

import vkshare as vks
from vkshare.testing import assert_images_equal

pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), pytest.mark.rule("A27")]

HANG = 30.0  # seconds after which a test ends that hangs


@dataclass
class Scene:
    """A thread's present waits for the engine's lock, inside the driver as far as anybody can tell."""

    engine: adopted_devices.Engine
    device: vks.Device
    swapchain: vks.Swapchain
    other: vks.Swapchain
    surface: vks.Surface
    next: vks.Frame
    presenter: threading.Thread

    def release(self) -> None:
        """The present goes on."""
        if self.engine.is_locked():
            self.engine.unlock()
        self.presenter.join(HANG)
        assert not self.presenter.is_alive()


@pytest.fixture
def stuck(vks_adapter: vks.Adapter) -> Iterator[Scene]:
    if vks_adapter.backend != "vulkan":
        pytest.skip("there are no VkDevices on the CPU backend")
    from vkshare.backends import vulkan
    from vkshare.backends.vulkan import instance

    backend = vulkan.open(vks_adapter, None, "engine")
    engine = adopted_devices.Engine(backend.context, instance.get())
    with engine.adopt(lock_queue=engine.lock, unlock_queue=engine.unlock) as device:
        swapchain, other = create(device, 8, 8), create(device, 8, 8)
        if is_ring(swapchain):
            pytest.skip("a ring presents without a queue")
        surface = device.create_surface(8, 8, tiling="optimal")
        with surface.access() as view:
            device.submit(device.record().clear(view, (1, 0, 0, 1)))
        frame, following = swapchain.acquire(10), other.acquire(10)
        device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
        device.submit(device.record().clear(following.view, (0, 1, 0, 1)))
        engine.lock()
        presenter = threading.Thread(target=swapchain.present, args=(frame,), daemon=True)
        presenter.start()
        time.sleep(0.1)
        scene = Scene(engine, device, swapchain, other, surface, following, presenter)
        yield scene
        scene.release()
    backend.close()


# Each takes the queue, or the swapchain, that the present has.
CALLS: dict[str, Callable[[Scene], object]] = {
    "Surface.export": lambda scene: scene.surface.export(),
    "Surface.sync": lambda scene: _sync(scene.surface),
    "Swapchain.acquire": lambda scene: scene.swapchain.acquire(),
    "Swapchain.present of another": lambda scene: scene.other.present(scene.next),
    "Swapchain.close": lambda scene: scene.swapchain.close(),
    "Device.close": lambda scene: scene.device.close(),
}


def _call_and_wait(name: str, stuck: Scene) -> None:
    CALLS[name](stuck)
    time.sleep(1)  # it has ended by itself, which is no answer to Ctrl-C


def _sync(surface: vks.Surface) -> object:
    with surface.access():
        return surface.sync()


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_call_behind_a_present_that_does_not_return(stuck: Scene, name: str) -> None:
    unlock = threading.Timer(HANG, stuck.engine.unlock)  # a call that is deaf ends then, too late
    ctrl_c = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    unlock.start()
    ctrl_c.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            _call_and_wait(name, stuck)
        assert stuck.presenter.is_alive()
    finally:
        unlock.cancel()
    stuck.release()
    if "close" not in name:
        if "sync" not in name:  # what that gives the engine must be used
            CALLS[name](stuck)
        show(stuck.swapchain, clearing(7))
        assert_images_equal(stuck.swapchain.capture(), expected(stuck.swapchain, clearing(7)))


def test_timeouts_hold_behind_a_present_that_does_not_return(stuck: Scene) -> None:
    for timeout in (0, 0.05):
        with pytest.raises(TimeoutError):
            stuck.swapchain.acquire(timeout)
    assert stuck.presenter.is_alive()


def test_a_frame_that_is_closed_behind_a_present_comes_back_after_it(stuck: Scene) -> None:
    stuck.release()
    frame, late = stuck.swapchain.acquire(10), stuck.swapchain.acquire(10)
    stuck.device.submit(stuck.device.record().clear(frame.view, (1, 0, 0, 1)))
    stuck.engine.lock()
    stuck.presenter = threading.Thread(target=stuck.swapchain.present, args=(frame,), daemon=True)
    stuck.presenter.start()
    time.sleep(0.1)
    index = late.index
    late.close()
    assert stuck.presenter.is_alive()
    stuck.release()
    frames = [stuck.swapchain.acquire(10) for _ in range(stuck.swapchain.image_count - 1)]
    assert index in [each.index for each in frames]


@pytest.mark.rule("A28")
def test_a_device_that_is_lost_while_it_presents_is_closed_without_a_crash(vks_adapter: vks.Adapter) -> None:
    reported = run_child(
        """
import vkshare as vks
for turn in range(60):
    device = vks.open()
    swapchain = device.create_swapchain(vks.Headless(16, 16), present_fences=False if turn % 2 else None)
    with swapchain.frame(timeout=30) as frame:
        device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
    if turn % 3:
        frame = swapchain.acquire(30)
    device._mark_lost()
    device.close()
print("alive")
""",
        dict(os.environ) | {"PYTHONWARNINGS": "ignore"},
        timeout=120,
    )
    assert reported == "alive\n"
