"""Displays: what ticks, when, and where the ticks come from."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction

import pytest
from support.display_fixtures import SOON
from support.private_displays import run_child
from support.simulated_source import SimulatedSource
from support.thread_sleeps import sleeps

from vkshare.errors import ClosedError, InvalidCallError, SurfaceLostError
from vkshare.util.library_calls import lib
from vkshare.vsync import Display, Observer, TickFlags, VsyncDispatcher
from vkshare.vsync.source_monitor import SourceMonitor

pytest_plugins = ["support.display_fixtures"]

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]

NTSC = Fraction(1001, 60000)


# ---- intervals -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V1")
def test_an_unknown_interval_is_a_sixtieth_and_flagged_as_estimated(observe: Callable[[Display], Observer]) -> None:
    with Display() as display:
        tick = observe(display).wait(SOON)
        assert tick.interval == display.interval == Fraction(1, 60)
        assert tick.flags & TickFlags.ESTIMATED
        assert display.statistics().is_estimated
        assert "(estimated)" in repr(display)


@pytest.mark.rule("V1")
def test_an_interval_is_exact_and_ticks_lie_on_its_grid(
    display_of: Callable[[Fraction], Display], observe: Callable[[Display], Observer]
) -> None:
    observer = observe(display_of(NTSC))
    first = observer.wait(SOON)
    assert first.interval == NTSC
    assert not first.flags
    for _ in range(5):
        tick = observer.wait(SOON)
        steps = tick.id - first.id
        assert abs(tick.vsync_time - first.vsync_time - steps * NTSC * 10**9) <= 1, "rounded to a nanosecond, no drift"


@pytest.mark.rule("V1")
def test_the_longest_intervals_are_exact_too(display_of: Callable[[Fraction], Display]) -> None:
    assert display_of(Fraction(100)).interval == 100
    prime = 2**31 - 1
    for interval in (Fraction(10 * prime + 1, prime), Fraction(100) - Fraction(1, prime)):
        assert abs(display_of(interval).interval - interval) < Fraction(1, 10**17)


@pytest.mark.rule("V1")
@pytest.mark.parametrize("interval", [0, -1, 9e-7, 100.1, math.nan, math.inf])
def test_an_interval_that_no_display_has_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="allowed is 1 us to 100 s"):
        Display(interval=interval)


@pytest.mark.rule("V1")
def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="interval must be a Fraction or a float in seconds, not str"):
        Display(interval="60 Hz")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="in seconds, not bool"):
        Display(interval=True)
    with pytest.raises(TypeError, match="name must be a str"):
        Display(60)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="source must be a VsyncSource, a VsyncDescriptor or None, not str"):
        Display(source="x11")  # type: ignore[arg-type]


@pytest.mark.rule("V11")
def test_a_change_of_interval_leaves_the_tick_in_flight_alone(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer]
) -> None:
    display = display_of(0.2)  # long: a late consumer takes the next tick
    observer = observe(display)
    before = observer.wait(SOON)
    display.set_interval(Fraction(3, 10))
    in_flight = observer.wait(SOON)
    assert in_flight.vsync_time - before.vsync_time == 200_000_000
    assert in_flight.interval == Fraction(1, 5)
    assert observer.wait(SOON).interval == Fraction(3, 10)


# ---- ticks -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V2")
def test_a_tick_has_its_display_time_and_kind_and_ids_and_times_grow(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer]
) -> None:
    display = display_of(0.002)
    observer = observe(display)
    last = None
    for _ in range(20):
        tick = observer.wait(SOON)
        assert tick.vsync_time <= time.monotonic_ns()
        assert tick.output_time == tick.vsync_time + 2_000_000
        assert (tick.display, tick.kind) == (display.number, "software")
        if last is not None:
            assert tick.id == last.id + 1 + tick.missed
            assert tick.vsync_time - last.vsync_time >= 1_000_000
        last = tick


@pytest.mark.rule("V6")
def test_without_observers_no_thread_of_vkshare_wakes_up(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer]
) -> None:
    display = display_of(0.002)
    observers = [observe(display) for _ in range(3)]
    for observer in observers:
        observer.wait(SOON)
        observer.rest()
    time.sleep(0.05)  # its thread finds out at its deadline
    before = sleeps(os.getpid(), "vkshare-vsync")
    assert before, "there is a thread of ours"
    time.sleep(0.5)
    assert sleeps(os.getpid(), "vkshare-vsync") == before


@pytest.mark.rule("V21")
def test_the_timer_ticks_while_python_holds_its_lock(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer]
) -> None:
    display = display_of(0.004)
    observe(display).wait(SOON)
    before, interval = display.statistics(), sys.getswitchinterval()
    sys.setswitchinterval(SOON)  # no other thread gets the lock
    try:
        reported, end = before, time.monotonic() + 20
        while reported.ticks - before.ticks < 20 and time.monotonic() < end:
            reported = display.statistics()
    finally:
        sys.setswitchinterval(interval)
    assert reported.ticks - before.ticks >= 20


@pytest.mark.rule("V5")
def test_a_statistics_snapshot_counts_delivered_ticks(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer]
) -> None:
    display = display_of(0.002)
    observer = observe(display)
    for _ in range(5):
        observer.wait(SOON)
    reported = display.statistics()
    assert reported.ticks >= 5
    assert (reported.hardware, reported.observing, reported.kind, reported.is_estimated) == (0, 1, "software", False)
    assert 0 < reported.late <= reported.latest
    observer.rest()
    assert display.statistics().observing == 0


# ---- sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V13")
def test_sources_are_swapped_under_ticks_and_no_tick_is_doubled(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer], stack: ExitStack
) -> None:
    display = display_of(0.004)
    observer = observe(display)
    last = observer.wait(SOON)
    for kind in ("x11-present", "present-wait", "x11-present"):
        source = stack.enter_context(SimulatedSource(kind, Fraction(1, 250)))
        display.set_source(source)
        assert display.source is source
        deadline = time.monotonic() + SOON
        while last.kind != kind:
            assert time.monotonic() < deadline
            tick = observer.wait(SOON)
            assert tick.vsync_time - last.vsync_time >= 2_000_000
            assert tick.id > last.id
            last = tick
        display.set_source(None)
        assert not source.is_running
        while last.kind != "software":
            assert time.monotonic() < deadline
            last = observer.wait(SOON)
        assert display.source is None


@pytest.mark.rule("V2")
def test_a_timer_tick_is_never_flagged_as_hardware(observe: Callable[[Display], Observer], stack: ExitStack) -> None:
    source = stack.enter_context(SimulatedSource("present-wait", Fraction(1, 250)))
    display = stack.enter_context(Display(source=source))
    assert display.interval == Fraction(1, 250)
    observer = observe(display)
    heard: set[int] = set()
    while len(heard) < 20:
        tick = observer.wait(SOON)
        if tick.kind != "software":
            assert tick.vsync_time in source.ticks
            heard.add(tick.vsync_time)
    source.is_silent = True
    while observer.wait(SOON).kind != "software":
        pass
    assert display.statistics().hardware >= 20


@pytest.mark.rule("V14")
def test_silent_hardware_is_replaced_in_its_phase_and_hands_back_when_it_ticks_again(
    observe: Callable[[Display], Observer], stack: ExitStack
) -> None:
    source = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 100)))
    observer = observe(stack.enter_context(Display(source=source)))
    for _ in range(2):
        source.is_silent = False
        while observer.wait(SOON).kind != "x11-present":
            pass
        source.is_silent = True
        tick = observer.wait(SOON)
        while tick.kind != "software":
            tick = observer.wait(SOON)
        phase = (tick.vsync_time - source.ticks[-1]) % 10_000_000
        assert min(phase, 10_000_000 - phase) <= 1, "in the phase of the last tick of the hardware"


@pytest.mark.rule("V6")
def test_a_source_runs_only_while_an_observer_attends(observe: Callable[[Display], Observer], stack: ExitStack) -> None:
    source = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    display = stack.enter_context(Display(source=source))
    time.sleep(0.05)
    assert source.statistics().runs == 0
    observer = observe(display)
    for _ in range(3):
        source.wait_until(running=True)
        observer.rest()
        source.wait_until(running=False)
        observer.attend()


@pytest.mark.rule("V13")
def test_the_same_source_may_be_set_again_and_go_to_another_display(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer], stack: ExitStack
) -> None:
    source = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    displays = [display_of(0.004) for _ in range(2)]
    observers = [observe(display) for display in displays]
    for _ in range(10):
        for display, observer in zip(displays, observers, strict=True):
            for _ in range(3):
                display.set_source(source)
                source.wait_until(running=True)
                assert display.source_error is None
            while observer.wait(SOON).kind != "x11-present":
                pass
            display.set_source(None)


def test_a_source_that_is_lost_leaves_the_display_to_the_timer_and_says_why(
    display_of: Callable[[float], Display], observe: Callable[[Display], Observer], stack: ExitStack
) -> None:
    display = display_of(0.004)
    observer = observe(display)
    source = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    display.set_source(source)
    assert display.source_error is None
    while observer.wait(SOON).kind != "x11-present":
        pass
    source.fails = SurfaceLostError(-1000000000, "the X server is gone")
    while observer.wait(SOON).kind != "software":
        pass
    assert isinstance(display.source_error, SurfaceLostError)
    refused = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    refused.close()
    display.set_source(refused)
    deadline = time.monotonic() + SOON
    while display.source_error is None:
        assert time.monotonic() < deadline
        observer.wait(SOON)
    assert isinstance(display.source_error, ClosedError)


def test_a_source_that_another_display_has_goes_on_there(
    observe: Callable[[Display], Observer], stack: ExitStack
) -> None:
    source = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    first, second = (stack.enter_context(Display(source=source)) for _ in range(2))
    observe(first).wait(SOON)
    source.wait_until(running=True)
    observer = observe(second)
    deadline = time.monotonic() + SOON
    while second.source_error is None:
        assert time.monotonic() < deadline
        observer.wait(SOON)
    assert isinstance(second.source_error, InvalidCallError)
    observer.rest()
    second.close()
    assert source.is_running
    assert first.source_error is None


def test_ctrl_c_while_the_source_before_ends_leaves_one_that_begins(
    display_of: Callable[[float], Display],
    observe: Callable[[Display], Observer],
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: SourceMonitor) -> None:
        raise KeyboardInterrupt

    display = display_of(0.004)
    observe(display)
    sources = [stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250))) for _ in range(2)]
    display.set_source(sources[0])
    sources[0].wait_until(running=True)
    with monkeypatch.context() as patch:
        patch.setattr(SourceMonitor, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            display.set_source(sources[1])
    sources[1].wait_until(running=True)
    sources[0].wait_until(running=False)


def test_without_a_thread_the_timer_ticks_and_the_display_says_why(
    display_of: Callable[[float], Display],
    observe: Callable[[Display], Observer],
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    display, source = display_of(0.004), stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            display.set_source(source)
        with pytest.raises(RuntimeError):
            Display(source=source)
    assert isinstance(display.source_error, RuntimeError)
    assert observe(display).wait(SOON).kind == "software"
    display.set_source(source)
    source.wait_until(running=True)
    gc.collect()
    assert [str(each.message) for each in recwarn.list] == []


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V17")
def test_close_ends_waits_and_thread_and_refuses_what_comes_after(display_of: Callable[[float], Display]) -> None:
    display = display_of(100.0)
    dispatcher = VsyncDispatcher(display)
    observer = dispatcher.observe()
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            observer.wait(SOON)
        except ClosedError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    threads = lib.vks_thread_count()
    closing = [threading.Thread(target=display.close) for _ in range(4)]
    for thread in closing:
        thread.start()
    for thread in (*closing, waiting):
        thread.join(SOON)
    assert len(ended) == 1
    assert lib.vks_thread_count() == threads - 1
    display.close()
    assert display.is_closed
    assert "closed" in repr(display)
    for call in (lambda: display.set_interval(1), lambda: display.set_source(None), dispatcher.observe, observer.wait):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        VsyncDispatcher(display)
    observer.close()
    dispatcher.close()


@pytest.mark.rule("V17")
def test_a_consumer_of_a_tick_may_close_the_display(observe: Callable[[Display], Observer], stack: ExitStack) -> None:
    source = stack.enter_context(SimulatedSource("x11-present", Fraction(1, 250)))
    display = Display(source=source)
    source.on_heard = display.close  # on the source's own thread
    observer = observe(display)
    deadline = time.monotonic() + SOON
    while not display.is_closed:
        assert time.monotonic() < deadline
        with contextlib.suppress(ClosedError):
            observer.wait(SOON)
    with pytest.raises(ClosedError):
        observer.wait(SOON)
    source.wait_until(running=False)


@pytest.mark.rule("V17")
def test_observers_created_while_the_display_closes_are_refused_or_closed() -> None:
    for _ in range(20):
        display = Display(interval=0.001)
        dispatcher = VsyncDispatcher(display)
        surprises: list[BaseException] = []

        def come(dispatcher: VsyncDispatcher = dispatcher, surprises: list[BaseException] = surprises) -> None:
            try:
                while True:
                    with dispatcher.observe() as observer:
                        observer.wait(SOON)
            except ClosedError:
                pass
            except BaseException as error:
                surprises.append(error)

        threads = [threading.Thread(target=come) for _ in range(3)]
        for thread in threads:
            thread.start()
        display.close()
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()
        assert not surprises
        dispatcher.close()


def test_an_unclosed_display_warns() -> None:
    display = Display("forgotten")
    with pytest.warns(ResourceWarning, match="forgotten"):
        del display


def test_a_display_of_the_parent_is_refused_in_a_child_of_fork(display_of: Callable[[float], Display]) -> None:
    display = display_of(0.004)
    dispatcher = VsyncDispatcher(display)
    with dispatcher, dispatcher.observe() as observer:
        observer.wait(SOON)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _use_another()
                dispatcher.observe()
            except InvalidCallError:
                code = 0
            finally:
                display.close()
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        observer.wait(SOON)


def test_a_child_of_fork_ends_a_display_whose_source_was_being_set(display_of: Callable[[float], Display]) -> None:
    display = display_of(0.004)
    with display._changing:
        child = os.fork()
        if child == 0:
            signal.alarm(int(SOON))
            display.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_program_ends_though_it_forgot_a_display_that_has_a_source() -> None:
    """Its thread may not run any more then: from Python 3.13 on, joining it blocked for ever."""
    run_child(
        """
        import warnings
        from fractions import Fraction
        from vkshare.vsync import Display, VsyncDispatcher
        from support.simulated_source import SimulatedSource

        warnings.simplefilter("ignore", ResourceWarning)
        source = SimulatedSource("x11-present", Fraction(1, 250))
        display = Display(source=source)
        observer = VsyncDispatcher(display).observe()
        source.wait_until(running=True)
        """,
        dict(os.environ) | {"PYTHONPATH": "tests"},
    )


def _use_another() -> None:
    with Display(interval=0.002) as display, VsyncDispatcher(display) as dispatcher, dispatcher.observe() as observer:
        observer.wait(SOON)
