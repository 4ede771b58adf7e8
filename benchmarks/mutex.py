"""What does an uncontended acquire and release of a surface cost?"""

from __future__ import annotations

import ctypes
import threading

import vkshare
from benchmarks import compiler, loops
from benchmarks.measure import Contender, Spread, Timed, differences, take_turns, timed
from benchmarks.placement import alone, placed
from benchmarks.plan import Plan
from benchmarks.report import TIME, Must, Row

_MUST = Must(400e-9)


def run(plan: Plan) -> list[Row]:
    """On the CPU backend and, where there is one, on the best Vulkan adapter."""
    rows = []
    for adapter in [*vkshare.adapters("vulkan")[:1], *vkshare.adapters("cpu")]:
        with vkshare.open(adapter, validation=False, name="bench") as device, device.create_surface(64, 64) as surface:
            for place in alone(plan.pinned_only):
                with placed(place):
                    plan.progress(f"acquire + release on {adapter.name}, {place.name}")
                    rows.append(_row(surface, adapter.name, place.name, plan))
    return rows


def _row(surface: vkshare.Surface, adapter: str, place: str, plan: Plan) -> Row:
    contenders = [
        Contender("loop", loops.empty),
        Contender("ours", loops.acquire_release(surface)),
        Contender("threading.Lock", _lock()),
        *_c(plan),
    ]
    samples = take_turns(contenders, plan.seconds)
    ours = differences(samples["ours"], samples["loop"])
    theirs = Spread.of(samples["c"]) if "c" in samples else None
    note = f"{ours.median / theirs.median:.1f} x two swaps in C" if theirs else ""
    return Row(
        what=f"acquire + release, {adapter}",
        place=place,
        ours=ours,
        theirs=theirs,
        kind=TIME,
        figure=ours,
        must=_MUST,
        others={"threading.Lock": Spread.of(samples["threading.Lock"])},
        note=note if place == "one core" else "",
    )


def _c(plan: Plan) -> list[Contender]:
    try:
        library = compiler.library("keyed_mutex.c")
    except compiler.NoCompiler as error:
        plan.note(f"two swaps in C: {error}")
        return []
    time_pairs = compiler.function(library, "time_pairs", ctypes.c_void_p, ctypes.c_long)
    memory = ctypes.create_string_buffer(256)
    aligned = (ctypes.addressof(memory) + 63) & ~63
    return [Contender("c", lambda n: float(time_pairs(aligned, n)) + 0 * len(memory))]  # keeps the memory


def _lock() -> Timed:
    lock = threading.Lock()

    @timed
    def loop(n: int) -> None:
        for value in range(loops.FIRST, loops.FIRST + n):  # noqa: B007
            lock.acquire()
            lock.release()

    return loop
