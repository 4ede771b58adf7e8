"""Commands on their way to a rendering thread and back: one structure, one semaphore, one eventfd. Rules R2, R3, R6."""

from __future__ import annotations

import gc
import os
import select
import threading
import weakref

import pytest
from support.child_processes import in_child
from support.run_volumes import rounds

from vkshare.errors import ClosedError, InvalidCallError, VkshareError
from vkshare.server.server_poll import ServerPoll
from vkshare.server.work_ring import WorkRing
from vkshare.util.event_queue import EventQueue

pytestmark = pytest.mark.no_driver


class Thing:
    """An object whose deletion can be observed."""


def readable(event_queue: EventQueue, seconds: float = 0.0) -> bool:
    return bool(select.select([event_queue.fileno()], [], [], seconds)[0])


@pytest.mark.rule("R2")
def test_commands_come_back_with_their_results_in_the_order_in_which_they_were_given() -> None:
    event_queue = EventQueue()
    work_ring = WorkRing(event_queue, 77)
    for n in range(3):
        work_ring.give(n)
    assert work_ring.collect() is None
    for n in range(3):
        assert work_ring.take() == n
        work_ring.done(-n)
    assert [token for token, _ in event_queue.drain()] == [77, 77, 77]
    assert [work_ring.collect() for _ in range(4)] == [(0, 0), (1, -1), (2, -2), None]


@pytest.mark.rule("R6")
def test_the_number_of_items_in_flight_is_bounded() -> None:
    event_queue = EventQueue()
    work_ring = WorkRing(event_queue, 1)
    for n in range(66):
        work_ring.give(n)
    with pytest.raises(VkshareError, match="the work ring holds 66 commands already"):
        work_ring.give(66)
    work_ring.done(work_ring.take())
    with pytest.raises(VkshareError):
        work_ring.give(66)  # done, and not collected
    work_ring.collect()
    work_ring.give(66)


@pytest.mark.rule("R2", "R3")
def test_a_thread_sleeps_until_it_is_given_something_and_its_completion_is_an_eventfd() -> None:
    event_queue = EventQueue()
    work_ring = WorkRing(event_queue, 5)

    def render() -> None:
        while (request := work_ring.take()) is not None:
            work_ring.done(request + 1)
        work_ring.leave()

    thread = threading.Thread(target=render, daemon=True)  # if it is not woken, this test fails and does not hang
    thread.start()
    given = 0
    for n in range(rounds(100_000, 3000)):
        for _ in range(n % 7):
            work_ring.give(given)
            given += 1
        collected = 0
        while collected < n % 7:
            assert readable(event_queue, 20)
            event_queue.drain()
            while (done := work_ring.collect()) is not None:
                assert done[1] == done[0] + 1
                collected += 1
    assert not readable(event_queue)
    assert not work_ring.has_left
    work_ring.close()
    thread.join(20)
    assert readable(event_queue)
    assert work_ring.has_left


def test_a_closed_ring_accepts_no_more_and_drops_untaken_items() -> None:
    event_queue = EventQueue()
    work_ring = WorkRing(event_queue, 1)
    things = [Thing() for _ in range(3)]
    watched = [weakref.ref(thing) for thing in things]
    for thing in things:
        work_ring.give(thing)
    work_ring.done(work_ring.take())
    work_ring.close()
    work_ring.close()
    assert work_ring.take() is None
    with pytest.raises(ClosedError):
        work_ring.give(1)
    assert work_ring.drop() is None  # one is done: collect it first
    done = work_ring.collect()
    assert done == (things[0], things[0])
    assert work_ring.drop() is things[1]
    del things, thing, done
    work_ring = None  # type: ignore[assignment]
    gc.collect()
    assert [ref() for ref in watched] == [None] * 3


def test_it_is_not_used_twice_nor_after_fork_nor_before_init() -> None:
    event_queue = EventQueue()
    work_ring = WorkRing(event_queue, 1)
    with pytest.raises(InvalidCallError, match="ran already"):
        work_ring.__init__(event_queue, 1)  # type: ignore[misc]
    with pytest.raises(InvalidCallError):
        WorkRing.__new__(WorkRing).collect()
    with pytest.raises(TypeError, match="event_queue"):
        WorkRing(object(), 1)  # type: ignore[arg-type]

    def in_it() -> None:
        with pytest.raises(InvalidCallError):
            work_ring.give(1)
        with pytest.raises(InvalidCallError):
            work_ring.take()

    in_child(in_it)


@pytest.mark.rule("R3")
def test_a_completion_wakes_a_loop_that_sleeps() -> None:
    """The completion alone wakes the loop; the bound of 300 us is measured on an idle machine."""
    event_queue = EventQueue()
    work_ring = WorkRing(event_queue, 9)
    front = ServerPoll()
    front.add(event_queue.fileno(), 4, 1)
    threading.Timer(0.05, lambda: work_ring.done(work_ring.take() and None)).start()
    work_ring.give("request")
    assert front.wait(20) == [(4, 1, ())]
    assert work_ring.collect() == ("request", None)
    assert os.read(event_queue.fileno(), 8)
