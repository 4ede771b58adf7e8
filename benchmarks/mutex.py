"""What does an uncontended acquire and release of a surface cost?"""

from __future__ import annotations

import ctypes
import threading

import vkshare
from benchmarks import compiler, devices, loops
from benchmarks.measure import Contenders, differences, take_turns
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import TIME, Must, Row, spreads

_MUST = Must(400e-9)


def run(plan: Plan) -> list[Row]:
    """On the CPU backend and, where there is one, on the best Vulkan adapter."""
    rows = []
    for device in devices.opened(devices.best_and_cpu()):
        with device.create_surface(64, 64) as surface:
            for place in alone(plan):
                plan.progress(f"acquire + release on {device.adapter.name}, {place.name}")
                rows.append(_row(surface, device.adapter.name, place.name, plan))
    return rows


def _row(surface: vkshare.Surface, adapter: str, place: str, plan: Plan) -> Row:
    lock = loops.counted("lock.acquire(); lock.release()", lock=threading.Lock())
    ways = {"loop": loops.empty, "ours": loops.acquire_release(surface), "threading.Lock": lock, **_c(plan)}
    samples = take_turns(ways, plan.seconds)
    ours = differences(samples.pop("ours"), samples.pop("loop"))
    others = spreads(samples)
    theirs = others.pop("c", None)
    note = f"{ours.median / theirs.median:.1f} x two swaps in C" if theirs and place == "one core" else ""
    return Row(f"acquire + release, {adapter}", place, ours, theirs, TIME, ours, _MUST, others=others, note=note)


def _c(plan: Plan) -> Contenders:
    try:
        library = compiler.library("keyed_mutex.c")
    except compiler.NoCompiler as error:
        plan.note(f"two swaps in C: {error}")
        return {}
    time_pairs = compiler.function(library, "time_pairs", ctypes.c_void_p, ctypes.c_long)
    memory = ctypes.create_string_buffer(256)
    aligned = (ctypes.addressof(memory) + 63) & ~63
    return {"c": lambda n: float(time_pairs(aligned, n)) + 0 * len(memory)}  # keeps the memory
