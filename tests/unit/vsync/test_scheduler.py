"""When a compositor composites: every rule, and random walks against a model that looks back over all that happened."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support.run_volumes import rounds, seeded, unhurried

from vkshare.errors import InvalidCallError
from vkshare.vsync.scheduler import UNUSED_LIMIT, Action, CompositorScheduler, Decision, Skip
from vkshare.vsync.tick import Tick

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.no_driver, unhurried, pytest.mark.usefixtures("only_on_cpu")]

T = 16_666_667  # ns
COMPOSITE = Decision(Action.COMPOSITE)
INPUT = Decision(Action.INPUT)
NOTHING = Decision()
BEGIN = Decision(observe=True)


def tick(number: int, late: int = 0) -> Tick:
    """The tick of that number; its vsync is at number * T."""
    return Tick(1, number, number * T, (number + 1) * T, Fraction(1, 60), "software")


def skipped(reason: Skip, observe: bool | None = None) -> Decision:
    return Decision(skipped=reason, observe=observe)


def observing(composited: int = 0) -> CompositorScheduler:
    """One that has composited at that tick, if any, and observes."""
    scheduler = CompositorScheduler()
    assert scheduler.request() == BEGIN
    if composited:
        assert scheduler.tick(tick(composited), composited * T) == COMPOSITE
        scheduler.finished()
    return scheduler


# ---- requests ------------------------------------------------------------------------------------------------------


def test_a_request_begins_the_observing_and_is_composited_at_the_next_tick() -> None:
    scheduler = CompositorScheduler()
    assert not scheduler.is_observing
    assert scheduler.request() == BEGIN
    assert scheduler.is_observing
    assert not scheduler.is_compositing
    assert scheduler.tick(tick(1), T + 3) == COMPOSITE
    assert scheduler.is_compositing
    scheduler.finished()
    assert scheduler.statistics().composites == 1
    assert scheduler.statistics().latest == 3


def test_many_requests_are_one_composite() -> None:
    scheduler = observing()
    assert {scheduler.request() for _ in range(5)} == {NOTHING}
    assert scheduler.tick(tick(1), T) == COMPOSITE
    scheduler.finished()
    assert scheduler.tick(tick(2), 2 * T) == skipped(Skip.UNUSED)


def test_a_request_made_while_compositing_is_for_the_tick_after() -> None:
    scheduler = observing()
    assert scheduler.tick(tick(1), T) == COMPOSITE
    assert scheduler.request() == NOTHING
    scheduler.finished()
    assert scheduler.tick(tick(2), 2 * T) == COMPOSITE


def test_finishing_what_was_not_begun_is_refused() -> None:
    scheduler = observing()
    with pytest.raises(InvalidCallError, match="there is none"):
        scheduler.finished()


# ---- V7 ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V7")
def test_after_ten_unused_ticks_in_a_row_it_stops_observing() -> None:
    scheduler = observing(composited=1)
    for number in range(2, 11):
        assert scheduler.tick(tick(number), number * T) == skipped(Skip.UNUSED), number
    assert scheduler.statistics().unused_in_a_row == 9
    assert scheduler.tick(tick(11), 11 * T) == skipped(Skip.UNUSED, observe=False)
    assert not scheduler.is_observing
    assert UNUSED_LIMIT == 10


@pytest.mark.rule("V7")
def test_a_tick_in_flight_when_observing_stops_is_ignored() -> None:
    scheduler = observing(composited=1)
    for number in range(2, 12):
        scheduler.tick(tick(number), number * T)
    assert scheduler.tick(tick(12), 12 * T) == skipped(Skip.RESTING)
    assert scheduler.request() == BEGIN
    assert scheduler.tick(tick(13), 13 * T) == COMPOSITE
    scheduler.finished()
    reported = scheduler.statistics()
    assert (reported.resting, reported.unused, reported.observations) == (1, 10, 2)


@pytest.mark.rule("V7")
@pytest.mark.parametrize("use", ["request", "force", "input"])
def test_a_used_tick_continues_observing_for_ten_more(use: str) -> None:
    scheduler = observing(composited=1)
    number = 1
    for _ in range(3):
        for _ in range(9):
            number += 1
            assert scheduler.tick(tick(number), number * T).observe is None
        number += 1
        if use == "force":
            assert scheduler.force(number * T - 5) == COMPOSITE
            scheduler.finished()
            number -= 1
        elif use == "request":
            scheduler.request()
            assert scheduler.tick(tick(number), number * T) == COMPOSITE
            scheduler.finished()
        else:
            scheduler.input_arrived()
            assert scheduler.tick(tick(number), number * T) == INPUT
            assert scheduler.input_handled(number * T, is_idle=True) == skipped(Skip.UNUSED)
        assert scheduler.statistics().unused_in_a_row == 0
    for _ in range(9):
        number += 1
        assert scheduler.tick(tick(number), number * T) == skipped(Skip.UNUSED)
    number += 1
    assert scheduler.tick(tick(number), number * T).observe is False
    assert scheduler.statistics().observations == 1


@pytest.mark.rule("V7", "V16")
def test_resizing_for_long_does_not_switch_the_source_on_and_off() -> None:
    scheduler = observing(composited=1)
    for number in range(2, 200):  # each frame forced a moment after its tick, so no tick is ever used
        assert scheduler.tick(tick(number), number * T).observe is None
        assert scheduler.force(number * T + 1000) == COMPOSITE
        scheduler.finished()
    assert scheduler.statistics().observations == 1


@pytest.mark.rule("V7", "V16")
def test_skipped_ticks_are_not_unused_ones() -> None:
    scheduler = observing()
    assert scheduler.tick(tick(1), T) == COMPOSITE
    for number in range(2, 50):
        assert scheduler.tick(tick(number), number * T) == skipped(Skip.BUSY)
    scheduler.finished()
    scheduler.force(100 * T)
    scheduler.finished()
    for number in range(50, 100):
        assert scheduler.tick(tick(number), 100 * T) == skipped(Skip.OLD)
    assert scheduler.statistics().unused_in_a_row == 0
    assert scheduler.is_observing


# ---- forced --------------------------------------------------------------------------------------------------------


def test_a_forced_composite_waits_for_no_tick_and_needs_no_observing() -> None:
    scheduler = CompositorScheduler()
    assert scheduler.force(123) == COMPOSITE
    assert scheduler.is_compositing
    assert not scheduler.is_observing
    scheduler.finished()
    assert (scheduler.statistics().forced, scheduler.statistics().composites) == (1, 0)


def test_a_forced_composite_draws_what_was_asked_for() -> None:
    scheduler = observing()
    assert scheduler.force(T // 2) == COMPOSITE
    scheduler.finished()
    assert scheduler.tick(tick(1), T) == skipped(Skip.UNUSED)


@pytest.mark.rule("V16")
def test_a_forced_composite_while_one_is_unfinished_comes_with_the_next_tick() -> None:
    scheduler = observing()
    assert scheduler.tick(tick(1), T) == COMPOSITE
    assert scheduler.force(T + 5) == skipped(Skip.BUSY)
    scheduler.finished()
    assert scheduler.tick(tick(2), 2 * T) == COMPOSITE


@pytest.mark.rule("V16")
def test_a_forced_composite_during_another_begins_observing() -> None:
    scheduler = CompositorScheduler()
    assert scheduler.force(5) == COMPOSITE
    assert scheduler.force(6) == skipped(Skip.BUSY, observe=True)
    scheduler.finished()
    assert scheduler.tick(tick(1), T) == COMPOSITE


# ---- V16 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V16")
def test_a_tick_older_than_the_last_composite_is_skipped_and_what_was_asked_for_stays() -> None:
    scheduler = observing(composited=1)
    assert scheduler.force(2 * T + 5) == COMPOSITE
    scheduler.finished()
    scheduler.request()
    assert scheduler.tick(tick(2), 2 * T + 6) == skipped(Skip.OLD)
    assert scheduler.tick(tick(3), 3 * T) == COMPOSITE


@pytest.mark.rule("V16")
def test_the_same_tick_again_brings_no_second_composite() -> None:
    scheduler = observing(composited=7)
    scheduler.request()
    assert scheduler.tick(tick(7), 7 * T + 9) == skipped(Skip.OLD)


@pytest.mark.rule("V16")
def test_a_tick_that_is_handled_late_does_not_make_the_next_one_old() -> None:
    scheduler = observing()
    assert scheduler.tick(tick(1), 3 * T) == COMPOSITE  # two intervals late; composited until 4 T
    scheduler.finished()
    scheduler.request()
    assert scheduler.tick(tick(4), 4 * T + 5) == COMPOSITE


@pytest.mark.rule("V16")
def test_ticks_during_a_composite_are_skipped_and_leave_one_composite_not_many() -> None:
    scheduler = observing()
    assert scheduler.tick(tick(1), T) == COMPOSITE
    for number in range(2, 30):
        scheduler.request()
        assert scheduler.tick(tick(number), number * T) == skipped(Skip.BUSY)
    scheduler.finished()
    assert scheduler.tick(tick(30), 30 * T) == COMPOSITE
    scheduler.finished()
    assert scheduler.tick(tick(31), 31 * T) == skipped(Skip.UNUSED)
    reported = scheduler.statistics()
    assert (reported.ticks, reported.composites, reported.busy, reported.unused) == (31, 2, 28, 1)


# ---- V15 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V15")
def test_input_while_idle_forces_observation() -> None:
    scheduler = CompositorScheduler()
    assert scheduler.input_arrived() == BEGIN
    assert scheduler.input_arrived() == NOTHING
    assert scheduler.tick(tick(1), T) == INPUT


@pytest.mark.rule("V15")
def test_input_is_handled_before_the_composite_of_its_tick_and_what_it_asks_for_is_in_it() -> None:
    scheduler = CompositorScheduler()
    scheduler.input_arrived()
    assert scheduler.tick(tick(1), T) == INPUT
    assert not scheduler.is_compositing
    assert scheduler.request() == NOTHING  # the handler's
    assert scheduler.input_handled(T + 100, is_idle=True) == COMPOSITE


@pytest.mark.rule("V15")
def test_no_composite_of_a_tick_begins_while_input_waits_even_if_one_was_asked_for() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    assert scheduler.tick(tick(1), T) == INPUT
    assert scheduler.input_handled(T, is_idle=True) == COMPOSITE


@pytest.mark.rule("V15")
def test_input_posted_after_the_tick_is_left_for_the_next_one() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    assert scheduler.tick(tick(1), T + 9) == INPUT
    assert scheduler.input_handled(T + 9, is_idle=False) == COMPOSITE
    scheduler.finished()
    assert scheduler.tick(tick(2), 2 * T) == INPUT
    assert scheduler.input_handled(2 * T, is_idle=True) == skipped(Skip.UNUSED)
    assert scheduler.tick(tick(3), 3 * T) == skipped(Skip.UNUSED)


@pytest.mark.rule("V15")
def test_input_that_arrives_during_a_composite_waits_for_the_tick_after_it() -> None:
    scheduler = observing()
    assert scheduler.tick(tick(1), T) == COMPOSITE
    scheduler.input_arrived()
    assert scheduler.tick(tick(2), 2 * T) == skipped(Skip.BUSY)
    scheduler.finished()
    assert scheduler.tick(tick(3), 3 * T) == INPUT


@pytest.mark.rule("V15")
def test_input_taken_outside_a_tick_is_not_waited_for() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    scheduler.input_idle()
    assert scheduler.tick(tick(1), T) == COMPOSITE


@pytest.mark.rule("V15", "V16")
def test_a_composite_forced_while_handling_input_takes_the_place_of_the_ticks() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    assert scheduler.tick(tick(1), T) == INPUT
    assert scheduler.force(T + 5) == COMPOSITE
    assert scheduler.input_handled(T + 9, is_idle=True) == skipped(Skip.OLD)
    scheduler.finished()


@pytest.mark.rule("V15")
def test_input_handled_answers_one_tick_once() -> None:
    scheduler = observing()
    with pytest.raises(InvalidCallError, match="there is none"):
        scheduler.input_handled(T, is_idle=True)
    scheduler.input_arrived()
    scheduler.tick(tick(1), T)
    scheduler.input_handled(T, is_idle=True)
    with pytest.raises(InvalidCallError, match="there is none"):
        scheduler.input_handled(T, is_idle=True)


@pytest.mark.rule("V15")
def test_a_handler_that_raised_does_not_keep_the_next_tick_from_being_handled() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    assert scheduler.tick(tick(1), T) == INPUT  # and no answer follows
    assert scheduler.tick(tick(2), 2 * T) == INPUT
    assert scheduler.input_handled(2 * T, is_idle=True) == COMPOSITE
    reported = scheduler.statistics()
    assert (reported.ticks, reported.input_only, reported.composites) == (2, 1, 1)


# ---- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V17")
def test_after_shutdown_nothing_begins_and_a_composite_may_still_end() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    scheduler.input_arrived()
    assert scheduler.tick(tick(1), T) == INPUT
    scheduler.input_handled(T, is_idle=False)
    assert scheduler.shut_down() == Decision(observe=False)
    assert scheduler.shut_down() == NOTHING
    assert scheduler.is_shut_down
    shut = skipped(Skip.SHUT_DOWN)
    assert scheduler.request() == scheduler.force(5 * T) == scheduler.input_arrived() == shut
    assert scheduler.tick(tick(2), 2 * T) == shut
    scheduler.finished()
    assert not scheduler.is_observing
    assert "shut down" in repr(scheduler)


@pytest.mark.rule("V17")
def test_shutdown_while_handling_input_takes_the_composite_of_that_tick_along() -> None:
    scheduler = observing()
    scheduler.input_arrived()
    scheduler.tick(tick(1), T)
    scheduler.shut_down()
    assert scheduler.input_handled(T, is_idle=True) == skipped(Skip.SHUT_DOWN)


def test_its_repr_shows_its_state() -> None:
    scheduler = observing()
    assert repr(scheduler) == "<vkshare.CompositorScheduler observing, needed, 0 ticks unused>"
    scheduler.tick(tick(1), T)
    assert repr(scheduler) == "<vkshare.CompositorScheduler observing, compositing, 0 ticks unused>"
    assert repr(CompositorScheduler()) == "<vkshare.CompositorScheduler resting, 0 ticks unused>"


# ---- everything in any order ---------------------------------------------------------------------------------------


class Walk:
    """A scheduler beside what the rules say, which is derived from a log of all that happened.

    The log has one word an event: "request", "force", "used" and "unused" (ticks), "observe", "rest". The model keeps
    no state of the scheduler's kind: each question is answered by looking back.
    """

    def __init__(self) -> None:
        self.scheduler = CompositorScheduler()
        self.now = 1
        self.number = 0
        self.log: list[str] = []
        self.composites: list[int] = []  # times
        self.unfinished = 0
        self.input = False
        self.open: Tick | None = None
        self.counts: Counter[str] = Counter()

    # -- the model's questions

    def is_observing(self) -> bool:
        return next((word for word in reversed(self.log) if word in ("observe", "rest")), "rest") == "observe"

    def is_wanted(self) -> bool:
        return next((word for word in reversed(self.log) if word in ("request", "composite")), "") == "request"

    def unused(self) -> int:
        count = 0
        for word in reversed(self.log):
            if word in ("used", "force", "observe"):
                break
            count += word == "unused"
        return count

    def why_not(self, tick: Tick) -> Skip | None:
        if "shut down" in self.log:
            return Skip.SHUT_DOWN
        if not self.is_observing():
            return Skip.RESTING
        if any(time >= tick.vsync_time for time in self.composites):
            return Skip.OLD
        return Skip.BUSY if self.unfinished else None

    # -- events

    def wait(self, ns: int) -> None:
        self.now += ns

    def ask(self, what: str) -> None:
        before = self.is_observing()
        if "shut down" in self.log:
            expected = skipped(Skip.SHUT_DOWN)
        else:
            expected = NOTHING if before else BEGIN
            self.log += ["request"] if what == "request" else []
            self.log += [] if before else ["observe"]
            self.input = self.input or what == "input_arrived"
        assert getattr(self.scheduler, what)() == expected

    def force(self) -> None:
        if "shut down" in self.log:
            expected = skipped(Skip.SHUT_DOWN)
        elif self.unfinished:
            expected = skipped(Skip.BUSY, None if self.is_observing() else True)
            self.log += ["force", "request"] + ([] if self.is_observing() else ["observe"])
        else:
            expected = COMPOSITE
            self.log += ["force", "composite"]
            self.composites.append(self.now)
            self.unfinished += 1
        assert self.scheduler.force(self.now) == expected

    def tick(self, behind: int) -> None:
        """A tick of a moment ago, younger than all before."""
        self.number += 1
        vsync = max(self.now - behind, 1)
        tick = Tick(1, self.number, vsync, vsync + T, Fraction(1, 60), "software")
        self.counts["ticks"] += 1
        if self.open is not None:
            self.open = None
            self.log.append("used")
        decision = self.scheduler.tick(tick, self.now)
        why = self.why_not(tick)
        if why is not None:
            assert decision == skipped(why)
        elif self.input:
            assert decision == INPUT
            self.open = tick
        else:
            self.decided(tick, decision, had_input=False)

    def handled(self, is_idle: bool) -> None:
        tick, self.open = self.open, None
        if tick is None:
            with pytest.raises(InvalidCallError):
                self.scheduler.input_handled(self.now, is_idle=is_idle)
            return
        self.input = not is_idle
        decision = self.scheduler.input_handled(self.now, is_idle=is_idle)
        why = self.why_not(tick)
        if why is not None:
            assert decision == skipped(why)
        else:
            self.decided(tick, decision, had_input=True)

    def decided(self, tick: Tick, decision: Decision, had_input: bool) -> None:
        if self.is_wanted():
            assert decision == COMPOSITE
            self.counts["composites"] += 1
            self.log += ["used", "composite"]
            self.composites.append(tick.vsync_time)
            self.unfinished += 1
        elif had_input:
            assert decision == skipped(Skip.UNUSED)
            self.log.append("used")
        else:
            self.log.append("unused")
            stops = self.unused() == 10
            assert decision == skipped(Skip.UNUSED, False if stops else None)
            self.log += ["rest"] if stops else []

    def finish(self) -> None:
        if self.unfinished:
            self.scheduler.finished()
            self.unfinished -= 1

    def shut_down(self) -> None:
        assert self.scheduler.shut_down().observe is (False if self.is_observing() else None)
        self.log += ["shut down", "composite", "rest"]
        self.input = False

    def check(self) -> None:
        reported = self.scheduler.statistics()
        assert self.unfinished in (0, 1)
        assert self.scheduler.is_compositing == bool(self.unfinished)
        assert self.scheduler.is_observing == self.is_observing()
        decided = (
            reported.composites
            + reported.old
            + reported.busy
            + reported.input_only
            + reported.unused
            + reported.resting
        )
        assert reported.ticks == decided == self.counts["ticks"] - (self.open is not None)
        assert reported.composites == self.counts["composites"]
        assert reported.composites + reported.forced == len(self.composites)
        assert self.composites == sorted(self.composites)


class Rules(RuleBasedStateMachine):
    """The events that Hypothesis may choose."""

    def __init__(self) -> None:
        super().__init__()
        self.walk = Walk()

    @rule(ns=st.integers(0, 3 * T))
    def wait(self, ns: int) -> None:
        self.walk.wait(ns)

    @rule(what=st.sampled_from(["request", "input_arrived"]))
    def ask(self, what: str) -> None:
        self.walk.ask(what)

    @rule()
    def force(self) -> None:
        self.walk.force()

    @rule(behind=st.integers(0, 2 * T))
    def tick(self, behind: int) -> None:
        self.walk.tick(behind)

    @rule(count=st.integers(1, 12))
    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.walk.wait(T)
            self.walk.tick(0)

    @rule(is_idle=st.booleans())
    def handled(self, is_idle: bool) -> None:
        self.walk.handled(is_idle)

    @rule()
    def finish(self) -> None:
        self.walk.finish()

    @precondition(lambda self: len(self.walk.log) > 40)
    @rule()
    def shut_down(self) -> None:
        self.walk.shut_down()

    @invariant()
    def all_is_as_the_model_has_it(self) -> None:
        self.walk.check()


@pytest.mark.rule("V7", "V15", "V16")
def test_hypothesis_finds_no_order_of_events_that_the_model_decides_otherwise() -> None:
    run_state_machine_as_test(
        Rules, settings=settings(max_examples=rounds(2000, 60), stateful_step_count=50, deadline=None, database=None)
    )


def step(walk: Walk, dice: random.Random) -> None:
    chance = dice.random()
    if chance < 0.5:
        walk.wait(dice.choice((T, T, T // 3, 0)))
        walk.tick(dice.choice((0, 0, 100_000, T)))
    elif chance < 0.75:
        walk.finish()
        walk.handled(dice.random() < 0.7)
    elif chance < 0.95:
        walk.tick(0)
    else:
        dice.choice((lambda: walk.ask("request"), lambda: walk.ask("input_arrived"), walk.force))()


@pytest.mark.rule("V7", "V15", "V16")
def test_walks_by_chance_agree_with_the_model() -> None:
    dice = seeded()
    for _ in range(rounds(5000, 60)):
        walk = Walk()
        for _ in range(200):
            step(walk, dice)
        walk.check()
        if dice.random() < 0.2:
            walk.shut_down()
            for _ in range(20):
                step(walk, dice)
            walk.check()


@pytest.mark.rule("V7", "V16")
def test_a_day_of_one_picture_a_second_at_60_hz_is_composited_without_a_gap_and_mostly_asleep() -> None:
    """86,400 s of a clock that ticks: 950,400 ticks, of which the ten after each frame are unused."""
    scheduler = CompositorScheduler()
    number = reported = 0
    for second in range(rounds(86_400, 20_000)):
        number = max(number, second * 60)
        assert scheduler.request() == BEGIN
        while scheduler.is_observing:
            number += 1
            reported += 1
            if scheduler.tick(tick(number), number * T).action is Action.COMPOSITE:
                scheduler.finished()
    seen = scheduler.statistics()
    assert (seen.ticks, seen.composites, seen.unused) == (reported, second + 1, 10 * (second + 1))
