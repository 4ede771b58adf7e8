"""The fault layer counts what is alive, records what happens, and knows what Vulkan forbids."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from support.fault_layer import FaultLayer, Violation

# ---- counts and events


def _counts(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import VK, Raw

    raw = Raw()
    before = layer.live()
    layer.reset()
    things = [raw.fence() for _ in range(3)] + [raw.semaphore()]
    raw.name(VK.OBJECT_TYPE_SEMAPHORE, things[3], "one semaphore")
    reported: list[Any] = [layer.live()["fence"], layer.live()["semaphore"]]
    reported.append([(o.type, o.name) for o in layer.objects() if o.type in ("fence", "semaphore")])
    raw.destroy(*things)
    reported += [
        layer.live() == before,
        layer.peak()["fence"],
        layer.created()["fence"],
        layer.calls()["vkDestroyFence"],
    ]
    kept = raw.fence()
    raw.close()  # with a fence left
    reported += [layer.live(), [hex(o.handle) == hex(_number(kept)) for o in layer.objects()]]
    return reported


def _number(thing: Any) -> int:
    from support.raw_presents import ffi

    return int(ffi.cast("uintptr_t", thing))


def test_live_objects_are_counted_and_what_is_left_is_named(present: Any) -> None:
    named = [("fence", "")] * 3 + [("semaphore", "one semaphore")]
    assert present(_counts) == [3, 1, named, True, 3, 3, 3, {"fence": 1}, [True]]


def _frame(layer: FaultLayer) -> list[Any]:
    from support.raw_presents import VK, Raw

    raw = Raw()
    chain = raw.swapchain()
    acquired, rendered, done = raw.semaphore(), raw.semaphore(), raw.fence()
    layer.reset()
    start = time.monotonic_ns()
    index = chain.frame(acquired, rendered, done)
    raw.wait(done)
    # Named afterwards: the name is told with the earlier events too.
    raw.name(VK.OBJECT_TYPE_SEMAPHORE, acquired, "acquired")
    raw.name(VK.OBJECT_TYPE_SEMAPHORE, rendered, "rendered")
    raw.name(VK.OBJECT_TYPE_SWAPCHAIN_KHR, chain.handle, "chain")
    raw.name(VK.OBJECT_TYPE_FENCE, done, "done")
    events = layer.events()
    assert [e.number for e in events] == list(range(len(events)))
    assert all(start <= a.ns <= b.ns <= time.monotonic_ns() for a, b in itertools.pairwise(events))
    assert {e.value for e in events if e.what in ("acquire", "present")} == {index}
    groups = sorted({e.group for e in events if e.group})
    layer.log(False)
    chain.frame(raw.semaphore(), raw.semaphore())
    assert len(layer.events()) == len(events)
    raw.vk.vkDeviceWaitIdle(raw.device)
    return [[(e.what, e.name or e.type) for e in events if e.group == group] for group in groups] + [
        [(e.what, e.name) for e in events if e.what == "ready"]
    ]


def test_a_frame_is_recorded_in_order_with_names_and_who_belongs_together(present: Any) -> None:
    assert present(_frame) == [
        [("acquire", "chain"), ("signal", "acquired")],
        [("submit", "queue"), ("wait", "acquired"), ("signal", "rendered"), ("fence", "done")],
        [("present", "chain"), ("wait", "rendered")],
        [("ready", "done")],
    ]


def _ring(layer: FaultLayer) -> tuple[int, int, int]:
    from support.raw_presents import Raw

    raw = Raw()
    layer.reset()
    for _ in range(18000):
        raw.destroy(raw.semaphore())
    events = layer.events()
    return len(events), events[0].number, len(layer.events(35990))


def test_the_ring_keeps_the_last_events(run: Any) -> None:
    assert run(_ring) == (32768, 36000 - 32768, 10)


# ---- what is forbidden


class Loop:
    """Frames with the semaphores and fences that an application keeps."""

    def __init__(self, present_fences: bool) -> None:
        from support.raw_presents import Raw

        self.raw = raw = Raw(maintenance=present_fences)
        self.chain = raw.swapchain()
        n = len(self.chain.images)
        self.acquired = [raw.semaphore() for _ in range(n + 1)]
        self.done = [raw.fence(True) for _ in range(n + 1)]
        self.rendered = [raw.semaphore() for _ in range(n)]
        self.shown = [raw.fence(True) for _ in range(n)] if raw.has_present_fences else []
        self.count = 0

    def frame(self, *, wait_for_present: bool = True, rendered: Any = None) -> int:
        """`wait_for_present` False: the present semaphore is used again without the proof of rule A1."""
        raw, chain, n = self.raw, self.chain, self.count % len(self.acquired)
        self.count += 1
        assert raw.wait(self.done[n]) == 0
        raw.vk.vkResetFences(raw.device, 1, [self.done[n]])
        if wait_for_present:
            got = raw.fence()
            _, index = chain.acquire(self.acquired[n], got)
            raw.wait(got)
            raw.destroy(got)
        else:
            _, index = chain.acquire(self.acquired[n])
        shown = None
        if self.shown:
            shown = self.shown[index]
            raw.wait(shown)
            raw.vk.vkResetFences(raw.device, 1, [shown])
        rendered = self.rendered[index] if rendered is None else rendered
        raw.submit(self.acquired[n], rendered, self.done[n], commands=chain.commands[index])
        chain.present(index, rendered, shown)
        return index

    def close(self) -> None:
        self.raw.vk.vkDeviceWaitIdle(self.raw.device)
        for fence in self.shown:
            self.raw.wait(fence)
        self.raw.destroy(*self.acquired, *self.done, *self.rendered, *self.shown)
        self.chain.destroy()
        self.raw.close()


def _good(layer: FaultLayer, present_fences: bool) -> list[Any]:
    loop = Loop(present_fences)
    for _ in range(40):
        loop.frame()
    during = layer.violations()
    loop.close()
    return [during, layer.violations(idle_is_proof=True), layer.live(), bool(loop.shown) or bool(layer.violations())]


@pytest.mark.parametrize("present_fences", [True, False])
@pytest.mark.parametrize("validation", ["", "above", "below"])
def test_a_program_that_keeps_the_rules_is_not_blamed(present: Any, present_fences: bool, validation: str) -> None:
    """The validation layer sees nothing wrong either, before or behind the fault layer."""
    env = {"VKSHARE_VALIDATION": "1" if validation else "0"}
    # True: the last presents of a swapchain without present fences have no proof but the idle wait (A17).
    assert present(_good, present_fences, validation=validation, env=env) == [[], [], {}, True]


def _bad(layer: FaultLayer, what: str) -> list[Violation]:
    loop = Loop(False)
    raw, vk = loop.raw, loop.raw.vk
    if what == "fence":
        fence = raw.fence()
        layer.withhold_fences("submit")
        raw.submit(fence=fence)
        vk.vkQueueWaitIdle(raw.queue)
        vk.vkResetFences(raw.device, 1, [fence])
    elif what == "signal":
        one = raw.semaphore()
        raw.submit(signal=one)
        raw.submit(signal=one)
    elif what == "rendered":
        layer.withhold_fences("acquire")
        layer.withhold_fences("submit")
        one = raw.semaphore()
        for n in range(2):
            loop.raw.wait = lambda *_: 0  # type: ignore[method-assign] # this program trusts to luck
            raw.vk.vkQueueWaitIdle(raw.queue)
            loop.done[n] = raw.fence(True)
            loop.frame(wait_for_present=False, rendered=one)
    elif what == "destroyed":
        index = loop.frame()
        raw.destroy(loop.rendered[index])
    elif what == "swapchain":
        loop.frame()
        loop.chain.destroy()
    elif what == "surface":
        raw.ivk.vkDestroySurfaceKHR(raw.instance, raw.surface, None)
    elif what == "acquire":
        one = raw.semaphore()
        loop.chain.acquire(one)
        loop.chain.acquire(one)
    return layer.violations()


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("fence", "a fence is reset while a submit has yet to signal it"),
        ("signal", "a submit signals a semaphore that is signalled"),
        ("rendered", "a submit signals a semaphore that present 1 may still wait for"),
        ("destroyed", "a semaphore is destroyed while present 1 may still wait for it"),
        ("swapchain", "a swapchain is destroyed while its present 1 may still use it"),
        ("surface", "a surface is destroyed before its swapchain"),
        ("acquire", "an acquire signals a semaphore that is signalled"),
    ],
)
def test_what_vulkan_forbids_is_a_violation(present: Any, what: str, text: str) -> None:
    assert any(v.text.startswith(text) for v in present(_bad, what)), present(_bad, what)


def _by_order(layer: FaultLayer) -> list[Any]:
    """Each image has its semaphore, signalled again as soon as the image is acquired again."""
    loop = Loop(False)
    layer.withhold_fences("submit")
    loop.raw.wait = lambda *_: 0  # type: ignore[method-assign] # it waits for nothing
    seen: list[int] = []
    while len(seen) == len(set(seen)):
        loop.done[loop.count] = loop.raw.fence(True)
        seen.append(loop.frame(wait_for_present=False))
    found = layer.violations(), layer.violations(order_is_proof=True)
    layer.release()
    loop.raw.vk.vkDeviceWaitIdle(loop.raw.device)
    return [[(v.proven_by_order, v.proven_by_idle) for v in some] for some in found]


def test_a_present_semaphore_that_is_used_behind_the_next_acquire_has_only_the_order_for_it(present: Any) -> None:
    assert present(_by_order) == [[(True, False)], []]


def _many(layer: FaultLayer, runs: int) -> tuple[float, list[Any]]:
    from support.raw_presents import Raw

    raw = Raw()
    empty = layer.live()
    start, reported = time.monotonic(), []
    for n in range(1, runs + 1):
        layer.reset()
        layer.fail("vkQueuePresentKHR", n % 25, "OUT_OF_DATE") if n % 25 else None
        chain = raw.swapchain()
        for _ in range(20):
            done, acquired, rendered = raw.fence(), raw.semaphore(), raw.semaphore()
            try:
                chain.frame(acquired, rendered, done)
            except Exception:
                reported.append(n)
            raw.wait(done)
            raw.vk.vkDeviceWaitIdle(raw.device)
            raw.destroy(done, acquired, rendered)
        chain.destroy()
        assert layer.live() == empty
    return (time.monotonic() - start) / runs, reported


def test_hundreds_of_runs_fit_into_one_process(present: Any) -> None:
    seconds, reported = present(_many, 100)
    assert reported == [n for n in range(1, 101) if 0 < n % 25 <= 20]
    print(f"{seconds * 1e3:.1f} ms a run of 20 frames")
