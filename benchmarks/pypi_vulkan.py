"""The PyPI package `vulkan` as people call it today, on the driver that does nothing."""

from __future__ import annotations

from typing import Any

from benchmarks.loops import FIRST
from benchmarks.measure import Contender, Timed, timed
from benchmarks.nothing import COMMAND_BUFFER, QUEUE, NothingDriver


def submits(driver: NothingDriver) -> list[Contender]:
    """vkQueueSubmit2 with structures made for the call, and with structures made before; none without libvulkan."""
    try:
        import vulkan
    except (ImportError, OSError):  # the latter without libvulkan
        return []
    # The package's own wrapper, made for a function pointer as it makes those of extensions.
    pointer = vulkan.ffi.cast("PFN_vkQueueSubmit2", driver.function("vkQueueSubmit2"))
    submit = vulkan._vulkan._wrap_vkQueueSubmit2(pointer)
    queue = vulkan.ffi.cast("VkQueue", QUEUE)
    semaphore = driver.semaphore()
    return [
        Contender("PyPI vulkan", _made_each_time(vulkan, submit, queue, semaphore)),
        Contender("PyPI vulkan, prebuilt", _prebuilt(vulkan, submit, queue, semaphore)),
    ]


def _infos(vulkan: Any, semaphore: int, value: int) -> tuple[Any, ...]:
    """The VkSubmitInfo2 first; the rest must live as long as it does, which the package does not see to."""
    signal = vulkan.VkSemaphoreSubmitInfo(
        semaphore=vulkan.ffi.cast("VkSemaphore", semaphore),
        value=value,
        stageMask=vulkan.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    )
    buffer = vulkan.VkCommandBufferSubmitInfo(commandBuffer=vulkan.ffi.cast("VkCommandBuffer", COMMAND_BUFFER))
    info = vulkan.VkSubmitInfo2(
        commandBufferInfoCount=1,
        pCommandBufferInfos=buffer,
        signalSemaphoreInfoCount=1,
        pSignalSemaphoreInfos=signal,
    )
    return info, signal, buffer


def _made_each_time(vulkan: Any, submit: Any, queue: Any, semaphore: int) -> Timed:
    @timed
    def loop(n: int) -> None:
        for value in range(FIRST, FIRST + n):
            kept = _infos(vulkan, semaphore, value)
            submit(queue, 1, kept[0], None)

    return loop


def _prebuilt(vulkan: Any, submit: Any, queue: Any, semaphore: int) -> Timed:
    """Only the value is written anew."""
    kept = _infos(vulkan, semaphore, FIRST)

    @timed
    def loop(n: int) -> None:
        info, signal = kept[:2]
        for value in range(FIRST, FIRST + n):
            signal.value = value
            submit(queue, 1, info, None)

    return loop
