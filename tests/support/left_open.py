"""A program that leaves things open where the interpreter frees them late: ``left_open.py PLACE THING``."""

from __future__ import annotations

import codecs
import os
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

# A module that is older than the package, and that a hook of the interpreter keeps: its names go after the package's.
old = ModuleType("old")
old.__dict__["os"] = os
exec("things = []\ndef hook(): return things\nos.register_at_fork(after_in_child=hook)", old.__dict__)
old.__dict__["itself"] = sys.modules["old"] = old

import vkshare as vks  # noqa: E402
from vkshare import vsync  # noqa: E402


def surface() -> Any:
    device = vks.open(name="left open")
    mine = device.create_surface(8, 8, tiling="linear", usage=("copy",))
    with mine.access() as view:
        return device, mine, view, view.array


def everything() -> Any:
    device, other = vks.open(name="left open"), vks.open(name="other")
    mine, fence = device.create_surface(8, 8), device.create_fence()
    mine.acquire()
    device.submit(device.record().clear(mine, (1, 0, 0, 1)), signals=fence)
    held = device.submit(device.record().clear(mine, (0, 1, 0, 1)), waits=(fence, 1000))
    theirs = other.open_surface(mine.export())
    swapchain = device.create_swapchain(vks.Headless(8, 8))
    root = vks.SurfaceQueue(device, 8, 8)
    sender, descriptor = vks.pipe(device, 8, 8)
    display = vsync.Display()
    return (
        *(device, other, mine, fence, held, theirs, swapchain, swapchain.acquire(), root, root.open_producer(device)),
        *(sender, vks.open_receiver(other, descriptor), mine.export(), fence.export(), vsync.VsyncDispatcher(display)),
        *(root.open_consumer(device), display),
    )


def in_a_cycle(things: Any) -> None:
    cycle = [things]
    cycle.append(cycle)


def in_a_thread(things: Any) -> None:
    def keep(mine: Any) -> None:
        time.sleep(100)

    threading.Thread(target=keep, args=(things,), daemon=True).start()


def in_waiting_threads(things: Any) -> None:
    in_a_thread(things)
    for thing in things:
        wait = getattr(thing, "dequeue", None) or (
            isinstance(thing, vks.Fence) and (lambda fence=thing: fence.wait(5000))
        )
        if wait:
            threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.1)


PLACES: dict[str, Callable[[Any], object]] = {
    "globals": lambda things: globals().update(kept=things),
    "an older module": lambda things: old.things.append(things),
    "a codec": lambda things: codecs.register(lambda name: things and None),
    "a cycle": in_a_cycle,
    "a thread": in_a_thread,
    "waiting threads": in_waiting_threads,
}

if __name__ == "__main__":
    PLACES[sys.argv[1]]({"a surface": surface, "everything": everything}[sys.argv[2]]())
