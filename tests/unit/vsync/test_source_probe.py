"""Trials of vsync sources: the judging of made-up series of times, and of sources that are tried."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from support.time_limits import at_least
from support.vsync_sources import Listener, StubSource, listening

from vkshare.errors import ClosedError, InvalidCallError, SurfaceLostError
from vkshare.vsync.source_probe import TimedTick, Trial, judge, try_source

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("V22")]

START = 1_000_000_000_000
LATE = 200_000  # ns from a tick to its being heard


def series(
    rate: float,
    *,
    seconds: float = 0.3,
    jitter: float = 0,
    lost: Callable[[int], bool] = lambda n: False,
    counted: bool = False,
    seed: int = 1,
) -> list[TimedTick]:
    """Ticks at `rate` Hz with normal `jitter` (in seconds, standard deviation), but for those that are `lost`."""
    chance = random.Random(seed)
    heard = []
    for n in range(int(seconds * rate)):
        time_ns = START + round(1e9 * (n / rate + chance.gauss(0, jitter)))
        if not lost(n):
            heard.append(TimedTick(time_ns, time_ns + LATE, 5000 + n if counted else None))
    return heard


def judged(heard: list[TimedTick], reported: Fraction | None = None, *, seconds: float = 0.3) -> Trial:
    return judge(heard, START + round(seconds * 1e9), reported)


# ---- what works ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [24, 30, 50, 59.94, 60, 75, 90, 120, 144, 165, 240, 360, 500])
def test_regular_ticks_work_and_their_interval_is_measured(rate: float) -> None:
    trial = judged(series(rate))
    assert trial.works, trial.why
    assert trial.interval is not None
    assert trial.sigma is not None
    assert abs(float(trial.interval) * rate - 1) < 1e-6
    assert trial.sigma < 1e-7
    assert f"{rate:.2f} Hz" in trial.why


@pytest.mark.parametrize("rate", [30, 60, 144, 240])
@pytest.mark.parametrize("counted", [True, False])
def test_jitter_as_xvfbs_is_measured_and_forgiven(rate: float, counted: bool) -> None:
    for seed in range(20):
        trial = judged(series(rate, jitter=300e-6, counted=counted, seed=seed))
        assert trial.works, trial.why
        assert trial.interval is not None
        assert trial.sigma is not None
        assert abs(float(trial.interval) * rate - 1) < 0.02
        assert 150e-6 < trial.sigma < 500e-6


@pytest.mark.parametrize("counted", [True, False])
def test_lost_ticks_do_not_change_the_interval(counted: bool) -> None:
    trial = judged(series(60, lost=lambda n: n % 4 == 2, counted=counted))
    assert trial.works, trial.why
    assert trial.interval is not None
    assert abs(float(trial.interval) * 60 - 1) < 1e-6


def test_a_late_tick_moves_neither_the_interval_nor_the_verdict() -> None:
    for late in range(1, 17):
        heard = series(60)
        heard[late] = TimedTick(heard[late].time_ns + 7_000_000, heard[late].received_ns + 7_000_000)
        trial = judged(heard)
        assert trial.works, trial.why
        assert trial.interval is not None
        assert abs(float(trial.interval) * 60 - 1) < 0.005


def test_the_displays_count_gives_the_number_of_blanks_between_ticks() -> None:
    # Two gaps of three are too long, as of a timer of whole milliseconds: by them the hole is too short.
    off = (0, 500_000, 1_000_000)
    heard = [
        TimedTick(each.time_ns + off[n % 3], each.received_ns + off[n % 3], each.msc)
        for n, each in enumerate(series(144, counted=True))
        if not 14 <= n < 29
    ]
    trial = judged(heard)
    assert trial.works, trial.why
    assert trial.interval is not None
    assert abs(float(trial.interval) * 144 - 1) < 0.01


def test_a_tick_may_be_reported_when_its_blank_begins() -> None:
    early = [TimedTick(each.time_ns, each.time_ns - 600_000) for each in series(60)]
    assert judged(early).works


# ---- what does not ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_trial_with_too_few_ticks_fails(count: int) -> None:
    trial = judged(series(60)[:count])
    assert not trial.works
    assert "came" in trial.why
    assert trial.interval is None


@pytest.mark.rule("V2")
@pytest.mark.parametrize("step", [0, -1_000_000])
def test_times_that_do_not_grow_are_refused(step: int) -> None:
    heard = series(60)
    heard[9] = TimedTick(heard[8].time_ns + step, heard[9].received_ns)
    trial = judged(heard)
    assert not trial.works
    assert "do not grow" in trial.why


@pytest.mark.rule("V2")
def test_ticks_of_the_future_are_refused() -> None:
    trial = judged([TimedTick(each.time_ns, each.time_ns - 8_000_000) for each in series(60)])
    assert not trial.works
    assert "8.0 ms before their time" in trial.why


def test_times_of_another_clock_are_refused() -> None:
    trial = judged([TimedTick(each.time_ns - 5_000_000_000, each.received_ns) for each in series(60)])
    assert not trial.works
    assert "another clock" in trial.why


def test_times_at_random_are_refused() -> None:
    refused = 0
    for seed in range(200):
        chance = random.Random(seed)
        times = sorted(START + chance.randrange(300_000_000) for _ in range(18))
        refused += not judged([TimedTick(each, each + LATE) for each in times]).works
    assert refused >= 195  # a few look regular, as chance has it


@pytest.mark.parametrize("rate", [1100, 3500, 100_000])
def test_presents_that_nothing_paces_are_refused(rate: int) -> None:
    trial = judged(series(rate))
    assert not trial.works
    assert "nothing paces it" in trial.why


def test_ticks_that_come_in_bursts_are_refused() -> None:
    times = [START + burst * 66_000_000 + n * 1_200_000 for burst in range(4) for n in range(4)]
    assert not judged([TimedTick(each, each + LATE) for each in times]).works


def test_a_source_that_falls_silent_is_refused() -> None:
    trial = judged(series(60)[:6])
    assert not trial.works
    assert "6 of 18 ticks came" in trial.why


@pytest.mark.parametrize("counted", [True, False])
def test_a_source_that_loses_most_ticks_is_refused(counted: bool) -> None:
    lost = {2, 3, 4, 6, 8, 9, 10, 11, 14, 15, 16}
    trial = judged(series(60, lost=lambda n: n in lost, counted=counted))
    assert not trial.works, trial.why


# ---- what the window system says -------------------------------------------------------------------------------------


def test_the_reported_interval_is_used_if_it_agrees_with_the_measured_one() -> None:
    reported = Fraction(1001, 60000)
    for rate in (59.94, 60, 60.3):  # half a percent is within what a trial can see
        assert judged(series(rate, jitter=100e-6), reported).interval == reported


def test_the_measured_interval_is_used_if_the_reported_one_is_wrong() -> None:
    trial = judged(series(144, jitter=100e-6), Fraction(1, 60))
    assert trial.works
    assert "though its window system says 60.00 Hz" in trial.why
    assert trial.interval is not None
    assert abs(float(trial.interval) * 144 - 1) < 0.01


# ---- trying ----------------------------------------------------------------------------------------------------------


def test_a_trial_listens_for_a_while_and_leaves_the_source_stopped() -> None:
    with StubSource() as source:
        with at_least(0.05):
            trial = try_source(source, 0.05)
        assert trial == Trial(False, "no ticks came")
        assert not source.is_running
        assert listening() == []
        assert source.interval is None


def test_a_source_that_works_has_the_interval_that_was_found() -> None:
    with StubSource(Fraction(1, 60)) as source:
        now = time.monotonic_ns()
        for n in range(40):
            source.tick(now - (40 - n) * 8_333_333)
        trial = try_source(source, 0.1)
        assert trial.works, trial.why
        assert source.interval == trial.interval
        assert abs(float(trial.interval or 0) * 120 - 1) < 0.01


def test_a_source_that_is_lost_meanwhile_does_not_work_and_is_not_waited_for() -> None:
    with StubSource() as source:
        source.fail(SurfaceLostError("the display went away"))
        assert try_source(source, 60) == Trial(False, "the display went away")
        assert try_source(source, 60) == Trial(False, "the display went away")


def test_a_source_in_use_is_not_tried() -> None:
    with StubSource() as source:
        listener = Listener()
        source.start(listener.heard)
        with pytest.raises(InvalidCallError):
            try_source(source)
        source.tick(1)
        assert listener.wait(1) == [1]
    with pytest.raises(ClosedError):
        try_source(source)


@pytest.mark.parametrize("seconds", [0, -1, 61, float("nan")])
def test_a_trial_takes_a_moment_no_more(seconds: float) -> None:
    with StubSource() as source, pytest.raises(ValueError, match="seconds is"):
        try_source(source, seconds)
