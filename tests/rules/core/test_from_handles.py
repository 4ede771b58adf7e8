"""An engine's own VkDevice, adopted: used under the engine's locks, and never destroyed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
from support.adopted_devices import Engine

import vkshare as vks
from vkshare.errors import UnsupportedError
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.adopted_devices"]
# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

RED = (1, 0, 0, 1)


def test_an_adopted_device_draws_shares_and_leaves_the_engines_device_alone(
    engine: Engine, vks_open: Callable[..., vks.Device]
) -> None:
    for _ in range(2):  # a second time: the first close() destroyed nothing of the engine's
        with engine.adopt(name="guest") as device:
            assert device.backend == "vulkan"
            assert device.name == "guest"
            surface = device.create_surface(16, 8)
            with surface.export() as descriptor:
                other = vks_open().open_surface(descriptor)
            with surface.access() as view:
                device.submit(device.record().clear(view, RED))
            with other.access():
                assert_images_equal(other.read(), np.full((8, 16, 4), (255, 0, 0, 255), np.uint8))


@pytest.mark.rule("K23")
def test_the_engines_locks_are_taken_round_every_use_of_the_queue(engine: Engine) -> None:
    with engine.adopt(lock_queue=engine.lock, unlock_queue=engine.unlock) as device:
        surface, fence = device.create_surface(8, 8), device.create_fence()
        after_creation = engine.taken
        assert after_creation
        with surface.access() as view:
            for value in range(1, 6):
                device.submit(device.record().clear(view, RED), signals=fence)
                fence.wait(value, 10)
        assert engine.taken >= after_creation + 5
        assert not engine._lock.locked()


def test_locks_that_are_held_by_another_thread_of_the_engine_make_submissions_wait(engine: Engine) -> None:
    with engine.adopt(lock_queue=engine.lock, unlock_queue=engine.unlock) as device:
        fence = device.create_fence()
        engine.lock()
        submitter = threading.Thread(target=device.submit, kwargs={"signals": fence})
        submitter.start()
        submitter.join(0.05)
        assert submitter.is_alive()
        engine.unlock()
        submitter.join(10)
        fence.wait(1, 10)


@contextmanager
def clearing(engine: Engine, device: vks.Device, surface: vks.Surface) -> Iterator[Any]:
    """A command buffer of the engine's that makes the surface green; the block must not end before it has run."""
    from vkshare.backends.vulkan.api import VK, ffi, handle, new

    vk, raw_device = functions(engine, device), engine.handles["device"]
    pool_info = new("VkCommandPoolCreateInfo", queueFamilyIndex=engine.handles["queue_family"])
    pool = vk.make("vkCreateCommandPool", raw_device, pool_info, None)
    allocate = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
    buffers = ffi.new("VkCommandBuffer[1]")
    vk.vkAllocateCommandBuffers(raw_device, allocate.pointer, buffers)
    vk.vkBeginCommandBuffer(
        buffers[0], new("VkCommandBufferBeginInfo", flags=VK.COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT).pointer
    )
    colour = new("VkClearColorValue", float32=[0.0, 1.0, 0.0, 1.0])
    whole = new("VkImageSubresourceRange", aspectMask=VK.IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1)
    image = handle("VkImage", surface.image)
    vk.vkCmdClearColorImage(buffers[0], image, VK.IMAGE_LAYOUT_GENERAL, colour.pointer, 1, whole.pointer)
    vk.vkEndCommandBuffer(buffers[0])
    yield buffers[0]
    vk.vkDestroyCommandPool(raw_device, pool, ffi.NULL)


def functions(engine: Engine, device: Any) -> Any:
    """Vulkan's, of the engine's device."""
    from vkshare.backends.vulkan.api import device_functions

    return device_functions(device._backend.context.physical.vk, engine.handles["device"])


def test_raw_command_buffers_of_the_engine_are_submitted_in_order(engine: Engine) -> None:
    from vkshare.backends.vulkan.api import address

    with (
        engine.adopt() as device,
        device.create_surface(8, 8) as surface,
        clearing(engine, device, surface) as commands,
    ):
        with surface.access():
            device.submit(commands)
            assert (surface.read() == (0, 255, 0, 255)).all()
            device.submit(address(commands))
        device.wait_idle(10)


@pytest.mark.rule("I9")
@pytest.mark.parametrize("next_is", ["same device", "another device"])
def test_an_engines_own_submission_takes_its_turn_by_sync(
    engine: Engine, vks_open: Callable[..., vks.Device], next_is: str
) -> None:
    """Behind who had the surface before, before who has it next: by the semaphores that sync() gives, nothing else."""
    with engine.adopt() as device, device.create_surface(256, 256) as surface, ExitStack() as owned:
        there = device if next_is == "same device" else owned.enter_context(vks_open())
        with surface.export() as descriptor:
            other = owned.enter_context(there.open_surface(surface if there is device else descriptor))
        commands = owned.enter_context(clearing(engine, device, surface))
        owned.callback(device.wait_idle, 10)
        for _ in range(5):
            with other.access(0, 1, 10) as view:
                list_ = there.record()
                for n in range(40):
                    list_.clear(view, (n / 40, 0, 0, 1))
                there.submit(list_)
            with surface.access(1, 2, 10):
                submit(engine, device, commands, *surface.sync())
            with other.access(2, 0, 10):
                assert_images_equal(other.read(), np.full((256, 256, 4), (0, 255, 0, 255), np.uint8))


def submit(engine: Engine, device: vks.Device, commands: Any, waits: Any, signals: Any) -> None:
    """As an engine calls vkQueueSubmit2."""
    from vkshare.backends.vulkan.api import VK, ffi, handle, new

    def infos(pairs: Any) -> list[Any]:
        stage = VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT
        return [
            new("VkSemaphoreSubmitInfo", semaphore=handle("VkSemaphore", semaphore), value=value, stageMask=stage)
            for semaphore, value in pairs
        ]

    info = new(
        "VkSubmitInfo2",
        waitSemaphoreInfoCount=len(waits),
        pWaitSemaphoreInfos=infos(waits),
        commandBufferInfoCount=1,
        pCommandBufferInfos=[new("VkCommandBufferSubmitInfo", commandBuffer=commands)],
        signalSemaphoreInfoCount=len(signals),
        pSignalSemaphoreInfos=infos(signals),
    )
    functions(engine, device).vkQueueSubmit2(engine.handles["queue"], 1, info, ffi.NULL)


def test_what_the_engine_did_not_enable_is_named(engine: Engine) -> None:
    with pytest.raises(UnsupportedError, match=r"feature synchronization2.*vulkan_requirements\(\)"):
        engine.adopt(features=("timelineSemaphore", "dynamicRendering"))
    with pytest.raises(UnsupportedError, match="VK_KHR_external_memory_fd"):
        engine.adopt(enabled_extensions=())
    with pytest.raises(UnsupportedError, match=r"api_version 1\.3 \(it is 1\.2\)"):
        engine.adopt(api_version=1 << 22 | 2 << 12)


def test_wrong_handles_and_half_a_pair_of_locks_are_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match="queue must be a Vulkan handle"):
        engine.adopt(queue="queue")
    with pytest.raises(ValueError, match="device is VK_NULL_HANDLE"):
        engine.adopt(device=None)
    with pytest.raises(ValueError, match="must be given together"):
        engine.adopt(lock_queue=engine.lock)
    with pytest.raises(TypeError, match="queue_family must be an integer"):
        engine.adopt(queue_family=0.5)


def test_an_engines_timeline_semaphore_is_adopted_and_not_destroyed(engine: Engine) -> None:
    from vkshare.backends.vulkan.api import VK, device_functions, ffi, new

    with engine.adopt() as device:
        vk = device_functions(device._backend.context.physical.vk, engine.handles["device"])  # type: ignore[attr-defined]
        kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE, initialValue=3)
        semaphore = vk.make(
            "vkCreateSemaphore", engine.handles["device"], new("VkSemaphoreCreateInfo", pNext=kind), None
        )
        with device.adopt_fence(semaphore) as fence:
            assert fence.value == 3
            device.submit(signals=(fence, 5)).wait(10)
            assert fence.value == 5
        with device.adopt_fence(semaphore) as fence:
            assert fence.value == 5
        device.wait_idle(10)
        vk.vkDestroySemaphore(engine.handles["device"], semaphore, ffi.NULL)
