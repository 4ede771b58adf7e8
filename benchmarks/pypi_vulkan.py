"""The PyPI package `vulkan` as people call it today, on the driver that does nothing."""

from __future__ import annotations

from typing import Any

from benchmarks.loops import FIRST, counted
from benchmarks.measure import Contenders
from benchmarks.nothing import COMMAND_BUFFER, QUEUE, NothingDriver


def submits(driver: NothingDriver) -> Contenders:
    """vkQueueSubmit2 with structures made for the call, and with ones made before, of which only the value is written.

    None without libvulkan.
    """
    try:
        import vulkan
    except (ImportError, OSError):  # the latter without libvulkan
        return {}
    # The package's own wrapper, made for a function pointer as it makes those of extensions.
    pointer = vulkan.ffi.cast("PFN_vkQueueSubmit2", driver.function("vkQueueSubmit2"))
    submit = vulkan._vulkan._wrap_vkQueueSubmit2(pointer)
    queue = vulkan.ffi.cast("VkQueue", QUEUE)
    semaphore = driver.semaphore()
    kept = _infos(vulkan, semaphore, FIRST)
    calls: dict[str, Any] = {"submit": submit, "queue": queue}
    anew = "kept = infos(vulkan, semaphore, value); submit(queue, 1, kept[0], None)"
    made = counted(anew, **calls, infos=_infos, vulkan=vulkan, semaphore=semaphore)
    only_the_value = "signal.value = value; submit(queue, 1, info, None)"
    prebuilt = counted(only_the_value, **calls, info=kept[0], signal=kept[1], kept=kept)
    return {"PyPI vulkan": made, "PyPI vulkan, prebuilt": prebuilt}


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
