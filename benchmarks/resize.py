"""What does it take to follow a resize, against C that waits for the device, and does anything pile up?"""

from __future__ import annotations

from itertools import cycle
from time import perf_counter as now
from typing import Any

import vkshare
from benchmarks import devices, processes, swapchain_pairs
from benchmarks.c_swapchain import CSwapchain, Size
from benchmarks.measure import Timed, drained, repeated
from benchmarks.plan import Plan
from benchmarks.processes import ChildFailed
from benchmarks.swapchain_pairs import FAILURES, Pair
from vkshare.demos.storm import resident_bytes

_SIZES: dict[str, tuple[Size, ...]] = {
    "1280x720": ((1280, 720), (1290, 725)),
    "320x180": ((320, 180), (330, 185), (325, 190), (335, 195)),
}
_TURN = 20e-3  # seconds
_WARM_UP = 8  # resizes
_KEPT = 4  # old swapchains, by acquires: what retired_limit is, which takes turns with none here
_ATTEMPTS = 100  # frames until a window's new size is there: it is with the second at the latest

_EARLY, _RESIZES, _FRAMES = 100, 10_000, 100_000


def run(plan: Plan) -> None:
    """On every Vulkan adapter: headless, and in windows under an Xvfb. On every adapter: what 10,000 resizes leave."""
    for adapter in vkshare.adapters():
        if adapter.backend == "vulkan":
            swapchain_pairs.run(plan, adapter, _SIZES["1280x720"][0], "resizes of windows", rows)
        for fences in swapchain_pairs.policies(adapter, headless=True):
            _left_behind(plan, adapter, present_fences=fences)
    if not vkshare.adapters("vulkan"):
        plan.note("the time of a resize: there is no Vulkan driver here")


# ---- the time ----------------------------------------------------------------------------------------------------


def rows(plan: Plan, pair: Pair) -> None:
    """Both sizes, at each place."""
    for _ in plan.alone(*pair.servers):
        for name, sizes in _SIZES.items():
            what = f"resize + first frame, {name}, {pair.how}"
            with plan.noting(what, *FAILURES):
                plan.race(f"{what}, {pair.device.adapter.name}", _ways(pair, sizes), most=1.0, turn=_TURN)


def _ways(pair: Pair, sizes: tuple[Size, ...]) -> dict[str, Timed]:
    ours, theirs = _ours(pair, sizes), pair.theirs
    ours(_WARM_UP)
    ways = {"ours": drained(ours, pair.device.wait_idle)}
    if theirs:
        ways["c"] = drained(_c(pair, theirs, sizes), theirs.wait)
        if pair.where == "headless" and not pair.present_fences:
            ways[f"C that keeps {_KEPT} old ones"] = drained(theirs.resizes(sizes, _KEPT), theirs.wait)
    return ways


def _ours(pair: Pair, sizes: tuple[Size, ...]) -> Timed:
    swapchain, turns = pair.ours, cycle(sizes)
    clear = swapchain_pairs.clear(swapchain)
    resize: Any = pair.resize or (lambda size: swapchain.resize(*size))

    def follow() -> None:
        size = next(turns)
        resize(size)
        for _ in range(_ATTEMPTS):
            swapchain.present_prepared(clear)
            if swapchain.extent == size:
                break

    return repeated(follow)


def _c(pair: Pair, theirs: CSwapchain, sizes: tuple[Size, ...]) -> Timed:
    if not pair.resize_theirs:
        return theirs.resizes(sizes)
    turns, resize_window, recreate = cycle(sizes), pair.resize_theirs, theirs.resizes(sizes[:1])

    def loop(n: int) -> float:
        seconds = 0.0
        for _ in range(n):
            start = now()
            resize_window(next(turns))
            seconds += now() - start + recreate(1)  # at the size that the window has by now
        return seconds

    return loop


# ---- what is left behind -----------------------------------------------------------------------------------------


def _left_behind(plan: Plan, adapter: vkshare.Adapter, *, present_fences: bool) -> None:
    """After 10,000 resizes, and after 100,000 frames; in a process that does nothing else."""
    resizes, frames = (_RESIZES // 50, _FRAMES // 50) if plan.quick else (_RESIZES, _FRAMES)
    how = f"present fences, {adapter.name}" if present_fences else adapter.name
    plan.progress(f"{resizes:,} resizes, {how}")
    with plan.noting(f"{resizes:,} resizes, {how}", ChildFailed):
        left = processes.call(what_is_left, adapter.uuid, present_fences, resizes, frames)
        early, late = left["early_bytes"], left["bytes"]
        more: dict[str, Any] = {"against": f"after {_EARLY}", "others": {f"after {_EARLY}": early}, "unit": "bytes"}
        plan.ratio(f"memory after {resizes:,} resizes, {how}", late / early, late, most=1.02, place="-", **more)
        what, alive = f"swapchains alive in {resizes:,} resizes, {how}", left["retired_limit"] + 1
        plan.count(what, left["swapchains"], most=alive, place="-")
        what, semaphores = f"semaphores after {frames:,} frames, {how}", left["most_semaphores"]
        plan.count(what, left["semaphores"], most=semaphores, place="-")


def what_is_left(adapter: bytes, present_fences: bool, resizes: int, frames: int) -> dict[str, int]:
    """For the other process."""
    with (
        devices.open_device(adapter) as device,
        device.create_swapchain(vkshare.Headless(320, 180), present_fences=present_fences) as swapchain,
    ):
        clear = swapchain_pairs.clear(swapchain)
        sizes = cycle(_SIZES["320x180"])
        reported: dict[str, int] = {"swapchains": 0}
        for i in range(resizes):
            swapchain.resize(*next(sizes))
            swapchain.present_prepared(clear)
            if i + 1 == min(_EARLY, resizes // 2):
                reported["early_bytes"] = resident_bytes()
            reported["swapchains"] = max(reported["swapchains"], swapchain.statistics().swapchains)
        reported["bytes"] = resident_bytes()
        swapchain_pairs.one_call(swapchain)(frames)
        statistics = swapchain.statistics()
        reported["semaphores"] = statistics.semaphores
        reported["retired_limit"] = statistics.retired_limit
        reported["most_semaphores"] = 3 * swapchain.image_count + 2
        return reported
