"""Surface queues on the devices of one process: what each call does, refuses and leaves behind (rules Q)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.ctrl_c import CtrlC, at_any_place
from support.peer_processes import later
from support.queue_ends import Loop, look, send
from support.queue_faults import FaultyQueue, has_queue
from support.run_volumes import rounds, unhurried
from support.shared_handles import wait_until
from support.time_limits import at_least

import vkshare as vks
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    InvalidCallError,
    NotOwnerError,
    StillDrawingError,
)
from vkshare.util import fd_ops
from vkshare.util.library_calls import lib

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    unhurried,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]


@pytest.fixture
def loop(vks_open: Open) -> Iterator[Loop]:
    with Loop(vks_open(name="maker"), vks_open(name="viewer")) as loop:
        yield loop


@pytest.fixture
def gate(loop: Loop) -> vks.Fence:
    """A fence of the maker's: work that waits for a value of it runs once that is signalled."""
    return loop.free.device.create_fence()


def held(loop: Loop, gate: vks.Fence, number: int) -> Any:
    """A dequeued surface whose drawing waits for the gate's value `number`."""
    surface, _ = loop.free.dequeue(5)
    access_patterns.clear(surface, number, waits=(gate, number))
    return surface


# ---- making ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q1")
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"count": 0}, "count"),
        ({"count": 65}, "count"),
        ({"width": 0}, "width"),
        ({"height": 0}, "height"),
        ({"height": -3}, "height"),
        ({"format": "rgba7"}, "rgba7"),
        ({"metadata_size": -1}, "metadata_size"),
        ({"metadata_size": 65537}, "metadata_size"),
    ],
)
def test_a_wrong_argument_is_a_value_error_and_leaves_nothing(
    vks_device: vks.Device, arguments: dict[str, Any], what: str
) -> None:
    gc.collect()
    before, fds = vks_device.statistics().surfaces, access_patterns.open_fds()
    with pytest.raises(ValueError, match=what):
        vks.SurfaceQueue(vks_device, **{"width": 8, "height": 8, **arguments})
    assert vks_device.statistics().surfaces == before
    assert access_patterns.open_fds() == fds


@pytest.mark.rule("Q1")
def test_what_fails_half_way_leaves_nothing(vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made, create = [], vks_device.create_surface

    def third_fails(*args: Any, **options: Any) -> Any:
        if len(made) == 2:
            raise vks.VulkanError(-2, "vkAllocateMemory")
        made.append(create(*args, **options))
        return made[-1]

    vks.SurfaceQueue(vks_device, 8, 8).close()  # what is made once
    fds = access_patterns.open_fds()
    monkeypatch.setattr(vks_device, "create_surface", third_fails)
    with pytest.raises(vks.VulkanError):
        vks.SurfaceQueue(vks_device, 8, 8)
    assert all(surface.is_closed for surface in made)
    made.clear()
    vks_device._reap()
    assert access_patterns.open_fds() <= fds


def test_a_device_that_cannot_open_all_surfaces_has_none(
    vks_open: Open, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, opened = vks_open(), []
    open_surface = device.open_surface

    def third_fails(*args: Any) -> Any:
        if len(opened) == 2:
            raise vks.VulkanError(-2, "vkAllocateMemory")
        opened.append(open_surface(*args))
        return opened[-1]

    loop.out.close()
    monkeypatch.setattr(device, "open_surface", third_fails)
    with pytest.raises(vks.VulkanError):
        loop.clone.open_producer(device)
    assert [surface.is_closed for surface in opened] == [True, True]
    monkeypatch.undo()
    assert not loop.clone.open_producer(device).is_closed


@pytest.mark.rule("Q2")
def test_the_root_starts_full_and_clones_start_empty(vks_open: Open) -> None:
    device = vks_open()
    with vks.SurfaceQueue(device, 8, 8, count=5) as root, root.clone() as clone:
        producers = clone.open_producer(device), root.open_producer(device)
        free, seen = root.open_consumer(device), clone.open_consumer(device)
        surfaces = [free.dequeue(0)[0] for _ in range(5)]
        assert len({id(surface) for surface in surfaces}) == 5
        for empty in (free, seen):
            with pytest.raises(AcquireTimeout):
                empty.dequeue(0)
        assert not any(producer.is_closed for producer in producers)
        assert all((surface.width, surface.height, surface.is_owned) == (8, 8, True) for surface in surfaces)


@pytest.mark.rule("Q3")
def test_a_clone_of_a_clone_has_the_same_surfaces_and_its_own_metadata(vks_open: Open) -> None:
    device = vks_open()
    root = vks.SurfaceQueue(device, 8, 8, count=2, metadata_size=4)
    clone = root.clone(metadata_size=8)
    second = clone.clone(metadata_size=16, single_threaded=True)
    assert [queue.metadata_size for queue in (root, clone, second)] == [4, 8, 16]
    assert [queue.single_threaded for queue in (root, clone, second)] == [False, False, True]
    assert [queue.count for queue in (root, clone, second)] == [2, 2, 2]
    free, back = root.open_consumer(device), root.open_producer(device)
    surface, _ = free.dequeue(0)
    assert not back.is_closed
    out, seen = second.open_producer(device), second.open_consumer(device)
    access_patterns.clear(surface, 77)
    root.close()
    clone.close()
    out.enqueue(surface, b"0123456789abcdef")
    again, metadata = seen.dequeue(0)
    assert again is surface
    assert metadata == b"0123456789abcdef"
    assert look(again, 77)  # the surfaces live until the last queue of the network is closed
    second.close()
    assert surface.is_closed


def test_a_queues_surface_is_closed_by_its_queues_alone(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    with pytest.raises(InvalidCallError, match="network"):
        surface.close()
    loop.close()
    surface.close()
    assert surface.is_closed


# ---- the ends --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q4")
def test_a_second_end_is_refused_and_the_first_goes_on(loop: Loop) -> None:
    other = loop.free.device
    with pytest.raises(InvalidCallError, match="open already"):
        loop.root.open_producer(other)
    with pytest.raises(InvalidCallError, match="open already"):
        loop.clone.open_consumer(other)
    send(loop, 1)
    surface, _ = loop.seen.dequeue(0)
    assert look(surface, 1)
    loop.back.enqueue(surface)
    loop.seen.close()
    again = loop.clone.open_consumer(loop.seen.device)
    send(loop, 2)
    surface, _ = again.dequeue(0)
    assert look(surface, 2)


@pytest.mark.rule("Q5")
def test_nothing_works_before_both_ends_are_open(vks_open: Open) -> None:
    device = vks_open()
    with vks.SurfaceQueue(device, 8, 8) as root, root.clone() as clone:
        free = root.open_consumer(device)
        with pytest.raises(InvalidCallError, match="producer was not opened yet"):
            free.dequeue(0)
        back = root.open_producer(device)
        surface, _ = free.dequeue(0)
        out = clone.open_producer(device)
        for call in (lambda: out.enqueue(surface), lambda: out.flush(), lambda: out.flush(False)):
            with pytest.raises(InvalidCallError, match="consumer was not opened yet"):
                call()
        assert surface.is_owned
        seen = clone.open_consumer(device)
        assert out.enqueue(surface)
        assert seen.dequeue(0)[0] is surface
        assert back.enqueue(surface)


@pytest.mark.rule("Q6")
def test_only_dequeued_surfaces_of_the_network_are_taken(loop: Loop) -> None:
    device = loop.free.device
    stranger = device.create_surface(16, 12)
    stranger.acquire()
    with pytest.raises(InvalidCallError, match="network"):
        loop.out.enqueue(stranger)
    with vks.SurfaceQueue(device, 16, 12) as others:
        others.open_producer(device)
        surface, _ = others.open_consumer(device).dequeue(0)
        with pytest.raises(InvalidCallError, match="network"):
            loop.out.enqueue(surface)
        assert surface.is_owned
    surface, _ = loop.free.dequeue(0)
    loop.out.enqueue(surface)
    with pytest.raises(InvalidCallError, match="not dequeued"):
        loop.out.enqueue(surface)
    assert loop.out.statistics().enqueued == 1


@pytest.mark.rule("Q7")
def test_any_queue_takes_what_the_same_device_has_dequeued_and_nothing_else(loop: Loop) -> None:
    maker, viewer = loop.free.device, loop.seen.device
    with loop.clone.clone(metadata_size=4) as third:
        out, seen = third.open_producer(maker), third.open_consumer(viewer)
        surface, _ = loop.free.dequeue(0)
        out.enqueue(surface, b"3")  # from the root, into the third
        theirs, metadata = seen.dequeue(0)
        assert metadata == b"3"
        with pytest.raises(InvalidCallError, match="another device"):
            loop.out.enqueue(theirs)
        with pytest.raises(InvalidCallError):
            loop.back.enqueue(surface)
        loop.back.enqueue(theirs)
        assert loop.root.statistics().enqueued == 4


@pytest.mark.rule("Q16", "Q6")
def test_a_surface_is_in_exactly_one_place(loop: Loop) -> None:
    for number in range(9):
        send(loop, number)
        owners = [s for end in (loop.free, loop.seen) for s in end.surfaces if s.is_owned]
        assert owners == []
        surface, _ = loop.seen.dequeue(0)
        assert [s for end in (loop.free, loop.seen) for s in end.surfaces if s.is_owned] == [surface]
        loop.back.enqueue(surface)
    counts = loop.root.statistics()
    assert counts.committed - counts.dequeued == 3


# ---- metadata --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q8")
def test_metadata_that_is_too_long_is_refused_and_the_surface_stays(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    with pytest.raises(ValueError, match=r"65 bytes.*metadata_size is 64"):
        loop.out.enqueue(surface, b"x" * 65)
    assert surface.is_owned
    for wrong in ("text", 3, [1]):
        with pytest.raises(TypeError, match="metadata must be bytes"):
            loop.out.enqueue(surface, wrong)
    assert surface.is_owned
    loop.out.enqueue(surface)
    assert loop.seen.dequeue(0)[1] == b""


@pytest.mark.rule("Q9")
def test_each_dequeue_gives_exactly_its_enqueues_metadata(loop: Loop) -> None:
    given: list[Any] = [b"", b"\0", b"x" * 64, bytearray(b"abc"), memoryview(b"defg")[1:], np.arange(3, dtype=np.uint8)]
    places = 1 + 2 * len(given)  # more than the queue has: each metadata comes to a place that had a longer one
    for number, metadata in enumerate(given * places):
        send(loop, number, metadata)
        surface, reported = loop.seen.dequeue(0)
        assert type(reported) is bytes
        assert reported == bytes(metadata)
        loop.back.enqueue(surface)


def test_long_metadata_comes_through(vks_open: Open) -> None:
    with Loop(vks_open(), vks_open(), clone_metadata=65536) as loop:
        for size in (0, 511, 513, 65536):
            metadata = bytes(range(256)) * 256
            send(loop, 1, metadata[:size])
            surface, reported = loop.seen.dequeue(0)
            assert reported == metadata[:size]
            loop.back.enqueue(surface)


# ---- waiting for the GPU ---------------------------------------------------------------------------------------------


@pytest.mark.rule("Q10")
def test_enqueue_waits_until_the_gpu_has_finished(loop: Loop, gate: vks.Fence) -> None:
    surface = held(loop, gate, 1)
    enqueues = later(loop.out.enqueue, surface, b"1")
    assert not enqueues.done(0.1)
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue(0)
    gate.signal(1)
    assert enqueues.result(10) is True
    theirs, _ = loop.seen.dequeue(0)
    assert look(theirs, 1)


@pytest.mark.rule("Q10", "Q11")
def test_a_waiting_enqueue_commits_what_was_pending_before_it(loop: Loop, gate: vks.Fence) -> None:
    first = held(loop, gate, 1)
    assert loop.out.enqueue(first, b"first", wait=False) is False
    with pytest.raises(NotOwnerError):
        access_patterns.clear(first, 9)  # it counts as enqueued
    second, _ = loop.free.dequeue(0)
    enqueues = later(loop.out.enqueue, second, b"second")
    assert not enqueues.done(0.1)  # first in, first out
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue(0)
    gate.signal(1)
    assert enqueues.result(10) is True
    assert [loop.seen.dequeue(0)[1] for _ in range(2)] == [b"first", b"second"]


@pytest.mark.rule("Q11")
def test_enqueue_without_waiting_never_blocks_and_says_whether_it_is_committed(loop: Loop, gate: vks.Fence) -> None:
    surface = held(loop, gate, 1)
    assert loop.out.enqueue(surface, wait=False) is False
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue(0)
    gate.signal(1)
    with pytest.raises(AcquireTimeout):  # not before a flush
        loop.seen.dequeue(0.05)
    wait_until(lambda: flushed(loop) == 0)
    assert look(loop.seen.dequeue(0)[0], 1)
    surface, _ = loop.free.dequeue(0)
    assert loop.out.enqueue(surface, wait=False) is True  # nothing was drawn
    assert loop.seen.dequeue(0)[1] == b""


def flushed(loop: Loop) -> int:
    """flush(wait=False), where nothing that could be committed is as good as an answer."""
    try:
        return int(loop.out.flush(wait=False))
    except StillDrawingError:
        return -1


@pytest.mark.rule("Q12")
def test_flush_commits_the_finished_ones_at_the_front(loop: Loop, gate: vks.Fence) -> None:
    first = held(loop, gate, 2)
    second, _ = loop.free.dequeue(0)
    assert loop.out.enqueue(first, b"1", wait=False) is False
    assert loop.out.enqueue(second, b"2", wait=False) is False  # finished, but behind the first
    with pytest.raises(StillDrawingError, match="2 pending"):
        loop.out.flush(wait=False)
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue(0)
    gate.signal(2)
    wait_until(lambda: flushed(loop) == 0)
    third = held(loop, gate, 3)
    assert [loop.seen.dequeue(0)[1] for _ in range(2)] == [b"1", b"2"]
    assert loop.out.enqueue(third, b"3", wait=False) is False
    flushes = later(loop.out.flush)
    assert not flushes.done(0.1)
    gate.signal(3)
    assert flushes.result(10) == 0
    assert look(loop.seen.dequeue(0)[0], 3)


@pytest.mark.rule("Q12")
def test_flush_without_waiting_tells_how_many_are_left(loop: Loop, gate: vks.Fence) -> None:
    surfaces = [held(loop, gate, number) for number in (1, 2, 3)]
    for surface in surfaces:
        assert loop.out.enqueue(surface, wait=False) is False
    gate.signal(1)
    wait_until(lambda: flushed(loop) == 2)
    gate.signal(3)
    wait_until(lambda: flushed(loop) == 0)


@pytest.mark.rule("Q13")
def test_flush_with_nothing_pending_is_zero(loop: Loop) -> None:
    assert loop.out.flush() == 0
    assert loop.out.flush(wait=False) == 0
    send(loop, 1)
    assert loop.out.flush(wait=False) == 0


@pytest.mark.rule("Q21")
def test_the_order_may_be_left_to_the_gpu(loop: Loop, gate: vks.Fence) -> None:
    surface = held(loop, gate, 5)
    assert loop.out.enqueue(surface, b"later", wait="gpu") is True
    theirs, metadata = loop.seen.dequeue(0)  # at once: without a wait of the CPU
    assert metadata == b"later"
    submission = access_patterns.fill_column(theirs, 3, 200)
    assert not submission.is_done()
    gate.signal(5)
    pixels = theirs.read()
    assert (pixels[:, 3, 0] == 200).all()
    assert access_patterns.is_clear(pixels[:, 4:], 5)


def test_a_wrong_wait_is_refused(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    for wrong in ("cpu", 2, None):
        with pytest.raises(ValueError, match="wait is"):
            loop.out.enqueue(surface, b"", wrong)  # type: ignore[arg-type]
    assert surface.is_owned


# ---- dequeue ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q14")
def test_an_empty_queue_times_out(loop: Loop) -> None:
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue(0)
    with at_least(0.1), pytest.raises(TimeoutError):
        loop.seen.dequeue(timeout=0.1)
    for wrong in (-1, float("nan"), "soon"):
        with pytest.raises((ValueError, TypeError)):
            loop.seen.dequeue(wrong)


@pytest.mark.rule("Q14")
def test_a_deadline_is_absolute_whatever_is_committed_meanwhile_to_others(loop: Loop) -> None:
    stop = threading.Event()

    def disturb() -> None:  # wakes every sleeper
        while not stop.is_set():
            loop.clone.statistics()
            with pytest.raises(InvalidCallError):
                loop.clone.open_consumer(loop.free.device)
            time.sleep(0.001)

    disturbs = later(disturb)
    with at_least(0.2), pytest.raises(AcquireTimeout):  # started anew each time, it would never end
        loop.seen.dequeue(0.2)
    stop.set()
    disturbs.result(10)


def test_a_waiting_consumer_is_served_as_soon_as_something_is_committed(loop: Loop) -> None:
    for number in range(rounds(1000, 30)):
        dequeues = later(loop.seen.dequeue, 30)
        send(loop, number, b"%d" % number)
        surface, metadata = dequeues.result(30)
        assert metadata == b"%d" % number
        loop.back.enqueue(surface)


@pytest.mark.rule("Q16")
def test_pairs_come_out_in_the_order_in_which_they_went_in(loop: Loop) -> None:
    for turn in range(20):
        for number in range(3):
            send(loop, 3 * turn + number, b"%d" % (3 * turn + number))
        for number in range(3):
            surface, metadata = loop.seen.dequeue(0)
            assert metadata == b"%d" % (3 * turn + number)
            assert look(surface, 3 * turn + number)
            loop.back.enqueue(surface)


def test_an_export_is_over_before_another_threads_close_gives_the_page_away(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = vks.SurfaceQueue(vks_open(), 8, 8, count=1)
    page, duplicate, closing = queue._page, fd_ops.duplicate, []

    def late(fd: int) -> int:
        if fd == page:
            closing.append(later(queue.close))
            assert not closing[0].done(0.2)
        return duplicate(fd)

    monkeypatch.setattr(fd_ops, "duplicate", late)
    queue.export().close()
    closing[0].result(10)
    assert queue.is_closed


@pytest.mark.rule("Q22")
def test_after_enqueue_the_producer_may_not_use_the_surface(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    access_patterns.clear(surface, 1)
    loop.out.enqueue(surface)
    for use in (lambda: access_patterns.clear(surface, 2), surface.read, lambda: access_patterns.draw(surface, 1)):
        with pytest.raises(NotOwnerError, match=r"in a queue: .*; dequeue\(\) it") as caught:
            use()
        assert "surface.access" not in str(caught.value)  # which would be refused
    assert look(loop.seen.dequeue(0)[0], 1)


@pytest.mark.rule("Q25")
def test_ownership_comes_and_goes_with_the_queue_alone(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    for share in (surface.export, lambda: surface.device.open_surface(surface)):
        with pytest.raises(InvalidCallError, match="queue"):
            share()
    for call in (
        surface.acquire,
        lambda: surface.acquire(0, 0),
        lambda: surface.acquire(0, mode="gpu"),
        surface.release,
        lambda: surface.access().__enter__(),
        lambda: asyncio.run(surface.acquire_async()),
    ):
        with pytest.raises(InvalidCallError, match="queue's"):
            call()
    assert surface.is_owned
    loop.out.enqueue(surface)
    with pytest.raises(InvalidCallError):
        surface.acquire(0, 0)
    loop.seen.dequeue(0)


@pytest.mark.rule("Q23")
def test_a_consumer_that_wants_the_newest_gives_the_older_ones_back(loop: Loop) -> None:
    for number in range(3):
        send(loop, number, b"%d" % number)
    surface, metadata = loop.seen.dequeue_latest(0)
    assert metadata == b"2"
    assert look(surface, 2)
    assert loop.root.statistics().committed - loop.root.statistics().dequeued == 2
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue_latest(0)
    loop.back.enqueue(surface)
    loop.out.close()
    with pytest.raises(ClosedError):
        loop.seen.dequeue_latest(0)


@pytest.mark.rule("Q20")
def test_a_frame_goes_back_also_when_its_body_raises(loop: Loop) -> None:
    send(loop, 1, b"one")
    with loop.seen.frame(0) as (surface, metadata):
        assert metadata == b"one"
        assert look(surface, 1)
    assert not surface.is_owned
    send(loop, 2)
    frame: Any = None
    try:
        with loop.seen.frame(0) as frame:
            assert frame.view.shape == (12, 16, 4)
            raise RuntimeError("body")
    except RuntimeError:
        pass
    with pytest.raises(InvalidCallError):
        _ = frame.view
    assert loop.root.statistics().committed - loop.root.statistics().dequeued == 3


@pytest.mark.rule("Q20")
def test_where_a_frame_goes_can_be_told_and_must_be_where_it_is_not_clear(loop: Loop) -> None:
    viewer, maker = loop.seen.device, loop.free.device
    with loop.root.clone() as third:
        into, taken = third.open_producer(viewer), third.open_consumer(maker)
        send(loop, 1)
        with pytest.raises(InvalidCallError, match="into="), loop.seen.frame(0):
            pass
        with loop.seen.frame(0, into=into):
            pass
        assert look(taken.dequeue(0)[0], 1)
    with pytest.raises(TypeError, match="into"), loop.seen.frame(0, into=loop.seen):
        pass


@pytest.mark.rule("Q20", "Q23")
def test_a_frame_goes_back_into_no_second_opening_of_the_queue_that_it_came_out_of(loop: Loop) -> None:
    loop.seen.close()
    device = loop.out.device
    with (
        loop.clone.export() as descriptor,
        vks.SurfaceQueue.open(device, descriptor) as again,
        again.open_consumer(device) as consumer,
    ):
        send(loop, 1)
        for into in (None, loop.out):
            with pytest.raises(InvalidCallError, match="into"):
                consumer.dequeue_latest(0, into=into)
        assert consumer.dequeue(0)[1] == b""


def test_dequeue_async_waits_without_a_thread_and_can_be_given_up(loop: Loop) -> None:
    async def run() -> None:
        with pytest.raises(AcquireTimeout):
            await loop.seen.dequeue_async(0.01)
        for number in range(5):
            waits = asyncio.ensure_future(loop.seen.dequeue_async(30))
            await asyncio.sleep(0.005 * (number % 2))
            send(loop, number, b"%d" % number)
            surface, metadata = await waits
            assert metadata == b"%d" % number
            loop.back.enqueue(surface)
        threads = access_patterns.threads()
        waiting = [asyncio.ensure_future(loop.seen.dequeue_async()) for _ in range(50)]
        await asyncio.sleep(0.01)
        assert access_patterns.threads() <= threads
        for task in waiting:
            task.cancel()
        waits = asyncio.ensure_future(loop.seen.dequeue_async())
        await asyncio.sleep(0.01)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        send(loop, 9)
        assert look((await loop.seen.dequeue_async(1))[0], 9)
        waits = asyncio.ensure_future(loop.seen.dequeue_async())
        await asyncio.sleep(0.01)
        loop.out.close()
        with pytest.raises(ClosedError):
            await waits

    asyncio.run(run())


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q15")
def test_a_single_threaded_queue_never_waits_and_refuses_a_second_thread(vks_open: Open) -> None:
    with Loop(vks_open(), vks_open(), single_threaded=True) as loop:
        with pytest.raises(AcquireTimeout):
            loop.seen.dequeue(None)
        with pytest.raises(AcquireTimeout):
            loop.seen.dequeue(20)
        for number in range(10):
            send(loop, number)
            with loop.seen.frame() as (surface, _):
                assert look(surface, number)
        surface, _ = loop.free.dequeue()
        for call in (lambda: loop.out.enqueue(surface), loop.out.flush, loop.free.dequeue):
            with pytest.raises(InvalidCallError, match="single_threaded"):
                later(call).result(10)
        loop.out.enqueue(surface)


@pytest.mark.rule("Q17")
def test_threads_share_an_end_and_both_ends_run_at_once(vks_open: Open) -> None:
    frames = rounds(10_000, 200)
    with Loop(vks_open(), vks_open(), count=8) as loop:
        numbers = iter(range(frames))
        lock = threading.Lock()

        def produce() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                send(loop, number, b"%d" % number, wait=(True, "gpu")[number % 2])

        seen: list[int] = []

        def consume() -> None:
            while True:
                try:
                    surface, metadata = loop.seen.dequeue(60)
                except ClosedError:
                    return
                seen.append(int(metadata) if look(surface, int(metadata)) else -1)
                loop.back.enqueue(surface)

        makers = [later(produce) for _ in range(3)]
        viewers = [later(consume) for _ in range(2)]
        for maker in makers:
            maker.result(110)
        loop.out.close()
        for viewer in viewers:
            viewer.result(60)
        assert sorted(seen) == list(range(frames))


@pytest.mark.rule("Q21")
@pytest.mark.parametrize("wait", [True, False, "gpu"], ids=["waiting", "flushing", "on the GPU"])
@pytest.mark.parametrize("single_threaded", [False, True], ids=["locked", "single-threaded"])
def test_two_devices_and_two_queues_in_a_loop(vks_open: Open, single_threaded: bool, wait: Any) -> None:
    with Loop(vks_open(), vks_open(), single_threaded=single_threaded) as loop:
        for number in range(rounds(10_000, 40)):
            committed = send(loop, number, b"%d" % number, wait)
            if not committed:
                loop.out.flush()
            surface, metadata = loop.seen.dequeue(30)
            assert metadata == b"%d" % number
            assert look(surface, number)
            loop.back.enqueue(surface, wait="gpu")


@pytest.mark.rule("Q21")
def test_three_devices_and_three_queues_in_a_loop_with_threads(vks_open: Open) -> None:
    devices = [vks_open() for _ in range(3)]
    frames = rounds(10_000, 100)
    with vks.SurfaceQueue(devices[0], 16, 12, metadata_size=8) as root, root.clone(8) as one, root.clone(8) as two:
        queues = [root, one, two]  # device i takes from queue i and puts into the next
        ends = [(queues[i].open_consumer(devices[i]), queues[(i + 1) % 3].open_producer(devices[i])) for i in range(3)]

        def work(place: int) -> int:
            source, target = ends[place]
            right = 0
            for number in range(frames):
                surface, metadata = source.dequeue(60)
                if place:
                    right += metadata == b"%d" % number and look(surface, 3 * number + place - 1)
                if place < 2:
                    access_patterns.clear(surface, 3 * number + place)
                target.enqueue(surface, b"%d" % number if place < 2 else b"", "gpu")
            return right

        workers = [later(work, place) for place in range(3)]
        assert [worker.result(110) for worker in workers] == [0, frames, frames]


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q18", "Q24")
def test_closing_the_producer_wakes_a_blocked_consumer(loop: Loop) -> None:
    dequeues = later(loop.seen.dequeue)
    assert not dequeues.done(0.05)
    loop.out.close()
    with pytest.raises(ClosedError, match="producer is gone"):
        dequeues.result(5)


@pytest.mark.rule("Q18")
def test_closing_an_end_wakes_those_who_wait_at_it(loop: Loop) -> None:
    dequeues = [later(loop.seen.dequeue) for _ in range(3)]
    time.sleep(0.02)
    loop.seen.close()
    for each in dequeues:
        with pytest.raises(ClosedError):
            each.result(5)
    loop.seen.close()
    with pytest.raises(ClosedError):
        loop.seen.dequeue(0)


@pytest.mark.rule("Q18")
def test_closing_an_end_ends_its_waits_for_the_gpu(loop: Loop, gate: vks.Fence) -> None:
    surface, pending = held(loop, gate, 1), held(loop, gate, 2)
    assert loop.out.enqueue(pending, wait=False) is False
    waits = [later(loop.out.enqueue, surface), later(loop.out.flush)]
    assert not waits[0].done(0.05)
    loop.out.close()
    for wait in waits:
        with pytest.raises(ClosedError):
            wait.result(5)
    assert surface.is_owned
    gate.signal(2)


@pytest.mark.rule("Q18")
def test_without_a_consumer_enqueue_is_refused_until_there_is_another(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    loop.seen.close()
    with pytest.raises(ClosedError, match="consumer is gone"):
        loop.out.enqueue(surface)
    assert surface.is_owned
    again = loop.clone.open_consumer(loop.back.device)
    loop.out.enqueue(surface)
    assert again.dequeue(0)[1] == b""


@at_any_place
def test_ctrl_c_while_a_queue_is_made_is_no_other_error(vks_open: Open) -> None:
    device = vks_open()
    vks.SurfaceQueue(device, 4, 4).close()
    with CtrlC(0) as counted:
        vks.SurfaceQueue(device, 4, 4).close()
    assert counted.places > 100
    for place in range(1, counted.places + 1, rounds(1, 61, full=7)):
        with contextlib.suppress(KeyboardInterrupt), CtrlC(place):
            vks.SurfaceQueue(device, 4, 4).close()
    vks.SurfaceQueue(device, 4, 4).close()


def test_the_words_of_an_error_are_not_said_again_for_the_next_one(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(0)
    mutex = loop.out.device.create_surface(4, 4).mutex
    loop.seen.close()
    mutex._surface.close()
    with pytest.raises(ClosedError, match="consumer is gone"):
        loop.out.enqueue(surface)
    with pytest.raises(ClosedError, match="the object, or its device, was closed"):
        mutex.next_key()


@pytest.mark.rule("Q18")
def test_closing_a_device_wakes_who_waits_at_the_other_end(loop: Loop) -> None:
    dequeues = later(loop.seen.dequeue)
    time.sleep(0.02)
    loop.out.device.close()
    with pytest.raises(ClosedError):
        dequeues.result(5)
    with pytest.raises(ClosedError):
        loop.free.dequeue(0)


@pytest.mark.rule("Q24")
def test_what_was_committed_is_dequeued_before_the_closing_is_told(loop: Loop, gate: vks.Fence) -> None:
    send(loop, 1, b"1")
    pending = held(loop, gate, 2)
    assert loop.out.enqueue(pending, b"2", wait=False) is False
    loop.out.close()  # commits it: the GPU orders the rest
    gate.signal(2)
    for number in (1, 2):
        surface, metadata = loop.seen.dequeue(0)
        assert metadata == b"%d" % number
        assert look(surface, number)
    with pytest.raises(ClosedError):
        loop.seen.dequeue(0)
    again = loop.clone.open_producer(loop.free.device)
    surface, _ = loop.free.dequeue(0)
    again.enqueue(surface, b"again")
    assert loop.seen.dequeue(0)[1] == b"again"


@pytest.mark.rule("Q19")
def test_an_enqueue_that_fails_inside_leaves_the_surface_with_the_caller(
    vks_adapter: vks.Adapter, vks_open: Open
) -> None:
    if not has_queue(vks_adapter):
        pytest.skip("the CPU backend's queue cannot refuse work")
    with FaultyQueue(vks_adapter) as (device, queue), Loop(device, vks_open()) as loop:
        surface, _ = loop.free.dequeue(0)
        access_patterns.clear(surface, 7)
        queue.fail_next()
        with pytest.raises(vks.VulkanError):
            loop.out.enqueue(surface, b"x", wait="gpu")
        assert surface.is_owned
        assert loop.out.statistics().enqueued == 0
        assert loop.out.enqueue(surface, b"y")
        theirs, metadata = loop.seen.dequeue(0)
        assert metadata == b"y"
        assert look(theirs, 7)


@pytest.mark.rule("Q19")
def test_an_enqueue_that_is_interrupted_leaves_the_surface_with_the_caller(loop: Loop, gate: vks.Fence) -> None:
    surface = held(loop, gate, 1)

    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    previous = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            loop.out.enqueue(surface, b"x")
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert surface.is_owned
    assert loop.out.statistics().enqueued == 0
    gate.signal(1)
    assert loop.out.enqueue(surface, b"y")
    assert loop.seen.dequeue(0)[1] == b"y"


def test_a_lost_device_ends_the_waits_at_its_ends(loop: Loop) -> None:
    dequeues = later(loop.seen.dequeue)
    time.sleep(0.02)
    loop.seen.device._mark_lost()
    with pytest.raises(vks.DeviceLostError):
        dequeues.result(5)


def test_work_that_never_ran_abandons_the_surface_and_recover_brings_it_back(loop: Loop, gate: vks.Fence) -> None:
    surface = held(loop, gate, 1)
    loop.out.enqueue(surface, b"lost", wait="gpu")
    gate.close()  # the work can never run
    wait_until(lambda: loop.out.device.statistics().held == 0)
    with pytest.raises(AbandonedError):
        loop.seen.dequeue(5)
    (back,) = loop.seen.recover(5)
    assert back.is_owned
    access_patterns.clear(back, 3)
    loop.back.enqueue(back)
    assert loop.seen.recover(0) == []
    with pytest.raises(AcquireTimeout):
        loop.seen.dequeue(0)


def test_devices_that_were_closed_are_kept_by_no_queue(vks_open: Open) -> None:
    queue = vks.SurfaceQueue(vks_open(), 8, 8, count=2)
    for _ in range(3):
        device = vks_open()
        queue.open_consumer(device).close()
        device.close()
    last = vks_open()
    queue.open_consumer(last)
    assert set(queue._network._handles) == {queue.device, last}


def test_queues_that_are_made_and_closed_leave_nothing(vks_open: Open) -> None:
    devices = vks_open(), vks_open()

    def turn() -> None:
        with Loop(*devices) as loop:
            send(loop, 1)
            surface, _ = loop.seen.dequeue(0)
            loop.back.enqueue(surface)
        for device in devices:
            device.wait_idle(10)
            device._reap()

    for _ in range(3):
        turn()
    gc.collect()
    fds, threads, open_surfaces = (
        access_patterns.open_fds(),
        access_patterns.threads(),
        devices[0].statistics().surfaces,
    )
    for _ in range(rounds(1000, 20)):
        turn()
    assert access_patterns.open_fds() <= fds + 2
    assert access_patterns.threads() <= threads
    assert devices[0].statistics().surfaces == open_surfaces


def test_a_queue_that_is_forgotten_warns_and_its_surfaces_go(vks_device: vks.Device) -> None:
    before = vks_device.statistics().surfaces
    with pytest.warns(ResourceWarning, match="SurfaceQueue"):
        vks.SurfaceQueue(vks_device, 8, 8)
    assert vks_device.statistics().surfaces == before


def test_everything_says_what_it_is(loop: Loop) -> None:
    send(loop, 1)
    assert repr(loop.clone) == "<vkshare.SurfaceQueue of 3 surfaces, metadata up to 64 bytes>"
    assert repr(loop.seen) == "<vkshare.Consumer of 3 surfaces, 1 to be dequeued>"
    reported = loop.clone.statistics()
    assert (reported.enqueued, reported.committed, reported.dequeued) == (1, 1, 0)
    assert reported.producer_pid == reported.consumer_pid != 0
    for thing in (loop.clone, loop.seen, loop.out):
        with pytest.raises(TypeError, match="export"):
            thing.__reduce_ex__(4)
    loop.close()
    assert "closed" in repr(loop.clone)
    assert "closed" in repr(loop.out)
    with pytest.raises(ClosedError):
        loop.clone.open_producer(loop.seen.device)
    with pytest.raises(ClosedError):
        loop.clone.export()
    assert lib.VKS_MAX_QUEUE_SURFACES == 64
