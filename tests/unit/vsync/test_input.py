"""Input that waits for its tick: what is taken when, what is merged, and where a pointer was at the frame time."""

from __future__ import annotations

import bisect
import itertools
import random
import threading
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from support.run_volumes import rounds, seeded, unhurried

from vkshare.errors import InvalidCallError
from vkshare.vsync.input import CLOSEST, FURTHEST, LATENCY, WIDEST, InputQueue, Resampler, Sample
from vkshare.vsync.scheduler import Action, CompositorScheduler
from vkshare.vsync.tick import Tick
from vkshare.window.events import FIELDS, Collector, Event

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.no_driver, unhurried, pytest.mark.usefixtures("only_on_cpu")]

MS = 1_000_000
T = 16_666_667
START = 5_000 * MS


def event(kind: str, at: int, **fields: object) -> Event:
    """Returns an event `at` ns after START."""
    return Event(kind, (START + at) / 1e9, **fields)  # type: ignore[arg-type]


def move(at: int, x: float, y: float = 0.0, **fields: object) -> Event:
    return event("pointer_move", at, x=x, y=y, **fields)


def reported(taken: list[Event]) -> list[tuple[str, float]]:
    return [(e.event_type, round(e.x, 6)) for e in taken]


def plain(*posted: Event) -> InputQueue:
    """A queue that does not resample."""
    return filled(InputQueue(resample=False), *posted)


def filled(queue: InputQueue, *posted: Event) -> InputQueue:
    for each in posted:
        queue.post(each)
    return queue


# ---- what is taken -------------------------------------------------------------------------------------------------


@pytest.mark.rule("V15")
def test_events_posted_before_the_ticks_vsync_time_are_taken_and_others_wait() -> None:
    keys = [event("key_down", n * MS, key=str(n)) for n in range(6)]
    queue = plain(*keys)
    assert queue.take(START + 3 * MS) == keys[:3]
    assert not queue.is_idle
    assert queue.take(START + 3 * MS) == []
    assert queue.take(START + 3 * MS + 1) == keys[3:4]
    assert queue.take() == keys[4:]
    assert queue.is_idle


@pytest.mark.rule("V15")
def test_nothing_overtakes_even_if_its_clock_says_so() -> None:
    late, early = event("key_down", 9 * MS, key="a"), event("key_up", 2 * MS, key="a")
    queue = plain(late, early)
    assert queue.take(START + 5 * MS) == [late, early]


@pytest.mark.rule("V15")
def test_merged_events_are_taken_when_the_oldest_of_them_is_due() -> None:
    queue = plain(event("wheel", 1 * MS, dy=100.0), move(2 * MS, 1), event("wheel", 20 * MS, dy=50.0), move(21 * MS, 2))
    assert queue.take(START + 1 * MS) == []
    (wheel,) = queue.take(START + 2 * MS)
    (moved,) = queue.take(START + 3 * MS)
    assert (wheel.dy, moved.x) == (150.0, 2)
    assert queue.is_idle


@pytest.mark.rule("V15")
def test_the_events_of_a_tick_are_in_its_composite() -> None:
    queue, scheduler = InputQueue(), CompositorScheduler()
    queue.post(event("key_down", 3 * MS, key="a"))
    assert scheduler.input_arrived().observe
    queue.post(event("key_down", 20 * MS, key="b"))
    handled: list[str] = []
    composited: list[list[str]] = []
    for number in range(1, 4):
        vsync = START + number * T
        tick = Tick(1, number, vsync, vsync + T, Fraction(1, 60), "software")
        decision = scheduler.tick(tick, vsync)
        if decision.action is Action.INPUT:
            handled += [each.key for each in queue.take(vsync)]
            scheduler.request()
            decision = scheduler.input_handled(vsync, is_idle=queue.is_idle)
        if decision.action is Action.COMPOSITE:
            composited.append(handled[:])
            scheduler.finished()
    assert composited == [["a"], ["a", "b"]]


@pytest.mark.skipif(time.get_clock_info("perf_counter").implementation != "clock_gettime(CLOCK_MONOTONIC)", reason="")
def test_the_stamps_of_a_windows_events_are_on_the_clock_of_ticks() -> None:
    collector = Collector()
    before = time.monotonic_ns()
    collector.key("a", True)
    after = time.monotonic_ns()
    queue = filled(InputQueue(), *collector.take())
    assert queue.take(before - 1000) == []  # a float of seconds is exact to less than that
    assert [e.key for e in queue.take(after + 1000)] == ["a"]


def test_a_source_with_times_of_its_own_gives_them_and_the_event_carries_them() -> None:
    queue = InputQueue()
    queue.post(Event("key_down", 0.0, key="a"), START + 7)
    assert queue.take(START + 7) == []
    (taken,) = queue.take(START + 8)
    assert round(taken.time_stamp * 1e9) == START + 7


def test_an_event_of_rendercanvas_is_one_of_ours_by_its_fields() -> None:
    of_theirs = event("pointer_down", 0, x=1.0, button=1).as_dict()
    queue = filled(InputQueue(), Event(**of_theirs))  # type: ignore[arg-type]
    assert [e.as_dict() for e in queue.take()] == [of_theirs]


def test_an_object_that_is_no_event_or_has_no_time_is_refused() -> None:
    queue = InputQueue()
    with pytest.raises(TypeError, match="event must be a vkshare Event, not dict"):
        queue.post({"event_type": "close"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time_stamp is nan"):
        queue.post(Event("close", float("nan")))
    with pytest.raises(TypeError, match="time must be an integer"):
        queue.post(Event("close", 0.0), 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="vsync_time must be an integer"):
        queue.take(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="resample must be True or False"):
        InputQueue(resample=1)  # type: ignore[arg-type]
    assert len(queue) == 0


# ---- merging -------------------------------------------------------------------------------------------------------


def test_of_moves_and_resizes_the_last_counts_and_turns_of_the_wheel_add_up() -> None:
    queue = plain(
        *(move(n, n) for n in range(5)),
        *(event("wheel", 10 + n, dx=1.0, dy=2.0, x=float(n)) for n in range(3)),
        *(event("resize", 20 + n, width=n) for n in range(4)),
    )
    moved, wheel, resize = queue.take()
    assert (moved.x, wheel.dx, wheel.dy, wheel.x, resize.width) == (4, 3.0, 6.0, 2.0, 3)
    seen = queue.statistics()
    assert (seen.posted, seen.taken, seen.merged, seen.pending) == (12, 3, 9, 0)


def test_moves_and_wheels_in_turn_are_two_events_the_newest_last() -> None:
    queue = plain(*(e for n in range(50) for e in (move(2 * n, n), event("wheel", 2 * n + 1, dy=1.0))))
    assert len(queue) == 2
    queue.post(move(100, 50))
    wheel, moved = queue.take()
    assert (wheel.dy, moved.x) == (50.0, 50)


def test_nothing_is_merged_across_a_button_a_key_or_another_modifier() -> None:
    posted = [
        move(1, 1),
        event("pointer_down", 2, x=1.0, button=1, buttons=(1,)),
        move(3, 3, buttons=(1,)),
        event("key_down", 4, key="Shift"),
        move(5, 5, buttons=(1,)),
        move(6, 6, buttons=(1,), modifiers=("Shift",)),
        event("char", 7, char_str="A"),
        event("char", 8, char_str="A"),
        move(9, 9, buttons=(1,), modifiers=("Shift",)),
    ]
    assert plain(*posted).take() == posted


@pytest.mark.parametrize("resample", [True, False])
def test_a_flood_of_moves_that_are_not_taken_needs_the_memory_of_one(resample: bool) -> None:
    queue = InputQueue(resample=resample)
    for n in range(rounds(1_000_000, 50_000)):
        queue.post(move(n * 125_000, n))  # a mouse of 8 kHz
    queue.post(event("wheel", n * 125_000, dy=1.0))
    queue.post(move(n * 125_000 + 1, n))
    assert len(queue) == 2
    assert all(len(entry.samples) <= 32 for entry in queue._waiting)
    assert queue.take()[-1].x == n


def test_an_8_khz_mouse_leaves_few_samples_behind() -> None:
    queue = InputQueue()
    for n in range(20_000):
        queue.post(move(n * 125_000, n))
        if n % 133 == 132:
            queue.take(START + n * 125_000)
            assert queue._resampler is not None
            assert len(queue._resampler._samples) < 16


def test_the_event_past_the_limit_is_refused_and_the_others_are_there() -> None:
    queue = InputQueue()
    for n in range(4096):
        queue.post(event("key_down", n, key=str(n)))
    with pytest.raises(InvalidCallError, match="4096 events wait"):
        queue.post(event("key_up", n, key="lost?"))
    assert [e.key for e in queue.take()] == [str(n) for n in range(4096)]
    queue.post(event("key_up", n, key="not lost"))
    assert queue.statistics().posted == 4097


def test_clear_forgets_what_waits_and_where_the_pointer_was() -> None:
    queue = filled(InputQueue(), move(0, 0), move(10 * MS, 10))
    queue.take(START + 11 * MS)
    queue.post(event("key_down", 12 * MS, key="a"))
    assert not queue.is_idle
    queue.clear()
    assert queue.is_idle
    queue.post(move(20 * MS, 500))
    assert reported(queue.take(START + 21 * MS)) == [("pointer_move", 500)]


def test_its_repr_shows_the_number_of_waiting_events() -> None:
    assert repr(plain(move(0, 0))) == "<vkshare.InputQueue 1 events wait, moves as they are>"
    assert repr(InputQueue()) == "<vkshare.InputQueue 0 events wait, moves resampled>"


# ---- the resampler -------------------------------------------------------------------------------------------------


def sampled(*samples: tuple[float, float]) -> Resampler:
    """Makes a resampler of samples (ms, x)."""
    resampler = Resampler()
    for at, x in samples:
        resampler.add(round(at * MS), x, -x)
    return resampler


def at(resampler: Resampler, ms: float, predict: bool = True) -> tuple[float, float]:
    """(ms, x)."""
    sample = resampler.at(round(ms * MS), predict=predict)
    assert sample is not None
    assert sample.y == -sample.x
    return sample.time / MS, round(sample.x, 9)


def test_the_constants_are_androids_and_chromiums() -> None:
    assert (LATENCY, CLOSEST, WIDEST, FURTHEST) == (5 * MS, 2 * MS, 20 * MS, 8 * MS)


@pytest.mark.rule("V15")
def test_between_two_samples_it_is_on_the_line_through_them() -> None:
    samples = (0, 0), (8, 80), (16, 40)
    assert at(sampled(*samples), 4) == (4, 40)
    assert at(sampled(*samples), 8) == (8, 80)
    assert at(sampled(*samples), 14) == (14, 50)
    assert at(sampled(*samples), 16) == (16, 40)


@pytest.mark.rule("V15")
def test_beyond_the_newest_it_goes_on_for_half_of_the_last_step_and_8_ms_at_most() -> None:
    assert at(sampled((0, 0), (8, 80)), 10) == (10, 100)
    assert at(sampled((0, 0), (8, 80)), 40) == (12, 120)
    assert at(sampled((0, 0), (18, 180)), 40) == (26, 260)
    assert at(sampled((0, 0), (8, 80)), 10, predict=False) == (8, 80)


@pytest.mark.rule("V15")
def test_samples_too_far_apart_or_too_close_give_no_speed() -> None:
    assert at(sampled((0, 0), (20, 200)), 22) == (22, 220)
    assert at(sampled((0, 0), (20.1, 200)), 22) == (20.1, 200)
    assert at(sampled((0, 0), (1.9, 1000)), 3) == (1.9, 1000)
    # The last two tell 1000 px in 0.1 ms; from the one before it is 1080 in 8.1.
    moved = at(sampled((0, 0), (8, 80), (8.1, 1080)), 9)
    assert moved == (9, pytest.approx(1080 * 9 / 8.1))


def test_of_samples_within_2_ms_the_newest_stays() -> None:
    resampler = sampled(*((n / 10, n) for n in range(1000)))
    assert len(resampler._samples) <= 32
    gaps = [b.time - a.time for a, b in itertools.pairwise(resampler._samples[:-1])]
    assert min(gaps) >= CLOSEST
    assert resampler.newest == Sample(round(99.9 * MS), 999, -999)


def test_a_resampler_without_samples_returns_none_and_with_one_returns_it() -> None:
    assert Resampler().at(5) is None
    assert Resampler().newest is None
    resampler = sampled((5, 1))
    assert at(resampler, 1) == at(resampler, 5) == at(resampler, 50) == (5, 1)
    resampler.clear()
    assert resampler.at(5) is None


def test_a_time_that_falls_back_counts_as_the_newest() -> None:
    resampler = sampled((0, 0), (10, 10), (4, 20))
    assert resampler.newest == Sample(10 * MS, 20, -20)
    assert at(resampler, 10, predict=False) == (10, 20)


@pytest.mark.rule("V15")
def test_it_agrees_with_a_model_that_forgets_nothing() -> None:
    dice = seeded()
    for _ in range(rounds(3000, 150)):
        resampler, path = Resampler(), [(0, 0.0)]
        resampler.add(0, 0.0, 0.0)
        now = 0
        for _ in range(60):
            if dice.random() < 0.7:
                path.append((path[-1][0] + dice.randrange(CLOSEST, 30 * MS), dice.uniform(-1000, 1000)))
                resampler.add(*path[-1], -path[-1][1])
            now = max(now, path[-1][0] + dice.randrange(-40 * MS, 20 * MS))
            sample = resampler.at(now)
            assert sample is not None
            assert (sample.time, sample.x) == (pytest.approx(where(path, now)[0]), pytest.approx(where(path, now)[1]))
            assert sample.y == -sample.x


def where(path: list[tuple[int, float]], now: int) -> tuple[int, float]:
    """The model: what the rule says of a path of (time, x)."""
    times = [when for when, _ in path]
    n = bisect.bisect_right(times, now)
    if n < len(path):
        a, b = path[n - 1], path[n]
    elif len(path) > 1 and path[-1][0] - path[-2][0] <= 20 * MS:
        a, b = path[-2], path[-1]
        now = min(now, b[0] + 8 * MS, b[0] + (b[0] - a[0]) // 2)
    else:
        return path[-1]
    return now, a[1] + (b[1] - a[1]) * (now - a[0]) / (b[0] - a[0])


# ---- moves, resampled ----------------------------------------------------------------------------------------------


def frames(queue: InputQueue, rate: float, hz: float, seconds: float, x: Callable[[float], float]) -> list[float]:
    """Returns each frame's position of a pointer at x(seconds), sampled at `rate` Hz, on a display of `hz`."""
    seen, posted = [], 0
    for frame in range(1, int(seconds * hz) + 1):
        vsync = round(frame * 1e9 / hz)
        while posted / rate * 1e9 < vsync:
            queue.post(move(round(posted / rate * 1e9), x(posted / rate)))
            posted += 1
        taken = queue.take(START + vsync)
        seen.append(taken[-1].x if taken else seen[-1] if seen else 0.0)
    return seen


def unevenness(queue: InputQueue, rate: float, hz: float) -> float:
    """Returns how much longer the longest step of an evenly moving pointer is than the shortest, in frames' steps."""
    seen = frames(queue, rate, hz, 2.0, lambda seconds: 1000 * seconds)[8:]
    steps = [b - a for a, b in itertools.pairwise(seen)]
    return (max(steps) - min(steps)) / (1000 / hz)


@pytest.mark.rule("V15")
@pytest.mark.parametrize("hz", [60, 144, 59.94])
@pytest.mark.parametrize("rate", [101, 125, 240, 1000])
def test_positions_of_an_evenly_moving_pointer_are_even(rate: float, hz: float) -> None:
    assert unevenness(InputQueue(), rate, hz) < 0.001 or rate < hz  # else some frames have no new sample


@pytest.mark.rule("V15")
def test_where_guesses_are_cut_resampled_moves_are_still_more_even_than_those_of_the_device() -> None:
    for rate in (72.5, 90, 125):
        device = unevenness(InputQueue(resample=False), rate, 60)
        assert device > 0.45
        assert unevenness(InputQueue(), rate, 60) < 0.7 * device


@pytest.mark.rule("V15")
def test_the_frame_has_the_position_of_5_ms_before_it() -> None:
    queue = filled(InputQueue(), *(move(n * 8 * MS, n * 8) for n in range(3)))
    (taken,) = queue.take(START + 16 * MS + 1000)
    assert taken.x == pytest.approx(11.001)
    assert round(taken.time_stamp * 1e9) == START + 11 * MS + 1000
    assert queue.statistics().resampled == 1


@pytest.mark.rule("V15")
def test_a_stopped_pointers_last_position_is_returned_without_another_event() -> None:
    queue = filled(InputQueue(), *(move(n * 8 * MS, n * 8) for n in range(3)))
    assert reported(queue.take(START + 17 * MS)) == [("pointer_move", 12)]
    assert len(queue) == 0
    assert not queue.is_idle
    assert reported(queue.take(START + 33 * MS)) == [("pointer_move", 16)]
    assert queue.is_idle
    assert queue.take(START + 50 * MS) == []


@pytest.mark.rule("V15")
def test_an_extrapolation_that_was_too_far_is_corrected() -> None:
    queue = filled(InputQueue(), move(0, 0), move(8 * MS, 8))
    assert reported(queue.take(START + 16 * MS)) == [("pointer_move", 11)]
    (back,) = queue.take(START + 33 * MS)
    assert back.x == 8
    assert round(back.time_stamp * 1e9) == START + 11 * MS  # no earlier than the previous position
    assert queue.is_idle


def test_at_240_hz_a_stopped_pointer_comes_to_rest_over_two_frames() -> None:
    queue = filled(InputQueue(), move(0, 0), move(8 * MS, 8))
    seen = [reported(queue.take(START + t)) for t in (9 * MS, 12 * MS, 14 * MS, 16 * MS)]
    assert seen == [[("pointer_move", 4)], [("pointer_move", 7)], [("pointer_move", 8)], []]


@pytest.mark.rule("V15")
def test_a_click_and_the_moves_before_it_keep_their_exact_positions() -> None:
    down = event("pointer_down", 14 * MS, x=13.0, button=1, buttons=(1,))
    queue = filled(InputQueue(), move(0, 0), move(8 * MS, 8), down, move(15 * MS, 15, buttons=(1,)))
    taken = queue.take(START + 16 * MS)
    assert reported(taken) == [("pointer_move", 8), ("pointer_down", 13), ("pointer_move", 13)]
    stamps = [e.time_stamp for e in taken]
    assert stamps == sorted(stamps)  # the frame's 11 ms are before the click: the pointer must not go back


@pytest.mark.rule("V15")
def test_the_pointers_last_position_is_returned_before_the_next_click() -> None:
    queue = filled(InputQueue(), *(move(n * 8 * MS, n * 8) for n in range(3)))
    queue.take(START + 17 * MS)
    queue.post(event("pointer_down", 30 * MS, x=16.0, button=1))
    assert reported(queue.take(START + 33 * MS)) == [("pointer_move", 16), ("pointer_down", 16)]
    assert queue.is_idle


def test_a_pointer_that_comes_back_has_not_crossed_the_window_meanwhile() -> None:
    queue = filled(InputQueue(), move(0, 0), move(8 * MS, 8), event("pointer_leave", 9 * MS, x=8.0))
    queue.take(START + 10 * MS)
    filled(queue, event("pointer_enter", 12 * MS, x=900.0), move(14 * MS, 904))
    taken = queue.take(START + 18 * MS)
    assert reported(taken) == [("pointer_enter", 900), ("pointer_move", 902)]  # of 13 ms


# ---- everything in any order ---------------------------------------------------------------------------------------


def any_event(dice: random.Random, number: int, at: int) -> Event:
    """Its x, dy or key has the number."""
    kind = dice.choice(("pointer_move",) * 12 + ("wheel",) * 4 + tuple(FIELDS))
    fields: dict[str, object] = {"x": float(number)} if "x" in FIELDS[kind] else {}
    if kind == "wheel":
        fields["dy"] = 1.0
    if kind == "resize":
        fields["width"] = float(number)
    return event(kind, at, **fields, **({"key": str(number)} if "key" in FIELDS[kind] else {}))


@pytest.mark.rule("V15")
@pytest.mark.parametrize("resample", [True, False])
def test_walks_by_chance_lose_nothing_reorder_nothing_and_are_never_late(resample: bool) -> None:
    dice = seeded()
    for _ in range(rounds(1000, 40)):
        queue = InputQueue(resample=resample)
        posted: list[Event] = []
        taken: list[Event] = []
        now = 0
        for _ in range(40):
            for _ in range(dice.randrange(12)):
                now += dice.choice((0, 1000, MS, 9 * MS))
                posted.append(any_event(dice, len(posted) + 1, now))
                queue.post(posted[-1])
            vsync = now - dice.choice((0, MS, 4 * MS, -4 * MS))
            taken += queue.take(START + vsync)
            due = [e for e in posted if e.time_stamp < (START + vsync) / 1e9 - 1e-9]
            none_is_late(due, taken, is_exact=not resample)
        taken += queue.take()
        none_is_late(posted, taken, is_exact=True)
        assert one_by_one(taken) == one_by_one(posted)
        assert queue.is_idle
        seen = queue.statistics()
        assert (seen.posted, seen.taken, seen.pending) == (len(posted), len(taken), 0)
        stamps = [e.time_stamp for e in taken]
        assert stamps == sorted(stamps)


def one_by_one(some: list[Event]) -> list[Event]:
    return [e for e in some if e.event_type not in ("pointer_move", "wheel", "resize")]


def none_is_late(due: list[Event], taken: list[Event], *, is_exact: bool) -> None:
    """Checks that events posted before the tick were returned by then, also merged with later ones."""
    assert one_by_one(taken)[: len(one_by_one(due))] == one_by_one(due)
    assert sum(e.dy for e in taken) >= sum(e.dy for e in due)
    assert newest(taken, "resize", "width") >= newest(due, "resize", "width")
    if is_exact:
        assert newest(taken, "pointer_move", "x") >= newest(due, "pointer_move", "x")


def newest(some: list[Event], kind: str, field: str) -> float:
    return next((float(getattr(e, field)) for e in reversed(some) if e.event_type == kind), 0.0)


def test_one_thread_posts_while_another_takes_and_every_key_arrives_once() -> None:
    queue = InputQueue()
    count = 20_000
    taken: list[Event] = []

    def post() -> None:
        for n in range(count):
            while len(queue) > 1000:
                time.sleep(0)
            queue.post(event("key_down", n, key=str(n)))
            queue.post(move(n, n))

    poster = threading.Thread(target=post)
    poster.start()
    while poster.is_alive() or len(queue):
        taken += queue.take(START + count)
    poster.join()
    taken += queue.take()
    assert [e.key for e in taken if e.event_type == "key_down"] == [str(n) for n in range(count)]
    assert newest(taken, "pointer_move", "x") == count - 1
