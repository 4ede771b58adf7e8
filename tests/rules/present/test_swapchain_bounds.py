"""What a swapchain may hold on to: replaced swapchains, semaphores, fences and memory stay few however long it runs."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable

import pytest
from support import access_patterns
from support.headless_swapchains import clearing, create, expected, is_ring, show, take_all
from support.run_volumes import SOAK, rounds, seeded, unhurried

import vkshare as vks
from vkshare.testing import assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    unhurried,
]

Create = Callable[..., vks.Swapchain]


@pytest.fixture(params=[True, False], ids=["by_fences", "by_acquires"])
def make(request: pytest.FixtureRequest, vks_device: vks.Device) -> Create:
    """Creates a swapchain by one of the two policies; present fences are skipped where the driver has none."""
    return lambda *size, **options: create(vks_device, *size, fences=request.param, **options)


def assert_bounded(swapchain: vks.Swapchain) -> None:
    s = swapchain.statistics()
    assert s.most_alive <= s.retired_limit + 1
    assert s.swapchains <= s.retired_limit + 1
    assert s.retired <= s.retired_limit
    assert s.quarantined == 0


@pytest.mark.rule("A6", "A4", "A5")
@pytest.mark.parametrize("limit", [1, 4])
@pytest.mark.parametrize("way", ["presented", "sometimes presented", "never presented", "acquired and dropped"])
def test_swapchains_that_are_alive_stay_bounded_however_often_it_is_resized(make: Create, way: str, limit: int) -> None:
    dice = seeded()
    turns = rounds(10_000, 300 if way == "presented" else 120)
    with make(8, 8, retired_limit=limit) as swapchain:

        def resize(turn: int) -> None:
            swapchain.resize(1 + turn % 61, 1 + turn % 37)
            frame = swapchain.acquire(30)
            if way == "presented" or (way == "sometimes presented" and dice.random() < 0.4):
                if dice.random() < 0.8:
                    swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
                swapchain.present(frame)
            elif way == "acquired and dropped":
                frame.close()

        for turn in range(100):
            resize(turn)
        gc.collect()
        before = access_patterns.resident_kib()
        for turn in range(turns):
            resize(turn)
        assert_bounded(swapchain)
        gc.collect()
        assert access_patterns.resident_kib() - before < (0.02 * before if SOAK else 16_000)
        assert swapchain.statistics().recreated == turns + 100
        assert swapchain.statistics().semaphores <= 8 * swapchain.image_count + 8
        show(swapchain, clearing(1, 2, 3))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(1, 2, 3)))
        assert_bounded(swapchain)
    assert swapchain.statistics().swapchains == 0


@pytest.mark.rule("A6")
def test_a_swapchain_that_is_over_goes_before_the_next_one_is_made(vks_device: vks.Device) -> None:
    with create(vks_device, 8, 8, fences=True) as swapchain:
        for turn in range(3):
            swapchain.resize(10 + turn, 9)
            show(swapchain, clearing(1, 2, 3))
            time.sleep(0.02)  # for the present's fence
        assert swapchain.statistics().recreated == 3
        assert swapchain.statistics().most_alive == 1


@pytest.mark.rule("A6")
def test_resizes_without_an_acquire_in_between_make_nothing(make: Create) -> None:
    with make(8, 8) as swapchain:
        for turn in range(1000):
            swapchain.resize(1 + turn % 60, 9)
        assert swapchain.statistics().recreated == 0
        assert swapchain.statistics().swapchains == 1


@pytest.mark.rule("A6", "A20")
def test_frames_out_at_each_resize_leave_nothing(make: Create) -> None:
    with make(8, 8, retired_limit=2) as swapchain:
        semaphores = []
        for turn in range(rounds(5000, 60)):
            frames = take_all(swapchain) if turn % 10 == 0 else [swapchain.acquire(30), swapchain.acquire(30)]
            swapchain.device.submit(swapchain.device.record().clear(frames[0].view, (1, 0, 0, 1)))
            if turn % 3:
                swapchain.present(frames[0])
            swapchain.resize(1 + turn % 30, 5)
            if turn % 2:
                del frames  # before the swapchain is replaced, else after
            show(swapchain, clearing(turn % 256))
            semaphores.append(swapchain.statistics().semaphores)
        assert_bounded(swapchain)
        assert max(semaphores[-20:]) <= max(semaphores[:40]) + 2
        assert max(semaphores) <= 8 * swapchain.image_count + 8


@pytest.mark.rule("A6", "A3", "A1")
def test_semaphores_stay_few_in_thousands_of_frames(make: Create) -> None:
    with make(8, 8) as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
        for _ in range(100):
            swapchain.present_prepared(prepared)
        gc.collect()
        before = access_patterns.resident_kib()
        most = 0
        for turn in range(rounds(100_000, 3000)):
            swapchain.present_prepared(prepared)
            if turn % 100 == 0:
                s = swapchain.statistics()
                most = max(most, s.semaphores)
                assert s.history <= 2 * s.image_count + 2
                assert s.fences <= 3 * s.image_count + 2
        assert most <= 3 * swapchain.image_count + 2
        assert swapchain.statistics().pooled_semaphores <= most
        gc.collect()
        assert access_patterns.resident_kib() - before < 8000
        assert_bounded(swapchain)


@pytest.mark.rule("A2", "A3")
def test_an_image_that_is_presented_once_and_kept_out_does_not_grow_the_pool(make: Create) -> None:
    with make(8, 8, image_count=4) as swapchain:
        for _ in range(2 * swapchain.image_count):
            show(swapchain, clearing(1))
        starved = swapchain.acquire(30)
        swapchain.device.submit(swapchain.device.record().clear(starved.view, (1, 0, 0, 1)))
        for turn in range(rounds(10_000, 1000)):
            show(swapchain, clearing(turn % 256))
            if turn == 100:
                before = swapchain.statistics().semaphores
        s = swapchain.statistics()
        assert s.semaphores <= before + 2
        assert s.semaphores <= 3 * s.image_count + 3
        assert s.history <= 2 * s.image_count + 2
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn % 256)))
        swapchain.present(starved)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))


@pytest.mark.rule("A3", "A6")
def test_a_starved_image_does_not_keep_replaced_swapchains_alive(make: Create) -> None:
    with make(8, 8, image_count=4, retired_limit=2) as swapchain:
        for size in range(1, 20):
            swapchain.resize(size, 8)
            show(swapchain, clearing(size))
            starved = swapchain.acquire(30)
            for turn in range(20):
                show(swapchain, clearing(turn))
            assert_bounded(swapchain)
            starved.close()
        if not is_ring(swapchain):
            assert swapchain.statistics().retired <= 1  # proven by the frames that came after it


@pytest.mark.rule("A13", "A6")
def test_changes_of_the_present_mode_leave_nothing(make: Create) -> None:
    with make(8, 8) as swapchain:
        for turn, mode in zip(range(rounds(5000, 100)), itertools.cycle(["mailbox", "fifo"]), strict=False):
            swapchain.present_mode = mode
            show(swapchain, clearing(turn % 256))
        assert_bounded(swapchain)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn % 256)))
        assert swapchain.statistics().semaphores <= 8 * swapchain.image_count + 8


@pytest.mark.rule("A20")
def test_swapchains_made_and_closed_leave_nothing(vks_device: vks.Device) -> None:
    def turn(number: int) -> None:
        with create(vks_device, 8, 8, fences=None if number % 2 else False, capture=number % 3 == 0) as swapchain:
            for colour in range(number % 4):
                show(swapchain, clearing(colour))
            if number % 5 == 0:
                swapchain.acquire(30)
        assert swapchain.statistics().semaphores == 0

    for number in range(30):
        turn(number)
    gc.collect()
    vks_device.wait_idle()
    vks_device._reap()  # what work, or an array, still had
    before, fds, threads = access_patterns.resident_kib(), access_patterns.open_fds(), access_patterns.threads()
    for number in range(rounds(5000, 45)):
        turn(number)
    gc.collect()
    vks_device.wait_idle()
    vks_device._reap()
    assert (
        access_patterns.open_fds() <= fds + 4
    )  # a driver's own pools grow by some; a leak, by one in five turns at least
    assert access_patterns.threads() <= threads
    assert access_patterns.resident_kib() - before < 12_000
    assert not list(vks_device._swapchains)
