"""Feed: the newest frame of a receiver, for consumers that may be slow or absent (rule W4)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.core import watching
from vkshare.errors import AcquireTimeout, ClosedError, UnsupportedError
from vkshare.view.feed import Feed

pytestmark = pytest.mark.no_driver
HANG = 30.0


def wait_until(is_true: Callable[[], bool]) -> None:
    limit = time.monotonic() + HANG
    while not is_true():
        assert time.monotonic() < limit, "it does not come"
        time.sleep(0.002)


class Fed:
    """A pipe, and a feed of it."""

    def __init__(self, device: vks.Device, ending: contextlib.ExitStack, count: int = 3) -> None:
        self.sender, descriptor = vks.pipe(device, 8, 4, count=count)
        ending.enter_context(self.sender)
        with descriptor:
            receiver = ending.enter_context(vks.open_receiver(device, descriptor))
        self.feed = ending.enter_context(Feed(receiver))

    def send(self, value: int) -> None:
        with self.sender.frame(timeout=HANG) as frame:
            frame.surface.write(np.full((4, 8, 4), value, np.uint8))


@pytest.fixture
def ending() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(params=[1, 3])
def fed(device: vks.Device, ending: contextlib.ExitStack, request: Any) -> Fed:
    return Fed(device, ending, request.param)


def test_a_subscription_gets_the_newest_picture_once(fed: Fed) -> None:
    with fed.feed.subscribe() as subscription:
        with pytest.raises(AcquireTimeout):
            subscription.take(0)
        for value in (1, 2):
            fed.send(value)
            picture = subscription.take(HANG)
            assert (picture.array == value).all()
            assert (picture.width, picture.height, picture.format) == (8, 4, "rgba8unorm")
            assert abs(time.monotonic_ns() - picture.time_ns) < 60e9
        with pytest.raises(AcquireTimeout):
            subscription.take(0)
    with pytest.raises(ClosedError):
        subscription.take(0)


@pytest.mark.rule("W4")
def test_a_sender_never_waits_for_a_feed_that_rests(fed: Fed) -> None:
    for value in range(20):
        fed.send(value)
    with fed.feed.subscribe() as subscription:
        wait_until(lambda: bool((subscription.take(HANG).array == 19).all()))
        subscription.wants = False
        for value in range(20, 40):
            fed.send(value)
        subscription.wants = True
        wait_until(lambda: bool((subscription.take(HANG).array == 39).all()))


def test_a_feed_that_rests_reads_nothing(device: vks.Device, ending: contextlib.ExitStack) -> None:
    fed = Fed(device, ending)
    for value in range(20):
        fed.send(value)
    assert fed.feed.taken == 0
    with fed.feed.subscribe() as subscription:
        assert (subscription.take(HANG).array == 19).all()
    assert fed.feed.taken == 1


@pytest.mark.rule("W4")
def test_a_watched_source_makes_no_copies_while_the_feed_rests(
    device: vks.Device, ending: contextlib.ExitStack
) -> None:
    with device.create_surface(8, 4) as surface, watching.watch(surface, device) as receiver, Feed(receiver) as feed:
        for value in range(10):
            with surface.access():
                surface.write(np.full((4, 8, 4), value, np.uint8))
        assert receiver.statistics().committed <= 4  # one is held, and the pipe is full
        with feed.subscribe() as subscription:
            wait_until(lambda: bool((subscription.take(HANG).array == 9).all()))


def test_the_last_picture_comes_before_the_end(fed: Fed) -> None:
    fed.send(5)
    fed.sender.close()
    wait_until(lambda: fed.feed.end is not None)
    assert fed.feed.end == "its sender has closed"
    with fed.feed.subscribe() as subscription:
        assert (subscription.take(HANG).array == 5).all()
        with pytest.raises(ClosedError, match="its sender has closed"):
            subscription.take(HANG)


def test_a_callback_tells_of_pictures_and_of_the_end(fed: Fed) -> None:
    told = threading.Semaphore(0)
    with fed.feed.subscribe(told.release) as subscription:
        fed.send(1)
        assert told.acquire(timeout=HANG)
        assert (subscription.take(0).array == 1).all()
        fed.sender.close()
        assert told.acquire(timeout=HANG)
        assert fed.feed.end is not None


def test_subscribers_share_a_picture_and_the_close_of_one_ends_no_other(fed: Fed) -> None:
    first, second = fed.feed.subscribe(), fed.feed.subscribe()
    fed.send(1)
    assert first.take(HANG) is second.take(HANG)
    first.close()
    fed.send(2)
    assert (second.take(HANG).array == 2).all()
    second.close()


def test_a_closed_feed_ends_waits_and_leaves_the_receiver_open(device: vks.Device, ending: Any) -> None:
    fed = Fed(device, ending)
    subscription = fed.feed.subscribe()
    ends: list[BaseException] = []

    def wait() -> None:
        try:
            subscription.take()
        except ClosedError as error:
            ends.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    fed.feed.close()
    fed.feed.close()
    waiting.join(HANG)
    assert len(ends) == 1
    assert not fed.feed._receiver.is_closed
    with pytest.raises(ClosedError):
        fed.feed.subscribe()
    with Feed(fed.feed._receiver) as again, again.subscribe() as later:
        fed.send(3)
        assert (later.take(HANG).array == 3).all()
    assert "closed" in repr(again)


def test_a_pipe_of_buffers_is_refused(device: vks.Device) -> None:
    sender, descriptor = vks.buffer_pipe(device, 64)
    with sender, descriptor, vks.open_receiver(device, descriptor) as receiver, pytest.raises(UnsupportedError):
        Feed(receiver)


def test_regions_are_converted_alone(device: vks.Device, ending: contextlib.ExitStack) -> None:
    sender, descriptor = vks.pipe(device, 8, 4, "bgra8unorm")
    with sender, descriptor, vks.open_receiver(device, descriptor) as receiver, Feed(receiver) as feed:
        pixels = np.arange(8 * 4 * 4, dtype=np.uint8).reshape(4, 8, 4)
        with feed.subscribe() as subscription:
            with sender.frame(timeout=HANG) as frame:
                frame.surface.write(pixels)
            picture = subscription.take(HANG)
        assert np.array_equal(picture.rgba8, pixels[..., [2, 1, 0, 3]])
        assert np.array_equal(picture.region(2, 1, 5, 3), picture.rgba8[1:4, 2:7])
