"""What does an uncontended acquire and release of a surface cost?"""

from __future__ import annotations

import mmap
import threading
from functools import partial

from benchmarks import compiler, devices
from benchmarks.compiler import ffi
from benchmarks.measure import counted
from benchmarks.plan import Plan


def run(plan: Plan) -> None:
    """On the CPU backend and, where there is one, on the best Vulkan adapter."""
    ways = {"threading.Lock": counted("lock.acquire(); lock.release()", lock=threading.Lock())}
    with plan.noting("two swaps in C"):
        memory = ffi.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
        ways["c"] = partial(compiler.library("keyed_mutex.c").time_pairs, memory)
    for device in devices.opened(devices.best_and_cpu()):
        with device.create_surface(64, 64) as surface:
            ways["ours"] = counted("surface.acquire(0); surface.release(0)", surface=surface)
            for place in plan.alone():
                row = plan.calls(f"acquire + release, {device.adapter.name}", ways, most=400e-9)
                if row.theirs and place.here is not None:
                    row.note = f"{row.ours.median / row.theirs.median:.1f} x two swaps in C"
