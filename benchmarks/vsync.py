"""Measures the latency and jitter of ticks, idle wake-ups, and the latency in another process."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
import threading
import time
from fractions import Fraction
from multiprocessing.connection import Connection

from benchmarks import xvfb
from benchmarks.measure import Samples, Spread, percentile, sleeps
from benchmarks.plan import Plan
from benchmarks.report import COUNT, RATIO, TIME, Must, Row, own_row
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
    sleeper, present = _Sleeper(seconds), _Present(plan, seconds)
    with Display("bench", interval=_INTERVAL) as display, VsyncDispatcher(display) as window, window.observe() as seen:
        told, taken, ticks = _watch(display, seen, seconds)
        skipped = display.statistics().skipped
    slept, heard = sleeper.join(), present.join()
    rows = []
    for name, part, must in (("p50", 50, 100e-6), ("p99", 99, 300e-6)):
        others = {"taken by a Python thread": percentile(taken, part), "Python's sleep": percentile(slept, part)}
        what = f"latency of a software tick, {name}"
        rows.append(own_row(what, percentile(told, part), TIME, Must(must), others=others))
    rows.append(own_row(f"ticks of {len(ticks)} missed", Spread.of([float(skipped)]), COUNT, Must(0.0)))
    ours = _sigma([tick.vsync_time * 1e-9 + late for tick, late in zip(ticks, told, strict=True)])
    if heard:
        theirs = _sigma([each * 1e-9 for each in heard])
        ratio = Spread.of([ours / theirs])
        spreads = Spread.of([ours]), Spread.of([theirs])
        what = "sigma of the interval, against X11 Present"
        rows.append(Row(what, "unpinned", *spreads, RATIO, ratio, Must(0.25), against="X11 Present"))
    return rows


def _watch(display: Display, observer: Observer, seconds: float) -> tuple[Samples, Samples, list[Tick]]:
    """Return the latencies at which the display's thread published each tick, and this thread took it."""
    told: Samples = []
    taken: Samples = []
    ticks: list[Tick] = []
    end = time.monotonic() + seconds
    observer.wait()
    while time.monotonic() < end:
        tick = observer.wait()
        taken.append((time.monotonic_ns() - tick.vsync_time) * 1e-9)
        told.append(display.statistics().late)
        ticks.append(tick)
    return told, taken, ticks


class _Sleeper:
    """The alternative without vkshare: a Python thread that sleeps until the next point of its grid."""

    def __init__(self, seconds: float) -> None:
        self._late: Samples = []
        self._thread = threading.Thread(target=self._run, args=(seconds,))
        self._thread.start()

    def _run(self, seconds: float) -> None:
        start = time.monotonic() + float(_INTERVAL) / 2
        for n in range(1, int(seconds / _INTERVAL)):
            target = start + n * float(_INTERVAL)
            time.sleep(max(0.0, target - time.monotonic()))
            self._late.append(time.monotonic() - target)

    def join(self) -> Samples:
        self._thread.join()
        return self._late


class _Present:
    """X11's Present on an Xvfb: the times that it tells, ns."""

    def __init__(self, plan: Plan, seconds: float) -> None:
        self._plan, self._seconds = plan, seconds
        self._times: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        from vkshare.vsync.sources import X11PresentSource

        try:
            with xvfb.xvfb() as server, X11PresentSource(display_name=server.display) as source:
                source.start(self._times.append)
                time.sleep(self._seconds)
                source.stop()
        except xvfb.NoXvfb as error:
            self._plan.note(f"vsync: {error}, so there is no X11 Present to compare with")

    def join(self) -> list[int]:
        self._thread.join()
        return self._times


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
        woken = float(sleeps(os.getpid(), but=threading.get_native_id()) - before)
    return [own_row(f"wakeups in {seconds:g} s without observers", Spread.of([woken]), COUNT, Must(0.0))]


# ---- the bridge ------------------------------------------------------------------------------------------------------


def _bridge(plan: Plan, seconds: float) -> list[Row]:
    """The same ticks, taken by a thread here and by one in a child."""
    plan.progress(f"ticks over the bridge, {seconds:g} s")
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    with (
        Display("bench", interval=_INTERVAL) as display,
        VsyncDispatcher(display) as window,
        VsyncBridge(window) as bridge,
        window.observe() as observer,
    ):
        with bridge.export() as descriptor:
            process = context.Process(target=_follow, args=(descriptor, seconds, theirs), daemon=True)
            process.start()
            theirs.close()
            pipe.recv()
        here = dict(_take(observer, seconds))
        there: list[tuple[int, int]] = pipe.recv()
        process.join()
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


def _follow(descriptor: VsyncDescriptor, seconds: float, pipe: Connection) -> None:
    with Display(source=descriptor) as display, VsyncDispatcher(display) as window, window.observe() as observer:
        descriptor.close()
        for _ in range(20):  # the bridge has proven itself
            observer.wait()
        pipe.send("ready")
        pipe.send(_take(observer, seconds))
