"""Which frame each tick shows, by a clock of the test's own. Rule Y6."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from vkshare.video.pacing import Pacing

pytestmark = pytest.mark.rule("Y6")

SECOND = 1_000_000_000


def played(
    frame_rate: Fraction, display_rate: Fraction, ticks: int, *, ready: dict[int, int] | None = None, phase: int = 0
) -> tuple[list[int], Pacing]:
    """The number of the frame at each tick. `ready`: ticks before which frames are not decoded."""
    pacing, shown, current, following = Pacing(), [], -1, 0
    interval = round(SECOND / display_rate)
    for number in range(ticks):
        output = phase + round(number * SECOND / display_rate)
        due = -1
        while (ready or {}).get(following, 0) <= number and pacing.takes(following / frame_rate, output, interval):
            if due >= 0:
                pacing.drop()
            due, following = following, following + 1
        if due >= 0:
            pacing.show(due / frame_rate, output, interval)
            current = due
        shown.append(current)
    return shown, pacing


@pytest.mark.parametrize(
    ("frames", "display", "pattern"),
    [
        (60, 60, [0, 1, 2, 3, 4, 5]),
        (30, 60, [0, 0, 1, 1, 2, 2]),
        (24, 60, [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]),
        (25, 50, [0, 0, 1, 1]),
        (60, 30, [0, 2, 4, 6]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_each_frame_is_shown_at_the_tick_nearest_its_time(frames: int, display: int, pattern: list[int]) -> None:
    shown, pacing = played(Fraction(frames), Fraction(display), len(pattern))
    assert len(shown) == len(pattern)
    for number, frame in enumerate(shown):
        time = Fraction(number, display)
        assert abs(Fraction(frame, frames) - time) <= max(Fraction(1, 2 * display), Fraction(1, frames))
    assert pacing.late == 0
    if frames <= display:
        assert pacing.dropped == 0
        assert sorted(set(shown)) == list(range(max(shown) + 1))


def test_three_two_pulldown_alternates() -> None:
    shown, pacing = played(Fraction(24), Fraction(60), 120)
    lengths = [shown.count(frame) for frame in range(47)]
    assert set(lengths) == {2, 3}
    assert all(a != b for a, b in itertools.pairwise(lengths[1:]))
    assert (pacing.late, pacing.dropped) == (0, 0)


def test_a_faster_video_than_the_display_drops_every_second_frame() -> None:
    shown, pacing = played(Fraction(120), Fraction(60), 61)
    assert shown == list(range(0, 122, 2))
    assert (pacing.shown, pacing.dropped, pacing.late) == (61, 60, 0)


def test_a_frame_that_is_decoded_late_is_shown_late_and_the_time_stays() -> None:
    shown, pacing = played(Fraction(30), Fraction(60), 20, ready={3: 7})
    assert shown[6:10] == [2, 3, 4, 4]
    assert (pacing.late, pacing.dropped) == (1, 0)


def test_frames_whose_time_is_over_are_dropped() -> None:
    shown, pacing = played(Fraction(30), Fraction(60), 20, ready={3: 12})
    assert shown[11:14] == [2, 6, 6]
    assert (pacing.late, pacing.dropped) == (0, 3)


def test_rounding_does_not_drift_in_an_hour() -> None:
    frame_rate, display = Fraction(24000, 1001), Fraction(60000, 1001)
    pacing, interval = Pacing(), round(SECOND / display)
    assert pacing.takes(Fraction(0), 0, interval)
    number = int(3600 * display) // 5 * 5  # a multiple of five ticks: two frames
    output, frame = round(number * SECOND / display), number * 2 // 5
    assert pacing.takes(frame / frame_rate, output, interval)
    assert not pacing.takes((frame + 1) / frame_rate, output, interval)


def test_a_pause_moves_the_times_of_what_follows() -> None:
    pacing, interval = Pacing(), SECOND // 60
    assert pacing.takes(Fraction(0), 1000, interval)
    pacing.pause(1000)
    pacing.pause(2000)  # a second one has no effect
    assert pacing.is_paused
    assert not pacing.takes(Fraction(1, 60), 10 * SECOND, interval)
    pacing.resume(10 * SECOND)
    assert not pacing.takes(Fraction(1, 60), 10 * SECOND, interval)
    assert pacing.takes(Fraction(1, 60), 10 * SECOND + interval, interval)
    assert not pacing.is_paused


def test_after_a_restart_the_next_frame_is_on_time_whenever_it_comes() -> None:
    pacing, interval = Pacing(), SECOND // 60
    assert pacing.takes(Fraction(0), 0, interval)
    pacing.restart()
    assert pacing.takes(Fraction(500), 7 * SECOND, interval)
    pacing.show(Fraction(500), 7 * SECOND, interval)
    assert pacing.late == 0
    assert not pacing.takes(Fraction(501), 7 * SECOND + interval, interval)
