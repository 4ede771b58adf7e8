"""The frames that a recording takes, their times, and the counts of the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vkshare.view.frame_selection import SECOND, FrameSelection

TIMES = st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=40)


@given(TIMES, st.lists(st.booleans(), min_size=40, max_size=40))
def test_each_frame_is_chosen_skipped_or_dropped_and_no_time_goes_back(times: list[int], rooms: list[bool]) -> None:
    selection = FrameSelection(rate=10)
    chosen = [selection.offer(at, has_room=room) for at, room in zip(times, rooms, strict=False)]
    taken = [each for each in chosen if each is not None]
    assert selection.chosen == len(taken)
    assert selection.chosen + selection.skipped + selection.dropped == len(times)
    assert [each.number for each in taken] == list(range(len(taken)))
    assert [each.time_ns for each in taken] == sorted(each.time_ns for each in taken)
    assert selection.end_ns(times[-1]) >= (taken[-1].time_ns if taken else 0)


@given(st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=200), st.integers(1, 100))
def test_a_rate_is_never_exceeded_by_more_than_one_frame(times: list[int], rate: int) -> None:
    selection = FrameSelection(rate=rate)
    times.sort()
    taken = [each.time_ns for at in times if (each := selection.offer(at)) is not None]
    interval = round(SECOND / rate)
    slots = [at // interval for at in taken]
    assert slots == sorted(set(slots))  # at most one in each interval


def test_a_late_frame_does_not_put_off_those_after_it() -> None:
    selection = FrameSelection(rate=10)
    tenth = SECOND // 10
    at = [0, tenth + tenth // 2, 2 * tenth, 3 * tenth - 1, 3 * tenth]
    assert [selection.offer(each) is not None for each in at] == [True, True, True, False, True]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30))
def test_missing_frames_are_the_gaps_in_the_numbers(steps: list[int]) -> None:
    selection, serial = FrameSelection(), 10
    selection.offer(0, serial)
    for step in steps:
        serial += step
        selection.offer(0, serial, has_room=False)
    assert selection.missing == sum(step - 1 for step in steps)
    selection.offer(0, 1)  # another watch begins anew
    assert selection.missing == sum(step - 1 for step in steps)


def test_seconds_count_from_the_first_frame_and_frames_end_it() -> None:
    selection = FrameSelection(seconds=1.0)
    assert not selection.is_late(100 * SECOND)
    assert selection.offer(100 * SECOND) is not None
    assert selection.offer(101 * SECOND - 1) is not None
    assert selection.offer(101 * SECOND) is None
    assert selection.is_over
    assert not selection.is_full
    assert selection.end_ns(200 * SECOND) == SECOND
    short = FrameSelection(frames=2)
    assert [short.offer(at) is None for at in (5, 6, 7)] == [False, False, True]
    assert short.is_full
    assert short.is_over
