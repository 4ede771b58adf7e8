"""The fault layer delays and withholds fences and timelines, and reports what is not so of surfaces and extensions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.fault_layer import FaultLayer

TIMEOUT, NOT_READY, EXTENSION_NOT_PRESENT = 2, 1, -7


# ---- fences and timelines


def _withheld(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw

    raw = Raw()
    fence, later = raw.fence(), raw.fence()
    layer.withhold_fences("submit")
    raw.submit(fence=fence)
    raw.vk.vkQueueWaitIdle(raw.queue)
    reported: list[Any] = [raw.vk.vkGetFenceStatus(raw.device, fence), raw.wait(fence, 0.05)]
    layer.release()
    reported += [raw.vk.vkGetFenceStatus(raw.device, fence), raw.wait(fence, 0)]
    raw.submit(fence=later)  # nothing holds for it
    reported.append(raw.wait(later, 5))
    raw.vk.vkResetFences(raw.device, 2, [fence, later])
    layer.withhold_fences("submit", nth=2, count=1)
    raw.submit(fence=fence)
    raw.submit(fence=later)
    reported += [raw.wait(fence, 5), raw.wait(later, 0.05)]
    layer.reset()
    return [*reported, raw.wait(later, 5)]


def test_a_fence_that_is_withheld_looks_pending_until_it_is_released(run: Any) -> None:
    assert run(_withheld) == [NOT_READY, TIMEOUT, 0, 0, 0, 0, TIMEOUT, 0]


def _pending(layer: FaultLayer) -> list[int]:
    from support.raw_presents import Raw

    raw = Raw()
    fence, timeline = raw.fence(), raw.semaphore(0)
    raw.submit(fence=fence)
    layer.withhold_fences()
    reported = [raw.wait(fence, 0.05)]
    layer.release()
    reported.append(raw.wait(fence, 5))
    layer.withhold_semaphores()
    raw.submit(signal=timeline, value=3)
    raw.vk.vkQueueWaitIdle(raw.queue)
    for step in ("withheld", "released"):
        reported.append(raw.vk.make("vkGetSemaphoreCounterValue", raw.device, timeline))
        reported.append(_wait_timeline(raw, timeline, 3))
        if step == "withheld":
            layer.release()
    return reported


def _wait_timeline(raw: Any, timeline: Any, value: int) -> int:
    from support.raw_presents import new

    info = new("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=[timeline], pValues=[value])
    return int(raw.vk.vkWaitSemaphores(raw.device, info, 50_000_000))


def test_a_pending_fence_and_a_timeline_can_be_withheld(run: Any) -> None:
    assert run(_pending) == [TIMEOUT, 0, 0, TIMEOUT, 3, 0]


def _host_signals(layer: FaultLayer) -> list[int]:
    from support.raw_presents import Raw, new

    raw = Raw()
    layer.withhold_semaphores()
    timeline = raw.semaphore(5)
    reported = [raw.vk.make("vkGetSemaphoreCounterValue", raw.device, timeline)]
    raw.vk.vkSignalSemaphore(raw.device, new("VkSemaphoreSignalInfo", semaphore=timeline, value=7))
    reported.append(raw.vk.make("vkGetSemaphoreCounterValue", raw.device, timeline))
    return [*reported, _wait_timeline(raw, timeline, 7)]


def test_the_host_sees_its_own_signals_of_a_withheld_timeline(run: Any) -> None:
    assert run(_host_signals) == [5, 7, 0]


def _delayed(layer: FaultLayer) -> list[float]:
    from support.raw_presents import Raw

    raw = Raw()
    fence = raw.fence()
    raw.submit(fence=fence)
    raw.wait(fence)
    raw.vk.vkResetFences(raw.device, 1, [fence])
    layer.delay_fences(60, "submit")
    start = time.monotonic()
    raw.submit(fence=fence)
    early = raw.wait(fence, 0.01)
    return [early, raw.wait(fence, 5), time.monotonic() - start]


def test_a_fence_that_is_delayed_is_signalled_so_much_later(run: Any) -> None:
    early, late, seconds = run(_delayed)
    assert early in (TIMEOUT, 0)  # a test that is stopped for long comes to the first wait when the delay is over
    assert late == 0
    assert seconds >= 0.06


def _present_fences(layer: FaultLayer) -> list[int] | None:
    from support.raw_presents import Raw

    raw = Raw()
    if not raw.has_present_fences:
        return None
    chain = raw.swapchain()
    layer.withhold_fences("present")
    done, shown = raw.fence(), raw.fence()
    chain.frame(raw.semaphore(), raw.semaphore(), done, shown)
    reported = [raw.wait(done), raw.wait(shown, 0.05)]
    layer.release()
    return [*reported, raw.wait(shown)]


def test_present_fences_are_withheld_and_others_are_not(present: Any) -> None:
    reported = present(_present_fences)
    if reported is None:
        pytest.skip("the driver has no VK_EXT_swapchain_maintenance1")
    assert reported == [0, TIMEOUT, 0]


# ---- what surfaces report


def _images(layer: FaultLayer, count: int) -> list[int]:
    from support.raw_presents import Raw

    raw = Raw()
    least = raw.capabilities().minImageCount
    layer.force_images(count)
    chain = raw.swapchain(least)
    seen = []
    for _ in range(4 * count):
        done = raw.fence()
        seen.append(chain.frame(raw.semaphore(), raw.semaphore(), done))
        raw.wait(done)
    assert max(seen) < count, seen
    assert {e.value for e in layer.events() if e.what in ("acquire", "present")} == set(seen)
    raw.vk.vkDeviceWaitIdle(raw.device)
    assert [v for v in layer.violations() if "present" not in v.text] == []
    return [len(chain.images), len({int(i) for i in map(_number, chain.images)})]


def _number(thing: Any) -> int:
    from support.raw_presents import ffi

    return int(ffi.cast("uintptr_t", thing))


@pytest.mark.parametrize("count", [2, 7])
def test_a_swapchain_has_as_many_images_as_are_forced(present: Any, count: int) -> None:
    assert present(_images, count) == [count, count]


def _reported(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw

    raw = Raw()
    reported: list[Any] = []
    layer.force_images(minimum=6, maximum=0)
    layer.force_extent(undefined=True, minimum=(2, 3), maximum=(100, 200))
    c = raw.capabilities()
    reported.append([c.minImageCount, c.maxImageCount, c.currentExtent.width, c.currentExtent.height])
    reported.append([c.minImageExtent.width, c.minImageExtent.height, c.maxImageExtent.width, c.maxImageExtent.height])
    layer.force_extent((0, 0))
    layer.force_images(minimum=2, maximum=2)
    c = raw.capabilities()
    reported.append([c.minImageCount, c.maxImageCount, c.currentExtent.width, c.currentExtent.height])
    modes = "vkGetPhysicalDeviceSurfacePresentModesKHR"
    layer.force_modes("fifo")
    reported.append(raw.ivk.list(modes, raw.physical, raw.surface))
    layer.reset()
    reported.append(len(raw.ivk.list(modes, raw.physical, raw.surface)) > 1)
    return reported


def test_limits_extents_and_present_modes_are_reported_as_forced(present: Any) -> None:
    assert present(_reported) == [[6, 0, 0xFFFFFFFF, 0xFFFFFFFF], [2, 3, 100, 200], [2, 2, 0, 0], [2], True]


# ---- extensions


def _hidden(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw

    from vkshare.errors import VulkanError

    raw = Raw()
    layer.hide_extension("VK_KHR_swapchain")
    names = raw.device_extensions()
    with pytest.raises(VulkanError) as raised:
        raw.make_device()
    layer.reset()
    return ["VK_KHR_swapchain" in names, raised.value.result, raw.device_extensions() - names]


def test_a_device_extension_that_is_hidden_is_not_there(run: Any) -> None:
    assert run(_hidden) == [False, EXTENSION_NOT_PRESENT, {"VK_KHR_swapchain"}]


def _instance_extensions(layer: FaultLayer) -> tuple[set[str], dict[str, int]]:
    from support.raw_presents import Raw

    return Raw().instance_extensions, layer.live()


def test_an_instance_extension_is_hidden_by_the_implicit_layer(run: Any) -> None:
    all_of_them, live = run(_instance_extensions, implicit=True)
    others, _ = run(_instance_extensions, implicit=True, faults="hide VK_KHR_get_surface_capabilities2")
    assert all_of_them - others == {"VK_KHR_get_surface_capabilities2"}
    assert live["instance"] == live["device"] == 1  # it is in the chain as the explicit one is
