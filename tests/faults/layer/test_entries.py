"""The fault layer stands before every name that an entry has, and before presents of several swapchains."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.fault_layer import FaultLayer

# ---- aliases, and functions that are not there


def _aliases(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw, new

    from vkshare.backends.vulkan.api import device_functions
    from vkshare.errors import UnsupportedError, VulkanError

    raw = Raw()
    device = raw.make_device("VK_KHR_synchronization2", "VK_KHR_timeline_semaphore")
    vk = device_functions(raw.ivk, device)
    queue = vk.make("vkGetDeviceQueue", device, 0, 0)
    layer.reset()
    layer.fail("vkQueueSubmit2", 2)  # the second of either name
    vk.vkQueueSubmit2(queue, 1, new("VkSubmitInfo2"), None)
    with pytest.raises(VulkanError):
        vk.vkQueueSubmit2KHR(queue, 1, new("VkSubmitInfo2"), None)
    vk.vkQueueSubmit2KHR(queue, 1, new("VkSubmitInfo2"), None)
    vk.vkQueueWaitIdle(queue)
    with pytest.raises(UnsupportedError):
        vk.vkWaitForPresentKHR(device, None, 0, 0)  # its extension is not enabled
    instance_level = raw.ivk.vkQueueSubmit2  # by vkGetInstanceProcAddr: the loader's trampoline, and then the layer
    instance_level(queue, 1, new("VkSubmitInfo2"), None)
    vk.vkDeviceWaitIdle(device)
    vk.vkDestroyDevice(device, None)
    calls = layer.calls()
    return [calls["vkQueueSubmit2"], layer.failed()["vkQueueSubmit2"], "vkQueueSubmit2KHR" in calls]


def test_an_alias_is_the_same_entry_and_what_the_driver_lacks_is_not_there(run: Any) -> None:
    assert run(_aliases) == [4, 1, False]


# ---- presents of two swapchains


def _two(layer: FaultLayer, fault: str) -> list[Any]:
    from support.raw_presents import Raw, Swapchain, new

    raw = Raw()
    second = Raw.__new__(Raw)
    second.__dict__.update(raw.__dict__)
    second.surface = raw._make_surface()
    chains = [raw.swapchain(), Swapchain(second, 0, None)]
    acquired, rendered, done = [raw.semaphore(), raw.semaphore()], raw.semaphore(), raw.fence()
    indices = [chain.acquire(semaphore)[1] for chain, semaphore in zip(chains, acquired, strict=True)]
    raw.submit(acquired[0], None, commands=chains[0].commands[indices[0]])
    raw.submit(acquired[1], rendered, done, commands=chains[1].commands[indices[1]])
    layer.reset()
    if fault:
        layer.fail("vkQueuePresentKHR", result=fault)
    results = [7, 7]
    info = new("VkPresentInfoKHR", waitSemaphoreCount=1, pWaitSemaphores=[rendered], swapchainCount=2,
               pSwapchains=[chain.handle for chain in chains], pImageIndices=indices, pResults=results)  # fmt: skip
    result = _result(raw.vk.vkQueuePresentKHR, raw.queue, info)
    reported = [result, [info.pResults[i] for i in (0, 1)]]
    presents = [e for e in layer.events() if e.what == "present"]
    reported.append(
        [e.result for e in presents] + [len({e.group for e in presents}), len({e.serial for e in presents})]
    )
    raw.wait(done)
    raw.vk.vkDeviceWaitIdle(raw.device)
    raw.destroy(rendered)
    found = layer.violations()
    reported.append([v.text.split(" while")[0] for v in found if not v.proven_by_idle])
    for chain in chains:
        chain.destroy()
    return reported


def _result(call: Any, *arguments: Any) -> int:
    from vkshare.errors import VulkanError

    try:
        return int(call(*arguments))
    except VulkanError as error:
        return error.result


@pytest.mark.parametrize(("fault", "result"), [("", 0), ("SUBOPTIMAL", 1000001003), ("SURFACE_LOST", -1000000000)])
def test_each_swapchain_of_a_present_is_told_its_result(present: Any, fault: str, result: int) -> None:
    assert present(_two, fault) == [result, [result] * 2, [result, result, 1, 2], []]


# ---- giving images back


def _released(layer: FaultLayer) -> list[Any] | None:
    from support.raw_presents import Raw, new

    raw = Raw()
    if not raw.has_present_fences or "SwiftShader" not in raw.driver_name():
        return None
    layer.force_images(2)
    chain = raw.swapchain()
    fence = raw.fence()
    reported = []
    for fails in (False, False, False, True):
        _, index = chain.acquire(None, fence)
        raw.wait(fence)
        raw.vk.vkResetFences(raw.device, 1, [fence])
        info = new("VkReleaseSwapchainImagesInfoEXT", swapchain=chain.handle, imageIndexCount=1, pImageIndices=[index])
        if fails:
            layer.fail("vkReleaseSwapchainImagesKHR", result="SURFACE_LOST")
        reported.append(_result(raw.vk.vkReleaseSwapchainImagesEXT, raw.device, info))
    chain.destroy()
    return [reported, [e.value < 2 for e in layer.events() if e.what == "release"], layer.violations()]


def test_images_are_given_back_to_the_driver_by_its_own_numbers(present: Any) -> None:
    reported = present(_released)
    if reported is None:
        pytest.skip("vkReleaseSwapchainImagesEXT: lavapipe 25 crashes in it on headless surfaces, 22 has none")
    assert reported == [[0, 0, 0, -1000000000], [True] * 3, []]


# ---- threads


def _threads(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw

    raw = Raw()
    before = layer.live()
    errors: list[BaseException] = []
    lock = threading.Lock()  # queues are the application's to lock

    def work() -> None:
        try:
            for _ in range(300):
                fence, timeline = raw.fence(), raw.semaphore(0)
                with lock:
                    raw.submit(signal=timeline, value=1, fence=fence)
                assert raw.wait(fence) == 0
                raw.destroy(fence, timeline)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        layer.events()
        layer.delay_fences(1, "submit")
        layer.live()
        layer.release()
        layer.reset()
    for thread in threads:
        thread.join()
    return [errors, layer.live() == before, layer.violations()]


def test_it_is_commanded_and_read_while_other_threads_call_vulkan(run: Any) -> None:
    assert run(_threads) == [[], True, []]
