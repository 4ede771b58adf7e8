"""Measures the latency and jitter of ticks, idle wake-ups, and the latency in another process."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from fractions import Fraction
from multiprocessing.connection import Connection

from benchmarks import xvfb
from benchmarks.child import started
from benchmarks.measure import Samples, percentile, sleeps
from benchmarks.plan import Plan
from benchmarks.report import COUNT, TIME, Must, Row, own_row, row
from vkshare.vsync import Display, Observer, Tick, VsyncBridge, VsyncDescriptor, VsyncDispatcher

_INTERVAL = Fraction(1, 60)
_LONG = 60.0  # seconds of ticks
_IDLE = 5.0


def run(plan: Plan) -> list[Row]:
    """60 Hz for a minute: the timer, Python's sleep and X11's Present at the same time; then idle; then the bridge."""
    seconds = _LONG / 50 if plan.quick else _LONG
    return [*_lateness(plan, seconds), *_idle(plan, _IDLE / 10 if plan.quick else _IDLE), *_bridge(plan, seconds / 4)]


# ---- lateness and jitter ---------------------------------------------------------------------------------------------


def _lateness(plan: Plan, seconds: float) -> list[Row]:
    plan.progress(f"ticks of 60 Hz, {seconds:g} s")
    slept: Samples = []
    heard: list[int] = []
    others = [
        threading.Thread(target=_sleep, args=(seconds, slept)),
        threading.Thread(target=_listen, args=(plan, seconds, heard)),
    ]
    for thread in others:
        thread.start()
    with Display("bench", interval=_INTERVAL) as display, VsyncDispatcher(display) as window, window.observe() as seen:
        reported, taken, ticks = _watch(display, seen, seconds)
        skipped = display.statistics().skipped
    for thread in others:
        thread.join()
    rows = []
    for name, part, must in (("p50", 50, 100e-6), ("p99", 99, 300e-6)):
        beside = {"taken by a Python thread": percentile(taken, part), "Python's sleep": percentile(slept, part)}
        what = f"latency of a software tick, {name}"
        rows.append(own_row(what, percentile(reported, part), TIME, Must(must), others=beside))
    rows.append(own_row(f"ticks of {len(ticks)} missed", skipped, COUNT, Must(0.0)))
    if heard:
        ours = _sigma([tick.vsync_time * 1e-9 + late for tick, late in zip(ticks, reported, strict=True)])
        sigmas = {"ours": [ours], "c": [_sigma([each * 1e-9 for each in heard])]}
        what = "sigma of the interval, against X11 Present"
        rows.append(row(what, "unpinned", sigmas, Must(0.25), against="X11 Present"))
    return rows


def _watch(display: Display, observer: Observer, seconds: float) -> tuple[Samples, Samples, list[Tick]]:
    """Return the latencies at which the display's thread published each tick, and this thread took it."""
    reported: Samples = []
    taken: Samples = []
    ticks: list[Tick] = []
    end = time.monotonic() + seconds
    observer.wait()
    while time.monotonic() < end:
        tick = observer.wait()
        taken.append((time.monotonic_ns() - tick.vsync_time) * 1e-9)
        reported.append(display.statistics().late)
        ticks.append(tick)
    return reported, taken, ticks


def _sleep(seconds: float, late: Samples) -> None:
    """The alternative without vkshare: a Python thread that sleeps until the next point of its grid."""
    start = time.monotonic() + float(_INTERVAL) / 2
    for n in range(1, int(seconds / _INTERVAL)):
        target = start + n * float(_INTERVAL)
        time.sleep(max(0.0, target - time.monotonic()))
        late.append(time.monotonic() - target)


def _listen(plan: Plan, seconds: float, times: list[int]) -> None:
    """X11's Present on an Xvfb: the times that it tells, ns."""
    from vkshare.vsync.sources import X11PresentSource

    try:
        with xvfb.xvfb() as server, X11PresentSource(display_name=server.display) as source:
            source.start(times.append)
            time.sleep(seconds)
            source.stop()
    except xvfb.NoXvfb as error:
        plan.note(f"vsync: {error}, so there is no X11 Present to compare with")


def _sigma(times: Samples) -> float:
    """Return the standard deviation of the interval between consecutive ticks, in seconds.

    An observer that was late takes the newest tick only. The time between two ticks that it took is
    then divided by the number of intervals between them, because the delay is the observer's.
    """
    interval = float(_INTERVAL)
    return statistics.pstdev((b - a) / max(1, round((b - a) / interval)) for a, b in itertools.pairwise(times))


# ---- idle ------------------------------------------------------------------------------------------------------------


def _idle(plan: Plan, seconds: float) -> list[Row]:
    """Count the wake-ups of all other threads after the last observer was closed."""
    plan.progress(f"idle, {seconds:g} s")
    with Display("bench", interval=_INTERVAL) as display, VsyncDispatcher(display) as window:
        with window.observe() as observer:
            observer.wait()
        time.sleep(0.1)
        before = sleeps(os.getpid(), but=threading.get_native_id())
        time.sleep(seconds)
        woken = sleeps(os.getpid(), but=threading.get_native_id()) - before
    return [own_row(f"wakeups in {seconds:g} s without observers", woken, COUNT, Must(0.0))]


# ---- the bridge ------------------------------------------------------------------------------------------------------


def _bridge(plan: Plan, seconds: float) -> list[Row]:
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
        here = dict(_take(observer, seconds))
        there: list[tuple[int, int]] = child.heard()
    over = [(taken - here[tick]) * 1e-9 for tick, taken in there if tick in here]
    late = percentile([(taken - tick) * 1e-9 for tick, taken in here.items()], 99)
    rows = []
    for name, part, must in (("p50", 50, None), ("p99", 99, Must(500e-6))):
        others = {"a tick here is taken so late, p99": late}
        what = f"a tick is taken so much later in a child, {name}"
        rows.append(own_row(what, percentile(over, part), TIME, must, others=others))
    return rows


def _take(observer: Observer, seconds: float) -> list[tuple[int, int]]:
    end = time.monotonic() + seconds
    taken = []
    while time.monotonic() < end:
        tick = observer.wait()
        taken.append((tick.vsync_time, time.monotonic_ns()))
    return taken


def _follow(pipe: Connection, descriptor: VsyncDescriptor, seconds: float) -> None:
    with Display(source=descriptor) as display, VsyncDispatcher(display) as window, window.observe() as observer:
        descriptor.close()
        for _ in range(20):  # the bridge has proven itself
            observer.wait()
        pipe.send("ready")
        pipe.send(_take(observer, seconds))
