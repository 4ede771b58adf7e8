"""How many frames a second does a swapchain pass on, against C that acquires, clears and presents?"""

from __future__ import annotations

from collections.abc import Iterator

import vkshare
from benchmarks import swapchain_cost, swapchain_pairs
from benchmarks.measure import Contender, Samples, Spread, Timed, differences, take_turns
from benchmarks.placement import Placement, alone, placed
from benchmarks.plan import Plan
from benchmarks.report import OVER_C, Must, Row, ratio_row
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
                    rows += _rows(pair, plan, present_fences=fences)
        rows += swapchain_pairs.in_windows(__name__, "windows", index, plan)
    return rows


def rows_of_windows(adapter: int, server: int, seconds: float, pinned_only: bool) -> tuple[list[Row], list[str]]:
    """For the other process: on the display that its environment names."""
    plan = Plan(seconds=seconds, pinned_only=pinned_only)
    rows: list[Row] = []
    with vkshare.open(vkshare.adapters("vulkan")[adapter], validation=False, name="bench") as device:
        for fences in swapchain_pairs.policies(device, headless=False):
            with swapchain_pairs.windows(device, _SIZE, plan, present_fences=fences, server=server) as pair:
                rows += _rows(pair, plan, present_fences=fences)
    return rows, plan.notes


def _rows(pair: Pair, plan: Plan, *, present_fences: bool) -> Iterator[Row]:
    """The ways to write a frame, beside C's. Today's usual way takes part if it has no present fences either."""
    how = f"{pair.where}, present fences" if present_fences else pair.where
    one_call = swapchain_pairs.one_call(pair.ours)
    for place in alone(plan.pinned_only):
        with placed(place, *pair.servers), swapchain_pairs.failures_noted(plan, f"frames, {how}"):
            plan.progress(f"frames, {how}, {place.name}")
            samples = _samples(pair, one_call, plan, pair.pypi_contenders())
            yield _row(f"frame(c), {how}", place, pair, samples, _MUST)
            yield from _cost(f"a frame(c), {how}", place, samples)
            if swapchain_pairs.is_pinned(place):
                cpu = take_turns(pair.cpu_contenders(one_call), plan.seconds)
                yield from _cost(f"CPU time of a frame(c), {how}", place, cpu)
            loop = swapchain_pairs.three_calls(pair.device, pair.ours)
            yield _row(f"acquire, submit, present, {how}", place, pair, _samples(pair, loop, plan), _MUST)
            if not present_fences:
                loop = swapchain_pairs.recorded_anew(pair.device, pair.ours)
                yield _row(f"frame(): submit(record()), {how}", place, pair, _samples(pair, loop, plan), None)


def _samples(pair: Pair, loop: Timed, plan: Plan, others: list[Contender] | None = None) -> dict[str, Samples]:
    return take_turns([*pair.contenders(loop), *(others or [])], plan.seconds)


def _row(what: str, place: Placement, pair: Pair, samples: dict[str, Samples], must: Must | None) -> Row:
    rates = {name: [1 / sample for sample in each] for name, each in samples.items()}
    ours, theirs = rates.pop("ours"), rates.pop("c", None)
    return ratio_row(
        f"{what}, {pair.device.adapter.name}",
        place.name,
        ours,
        theirs,
        must if swapchain_pairs.is_pinned(place) else None,
        is_rate=True,
        others={name: Spread.of(each) for name, each in rates.items()},
    )


def _cost(what: str, place: Placement, samples: dict[str, Samples]) -> Iterator[Row]:
    """As time a frame. The driver's own time varies by more than ours: swapchain_cost.py has the target."""
    if "c" in samples:
        yield Row(
            what=what,
            place=place.name,
            ours=Spread.of(samples["ours"]),
            theirs=Spread.of(samples["c"]),
            kind=OVER_C,
            figure=differences(samples["ours"], samples["c"]),
            others={name: Spread.of(each) for name, each in samples.items() if name not in ("ours", "c")},
        )
