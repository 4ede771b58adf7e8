"""Measures the latency and jitter of ticks, idle wake-ups, and the latency in another process."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from multiprocessing.connection import Connection

from benchmarks import xvfb
from benchmarks.measure import Samples, lasting, percentile
from benchmarks.plan import Plan
from benchmarks.processes import sleeps, started
from vkshare.vsync import Display, Observer, VsyncBridge, VsyncDescriptor, VsyncDispatcher
from vkshare.vsync.sources import X11PresentSource

_INTERVAL = Fraction(1, 60)
_LONG = 60.0  # seconds of ticks
_IDLE = 5.0


def run(plan: Plan) -> None:
    """60 Hz for a minute: the timer, Python's sleep and X11's Present at the same time; then idle; then the bridge."""
    seconds = _LONG / 50 if plan.quick else _LONG
    _lateness(plan, seconds)
    _idle(plan, _IDLE / 10 if plan.quick else _IDLE)
    _bridge(plan, seconds / 4)


# ---- lateness and jitter ---------------------------------------------------------------------------------------------


def _lateness(plan: Plan, seconds: float) -> None:
    plan.progress(f"ticks of 60 Hz, {seconds:g} s")
    with ThreadPoolExecutor() as threads:
        slept, heard = threads.submit(_sleep, seconds), threads.submit(_listen, plan, seconds)
        with (
            Display("bench", interval=_INTERVAL) as display,
            VsyncDispatcher(display) as window,
            window.observe() as seen,
        ):
            seen.wait()
            ticks = _take(seen, seconds, lambda: display.statistics().late)
            skipped = display.statistics().skipped
    reported = [late for _, _, late in ticks]  # the latencies at which the display's thread published each tick
    taken = [(taken - tick) * 1e-9 for tick, taken, _ in ticks]
    beside = {"taken by a Python thread": taken, "Python's sleep": slept.result()}
    for name, part, most in (("p50", 50, 100e-6), ("p99", 99, 300e-6)):
        others = {each: percentile(late, part) for each, late in beside.items()}
        plan.own(f"latency of a software tick, {name}", percentile(reported, part), most=most, others=others)
    plan.count(f"ticks of {len(ticks)} missed", skipped, most=0)
    if heard.result():
        times = {"ours": [tick * 1e-9 + late for tick, _, late in ticks], "c": [each * 1e-9 for each in heard.result()]}
        sigmas = {name: [_sigma(each)] for name, each in times.items()}
        plan.compare("sigma of the interval, against X11 Present", sigmas, most=0.25, against="X11 Present")


def _take(observer: Observer, seconds: float, look: Callable[[], float] = float) -> list[tuple[int, int, float]]:
    """For each tick its vsync time, when this thread took it, both in ns, and what look() returned then."""
    taken = []
    for _ in lasting(seconds):
        tick = observer.wait()
        taken.append((tick.vsync_time, time.monotonic_ns(), look()))
    return taken


def _sleep(seconds: float) -> Samples:
    """The alternative without vkshare: a Python thread that sleeps until the next point of its grid. Its latencies."""
    late: Samples = []
    start = time.monotonic() + float(_INTERVAL) / 2
    for n in range(1, int(seconds / _INTERVAL)):
        target = start + n * float(_INTERVAL)
        time.sleep(max(0.0, target - time.monotonic()))
        late.append(time.monotonic() - target)
    return late


def _listen(plan: Plan, seconds: float) -> list[int]:
    """X11's Present on an Xvfb: the times that it tells, ns."""
    times: list[int] = []
    with (
        plan.noting("vsync: there is no X11 Present to compare with", xvfb.NoXvfb),
        xvfb.xvfb() as server,
        X11PresentSource(display_name=server.display) as source,
    ):
        source.start(times.append)
        time.sleep(seconds)
        source.stop()
    return times


def _sigma(times: Samples) -> float:
    """Return the standard deviation of the interval between consecutive ticks, in seconds.

    An observer that was late takes the newest tick only. The time between two ticks that it took is
    then divided by the number of intervals between them, because the delay is the observer's.
    """
    interval = float(_INTERVAL)
    return statistics.pstdev((b - a) / max(1, round((b - a) / interval)) for a, b in itertools.pairwise(times))


# ---- idle ------------------------------------------------------------------------------------------------------------


def _idle(plan: Plan, seconds: float) -> None:
    """Count the wake-ups of all other threads after the last observer was closed."""
    plan.progress(f"idle, {seconds:g} s")
    with Display("bench", interval=_INTERVAL) as display, VsyncDispatcher(display) as window:
        with window.observe() as observer:
            observer.wait()
        time.sleep(0.1)
        woken = sleeps(os.getpid(), seconds, but=threading.get_native_id())
    plan.count(f"wakeups in {seconds:g} s without observers", woken, most=0)


# ---- the bridge ------------------------------------------------------------------------------------------------------


def _bridge(plan: Plan, seconds: float) -> None:
    """The same ticks, taken by a thread here and by one in a child."""
    plan.progress(f"ticks over the bridge, {seconds:g} s")
    with (
        Display("bench", interval=_INTERVAL) as display,
        VsyncDispatcher(display) as window,
        VsyncBridge(window) as bridge,
        window.observe() as observer,
        bridge.export() as descriptor,
        started(_follow, descriptor, seconds) as child,
    ):
        child.heard()
        here = {tick: taken for tick, taken, _ in _take(observer, seconds)}
        over = [(taken - here[tick]) * 1e-9 for tick, taken, _ in child.heard() if tick in here]
    late = percentile([(taken - tick) * 1e-9 for tick, taken in here.items()], 99)
    for name, part, limit in (("p50", 50, None), ("p99", 99, 500e-6)):
        what, others = f"a tick is taken so much later in a child, {name}", {"a tick here is taken so late, p99": late}
        plan.own(what, percentile(over, part), most=limit, others=others)


def _follow(pipe: Connection, descriptor: VsyncDescriptor, seconds: float) -> None:
    with Display(source=descriptor) as display, VsyncDispatcher(display) as window, window.observe() as observer:
        descriptor.close()
        for _ in range(20):  # the bridge has proven itself
            observer.wait()
        pipe.send("ready")
        pipe.send(_take(observer, seconds))
