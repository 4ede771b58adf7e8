"""The present history, rule by rule: what happened goes in, decisions come out.

Handles: swapchains from 100 on, semaphores from 1 on, fences from 50 on.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.present_tracker import PresentTracker

from vkshare import errors

pytestmark = pytest.mark.no_driver

NOTHING = ("nothing", 0)


def recycle(*handles: int) -> list[tuple[str, int]]:
    return [("recycle_semaphore", handle) for handle in handles]


def over(semaphore: int, fence: int) -> list[tuple[str, int]]:
    return [("recycle_semaphore", semaphore), ("reset_fence", fence)]


def destroy(*handles: int) -> list[tuple[str, int]]:
    return [("destroy_swapchain", handle) for handle in handles]


def by_acquires(images: int = 3) -> PresentTracker:
    history = PresentTracker("acquires")
    history.swapchain(100, images)
    return history


def frame(history: PresentTracker, image: int, serial: int, semaphore: int) -> None:
    """By acquires: acquired, drawn by the submission `serial`, presented."""
    history.waited(image, serial)
    history.presented(image, [semaphore])


class Fences:
    """What is signalled, and which were looked at."""

    def __init__(self) -> None:
        self.signalled: set[int] = set()
        self.looked_at: list[int] = []

    def __call__(self, fence: int) -> bool:
        self.looked_at.append(fence)
        return fence in self.signalled


@pytest.fixture
def fences() -> Fences:
    return Fences()


def by_fences(deadline: int | None = None) -> PresentTracker:
    history = PresentTracker("fences", fence_deadline=deadline)
    history.swapchain(100, 3)
    return history


# ---- by acquires


@pytest.mark.rule("A1")
def test_a_semaphore_comes_back_when_the_next_acquire_of_its_image_was_waited_for() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    frame(history, 1, 2, 2)
    assert history.collect(1) == [], "the frame's own completion is not enough"
    assert history.collect(2) == [], "nor is another image's"
    assert history.unproven() == ("image", 0)
    frame(history, 0, 3, 3)
    assert history.collect(2) == [], "it was acquired, but nothing that waited for that has run"
    assert history.unproven() == ("serial", 3)
    assert history.collect(3) == recycle(1)


@pytest.mark.rule("A1")
def test_an_image_that_is_presented_twice_without_a_submission_is_proven_once_for_both() -> None:
    history = by_acquires()
    history.presented(0, [1])
    history.presented(0, [2, 3])
    assert history.collect(9) == []
    history.waited(0, 10)
    assert history.collect(10) == recycle(1, 2, 3)


@pytest.mark.rule("A2")
def test_presents_come_back_in_order_whatever_is_proven_first() -> None:
    history = by_acquires()
    for image in range(3):
        frame(history, image, 1 + image, 1 + image)
    frame(history, 2, 4, 4)
    frame(history, 1, 5, 5)
    assert history.collect(5) == []
    frame(history, 0, 6, 6)
    assert history.collect(6) == recycle(1, 2, 3)


@pytest.mark.rule("A3")
@pytest.mark.parametrize("images", [2, 3, 8])
def test_a_starved_image_does_not_grow_the_pool(images: int) -> None:
    history = by_acquires(images)
    frame(history, 0, 1, 1)
    most, recycled = 0, 0
    for serial in range(2, 1002):
        frame(history, 1 + serial % (images - 1), serial, serial)
        recycled += len(history.collect(serial))
        most = max(most, history.statistics()["semaphores"])
    assert most <= 2 * images + 1
    assert recycled >= 1000 - 2 * images
    history.waited(0, 1002)
    history.waited(1, 1002)
    assert ("recycle_semaphore", 1) in history.collect(1002), "it comes at last"


@pytest.mark.rule("A3")
def test_what_a_starved_image_carried_moves_to_the_new_front() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.swapchain(101, 3, last_use=1)
    frame(history, 0, 2, 2)  # carries 100
    for serial in range(3, 8):
        frame(history, 1 + serial % 2, serial, serial)
        assert history.collect(serial) == [], "the front has no proof"
    frame(history, 1, 8, 8)
    assert history.collect(8) == [*recycle(1, 3, 4, 5, 6), *destroy(100)]
    assert history.statistics()["moved"] == 1
    assert history.statistics()["semaphores"] == 3, "the starved one is kept, behind the two that follow"


@pytest.mark.rule("A3")
def test_within_two_rounds_the_front_stays() -> None:
    history = by_acquires(2)
    frame(history, 0, 1, 1)
    for serial in range(2, 5):
        frame(history, 1, serial, serial)
        assert history.collect(serial) == []
    assert history.statistics()["moved"] == 0


@pytest.mark.rule("A4")
def test_a_swapchain_without_presents_goes_at_once_and_older_ones_stay() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.swapchain(101, 3, last_use=1)
    assert history.wanted() == ("present", 0)
    history.waited(0, 2)  # acquired, not presented
    history.swapchain(102, 3, last_use=2)
    assert history.statistics()["retired"] == 2
    assert history.collect(1) == []
    assert history.collect(2) == destroy(101)
    frame(history, 1, 3, 3)
    frame(history, 1, 4, 4)
    assert history.collect(4) == [*recycle(1, 3), *destroy(100)]


@pytest.mark.rule("A5")
def test_what_has_no_proof_rides_on_the_first_present_of_the_next_swapchain() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    frame(history, 1, 2, 2)
    frame(history, 0, 3, 3)  # the proof of the first, which stays in the history
    history.swapchain(101, 3, last_use=3)
    assert history.collect(3) == recycle(1)
    frame(history, 1, 4, 4)
    history.swapchain(102, 3, last_use=4)
    assert history.collect(4) == []
    assert history.statistics()["semaphores"] == 3
    frame(history, 0, 5, 5)
    frame(history, 1, 6, 6)
    assert history.wanted() == ("image", 0)
    frame(history, 1, 7, 7)
    assert history.collect(7) == [], "only the first present carries them"
    frame(history, 0, 8, 8)
    assert history.wanted() == ("serial", 8)
    assert history.collect(8) == [*recycle(2, 3, 4, 5, 6), *destroy(100, 101)]
    assert history.wanted() == NOTHING


@pytest.mark.rule("A5")
def test_a_swapchain_whose_presents_are_all_acquired_again_needs_no_present_of_the_next() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.waited(0, 2)
    history.swapchain(101, 3, last_use=2)
    assert history.wanted() == ("serial", 2)
    assert history.collect(2) == [*recycle(1), *destroy(100)]


@pytest.mark.rule("A5")
def test_a_swapchain_is_not_destroyed_before_its_last_use_has_run() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.swapchain(101, 3, last_use=9)
    frame(history, 0, 2, 2)
    history.waited(0, 3)
    assert history.collect(8) == recycle(1, 2)
    assert history.wanted() == ("serial", 9)
    assert history.collect(9) == destroy(100)


@pytest.mark.rule("A6")
def test_of_ten_thousand_resizes_only_what_has_no_proof_is_kept() -> None:
    history = by_acquires()
    serial = most = 0
    for number in range(10_000):
        for _ in range(number % 3):
            serial += 1
            frame(history, 0, serial, serial)
        history.swapchain(101 + number, 3, last_use=serial)
        history.collect(serial)
        most = max(most, history.statistics()["retired"])
    assert most <= 3


@pytest.mark.rule("A11")
@pytest.mark.parametrize("reported", ["before", "after"])
def test_a_shared_present_is_proven_by_its_own_submission(reported: str) -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.swapchain(101, 1, shared=True, last_use=1)
    for serial in (2, 3, 4):
        if reported == "before":
            history.waited(0, serial)
        history.presented(0, [])
        if reported == "after":
            history.waited(0, serial)
    assert history.collect(1) == []
    assert history.collect(2) == [*recycle(1), *destroy(100)]
    history.swapchain(102, 3, last_use=4)
    assert history.collect(3) == []
    assert history.collect(4) == destroy(101), "no acquire of the next one was needed"
    history.swapchain(103, 1, shared=True)
    with pytest.raises(ValueError, match="waits for no semaphores, here for 1"):
        history.presented(0, [5])


@pytest.mark.rule("A12")
def test_a_failed_creation_retires_the_old_swapchain_which_is_kept_until_it_is_proven() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.swapchain(0, 0, last_use=1)
    history.swapchain(0, 0)
    assert history.collect(9) == []
    assert history.statistics()["retired"] == 1
    assert history.wanted() == ("present", 0)
    with pytest.raises(ValueError, match="no current swapchain"):
        history.presented(0, [2])
    history.swapchain(101, 3)
    frame(history, 2, 10, 2)
    frame(history, 2, 11, 3)
    assert history.collect(11) == [*recycle(1, 2), *destroy(100)]


@pytest.mark.rule("A20")
def test_a_frame_that_is_never_presented_leaves_nothing() -> None:
    history = by_acquires()
    history.waited(0, 1)
    history.semaphore(1, 1)
    assert history.collect(1) == recycle(1)
    assert history.close() == (0, destroy(100))


# ---- by fences


@pytest.mark.rule("A8")
def test_a_present_is_over_when_its_fence_is_signalled_and_the_fence_is_reset(fences: Fences) -> None:
    history = by_fences()
    history.presented(0, [1], 50)
    history.presented(1, [2], 51)
    fences.signalled = {51}
    assert history.collect(9, 0, fences) == []
    assert fences.looked_at == [50], "the front"
    assert history.unproven() == ("fence", 50)
    fences.signalled = {50, 51}
    assert history.collect(9, 0, fences) == [*over(1, 50), *over(2, 51)]
    assert history.unproven() == NOTHING


@pytest.mark.rule("A7", "A8")
def test_of_a_retired_swapchain_only_the_newest_fence_is_looked_at_until_it_is_signalled(fences: Fences) -> None:
    history = by_fences()
    for image in range(3):
        history.presented(image, [1 + image], 50 + image)
    history.swapchain(101, 3, last_use=7)
    fences.signalled = {50, 51}
    for _ in range(10):
        assert history.collect(6, 0, fences) == []
    assert set(fences.looked_at) == {52}
    assert history.wanted() == ("fence", 52)
    fences.signalled = {50, 52}
    assert history.collect(6, 0, fences) == over(3, 52), "51 is not signalled, so it is not reset"
    assert history.wanted() == ("fence", 51)
    fences.signalled = {50, 51}
    assert history.collect(6, 0, fences) == [*over(2, 51), *over(1, 50)]
    assert history.collect(7, 0, fences) == destroy(100)


@pytest.mark.rule("A16")
def test_a_late_fence_quarantines_what_it_guards_and_holds_nobody_else_up(fences: Fences) -> None:
    history = by_fences(deadline=1000)
    history.presented(0, [1], 50, 10)
    history.presented(1, [2], 51, 20)
    fences.signalled = {51}
    assert history.collect(9, 1009, fences) == []
    assert history.statistics()["quarantined"] == 0
    assert history.collect(9, 1010, fences) == over(2, 51)
    assert history.statistics()["quarantined"] == 1
    assert history.unproven() == ("fence", 50)
    history.swapchain(101, 3)
    history.swapchain(102, 3)
    assert history.collect(9, 9999, fences) == destroy(101), "what came later is not held up"
    assert history.statistics() == {
        "presents": 1, "semaphores": 1, "fences": 1, "retired": 1, "quarantined": 1, "moved": 0
    }  # fmt: skip
    fences.signalled = {50}
    assert history.collect(9, 9999, fences) == [*over(1, 50), *destroy(100)], "it came after all"


@pytest.mark.rule("A16")
def test_a_fence_that_never_comes_is_destroyed_at_the_end_only_after_its_swapchain(fences: Fences) -> None:
    history = by_fences(deadline=0)
    history.presented(0, [1], 50)
    history.swapchain(101, 3)
    for now in range(100):
        assert history.collect(9, now, fences) == []
    assert history.close() == (1, [*destroy(100, 101), ("destroy_semaphore", 1), ("destroy_fence", 50)])
    assert history.close() == (0, [])


@pytest.mark.rule("A18")
def test_of_windows_that_share_a_present_each_keeps_its_swapchain_by_its_own_fence(fences: Fences) -> None:
    first, second = by_fences(), PresentTracker("fences")
    second.swapchain(200, 3)
    first.presented(0, [1], 50)
    second.presented(0, [], 51)
    first.swapchain(101, 3)
    second.swapchain(201, 3)
    fences.signalled = {50}
    assert first.collect(9, 0, fences) == [*over(1, 50), *destroy(100)]
    assert second.collect(9, 0, fences) == []
    fences.signalled = {51}
    assert second.collect(9, 0, fences) == [("reset_fence", 51), *destroy(200)]


# ---- both


@pytest.mark.rule("A15", "A19")
@pytest.mark.parametrize("policy", ["acquires", "fences"])
def test_a_semaphore_that_somebody_else_used_comes_back_when_that_has_run(policy: str, fences: Fences) -> None:
    history = PresentTracker(policy)
    history.semaphore(1, 5)
    history.semaphore(2, 3, discarded=True)
    history.semaphore(3, 4)
    assert history.collect(2, 0, fences) == []
    assert history.collect(3, 0, fences) == [("destroy_semaphore", 2)]
    assert history.collect(5, 0, fences) == recycle(3, 1)


def test_the_end_gives_everything_out_with_the_swapchains_first() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    history.swapchain(101, 3, last_use=1)
    frame(history, 0, 2, 2)
    history.semaphore(3, 9)
    unproven, decisions = history.close()
    assert unproven == 2
    assert decisions == [*destroy(100, 101), *[("destroy_semaphore", handle) for handle in (1, 2, 3)]]
    assert not any(history.statistics().values())


# ---- nonsense


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PresentTracker("both"), "policy is 'both', allowed are 'acquires' and 'fences'"),
        (lambda: PresentTracker(fence_deadline=-1), "fence_deadline is -1"),
        (lambda: by_acquires().swapchain(101, 0), "image_count is 0, allowed is 1 to 1024"),
        (lambda: by_acquires().swapchain(101, 2**32), "image_count is 4294967296"),
        (lambda: by_acquires().swapchain(100, 3), "the tracker has the swapchain 0x64 already"),
        (lambda: by_acquires().waited(3, 1), "image is 3, the swapchain has 3"),
        (lambda: by_acquires().waited(0, 2**64 - 1), "the serial is"),
        (lambda: by_acquires().presented(3, []), "image is 3, the swapchain has 3"),
        (lambda: by_acquires().presented(0, [1, 0]), "semaphore 1 of 2 is 0"),
        (lambda: by_acquires().presented(0, range(1, 10)), "semaphores has 9 items, allowed are 8"),
        (lambda: by_acquires().presented(0, [1], 50), "no fence in a tracker by acquires"),
        (lambda: by_fences().presented(0, [1]), "a fence in a tracker by fences"),
        (lambda: by_acquires().semaphore(0, 1), "the semaphore is 0"),
        (lambda: by_fences().collect(0), "without a fence probe"),
    ],
)
def test_what_cannot_be_is_a_value_error_that_names_it(call: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: by_fences().collect(1, 1, 1),  # type: ignore[arg-type]
        lambda: by_acquires().presented(0, None),  # type: ignore[arg-type]
        lambda: by_acquires().waited("0", 1),  # type: ignore[arg-type]
        lambda: PresentTracker(1),  # type: ignore[arg-type]
    ],
)
def test_what_is_of_the_wrong_type_is_a_type_error(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_what_is_refused_changes_nothing() -> None:
    history = by_acquires()
    frame(history, 0, 1, 1)
    for call in (lambda: history.swapchain(100, 3), lambda: history.presented(0, [2, 0])):
        with pytest.raises(ValueError):
            call()
    history.waited(0, 2)
    assert history.collect(2) == recycle(1)


def test_an_error_of_the_fence_probe_comes_out_and_nothing_counts_as_signalled() -> None:
    history = by_fences()
    history.presented(0, [1], 50)
    with pytest.raises(ZeroDivisionError):
        history.collect(1, 0, lambda fence: 1 // 0)
    assert history.collect(1, 0, lambda fence: True) == over(1, 50)


def test_the_fence_probe_cannot_change_the_history_that_asks() -> None:
    history = by_fences()
    history.presented(0, [1], 50)
    with pytest.raises(errors.InvalidCallError, match="in collect"):
        history.collect(1, 0, lambda fence: history.presented(1, [2], 51))
    with pytest.raises(errors.InvalidCallError, match="in collect"):
        history.collect(1, 0, lambda fence: history.close())
    assert history.statistics()["presents"] == 1


def test_without_its_init_it_refuses_everything() -> None:
    history = PresentTracker.__new__(PresentTracker)
    for call in (lambda: history.swapchain(1, 1), history.close, history.wanted, lambda: history.collect(0)):
        with pytest.raises(errors.InvalidCallError):
            call()
    history = by_acquires()
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        history.__init__()  # type: ignore[misc]


NUMBERS = [0, 1, 2, 3, 7, 100, 1023, 1024, 1025, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, -1, 10**30]
OTHERS: list[Any] = [None, "", "1", b"x", [], [1], (1, 2, 3), {}, 1.5, object(), lambda *any: True, lambda *any: [][0]]


@pytest.mark.parametrize("policy", ["acquires", "fences"])
def test_no_garbage_makes_it_crash(policy: str) -> None:
    dice = random.Random(4711)
    refusals = (ValueError, TypeError, IndexError, OverflowError, errors.VkshareError)
    names = [name for name in dir(PresentTracker) if not name.startswith("_")]
    history, accepted = PresentTracker(policy, dice.choice([None, 0, 10])), 0
    for _ in range(30_000):
        values = [dice.choice(NUMBERS if dice.random() < 0.8 else OTHERS) for _ in range(dice.randrange(5))]
        if dice.random() < 0.4:
            values[1:2] = [[dice.choice(NUMBERS) for _ in range(dice.randrange(10))]]
        if dice.random() < 0.02:
            history = PresentTracker(policy, dice.choice([None, 0, 10]))
        try:
            getattr(history, dice.choice(names))(*values)
            accepted += 1
        except refusals:
            pass
    assert accepted > 1000
