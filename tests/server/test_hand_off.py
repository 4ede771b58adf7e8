"""Commands on their way to a rendering thread and back: one structure, one semaphore, one eventfd. Rules R2, R3, R6."""

from __future__ import annotations

import gc
import os
import select
import threading
import weakref

import pytest
from support.processes import in_child
from support.run_volumes import rounds

from vkshare import _native
from vkshare.errors import ClosedError, InvalidCallError, VkshareError


class Thing:
    """What can be watched going."""


def readable(event_queue: _native.EventQueue, seconds: float = 0.0) -> bool:
    return bool(select.select([event_queue.fileno()], [], [], seconds)[0])


@pytest.mark.rule("R2")
def test_commands_come_back_with_their_results_in_the_order_in_which_they_were_given() -> None:
    event_queue = _native.EventQueue()
    hand_off = _native.WorkRing(event_queue, 77)
    for n in range(3):
        hand_off.give(n)
    assert hand_off.collect() is None
    for n in range(3):
        assert hand_off.take() == n
        hand_off.done(-n)
    assert [token for token, _ in event_queue.drain()] == [77, 77, 77]
    assert [hand_off.collect() for _ in range(4)] == [(0, 0), (1, -1), (2, -2), None]


@pytest.mark.rule("R6")
def test_no_more_are_out_than_there_is_room_for() -> None:
    event_queue = _native.EventQueue()
    hand_off = _native.WorkRing(event_queue, 1)
    for n in range(66):
        hand_off.give(n)
    with pytest.raises(VkshareError, match="66 commands are out"):
        hand_off.give(66)
    hand_off.done(hand_off.take())
    with pytest.raises(VkshareError):
        hand_off.give(66)  # done, and not collected
    hand_off.collect()
    hand_off.give(66)


@pytest.mark.rule("R2", "R3")
def test_a_thread_sleeps_until_it_is_given_something_and_its_completion_is_an_eventfd() -> None:
    event_queue = _native.EventQueue()
    hand_off = _native.WorkRing(event_queue, 5)

    def render() -> None:
        while (request := hand_off.take()) is not None:
            hand_off.done(request + 1)
        hand_off.leave()

    thread = threading.Thread(target=render, daemon=True)  # if it is not woken, this test fails and does not hang
    thread.start()
    given = 0
    for n in range(rounds(100_000, 3000)):
        for _ in range(n % 7):
            hand_off.give(given)
            given += 1
        collected = 0
        while collected < n % 7:
            assert readable(event_queue, 20)
            event_queue.drain()
            while (done := hand_off.collect()) is not None:
                assert done[1] == done[0] + 1
                collected += 1
    assert not readable(event_queue)
    assert not hand_off.has_left
    hand_off.close()
    thread.join(20)
    assert readable(event_queue)
    assert hand_off.has_left


def test_a_closed_hand_off_takes_no_more_and_drops_what_nobody_took() -> None:
    event_queue = _native.EventQueue()
    hand_off = _native.WorkRing(event_queue, 1)
    things = [Thing() for _ in range(3)]
    watched = [weakref.ref(thing) for thing in things]
    for thing in things:
        hand_off.give(thing)
    hand_off.done(hand_off.take())
    hand_off.close()
    hand_off.close()
    assert hand_off.take() is None
    with pytest.raises(ClosedError):
        hand_off.give(1)
    assert hand_off.drop() is None  # one is done: collect it first
    done = hand_off.collect()
    assert done == (things[0], things[0])
    assert hand_off.drop() is things[1]
    del things, thing, done
    hand_off = None  # type: ignore[assignment]
    gc.collect()
    assert [ref() for ref in watched] == [None] * 3


def test_it_is_not_used_twice_nor_after_fork_nor_before_init() -> None:
    event_queue = _native.EventQueue()
    hand_off = _native.WorkRing(event_queue, 1)
    with pytest.raises(InvalidCallError, match="ran already"):
        hand_off.__init__(event_queue, 1)  # type: ignore[misc]
    with pytest.raises(InvalidCallError):
        _native.WorkRing.__new__(_native.WorkRing).collect()
    with pytest.raises(TypeError, match="hub"):
        _native.WorkRing(object(), 1)  # type: ignore[arg-type]

    def in_it() -> None:
        with pytest.raises(InvalidCallError):
            hand_off.give(1)
        with pytest.raises(InvalidCallError):
            hand_off.take()

    in_child(in_it)


@pytest.mark.rule("R3")
def test_a_completion_wakes_a_loop_that_sleeps() -> None:
    """That it is woken at all, and by nothing else: the bound of 300 us is measured where it is quiet."""
    event_queue = _native.EventQueue()
    hand_off = _native.WorkRing(event_queue, 9)
    front = _native.ServerPoll()
    front.add(event_queue.fileno(), 4, 1)
    threading.Timer(0.05, lambda: hand_off.done(None)).start()
    hand_off.give("request")
    assert front.wait(20) == [(4, 1, ())]
    assert hand_off.collect() == ("request", None)
    assert os.read(event_queue.fileno(), 8)
