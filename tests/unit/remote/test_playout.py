"""When the pictures of a window are shown at the viewer, by a clock of the test. Rule M7."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.remote.playout import MOST_DELAY, Playout

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("M7")]

INTERVAL = 1 / 60
AWAY = 1000.0  # seconds by which the clocks of host and viewer differ


@dataclass
class Copy:
    """A picture by its number."""

    number: int
    is_ready: bool = True


def shown(ways: list[float], most: float = MOST_DELAY, stamps: list[float] | None = None) -> list[tuple[float, int]]:
    """The times and the numbers of what is shown, where each picture takes a way, and none overtakes the one before.

    Times are the host's. The viewer looks when one arrives or is due.
    """
    playout: Playout[Copy] = Playout(most)
    stamps = stamps if stamps is not None else [number * INTERVAL for number in range(len(ways))]
    arrivals = list(itertools.accumulate((stamp + way for stamp, way in zip(stamps, ways, strict=True)), max))
    found, now, number = [], 0.0, 0
    while number < len(ways) or len(playout):
        arrival = arrivals[number] if number < len(ways) else math.inf
        now = max(now, min(arrival, playout.next_due() - AWAY + 1e-9))
        while number < len(ways) and arrivals[number] <= now:
            playout.add(Copy(number), stamps[number])
            number += 1
        picture, _ = playout.take(now + AWAY)
        if picture is not None:
            found.append((now, picture.number))
    return found


def lossy(seed: int, count: int, losses: float = 0.02, round_trip: float = 0.2) -> list[float]:
    """Ways on a link on which some pictures need a round trip more, and later ones wait for them."""
    rng = random.Random(seed)
    return [round_trip / 2 + (round_trip if rng.random() < losses else 0.0) for _ in range(count)]


def test_pictures_that_arrive_steadily_are_shown_as_they_arrive() -> None:
    assert [at for at, _ in shown([0.1] * 100)] == pytest.approx([number * INTERVAL + 0.1 for number in range(100)])


def test_bursts_after_losses_are_shown_one_by_one_at_the_pace_of_the_presents() -> None:
    count = 3600
    for seed in range(5):
        found = [each for each in shown(lossy(seed, count)) if each[0] > 10]
        assert len(found) >= 0.99 * (found[-1][1] - found[0][1])
        steps = sorted(after[0] - before[0] for before, after in itertools.pairwise(found))
        assert steps[len(steps) // 100] > 0.8 * INTERVAL
        assert steps[-len(steps) // 100] < 1.2 * INTERVAL
        assert len(shown(lossy(seed, count), most=0)) < 0.85 * count  # bursts are dropped otherwise


def test_one_late_burst_delays_no_later_picture() -> None:
    ways = [0.1] * 300
    ways[100] = 0.3
    found = {number: at for at, number in shown(ways)}
    for number in range(150, 300):
        assert found[number] == pytest.approx(number * INTERVAL + 0.1)


def test_the_delay_ends_after_the_losses_do() -> None:
    found = shown([*lossy(1, 600, losses=0.05), *[0.1] * 1200])
    at, number = found[-1]
    assert at == pytest.approx(number * INTERVAL + 0.1, abs=1e-3)
    assert len(found) > 0.9 * 1800  # it shrinks slowly


def test_a_picture_after_a_pause_is_shown_at_once() -> None:
    playout: Playout[Copy] = Playout()
    for number, way in enumerate(lossy(1, 600, losses=0.1)):
        playout.add(Copy(number), number * INTERVAL)
        playout.take(number * INTERVAL + way)
    assert playout.delay.seconds > 0.15
    playout.add(Copy(1000), 600 * INTERVAL + 0.2)
    picture, older = playout.take(600 * INTERVAL + 0.3)
    assert picture == Copy(1000)
    assert all(each.number < 600 for each in older)


def test_a_picture_that_waits_for_another_program_is_shown_once_it_is_ready() -> None:
    playout: Playout[Copy] = Playout()
    first, second = Copy(0, is_ready=False), Copy(1)
    playout.add(first, 0.0)
    assert playout.take(1.0) == (None, [])
    assert playout.has_unready
    assert playout.next_due() == math.inf
    first.is_ready = True
    assert playout.take(2.0) == (first, [])
    playout.add(second, 1.0)
    assert playout.take(3.0) == (second, [])


def test_without_memory_for_more_the_delay_is_what_there_is_memory_for() -> None:
    playout: Playout[Copy] = Playout()
    room, dropped, taken = 5, 0, 0
    ways = lossy(3, 3600, losses=0.05)
    arrivals = list(itertools.accumulate((number * INTERVAL + way for number, way in enumerate(ways)), max))
    now, number = 0.0, 0
    while number < len(ways):
        now = min(arrivals[number], max(now, playout.next_due() + 1e-9))
        while number < len(ways) and arrivals[number] <= now:
            if len(playout) == room:
                playout.drop_oldest()
                dropped += 1
            playout.add(Copy(number), number * INTERVAL)
            number += 1
        taken += playout.take(now)[0] is not None
        assert len(playout) <= room
    assert playout.delay.seconds <= (room + 1) * INTERVAL + 0.1
    assert taken > 0.5 * len(ways)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 5)), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.1, MOST_DELAY]),
)
def test_no_picture_waits_longer_than_the_most_whatever_the_host_stamps(
    presents: list[tuple[float, float]], most: float
) -> None:
    playout: Playout[Copy] = Playout(most)
    now, ready_at = 0.0, {}
    for number, (stamp, pause) in enumerate(presents):
        now += pause
        playout.add(Copy(number), stamp)
        ready_at[number] = now
        last = -1
        while (picture := playout.take(now)[0]) is not None:
            assert picture.number > last
            last = picture.number
        for each in playout.pictures:
            assert now - ready_at[each.number] <= most + 1e-6
        due = playout.next_due()
        if due < math.inf:
            assert due <= now + most + 1e-6
        pending = playout.pictures
        if pending:  # the viewer's next look is when the first one is due
            now = max(now, due)
