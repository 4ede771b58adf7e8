"""An engine's own VkDevice and VkSurfaceKHR: swapchains on them, frames drawn by the engine's own submissions."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import adopted_devices
from support.headless_swapchains import clearing, create, expected, is_ring, show

import vkshare as vks
from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.testing import assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")


class Engine(adopted_devices.Engine):
    """With command buffers of its own."""

    def __init__(self, context: Any, instance: Any) -> None:
        from vkshare.backends.vulkan.api import device_functions

        super().__init__(context, instance, *(["swapchainMaintenance1"] if context.has_present_fences else []))
        self.context = context
        self.vk = device_functions(context.physical.vk, context.device)
        self._pool: Any = None

    def headless_surface(self) -> Any:
        from vkshare.backends.vulkan.api import new

        if "VK_EXT_headless_surface" not in self.handles["enabled_extensions"]:
            pytest.skip("this driver has no VK_EXT_headless_surface")
        instance = self.handles["instance"]
        return self.context.physical.vk.make(
            "vkCreateHeadlessSurfaceEXT", instance, new("VkHeadlessSurfaceCreateInfoEXT"), None
        )

    def destroy_surface(self, surface: Any) -> None:
        self.context.physical.vk.vkDestroySurfaceKHR(self.handles["instance"], surface, None)

    def clearing(self, image: int, colour: tuple[float, ...], before: int, between: int, after: int) -> Any:
        """A command buffer that clears the image in layout `between`, coming from `before` and going to `after`."""
        from vkshare.backends.vulkan.api import VK, ffi, handle, new

        device = self.handles["device"]
        if self._pool is None:
            info = new("VkCommandPoolCreateInfo", queueFamilyIndex=self.handles["queue_family"])
            self._pool = self.vk.make("vkCreateCommandPool", device, info, None)
        allocate = new("VkCommandBufferAllocateInfo", commandPool=self._pool, commandBufferCount=1)
        buffers = ffi.new("VkCommandBuffer[1]")
        self.vk.vkAllocateCommandBuffers(device, allocate.pointer, buffers)
        self.vk.vkBeginCommandBuffer(buffers[0], new("VkCommandBufferBeginInfo").pointer)
        vk_image = handle("VkImage", image)
        self._barrier(buffers[0], vk_image, before, between)
        whole = new("VkImageSubresourceRange", aspectMask=VK.IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1)
        value = new("VkClearColorValue", float32=list(colour))
        self.vk.vkCmdClearColorImage(buffers[0], vk_image, between, value.pointer, 1, whole.pointer)
        self._barrier(buffers[0], vk_image, between, after)
        self.vk.vkEndCommandBuffer(buffers[0])
        return buffers[0]

    def _barrier(self, buffer: Any, image: Any, old: int, new_layout: int) -> None:
        from vkshare.backends.vulkan.api import VK, new

        if old == new_layout:
            return
        barrier = new(
            "VkImageMemoryBarrier2",
            srcStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            srcAccessMask=VK.ACCESS_2_MEMORY_WRITE_BIT,
            dstStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            dstAccessMask=VK.ACCESS_2_MEMORY_WRITE_BIT | VK.ACCESS_2_MEMORY_READ_BIT,
            oldLayout=old,
            newLayout=new_layout,
            srcQueueFamilyIndex=2**32 - 1,
            dstQueueFamilyIndex=2**32 - 1,
            image=image,
            subresourceRange=new(
                "VkImageSubresourceRange", aspectMask=VK.IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1
            ).pointer[0],
        )
        dependency = new("VkDependencyInfo", imageMemoryBarrierCount=1)
        dependency.pointer.pImageMemoryBarriers = barrier.pointer
        self.vk.vkCmdPipelineBarrier2(buffer, dependency.pointer)

    def submit(self, buffer: Any, wait: int, signal: int) -> None:
        """The engine's own vkQueueSubmit2, under its lock."""
        from vkshare.backends.vulkan.api import VK, ffi, handle, new

        stage = VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT
        waits = new("VkSemaphoreSubmitInfo", semaphore=handle("VkSemaphore", wait), stageMask=stage)
        signals = new("VkSemaphoreSubmitInfo", semaphore=handle("VkSemaphore", signal), stageMask=stage)
        buffers = new("VkCommandBufferSubmitInfo", commandBuffer=buffer)
        info = new("VkSubmitInfo2", waitSemaphoreInfoCount=1, commandBufferInfoCount=1, signalSemaphoreInfoCount=1)
        info.pointer.pWaitSemaphoreInfos = waits.pointer
        info.pointer.pCommandBufferInfos = buffers.pointer
        info.pointer.pSignalSemaphoreInfos = signals.pointer
        self.lock()
        try:
            self.vk.vkQueueSubmit2(self.handles["queue"], 1, info.pointer, ffi.NULL)
        finally:
            self.unlock()

    def close(self) -> None:
        from vkshare.backends.vulkan.api import ffi

        if self._pool is not None:
            self.vk.vkDestroyCommandPool(self.handles["device"], self._pool, ffi.NULL)


@pytest.fixture
def engine(vks_adapter: vks.Adapter) -> Iterator[Engine]:
    if vks_adapter.backend != "vulkan":
        pytest.skip("there are no VkDevices on the CPU backend")
    from vkshare.backends import vulkan
    from vkshare.backends.vulkan import instance

    backend = vulkan.open(vks_adapter, None, "engine")
    made = Engine(backend.context, instance.get())
    yield made
    made.close()
    backend.close()  # the validation layer tells if anything made on the device is left


def _draw(engine: Engine, frame: vks.Frame, colour: tuple[float, ...]) -> None:
    """The frame as an engine draws it: its own barriers, its own submission."""
    from vkshare.backends.vulkan.api import VK

    acquired, rendered = frame.acquired, frame.rendered
    assert acquired and rendered and acquired != rendered  # noqa: PT018
    assert (frame.acquired, frame.rendered) == (acquired, rendered)
    buffer = engine.clearing(
        frame.view.image,
        colour,
        VK.IMAGE_LAYOUT_UNDEFINED,
        VK.IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
        VK.IMAGE_LAYOUT_PRESENT_SRC_KHR,
    )
    engine.submit(buffer, acquired, rendered)


Adopt = Callable[..., vks.Device]


@pytest.fixture
def adopted(engine: Engine) -> Iterator[vks.Device]:
    """vkshare on the engine's device, under the engine's lock."""
    with engine.adopt(lock_queue=engine.lock, unlock_queue=engine.unlock) as device:
        yield device


# ---- the engine's device ---------------------------------------------------------------------------------------------


@pytest.mark.rule("A24")
@pytest.mark.parametrize("fences", [True, False], ids=["by_fences", "by_acquires"])
def test_a_swapchain_on_an_engines_device_shows_frames(adopted: vks.Device, fences: bool) -> None:
    with create(adopted, fences=fences) as swapchain:
        for turn in range(20):
            if turn == 10:
                swapchain.resize(20, 30)
            show(swapchain, clearing(turn, 1), clearing(turn, 2))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn, 2)))


@pytest.mark.rule("K23", "A24")
def test_the_engines_lock_is_held_round_each_present(engine: Engine, adopted: vks.Device) -> None:
    with create(adopted, 8, 8) as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))
        for _ in range(2 * swapchain.image_count):
            swapchain.present_prepared(prepared)
        before = engine.taken
        for _ in range(10):
            swapchain.present_prepared(prepared)
        assert engine.taken - before >= 10 * (1 if is_ring(swapchain) else 2)  # a submission and a present each
        assert not engine.is_locked()
    assert not engine.is_locked()


@pytest.mark.rule("K23")
def test_a_present_waits_while_the_engine_holds_its_lock(engine: Engine, adopted: vks.Device) -> None:
    with create(adopted, 8, 8) as swapchain:
        if is_ring(swapchain):
            pytest.skip("a ring presents without a queue")
        frame = swapchain.acquire(10)
        engine.lock()
        presenter = threading.Thread(target=swapchain.present, args=(frame,))
        presenter.start()
        presenter.join(0.1)
        assert presenter.is_alive()
        engine.unlock()
        presenter.join(20)
        assert not presenter.is_alive()
        assert frame.is_closed


# ---- the engine's submissions ----------------------------------------------------------------------------------------


@pytest.mark.rule("A24", "A1")
@pytest.mark.parametrize("fences", [True, False], ids=["by_fences", "by_acquires"])
def test_frames_that_the_engine_draws_are_presented(engine: Engine, adopted: vks.Device, fences: bool) -> None:
    with create(adopted, 16, 12, fences=fences) as swapchain:
        if is_ring(swapchain):
            pytest.skip("an offscreen ring has no semaphores")
        for turn in range(4 * swapchain.image_count):
            frame = swapchain.acquire(10)
            if turn % 3 == 2:  # taking turns with vkshare
                adopted.submit(adopted.record().clear(frame.view, (0, 0, turn / 255, 1)))
            else:
                _draw(engine, frame, (0, 0, turn / 255, 1))
            swapchain.present(frame)
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, turn)))
        s = swapchain.statistics()
        assert s.semaphores <= 3 * s.image_count + 2
        adopted.wait_idle(10)


@pytest.mark.rule("A20")
@pytest.mark.parametrize("end", ["dropped", "resized", "closed"])
def test_a_frame_that_the_engine_drew_and_nobody_presents_leaks_nothing(
    engine: Engine, adopted: vks.Device, end: str
) -> None:
    with create(adopted, 16, 12) as swapchain:
        if is_ring(swapchain):
            pytest.skip("an offscreen ring has no semaphores")
        frames = []
        for turn in range(swapchain.image_count if end == "closed" else 6):
            frame = swapchain.acquire(10)
            _draw(engine, frame, (1, 0, 0, 1))
            if end == "closed":
                frames.append(frame)
                continue
            if end == "resized":
                swapchain.resize(16 + turn, 12)
            frame.close()
            show(swapchain, clearing(turn))
            if turn % 2:
                assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn)))
        assert swapchain.statistics().semaphores <= 6 * swapchain.image_count + 4
    assert swapchain.statistics().semaphores == 0


@pytest.mark.rule("A19", "A20")
def test_semaphores_that_the_engine_used_are_not_given_again(engine: Engine, adopted: vks.Device) -> None:
    with create(adopted, 16, 12) as swapchain:
        if is_ring(swapchain):
            pytest.skip("an offscreen ring has no semaphores")
        frame = swapchain.acquire(10)
        _draw(engine, frame, (1, 0, 0, 1))
        index, given = frame.index, {frame.acquired, frame.rendered}
        frame.close()
        again = swapchain.acquire(10)
        assert again.index == index
        assert not given & {again.acquired, again.rendered}
        _draw(engine, again, (0, 1, 0, 1))
        swapchain.present(again)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))


def _read_only(frame: vks.Frame) -> None:
    assert frame.acquired


def _read_both(frame: vks.Frame) -> None:
    assert frame.acquired != frame.rendered


def _back(swapchain: vks.Swapchain, frame: vks.Frame) -> vks.Frame:
    frame.close()
    again = swapchain.acquire(10)
    assert again.index == frame.index
    return again


@pytest.mark.rule("A26")
@pytest.mark.parametrize("take", [_read_only, _read_both])
@pytest.mark.parametrize("fences", [True, False], ids=["by_fences", "by_acquires"])
def test_an_engine_that_never_submits_blocks_neither_presents_nor_close(
    engine: Engine, adopted: vks.Device, take: Callable[[vks.Frame], None], fences: bool
) -> None:
    with create(adopted, 16, 12, fences=fences) as swapchain:
        if is_ring(swapchain):
            pytest.skip("an offscreen ring has no semaphores")
        for turn in range(4 * swapchain.image_count):
            frame = swapchain.acquire(10)
            take(frame)
            if turn % 4 >= 2:
                frame = _back(swapchain, frame)
            if turn % 2:
                adopted.submit(adopted.record().clear(frame.view, (0, 0, turn / 255, 1)))
            swapchain.present(frame)
            if turn % 2:
                assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, turn)))
            adopted.wait_idle(10)
        take(swapchain.acquire(10))
    assert swapchain.statistics().semaphores == 0


@pytest.mark.rule("A26")
def test_an_engine_that_failed_once_draws_the_frame_that_comes_back(engine: Engine, adopted: vks.Device) -> None:
    with create(adopted, 16, 12) as swapchain:
        if is_ring(swapchain):
            pytest.skip("an offscreen ring has no semaphores")
        for turn in range(4 * swapchain.image_count):
            frame = swapchain.acquire(10)
            for _ in range(turn % 3):
                _read_both(frame)
                frame = _back(swapchain, frame)
            _draw(engine, frame, (0, 0, turn / 255, 1))
            swapchain.present(frame)
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, turn)))
        adopted.wait_idle(10)
        s = swapchain.statistics()
        assert s.semaphores <= 4 * s.image_count + 4


@pytest.mark.rule("A26")
def test_what_device_submit_draws_over_an_engines_frame_is_shown(engine: Engine, adopted: vks.Device) -> None:
    with create(adopted, 16, 12) as swapchain:
        if is_ring(swapchain):
            pytest.skip("an offscreen ring has no semaphores")
        for turn in range(5):
            frame = swapchain.acquire(10)
            _draw(engine, frame, (1, 0, 0, 1))
            for _ in range(5 * turn):  # more than one present can wait for
                adopted.submit(adopted.record().fill_rect(frame.view, (0, 0, 16, 12), (0, 0, turn / 255, 1)))
            swapchain.present(frame)
            shown = clearing(0, 0, turn) if turn else clearing(255)
            assert_images_equal(swapchain.capture(), expected(swapchain, shown))


def test_semaphores_are_taken_before_the_first_submission(adopted: vks.Device) -> None:
    with create(adopted, 8, 8) as swapchain:
        if is_ring(swapchain):
            frame = swapchain.acquire(10)
            with pytest.raises(UnsupportedError, match="offscreen"):
                print(frame.acquired)
            return
        frame = swapchain.acquire(10)
        adopted.submit(adopted.record().clear(frame.view, (1, 0, 0, 1)))
        with pytest.raises(InvalidCallError, match="before"):
            print(frame.acquired)
        with pytest.raises(InvalidCallError, match="before"):
            print(frame.rendered)
        swapchain.present(frame)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))


@pytest.mark.rule("A24")
def test_raw_command_buffers_are_submitted_to_a_frame_between_lists(engine: Engine, adopted: vks.Device) -> None:
    from vkshare.backends.vulkan.api import VK

    with create(adopted, 16, 12) as swapchain:
        for turn in range(5):
            frame = swapchain.acquire(10)
            adopted.submit(adopted.record().clear(frame.view, (1, 0, 0, 1)))
            layout = {
                "present_src": VK.IMAGE_LAYOUT_PRESENT_SRC_KHR,
                "general": VK.IMAGE_LAYOUT_GENERAL,
            }[frame.view.layout]
            raw = engine.clearing(frame.view.image, (0, turn / 255, 1, 1), layout, VK.IMAGE_LAYOUT_GENERAL, layout)
            adopted.submit(raw)
            adopted.submit(adopted.record().fill_rect(frame.view, (0, 0, 2, 2), (1, 1, 1, 1)))
            swapchain.present(frame)
            shown = swapchain.capture()
            assert (shown[:2, :2] == 255).all()
            shown[:2, :2] = shown[3, 3]
            assert_images_equal(shown, expected(swapchain, clearing(0, turn, 255)))
        adopted.wait_idle(10)


# ---- the engine's surface --------------------------------------------------------------------------------------------


@pytest.mark.rule("A24", "A14")
@pytest.mark.parametrize("form", ["handle", "ctypes"])
def test_an_engines_surface_is_shown_on_and_never_destroyed(engine: Engine, adopted: vks.Device, form: str) -> None:
    from vkshare.backends.vulkan.api import address

    surface = engine.headless_surface()
    target = surface if form == "handle" else ctypes.c_uint64(address(surface))
    for _ in range(2):  # a second time: the first close() destroyed nothing of the engine's
        with adopted.create_swapchain(target, capture=True) as swapchain:
            width, height = swapchain.extent
            assert width >= 1
            assert height >= 1
            for turn in range(10):
                show(swapchain, clearing(turn, 7))
                assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn, 7)))
            swapchain.resize(5, 6)
            show(swapchain, clearing(1, 7))
            assert swapchain.extent in ((5, 6), (width, height))  # as the surface leaves it to us, or not
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(1, 7)))
    engine.destroy_surface(surface)


@pytest.mark.rule("A9")
def test_another_surface_of_the_engine_takes_the_place_of_the_first(engine: Engine, adopted: vks.Device) -> None:
    one, two = engine.headless_surface(), engine.headless_surface()
    with adopted.create_swapchain(one, capture=True) as swapchain:
        show(swapchain, clearing(1))
        swapchain.acquire(10)
        swapchain.retarget(two)
        engine.destroy_surface(one)  # nothing of it is used any more
        for turn in range(10):
            show(swapchain, clearing(turn))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(9)))
    engine.destroy_surface(two)


def test_an_engine_without_swapchains_is_told_what_it_did_not_enable(engine: Engine) -> None:
    enabled: Any = engine.handles["enabled_extensions"]
    fewer = [name for name in enabled if name != "VK_KHR_swapchain"]
    surface = engine.headless_surface()
    with engine.adopt(enabled_extensions=fewer) as device:
        with pytest.raises(UnsupportedError, match="VK_KHR_swapchain"):
            device.create_swapchain(surface)
        with create(device, 8, 8) as swapchain:  # a ring does the same
            assert is_ring(swapchain)
            show(swapchain, clearing(3))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(3)))
    engine.destroy_surface(surface)


def test_an_engine_without_present_fences_gets_the_acquire_history(engine: Engine) -> None:
    enabled: Any = engine.handles["enabled_extensions"]
    fewer = [name for name in enabled if "maintenance1" not in name or "surface" in name]
    with engine.adopt(enabled_extensions=fewer) as device, create(device, 8, 8) as swapchain:
        assert not swapchain.statistics().by_fences
        show(swapchain, clearing(3))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(3)))
        with pytest.raises(UnsupportedError, match="present_fences=True"):
            device.create_swapchain(vks.Headless(8, 8), present_fences=True)
