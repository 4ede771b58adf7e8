"""How many frames a second does a swapchain pass on, against C that acquires, clears and presents?"""

from __future__ import annotations

from collections.abc import Iterator

import vkshare
from benchmarks import swapchain_cost, swapchain_pairs
from benchmarks.measure import Contenders, Samples, rates, take_turns
from benchmarks.placement import Placement, alone
from benchmarks.plan import Plan
from benchmarks.report import OVER_C, Must, Row, row
from benchmarks.swapchain_pairs import Pair

_SIZE = (256, 256)
_MUST = Must(0.95, at_least=True)


def run(plan: Plan) -> list[Row]:
    """On the driver that does nothing, then on every Vulkan adapter: headless, and in windows under an Xvfb."""
    rows = swapchain_cost.run(plan)
    adapters = vkshare.adapters("vulkan")
    if not adapters:
        plan.note("swapchains on a real driver: there is no Vulkan driver here")
    for index, adapter in enumerate(adapters):
        with vkshare.open(adapter, validation=False, name="bench") as device:
            for fences in swapchain_pairs.policies(device, headless=True):
                with swapchain_pairs.headless(device, _SIZE, plan, present_fences=fences) as pair:
                    if pair.where == "ring":
                        plan.note(f"{adapter.name} has no VK_EXT_headless_surface: rings of images are compared")
                    rows += rows_of(pair, plan, present_fences=fences)
        rows += swapchain_pairs.in_windows(__name__, "windows", _SIZE, index, plan)
    return rows


def rows_of(pair: Pair, plan: Plan, *, present_fences: bool) -> Iterator[Row]:
    """The ways to write a frame, beside C's. Today's usual way takes part if it has no present fences either."""
    how = f"{pair.where}, present fences" if present_fences else pair.where
    one_call = swapchain_pairs.one_call(pair.ours)
    for place in alone(plan, *pair.servers):
        with swapchain_pairs.failures_noted(plan, f"frames, {how}"):
            plan.progress(f"frames, {how}, {place.name}")
            samples = _samples(pair.contenders(one_call) | pair.pypi_contenders(), plan)
            yield _row(f"frame(c), {how}", place, pair, samples, _MUST)
            yield from _cost(f"a frame(c), {how}", place, samples)
            if swapchain_pairs.is_pinned(place):
                yield from _cost(f"CPU time of a frame(c), {how}", place, _samples(pair.cpu_contenders(one_call), plan))
            loop = swapchain_pairs.three_calls(pair.device, pair.ours)
            yield _row(f"acquire, submit, present, {how}", place, pair, _samples(pair.contenders(loop), plan), _MUST)
            if not present_fences:
                loop = swapchain_pairs.recorded_anew(pair.device, pair.ours)
                samples = _samples(pair.contenders(loop), plan)
                yield _row(f"frame(): submit(record()), {how}", place, pair, samples, None)


def _samples(contenders: Contenders, plan: Plan) -> dict[str, Samples]:
    return take_turns(contenders, plan.seconds, swapchain_pairs.TURN)


def _row(what: str, place: Placement, pair: Pair, samples: dict[str, Samples], must: Must | None) -> Row:
    frames = {name: rates(each) for name, each in samples.items()}
    must = must if swapchain_pairs.is_pinned(place) else None
    return row(f"{what}, {pair.device.adapter.name}", place.name, frames, must, is_rate=True)


def _cost(what: str, place: Placement, samples: dict[str, Samples]) -> Iterator[Row]:
    """As time a frame. The driver's own time varies by more than ours: swapchain_cost.py has the target."""
    if "c" in samples:
        yield row(what, place.name, samples, kind=OVER_C)
