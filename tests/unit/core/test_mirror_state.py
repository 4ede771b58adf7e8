"""The versions of a mirror's two images, without images (rule G2)."""

from __future__ import annotations

import pytest

from vkshare.core.mirror_state import EMPTY, Box, MirrorState, Turn

WHOLE, PART, OTHER = Box(0, 0, 16, 8), Box(1, 2, 3, 4), Box(8, 1, 2, 2)

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("G2")]


def turn(state: MirrorState, epoch: int | None, changed: Box | None, *, writes: bool = False) -> tuple[Box, Box]:
    """A whole turn; returns what was copied from the home image, and to it."""
    pulled = state.begin(None if epoch is None else Turn(epoch, changed))
    state.pulled()
    pushed = state.end(is_written=writes, damage=None)
    state.released()
    return pulled, pushed


def test_the_first_turn_copies_everything_whatever_the_page_says() -> None:
    assert turn(MirrorState(WHOLE), 7, PART) == (WHOLE, EMPTY)


def test_a_turn_that_follows_the_mirrors_own_copies_nothing() -> None:
    state = MirrorState(WHOLE)
    turn(state, 7, None, writes=True)
    assert state.seen == 8
    assert turn(state, 8, WHOLE) == (EMPTY, EMPTY)


def test_a_turn_copies_what_others_changed_and_all_where_that_is_not_known() -> None:
    state = MirrorState(WHOLE)
    turn(state, 7, None)
    assert turn(state, 9, PART) == (PART, EMPTY)
    assert turn(state, 11, None) == (WHOLE, EMPTY)


def test_only_a_turn_that_wrote_is_copied_back_and_damage_narrows_it() -> None:
    state = MirrorState(WHOLE)
    assert turn(state, 1, None, writes=True) == (WHOLE, WHOLE)
    state.begin(Turn(2, EMPTY))
    assert state.end(is_written=True, damage=OTHER) == OTHER
    assert state.end(is_written=False, damage=OTHER) == EMPTY


def test_a_turn_that_begins_later_copies_everything_and_so_does_the_next() -> None:
    state = MirrorState(WHOLE)
    turn(state, 1, None)
    assert turn(state, None, None) == (WHOLE, EMPTY)
    assert state.seen == 0
    assert turn(state, 5, PART) == (WHOLE, EMPTY)


def test_a_copy_that_failed_and_a_recovery_leave_no_version() -> None:
    state = MirrorState(WHOLE)
    turn(state, 1, None)
    state.begin(Turn(3, PART))  # and the copy fails: pulled() is not called
    state.forget()
    assert turn(state, 3, EMPTY) == (WHOLE, EMPTY)


@pytest.mark.parametrize(
    ("boxes", "around"),
    [
        ([], EMPTY),
        ([Box(3, 3, 0, 5)], EMPTY),
        ([PART], PART),
        ([PART, OTHER, Box(50, 50, 0, 0)], Box(1, 1, 9, 5)),
    ],
)
def test_the_least_box_around_others_ignores_empty_ones(boxes: list[Box], around: Box) -> None:
    assert Box.around(boxes) == around
