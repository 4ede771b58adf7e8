"""A random walk over the public API: valid types, any order, closed objects, four threads that share everything.

    python -X dev -m support.random_walk SEED CALLS

ends with status 0, a line of counts and a line of methods that were never called; with status 3 and all stacks where a
call lasts longer than HANG seconds, also when its device is lost then; with 4 where that was needed often; else with
what was raised and is not documented, or was lost. The calls stand in support/walker_calls.py.
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from typing import Any

import vkshare as vks
from vkshare import vsync
from vkshare.errors import VkshareError
from vkshare.ipc.descriptors import Descriptor

THREADS = 4
HANG = 10.0  # seconds
MOST = 5  # of each kind, in a pool
DOCUMENTED = (VkshareError, ValueError, TypeError, TimeoutError)


class World:
    """What the threads share. Objects are found by their class's name; an object that is pushed out is ended first."""

    def __init__(self) -> None:
        self.pools: dict[str, list[Any]] = {}
        self.own = threading.local()  # descriptors: of the things here they alone are for one thread at a time
        self.called: Counter[str] = Counter()
        self.raised: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.since: dict[int, tuple[float, str]] = {}  # by thread: the call that it is in
        self.is_over = False
        self.rescues = 0  # calls that returned once the devices were lost

    def any(self, dice: random.Random, *kinds: str) -> Any:
        """One of these kinds; LookupError where there is none."""
        own = vars(self.own)
        found = [thing for kind in kinds for thing in (*self.pools.get(kind, ()), *own.get(kind, ()))]
        return dice.choice(found)

    def keep(self, dice: random.Random, thing: Any, most: int = MOST) -> None:
        pools = vars(self.own) if isinstance(thing, Descriptor) else self.pools
        pool = pools.setdefault(type(thing).__name__, [])
        pool.append(thing)
        if len(pool) > most:
            self.end(dice, pool.pop(dice.randrange(most)))

    def end(self, dice: random.Random, thing: Any) -> None:
        """Closed, or only forgotten. A fence is closed always: held work may wait for it."""
        if hasattr(thing, "close") and (dice.random() < 0.8 or isinstance(thing, vks.Fence)):
            self.call(thing, "close")

    def call(self, thing: Any, name: str, *arguments: Any, **keywords: Any) -> Any:
        """What it returns; None where it raised what is documented."""
        what = f"{type(thing).__name__}.{name}" if not isinstance(thing, type) else f"{thing.__name__}.{name}"
        self.called[what] += 1
        me = threading.get_ident()
        outer = self.since.get(me)
        self.since[me] = time.monotonic(), what
        try:
            found = getattr(thing, name)
            return found(*arguments, **keywords) if callable(found) else found
        except DOCUMENTED as error:
            self.raised[type(error).__name__] += 1
            return None
        finally:
            if outer is None:
                self.since.pop(me, None)
            else:
                self.since[me] = time.monotonic(), outer[1]

    def tell_wrong(self, error: BaseException) -> None:
        self.wrong.append("".join(traceback.format_exception(error)))
        self.is_over = True


def walk(world: World, seed: int, calls: int) -> None:
    from support.walker_calls import CALLS

    dice = random.Random(seed)
    weights = [weight for weight, _ in CALLS]
    functions = [function for _, function in CALLS]
    while sum(world.called.values()) < calls and not world.is_over:
        for function in dice.choices(functions, weights, k=50):
            try:
                function(world, dice)
            except (LookupError, *DOCUMENTED):
                pass  # nothing of the kind is there yet, or a context manager passed it on
            except Exception as error:
                world.tell_wrong(error)
                return


def run_loop(world: World) -> None:
    """What other parties would do: fences go on, surfaces are handed on. So each wait of the walk ends."""
    dice = random.Random(0)
    while not world.is_over:
        time.sleep(0.005)
        try:
            for fence in list(world.pools.get("Fence", ())):
                world.call(fence, "signal", (world.call(fence, "queued_value") or 0) + dice.randrange(1, 4))
            for surface in list(world.pools.get("Surface", ())):
                world.call(surface, "release", dice.randrange(2))
            for buffer in list(world.pools.get("Buffer", ())):
                world.call(buffer, "release", 0)
        except Exception as error:
            world.tell_wrong(error)


def watch(world: World) -> None:
    """Ends the process where a call does not return. A walk can lock itself out, as two parties do that acquire two
    surfaces in turn without a timeout: a call that returns once the devices are lost was none of the library's faults.
    """
    while not world.is_over:
        time.sleep(0.5)
        if not (late := late_calls(world)):
            continue
        print(f"no return after {HANG} s: {late}", *state(world), sep="\n", file=sys.stderr, flush=True)
        for device in list(world.pools.get("Device", ())):
            device._mark_lost()
        world.rescues += 1
        time.sleep(HANG)
        if late_calls(world, 2 * HANG):
            print("nor when the devices were lost", file=sys.stderr, flush=True)
            faulthandler.dump_traceback(all_threads=True)
            sys.stderr.flush()
            os._exit(3)


def late_calls(world: World, limit: float = HANG) -> list[str]:
    now = time.monotonic()
    return [what for since, what in list(world.since.values()) if now - since > limit]


def state(world: World) -> list[str]:
    """What the calls may be waiting for."""
    lines = []
    for kind in ("Device", "Fence", "Surface"):
        for thing in list(world.pools.get(kind, ())):
            try:
                lines.append(f"{thing!r} {thing.mutex.statistics() if kind == 'Surface' else thing.statistics()}")
            except DOCUMENTED as error:
                lines.append(f"{thing!r} {error}")
    return lines


def never_called(world: World) -> list[str]:
    """Public methods of the classes that were met, which the walk never called."""
    kinds = {type(thing) for pool in world.pools.values() for thing in pool}
    kinds |= {
        vks.SurfaceDescriptor,
        vks.BufferDescriptor,
        vks.FenceDescriptor,
        vks.QueueDescriptor,
        vsync.VsyncDescriptor,
    }
    names = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name))
    }
    return sorted(names - set(world.called))


def main() -> int:
    seed, calls = int(sys.argv[1]), int(sys.argv[2])
    world, lost = World(), []  # type: tuple[World, list[str]]
    sys.unraisablehook = lambda reported: lost.append(f"{reported.object!r}: {reported.exc_value!r}")
    threading.excepthook = lambda reported: lost.append(f"{reported.thread}: {reported.exc_value!r}")
    helpers = [
        threading.Thread(target=run_loop, args=(world,)),
        threading.Thread(target=watch, args=(world,), daemon=True),
    ]
    walkers = [threading.Thread(target=walk, args=(world, seed + i, calls)) for i in range(THREADS)]
    began = time.monotonic()
    for thread in (*helpers, *walkers):
        thread.start()
    for thread in walkers:
        thread.join()
    missing = never_called(world)
    dice = random.Random(seed)
    while things := [thing for pool in world.pools.values() for thing in pool]:
        world.pools.clear()
        dice.shuffle(things)
        for thing in things:
            world.end(dice, thing)
    world.is_over = True
    helpers[0].join()
    if world.wrong or lost:
        print(*world.wrong[:2], *lost[:3], sep="\n", file=sys.stderr)
        return 1
    seconds = time.monotonic() - began
    print(
        f"{sum(world.called.values())} calls in {seconds:.1f} s; raised {dict(world.raised)}; {world.rescues} rescues"
    )
    if world.rescues > 1 + sum(world.called.values()) // 200_000:
        return 4
    print("never called:", *missing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
