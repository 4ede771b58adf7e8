"""What does it take to follow a resize, against C that waits for the device, and does anything pile up?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from time import perf_counter as now
from typing import Any

import vkshare
from benchmarks import child, swapchain_pairs
from benchmarks.c_swapchain import Size
from benchmarks.measure import Spread, Timed, repeated, take_turns
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import COUNT, RATIO, Must, Row, own_row, row
from benchmarks.swapchain_pairs import Pair, drained
from vkshare.demos.storm import resident_bytes

_FASTER = Must(1.0)
_SIZES: dict[str, tuple[Size, ...]] = {
    "1280x720": ((1280, 720), (1290, 725)),
    "320x180": ((320, 180), (330, 185), (325, 190), (335, 195)),
}
_TURN = 20e-3  # seconds
_WARM_UP = 8  # resizes
_KEPT = 4  # old swapchains, by acquires: what retired_limit is, which takes turns with none here
_ATTEMPTS = 100  # frames until a window's new size is there: it is with the second at the latest

_EARLY, _RESIZES, _FRAMES = 100, 10_000, 100_000
_MEMORY = Must(1.02)


def run(plan: Plan) -> list[Row]:
    """On every Vulkan adapter: headless, and in windows under an Xvfb. On every adapter: what 10,000 resizes leave."""
    rows: list[Row] = []
    for index, adapter in enumerate(vkshare.adapters()):
        with vkshare.open(adapter, validation=False, name="bench") as device:
            policies = swapchain_pairs.policies(device, headless=True)
            for fences in policies if adapter.backend == "vulkan" else ():
                with swapchain_pairs.headless(device, _SIZES["1280x720"][0], plan, present_fences=fences) as pair:
                    rows += rows_of(pair, plan, present_fences=fences)
        if adapter.backend == "vulkan":
            rows += swapchain_pairs.in_windows(__name__, "resizes of windows", _SIZES["1280x720"][0], index, plan)
        for fences in policies:
            rows += _left_behind(index, adapter.name, plan, present_fences=fences)
    if not vkshare.adapters("vulkan"):
        plan.note("the time of a resize: there is no Vulkan driver here")
    return rows


# ---- the time ----------------------------------------------------------------------------------------------------


def rows_of(pair: Pair, plan: Plan, *, present_fences: bool) -> Iterator[Row]:
    """Both sizes, at each place."""
    how = f"{pair.where}, present fences" if present_fences else pair.where
    for place in alone(plan, *pair.servers):
        for name, sizes in _SIZES.items():
            what = f"resize + first frame, {name}, {how}"
            plan.progress(f"{what}, {place.name}")
            with swapchain_pairs.failures_noted(plan, what):
                yield _row(what, place.name, pair, sizes, plan, kept=0 if present_fences else _KEPT)


def _row(what: str, place: str, pair: Pair, sizes: tuple[Size, ...], plan: Plan, *, kept: int) -> Row:
    ours = _ours(pair, sizes)
    ours(_WARM_UP)
    ways = {"ours": drained(ours, pair.device.wait_idle)}
    if pair.theirs:
        ways["c"] = drained(_c(pair, sizes), pair.theirs.wait)
        if kept and pair.where == "headless":
            ways[f"C that keeps {kept} old ones"] = drained(pair.theirs.resizes(sizes, kept), pair.theirs.wait)
    return row(f"{what}, {pair.device.adapter.name}", place, take_turns(ways, plan.seconds, _TURN), _FASTER)


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


def _c(pair: Pair, sizes: tuple[Size, ...]) -> Timed:
    assert pair.theirs
    if not pair.resize_theirs:
        return pair.theirs.resizes(sizes)
    turns, resize_window, recreate = cycle(sizes), pair.resize_theirs, pair.theirs.resizes(sizes[:1])

    def loop(n: int) -> float:
        seconds = 0.0
        for _ in range(n):
            start = now()
            resize_window(next(turns))
            seconds += now() - start + recreate(1)  # at the size that the window has by now
        return seconds

    return loop


# ---- what is left behind -----------------------------------------------------------------------------------------


def _left_behind(adapter: int, name: str, plan: Plan, *, present_fences: bool) -> list[Row]:
    """After 10,000 resizes, and after 100,000 frames; in a process that does nothing else."""
    resizes, frames = (_RESIZES // 50, _FRAMES // 50) if plan.quick else (_RESIZES, _FRAMES)
    how = f"present fences, {name}" if present_fences else name
    plan.progress(f"{resizes:,} resizes, {how}")
    try:
        reported = child.call(__name__, "what_is_left", adapter, present_fences, resizes, frames)
    except child.ChildFailed as error:
        plan.note(f"{resizes:,} resizes, {how}: {error}")
        return []
    early, late = (Spread.of([float(reported[name])]) for name in ("early_bytes", "bytes"))
    grown: dict[str, Any] = {"against": f"after {_EARLY}", "others": {f"after {_EARLY}": early}, "unit": "bytes"}
    counts = {
        f"swapchains alive in {resizes:,} resizes, {how}": (reported["swapchains"], reported["retired_limit"] + 1),
        f"semaphores after {frames:,} frames, {how}": (reported["semaphores"], reported["most_semaphores"]),
    }
    memory = f"memory after {resizes:,} resizes, {how}"
    return [
        Row(memory, "-", late, None, RATIO, Spread.of([late.median / early.median]), _MEMORY, **grown),
        *(own_row(what, number, COUNT, Must(most), "-") for what, (number, most) in counts.items()),
    ]


def what_is_left(adapter: int, present_fences: bool, resizes: int, frames: int) -> dict[str, int]:
    """For the other process."""
    with (
        vkshare.open(vkshare.adapters()[adapter], validation=False, name="bench") as device,
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
