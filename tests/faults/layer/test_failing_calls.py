"""The fault layer makes calls fail, as the driver would and when it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.fault_layer import FaultLayer

if TYPE_CHECKING:
    from support.raw_presents import Raw


OUT_OF_HOST_MEMORY, DEVICE_LOST, OUT_OF_DATE, SURFACE_LOST, SUBOPTIMAL = -1, -4, -1000001004, -1000000000, 1000001003
FAILING = (
    "vkCreateSemaphore",
    "vkCreateImage",
    "vkCreateImageView",
    "vkAllocateMemory",
    "vkCreateCommandPool",
    "vkAllocateCommandBuffers",
    "vkBeginCommandBuffer",
    "vkEndCommandBuffer",
    "vkBindImageMemory2",
    "vkQueueSubmit2",
)


def _result(call: Any, *arguments: Any) -> int:
    """What the call returns, or the result that it raises."""
    from vkshare.errors import VulkanError

    try:
        returned = call(*arguments)
    except VulkanError as error:
        return error.result
    return returned[0] if isinstance(returned, tuple) else returned if isinstance(returned, int) else 0


def _fences(layer: FaultLayer, rule: dict[str, Any], n: int) -> list[int]:
    from support.raw_presents import Raw

    raw = Raw()
    layer.reset()
    layer.fail("vkCreateFence", **rule)
    results = [_result(raw.fence) for _ in range(n)]
    assert layer.live().get("fence", 0) == results.count(0) == layer.created().get("fence", 0)
    assert (layer.calls()["vkCreateFence"], layer.failed()["vkCreateFence"]) == (n, n - results.count(0))
    assert [e.result for e in layer.events() if e.what == "fault"] == [r for r in results if r]
    return results


@pytest.mark.parametrize(
    ("rule", "failing"),
    [
        ({}, [1]),
        ({"nth": 3}, [3]),
        ({"nth": 2, "count": 3}, [2, 3, 4]),
        ({"nth": 6, "count": 0}, [6, 7, 8]),
        ({"nth": 2, "every": 3, "count": 0}, [2, 5, 8]),
        ({"nth": 1, "every": 3, "count": 2}, [1, 4]),
    ],
)
def test_the_calls_that_a_rule_names_fail_and_no_others(run: Any, rule: dict[str, Any], failing: list[int]) -> None:
    assert run(_fences, rule, 8) == [OUT_OF_HOST_MEMORY if n in failing else 0 for n in range(1, 9)]


def _opened_devices(layer: FaultLayer) -> dict[str, list[Any]]:
    import vkshare as vks

    vks.open(backend="vulkan").close()
    reported = {}
    for entry in FAILING:
        layer.reset()
        layer.fail(entry, count=0)
        try:
            with vks.open(backend="vulkan") as device:
                device.create_surface(8, 8)
            error = "nothing"
        except vks.VkshareError as raised:
            error = type(raised).__name__
        reported[entry] = [error, layer.failed().get(entry, 0), layer.live()]
    return reported


def test_vkshare_meets_failures_of_each_entry_with_errors_and_leaks_nothing(run: Any) -> None:
    for entry, (error, failed, live) in run(_opened_devices).items():
        assert failed > 0, f"{entry} was never called ({error})"
        assert live == {"instance": 1}, f"{entry} left {live} ({error})"


def _statements(layer: FaultLayer) -> list[str]:
    wrong = ["fail vkNoSuchThing DEVICE_LOST", "fail vkQueueSubmit2", "fail vkQueueSubmit2 NO_RESULT", "frobnicate",
             "fail vkQueueSubmit2 DEVICE_LOST nth=0", "fail vkQueueSubmit2 SUCCESS", "delay present", "modes twice",
             "withhold things", "extent current=wide", "images count=many", "log maybe", "hide"]  # fmt: skip
    reported = []
    for statement in wrong:
        with pytest.raises(ValueError, match=statement.split()[0]) as raised:
            layer.control(statement)
        reported.append(str(raised.value))
    layer.control(
        "fail vkQueueSubmit2KHR VK_ERROR_OUT_OF_DATE_KHR;fail vkGetSwapchainStatusKHR SURFACE_LOST\n; release"
    )
    return reported


def test_a_statement_that_is_wrong_is_refused_with_what_is_wrong_with_it(run: Any) -> None:
    assert all(len(text) > 20 for text in run(_statements))


def _from_environment(layer: FaultLayer) -> list[int]:
    from support.raw_presents import Raw

    raw = Raw()
    return [_result(raw.semaphore) for _ in range(3)]


def test_rules_come_from_the_environment_of_a_child(run: Any) -> None:
    assert run(_from_environment, faults="fail vkCreateSemaphore TOO_MANY_OBJECTS nth=2") == [0, -10, 0]


# ---- presenting


def _presents(layer: FaultLayer, result: int) -> dict[str, Any]:
    """One frame whose present fails, and what has become of its semaphore and fence."""
    from support.raw_presents import Raw

    raw = Raw()
    chain = raw.swapchain()
    acquired, rendered, done = raw.semaphore(), raw.semaphore(), raw.fence()
    shown = raw.fence() if raw.has_present_fences else None
    layer.reset()
    layer.fail("vkQueuePresentKHR", result=result)
    _, index = chain.acquire(acquired)
    raw.submit(acquired, rendered, done, commands=chain.commands[index])
    reported: dict[str, Any] = {"result": _result(chain.present, index, rendered, shown), "done": raw.wait(done)}
    reported["shown"] = raw.wait(shown, 0.3) if shown is not None else None
    reported["waits"] = sum(e.what == "wait" and e.name == "" for e in layer.events()) - 1  # the submit's one left out
    if reported["waits"] == 0:  # the semaphore has its signal still: it can be waited for
        raw.vk.vkResetFences(raw.device, 1, [done])
        raw.submit(rendered, None, done)
        assert raw.wait(done) == 0
    assert layer.violations() == []
    return reported


@pytest.mark.parametrize("result", [SUBOPTIMAL, OUT_OF_DATE, SURFACE_LOST])
def test_a_present_that_fails_softly_runs_its_waits_and_signals_its_fence(present: Any, result: int) -> None:
    reported = present(_presents, result)
    assert (reported["result"], reported["waits"], reported["shown"] or 0) == (result, 1, 0)


@pytest.mark.parametrize("result", [-1, -2])
def test_a_present_that_runs_out_of_memory_has_queued_nothing(present: Any, result: int) -> None:
    reported = present(_presents, result)
    assert (reported["result"], reported["waits"]) == (result, 0)
    assert reported["shown"] in (None, 2)  # VK_TIMEOUT


def _acquires(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw

    raw = Raw()
    chain = raw.swapchain()
    semaphore, fence = raw.semaphore(), raw.fence()
    reported: list[Any] = []
    for result in (OUT_OF_DATE, "TIMEOUT", "NOT_READY", "SUBOPTIMAL"):
        layer.fail("vkAcquireNextImageKHR", result=result)
        reported.append(_result(chain.acquire, semaphore, fence))
    assert raw.wait(fence) == 0  # of the last one only, else the fence would have been used twice
    assert layer.violations() == []
    raw.submit(semaphore)
    raw.vk.vkDeviceWaitIdle(raw.device)
    return reported


def test_an_acquire_that_is_suboptimal_acquires_and_one_that_fails_does_not(present: Any) -> None:
    assert present(_acquires) == [OUT_OF_DATE, 2, 1, SUBOPTIMAL]


def _sticky(layer: FaultLayer) -> list[int]:
    from support.raw_presents import Raw

    raw = Raw()
    chain = raw.swapchain()
    layer.fail("vkAcquireNextImageKHR", result="OUT_OF_DATE", sticky=True)
    reported = [_result(chain.acquire, raw.semaphore()) for _ in range(3)]
    new = raw.swapchain(old=chain)
    layer.fail("vkAcquireNextImageKHR", nth=2, result="SURFACE_LOST", sticky=True)
    reported += [_result(new.acquire, raw.semaphore()) for _ in range(3)]
    reported += [_result(raw.capabilities), _result(raw.swapchain, 0)]
    raw.vk.vkDeviceWaitIdle(raw.device)
    return reported


def test_what_is_sticky_stays_with_the_swapchain_or_the_surface(present: Any) -> None:
    assert present(_sticky) == [OUT_OF_DATE] * 3 + [0] + [SURFACE_LOST] * 4


def test_a_swapchain_that_cannot_be_made_retires_the_old_one(present: Any) -> None:
    assert present(_failed_create) == [OUT_OF_HOST_MEMORY, OUT_OF_DATE, 0, 0, True]


def _failed_create(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import Raw

    raw = Raw()
    chain = raw.swapchain()
    layer.fail("vkCreateSwapchainKHR")
    reported: list[Any] = [_result(lambda: raw.swapchain(old=chain)), _result(chain.acquire, raw.semaphore())]
    new = raw.swapchain()  # the window is free for it
    reported += [_result(new.acquire, raw.semaphore()), _result(chain.destroy)]
    reported.append([v.text for v in layer.violations()] == ["an image of a retired swapchain is acquired"])
    return reported


# ---- a lost device


def _lost(layer: FaultLayer) -> dict[str, Any]:
    from support.raw_presents import Raw

    raw = Raw()
    other = _other(raw)
    chain = raw.swapchain() if raw.surface is not None else None
    fence, timeline = raw.fence(True), raw.semaphore(0)
    layer.reset()
    layer.fail("vkQueueSubmit2", nth=2, result="DEVICE_LOST")
    raw.submit()
    vk, device = raw.vk, raw.device
    reported: dict[str, Any] = {
        "submit": _result(raw.submit),
        "again": _result(raw.submit),
        "wait": _result(raw.wait, fence),
        "status": _result(vk.vkGetFenceStatus, device, fence),
        "counter": _result(vk.make, "vkGetSemaphoreCounterValue", device, timeline),
        "idle": _result(vk.vkDeviceWaitIdle, device),
        "queue": _result(vk.vkQueueWaitIdle, raw.queue),
    }
    if chain is not None:
        reported |= {
            "acquire": _result(chain.acquire, raw.semaphore()),
            "create": _result(lambda: raw.swapchain(old=chain)),
        }
        chain.destroy()
    assert _result(raw.fence) == 0  # what cannot say it does not
    reported["other"] = _result(other.submit)
    reported["events"] = [e.what for e in layer.events() if e.what == "lost"]
    return reported


def _other(raw: Raw) -> Raw:
    """The same program on one more device."""
    import copy

    from vkshare.backends.vulkan.api import device_functions

    other = copy.copy(raw)
    other.device = raw.make_device()
    other.vk = device_functions(raw.ivk, other.device)
    other.queue = other.vk.make("vkGetDeviceQueue", other.device, 0, 0)
    return other


def test_a_lost_device_says_so_for_ever_and_another_one_does_not(present: Any) -> None:
    reported = present(_lost)
    assert (reported.pop("other"), reported.pop("events")) == (0, ["lost"])
    assert set(reported.values()) == {DEVICE_LOST}, reported
