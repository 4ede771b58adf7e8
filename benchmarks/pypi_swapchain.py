"""The PyPI package `vulkan` as people drive a swapchain with it today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.c_swapchain import CSwapchain
from benchmarks.measure import Timed, repeated

_PATIENCE = 10**10  # ns


def frames(swapchain: CSwapchain, *, prebuilt: bool) -> Timed:
    """Frames on a swapchain that C has set up: with structures made for each call, or all of them made before."""
    loop = _Loop(swapchain)
    return repeated(loop.prebuilt() if prebuilt else loop.made_each_time())


class _Loop:
    """The package's objects for the handles of a swapchain."""

    def __init__(self, swapchain: CSwapchain) -> None:
        import vulkan

        self.vulkan: Any = vulkan
        cast, gpu, chain = vulkan.ffi.cast, swapchain.gpu, swapchain.chain
        images, flights = chain.images[0 : chain.n_images], chain.flights[0 : chain.n_flights]
        self.device, self.queue = cast("VkDevice", gpu.device), cast("VkQueue", gpu.queue)
        self.swapchain = cast("VkSwapchainKHR", chain.swapchain)
        self.commands = [cast("VkCommandBuffer", each.commands) for each in images]
        self.rendered = [cast("VkSemaphore", each.rendered) for each in images]
        self.acquired = [cast("VkSemaphore", each.acquired) for each in flights]
        self.done = [cast("VkFence", each.done) for each in flights]
        self.acquire = vulkan.vkGetDeviceProcAddr(self.device, "vkAcquireNextImageKHR")
        self.present = vulkan.vkGetDeviceProcAddr(self.device, "vkQueuePresentKHR")
        self.flight = 0

    def made_each_time(self) -> Callable[[], None]:
        vulkan = self.vulkan

        def frame() -> None:
            fences = [self.done[self.flight]]
            acquired = self.acquired[self.flight]
            vulkan.vkWaitForFences(self.device, 1, fences, vulkan.VK_TRUE, _PATIENCE)
            vulkan.vkResetFences(self.device, 1, fences)
            image = self.acquire(self.device, self.swapchain, _PATIENCE, acquired, None)
            submit = self._submit_info(acquired, image)
            vulkan.vkQueueSubmit(self.queue, 1, submit, fences[0])
            self.present(self.queue, self._present_info(image))
            self.flight = (self.flight + 1) % len(self.done)

        return frame

    def prebuilt(self) -> Callable[[], None]:
        vulkan, ffi = self.vulkan, self.vulkan.ffi
        flights, images = range(len(self.acquired)), range(len(self.commands))
        submits = [[self._submit_info(self.acquired[f], i) for i in images] for f in flights]
        presents = [self._present_info(i) for i in images]
        fences = [ffi.new("VkFence[]", [done]) for done in self.done]
        index = ffi.new("uint32_t *")

        def frame() -> None:
            flight = self.flight
            vulkan.vkWaitForFences(self.device, 1, fences[flight], 1, _PATIENCE)
            vulkan.vkResetFences(self.device, 1, fences[flight])
            self.acquire(self.device, self.swapchain, _PATIENCE, self.acquired[flight], None, index)
            image = index[0]
            vulkan.vkQueueSubmit(self.queue, 1, submits[flight][image], self.done[flight])
            self.present(self.queue, presents[image])
            self.flight = (flight + 1) % len(fences)

        return frame

    def _submit_info(self, acquired: Any, image: int) -> Any:
        return self.vulkan.VkSubmitInfo(
            waitSemaphoreCount=1,
            pWaitSemaphores=[acquired],
            pWaitDstStageMask=[self.vulkan.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT],
            commandBufferCount=1,
            pCommandBuffers=[self.commands[image]],
            signalSemaphoreCount=1,
            pSignalSemaphores=[self.rendered[image]],
        )

    def _present_info(self, image: int) -> Any:
        return self.vulkan.VkPresentInfoKHR(
            waitSemaphoreCount=1,
            pWaitSemaphores=[self.rendered[image]],
            swapchainCount=1,
            pSwapchains=[self.swapchain],
            pImageIndices=[image],
        )
