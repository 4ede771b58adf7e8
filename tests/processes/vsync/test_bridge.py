"""The bridge: one process's ticks in another."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import os
import pickle
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from multiprocessing.connection import Connection

import pytest
from support.display_fixtures import SOON
from support.fd_counts import open_fds
from support.simulated_source import SimulatedSource

from vkshare.errors import ClosedError, DescriptorError
from vkshare.vsync import Display, Tick, VsyncBridge, VsyncDescriptor, VsyncDispatcher

pytest_plugins = ["support.display_fixtures"]

pytestmark = pytest.mark.no_driver

HERE, THERE = Fraction(1, 200), Fraction(1, 150)  # the intervals of the two processes' displays


def _follow(descriptor: VsyncDescriptor, pipe: Connection) -> None:
    """The other process: sends each tick, and when it took it."""
    display = Display(interval=THERE)
    observer = VsyncDispatcher(display).observe()
    pipe.send(observer.wait(SOON))  # V19: before there is a bridge
    display.set_source(descriptor)
    while True:
        pipe.send(observer.wait(SOON))


@pytest.fixture
def window(display_of: Callable[[Fraction], Display], stack: ExitStack) -> VsyncDispatcher:
    """Commands between the two processes."""
    return stack.enter_context(VsyncDispatcher(display_of(HERE)))


@pytest.fixture
def bridge(window: VsyncDispatcher, stack: ExitStack) -> VsyncBridge:
    """From the window to a display of this process's own."""
    return stack.enter_context(VsyncBridge(window))


@pytest.fixture
def there(bridge: VsyncBridge, display_of: Callable[[Fraction], Display]) -> Display:
    """The display that follows the bridge."""
    display = display_of(THERE)
    with bridge.export() as descriptor:
        display.set_source(descriptor)
    return display


@contextmanager
def child(bridge: VsyncBridge) -> Iterator[tuple[int, Callable[[], Tick]]]:
    """Another process's pid, and how to get its next tick."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_follow, args=(bridge.export(), theirs), daemon=True)

    def tick() -> Tick:
        assert ours.poll(SOON), "no tick in the other process"
        reported = ours.recv()
        assert isinstance(reported, Tick)
        return reported

    process.start()
    theirs.close()
    try:
        assert process.pid is not None
        yield process.pid, tick
    finally:
        process.kill()
        process.join(SOON)
        ours.close()


def _wait(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.rule("V18", "V19")
def test_another_process_ticks_by_itself_first_and_then_with_this_one(window: VsyncDispatcher) -> None:
    with window.observe() as observer, VsyncBridge(window) as bridge, child(bridge) as (_, next_tick):
        last = next_tick()
        assert last.interval == THERE
        while last.interval != HERE:
            tick = next_tick()
            assert tick.id > last.id
            assert tick.vsync_time - last.vsync_time >= 2_500_000, "half an interval, over the change of source"
            last = tick
        for _ in range(10):
            last = next_tick()
        # The same blanks. A process that did not run for eight blanks begins at another phase, until it follows again.
        _wait(lambda: (observer.wait(SOON).vsync_time - next_tick().vsync_time) % 5_000_000 == 0)
        assert bridge.has_reader
        assert bridge.is_attending


@pytest.mark.rule("V18")
def test_a_process_that_was_stopped_gets_one_tick_when_it_goes_on_and_one_that_died_is_dropped(
    window: VsyncDispatcher,
) -> None:
    with VsyncBridge(window) as bridge, child(bridge) as (pid, next_tick):
        while next_tick().interval != HERE:
            pass
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic_ns()
        with window.observe() as observer:
            while (latest := observer.wait(SOON).vsync_time) < stopped + 300_000_000:
                pass
        assert window.display.statistics().observing == 1, "it is not dropped"
        os.kill(pid, signal.SIGCONT)
        tick = next_tick()
        while tick.vsync_time < stopped + 100_000_000:  # some were on their way
            tick = next_tick()
        # Its own timer may bring that one, which ticks as often at other moments.
        assert tick.vsync_time > latest - tick.interval * 1_000_000_000, "one for all that it slept through"
        os.kill(pid, signal.SIGKILL)
        _wait(lambda: window.display.statistics().observing == 0)
        assert not bridge.has_reader
        assert not bridge.is_attending


@pytest.mark.rule("V19")
def test_a_display_whose_bridge_is_closed_or_never_attended_goes_on_by_its_timer(window: VsyncDispatcher) -> None:
    with VsyncBridge(window) as bridge, child(bridge) as (_, next_tick):
        while next_tick().interval != HERE:
            pass
        bridge.close()
        bridge.close()
        for _ in range(5):
            assert next_tick().kind == "software"
        assert window.display.statistics().observing == 0
        assert "closed" in repr(bridge)


@pytest.mark.rule("V18")
def test_a_bridge_delivers_nothing_while_the_other_end_does_not_observe(
    window: VsyncDispatcher, bridge: VsyncBridge, there: Display, stack: ExitStack
) -> None:
    observer = stack.enter_context(stack.enter_context(VsyncDispatcher(there)).observe())
    for _ in range(3):
        _wait(lambda: bridge.is_attending)
        observer.rest()
        _wait(lambda: not bridge.is_attending)
        assert window.display.statistics().observing == 0
        observer.attend()
    there.set_source(None)
    _wait(lambda: not bridge.is_attending)
    observer.wait(SOON)


@pytest.mark.rule("V18")
def test_a_corrupt_page_harms_neither_side(
    window: VsyncDispatcher, bridge: VsyncBridge, there: Display, stack: ExitStack
) -> None:
    page = stack.enter_context(mmap.mmap(bridge._page, 4096))
    observers = [window.observe(), stack.enter_context(VsyncDispatcher(there)).observe()]
    generator = random.Random(18)
    for turn in range(2000):
        page[generator.randrange(64, 136)] = generator.randrange(256)
        if turn % 200 == 0:
            for observer in observers:
                observer.wait(SOON)
    there.set_source(None)
    page[64:136] = b"\xff" * 72
    for observer in observers:
        observer.wait(SOON)
        observer.close()


@pytest.mark.rule("V18")
def test_an_invalid_descriptor_is_refused_and_the_display_keeps_its_source(
    window: VsyncDispatcher, display_of: Callable[[Fraction], Display]
) -> None:
    display = display_of(THERE)
    with VsyncBridge(window) as bridge, bridge.export() as descriptor:
        with mmap.mmap(descriptor._fds[0], 4096) as page:
            page[8] += 1
            with pytest.raises(DescriptorError, match="layout version"):
                display.set_source(descriptor)
            page[8] -= 1
        data = descriptor.to_bytes()
        with pytest.raises(DescriptorError, match="says it carries 1 fds, and 2 came"):
            VsyncDescriptor.from_bytes(data, [os.dup(1), os.dup(1)])
        with pytest.raises(DescriptorError, match="carries 1 fd, and 2 came"):
            VsyncDescriptor.from_bytes(data[:24] + b"\2" + data[25:], [os.dup(1), os.dup(1)])
        with pytest.raises(DescriptorError):
            VsyncDescriptor.from_bytes(data, [os.open("/dev/null", os.O_RDONLY)])
        descriptor.close()
        with pytest.raises(ClosedError):
            display.set_source(descriptor)
    with VsyncDispatcher(display) as dispatcher, dispatcher.observe() as observer:
        observer.wait(SOON)


@pytest.mark.rule("V18")
def test_a_descriptor_that_is_refused_leaves_the_display_with_the_bridge_or_the_source_that_it_has(
    window: VsyncDispatcher,
    display_of: Callable[[Fraction], Display],
    stack: ExitStack,
    recwarn: pytest.WarningsRecorder,
) -> None:
    display = display_of(THERE)
    stack.enter_context(stack.enter_context(VsyncDispatcher(display)).observe())
    bridge, other = (stack.enter_context(VsyncBridge(window)) for _ in range(2))
    with other.export() as wrong, mmap.mmap(wrong._fds[0], 4096) as page:
        page[8] += 1
        with bridge.export() as descriptor:
            display.set_source(descriptor)
        _wait(lambda: bridge.is_attending)
        with pytest.raises(DescriptorError):
            display.set_source(wrong)
        time.sleep(0.02)
        assert bridge.is_attending
        source = stack.enter_context(SimulatedSource("x11-present", HERE))
        display.set_source(source)
        with pytest.raises(DescriptorError):
            display.set_source(wrong)
        assert display.source is source
        display.close()
        assert not source.is_running
        with pytest.raises(DescriptorError):
            Display(source=wrong)
    gc.collect()
    assert [str(each.message) for each in recwarn.list] == []


@pytest.mark.rule("V18")
def test_a_closed_bridge_gives_no_descriptor(window: VsyncDispatcher) -> None:
    bridge = VsyncBridge(window)
    bridge.export().close()
    before = len(open_fds())
    bridge.close()
    for _ in range(2):
        with pytest.raises(ClosedError, match="create another"):
            bridge.export()
    assert len(open_fds()) <= before


def test_a_bridge_of_a_closed_display_is_refused(window: VsyncDispatcher, recwarn: pytest.WarningsRecorder) -> None:
    window.display.close()
    with pytest.raises(ClosedError):
        VsyncBridge(window)
    with pytest.raises(ClosedError):
        window.observe()
    gc.collect()
    assert [str(each.message) for each in recwarn.list] == []


def test_a_descriptor_travels_over_a_socket_or_a_pickle(
    window: VsyncDispatcher, display_of: Callable[[Fraction], Display]
) -> None:
    display = display_of(THERE)
    here, there = socket.socketpair()
    with here, there, VsyncBridge(window) as bridge, bridge.export() as descriptor:
        descriptor.send(here)
        with VsyncDescriptor.recv(there) as arrived:
            display.set_source(arrived)
        with pickle.loads(pickle.dumps(descriptor)) as copy:
            display.set_source(copy)
        with VsyncDispatcher(display) as dispatcher, dispatcher.observe() as observer:
            while observer.wait(SOON).interval != HERE:
                pass
