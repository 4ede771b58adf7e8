"""The state machine of a viewer, and of the video that viewers share (rules W3 and W4)."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vkshare.view.viewer_state import (
    KEY_INTERVAL,
    MOST_BYTES,
    MOST_UNACKNOWLEDGED,
    PATIENCE,
    REST,
    Kind,
    Mode,
    StreamState,
    ViewerState,
)

pytestmark = pytest.mark.no_driver

ALL = 0b1111
INEXACT = -1  # what a page shows after video


def viewer(**more: bool) -> ViewerState:
    return ViewerState(ALL, has_video=more.get("has_video", True))


def moving(state: ViewerState, now: float = 0.0) -> float:
    """Three large changes, 0.1 s apart, each shown as the mode has it; the time of the last."""
    for step in range(3):
        now += 0.1
        state.change(ALL, True, now)
        if step < 2:
            kind = state.next(now)
            assert kind is not None
            state.acknowledged(state.sent(kind), now)
    return now


def test_a_viewer_gets_what_has_changed_since_what_it_shows() -> None:
    state = viewer()
    assert state.next(0) is None
    state.change(ALL, False, 0)
    assert (state.next(0), state.damage) == (Kind.TILES, ALL)
    assert state.sent(Kind.TILES) == 1
    state.change(0b0001, False, 1)
    state.change(0b0100, False, 2)
    assert (state.next(2), state.damage) == (Kind.TILES, 0b0101)
    assert state.sent(Kind.TILES) == 2
    assert state.next(2) is None


@pytest.mark.rule("W4")
def test_three_frames_are_on_their_way_at_most_and_a_late_viewer_gets_the_newest() -> None:
    state = viewer()
    for step in range(MOST_UNACKNOWLEDGED):
        state.change(ALL, False, step)
        assert state.next(step) is Kind.TILES
        state.sent(Kind.TILES)
    for step in range(10, 10_000):
        state.change(0b10, False, step)
        assert state.next(step) is None
    assert state.unacknowledged == (1, 2, 3)
    assert state.deadline() is None
    state.acknowledged(2, 10_000)
    assert state.unacknowledged == (3,)
    assert (state.next(10_000), state.damage) == (Kind.TILES, 0b10)


@pytest.mark.rule("W4")
def test_large_frames_are_bounded_by_their_bytes_and_a_single_one_is_sent_all_the_same() -> None:
    state = viewer()
    state.change(ALL, False, 0)
    state.note_size(state.sent(Kind.TILES), 2 * MOST_BYTES)
    state.change(ALL, False, 1)
    assert not state.has_room
    assert state.next(1) is None
    state.acknowledged(1, 1)
    assert state.next(1) is Kind.TILES


@pytest.mark.parametrize("frame", [0, 2, 4, 99])
def test_an_acknowledgement_of_a_frame_that_is_not_on_its_way_is_refused(frame: int) -> None:
    state = viewer()
    for step in range(3):
        state.change(ALL, False, step)
        state.sent(Kind.TILES)
    state.acknowledged(2, 3)
    with pytest.raises(ValueError, match=rf"frame {frame} was acknowledged; unacknowledged are \[3\]"):
        state.acknowledged(frame, 3)
    assert state.unacknowledged == (3,)


@pytest.mark.rule("W3")
@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.VIDEO])
def test_a_picture_that_moves_is_video_and_lossless_within_a_second_of_rest(mode: Mode) -> None:
    state = viewer()
    state.set_mode(mode)
    now = moving(state)
    assert state.next(now) is Kind.VIDEO
    state.acknowledged(state.sent(Kind.VIDEO), now)
    assert state.next(now) is None
    deadline = state.deadline()
    assert deadline is not None
    assert deadline <= now + 1
    assert (state.next(deadline), state.damage) == (Kind.TILES, ALL)
    state.sent(Kind.TILES)
    assert state.deadline() is None


def test_a_single_large_change_and_small_ones_stay_lossless() -> None:
    state = viewer()
    for step in range(100):
        now = step * 0.05
        state.change(ALL if step == 50 else 1, step == 50, now)
        assert state.next(now) is Kind.TILES
        state.acknowledged(state.sent(Kind.TILES), now)


def test_video_gives_way_to_tiles_when_only_small_parts_change() -> None:
    state = viewer()
    now = moving(state)
    state.sent(Kind.VIDEO)
    state.change(1, False, now + REST / 2)
    assert state.next(now + REST / 2) is Kind.VIDEO
    state.sent(Kind.VIDEO)
    state.change(1, False, now + REST)
    assert (state.next(now + REST), state.damage) == (Kind.TILES, ALL)


def test_the_mode_lossless_and_a_lack_of_codecs_mean_tiles() -> None:
    for state, mode in ((viewer(), Mode.LOSSLESS), (viewer(has_video=False), Mode.VIDEO)):
        state.set_mode(mode)
        assert state.next(moving(state)) is Kind.TILES
    state = viewer()
    now = moving(state)
    state.sent(Kind.VIDEO)
    state.lose_video(now)
    assert (state.next(now), state.damage) == (Kind.TILES, ALL)


def test_the_last_picture_of_all_is_lossless_at_once() -> None:
    state = viewer()
    now = moving(state)
    state.sent(Kind.VIDEO)
    state.hurry()
    assert state.next(now) is Kind.TILES


# ---- the shared video


def watching(count: int, stream: StreamState) -> tuple[list[ViewerState], float]:
    """Viewers of a moving picture that have got its first access unit."""
    states = [viewer() for _ in range(count)]
    now = max(moving(each) for each in states)
    plan = stream.plan(states, now)
    assert plan.is_key
    assert plan.viewers == tuple(states)
    give(stream, states, now)
    return states, now


def give(stream: StreamState, states: list[ViewerState], now: float) -> tuple[list[int], bool]:
    """Let the stream go on; the places of the viewers that got an access unit, and whether it was a keyframe."""
    plan = stream.plan(states, now)
    if plan.viewers:
        stream.advance(plan, now)
    for each in plan.viewers:
        each.sent(Kind.VIDEO)
    return sorted(states.index(each) for each in plan.viewers), plan.is_key


def change(states: list[ViewerState], now: float) -> None:
    for each in states:
        each.change(ALL, True, now)


def acknowledge(states: list[ViewerState], now: float) -> None:
    for each in states:
        each.acknowledged(each.unacknowledged[-1], now)


def test_viewers_in_step_share_access_units_and_a_new_one_gets_a_keyframe() -> None:
    stream = StreamState()
    states, now = watching(2, stream)
    acknowledge(states, now)
    change(states, now + 0.1)
    assert give(stream, states, now + 0.1) == ([0, 1], False)
    late = viewer()
    moving(late, now - 0.2)
    states.append(late)
    acknowledge(states[:2], now + 0.2)
    change(states, now + KEY_INTERVAL)
    assert give(stream, states, now + KEY_INTERVAL) == ([0, 1, 2], True)
    change(states, now + KEY_INTERVAL + 0.1)
    assert give(stream, states, now + KEY_INTERVAL + 0.1) == ([0, 1, 2], False)


def test_keyframes_that_others_do_not_need_are_rare() -> None:
    stream = StreamState()
    states, now = watching(1, stream)
    late = viewer()
    moving(late, now - 0.25)
    states.append(late)
    change(states, now + 0.1)
    plan = stream.plan(states, now + 0.1)
    assert (plan.viewers, plan.again_at) == ((states[0],), now + KEY_INTERVAL)


def test_the_stream_waits_a_moment_for_a_viewer_that_acknowledges() -> None:
    stream = StreamState()
    states, now = watching(2, stream)
    for step in (1, 2):
        change(states, now + step / 100)
        assert give(stream, states, now + step / 100) == ([0, 1], False)
    acknowledge(states[:1], now + 0.03)
    change(states, now + 0.03)
    states[1].acknowledged(states[1].unacknowledged[0], now + 0.03)
    give(stream, states, now + 0.03)
    acknowledge(states[:1], now + 0.04)
    change(states, now + 0.04)  # the second has no room, and has acknowledged just now
    plan = stream.plan(states, now + 0.04)
    assert (plan.viewers, plan.again_at) == ((), now + 0.03 + PATIENCE)
    assert give(stream, states, now + 0.03 + PATIENCE) == ([0], False)
    states[1].acknowledged(states[1].unacknowledged[-1], now + 0.2)
    assert stream.plan(states, now + 0.2).viewers == ()  # out of step, until a keyframe may come
    acknowledge(states[:1], now + 0.3)
    change(states, now + 0.3)
    assert give(stream, states, now + 0.3) == ([0], False)
    assert give(stream, states, now + KEY_INTERVAL) == ([0, 1], True)
    change(states, now + KEY_INTERVAL + 0.01)
    assert give(stream, states, now + KEY_INTERVAL + 0.01) == ([0, 1], False)


@pytest.mark.rule("W4")
def test_a_viewer_that_never_acknowledges_does_not_hold_the_stream() -> None:
    stream = StreamState()
    states, now = watching(2, stream)
    for _ in range(100):
        now += 0.02
        acknowledge(states[:1], now)
        change(states, now)
        assert 0 in give(stream, states, now)[0]
    assert len(states[1].unacknowledged) == MOST_UNACKNOWLEDGED


# ---- any order of events


class Viewing(RuleBasedStateMachine):
    """A picture of four tiles with numbers for pixels, a viewer's state, and the page that shows what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.picture = [0, 0, 0, 0]
        self.canvas = [INEXACT] * 4
        self.wire: deque[tuple[int, list[int]]] = deque()  # frames, and what the page shows after them
        self.sent = [INEXACT] * 4  # what the page shows after all of them
        self.last_change = 0.0
        self.state = ViewerState(ALL, has_video=True)
        self.state.change(ALL, False, 0)

    @rule(mask=st.integers(0, ALL), is_large=st.booleans())
    def draw(self, mask: int, is_large: bool) -> None:
        self.picture = [value + (mask >> tile & 1) for tile, value in enumerate(self.picture)]
        self.state.change(mask, is_large, self.now)
        if mask:
            self.last_change = self.now

    @rule(mode=st.sampled_from(Mode))
    def choose(self, mode: Mode) -> None:
        self.state.set_mode(mode)

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.3, 1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def send(self) -> None:
        kind = self.state.next(self.now)
        if kind is None:
            return
        if kind is Kind.TILES:
            mask = self.state.damage
            self.sent = [self.picture[tile] if mask >> tile & 1 else self.sent[tile] for tile in range(4)]
        else:
            self.sent = [INEXACT] * 4
        self.wire.append((self.state.sent(kind), self.sent))

    @precondition(lambda self: self.wire)
    @rule(count=st.integers(1, 3))
    def acknowledge(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            frame, self.canvas = self.wire.popleft()
        self.state.acknowledged(frame, self.now)

    @rule()
    def come_to_rest(self) -> None:
        """Nothing changes any more, and the page acknowledges: a second after the last change, all is exact."""
        while self.wire:
            self.acknowledge(3)
        self.now = max(self.now, self.last_change + 1)
        for _ in range(3):
            self.send()
            while self.wire:
                self.acknowledge(3)
        assert self.canvas == self.picture
        assert self.state.deadline() is None

    @invariant()
    def few_frames_are_on_their_way(self) -> None:
        assert len(self.state.unacknowledged) == len(self.wire) <= MOST_UNACKNOWLEDGED

    @invariant()
    def tiles_without_damage_are_exact(self) -> None:
        for tile in range(4):
            assert self.state.damage >> tile & 1 or self.sent[tile] == self.picture[tile]

    @invariant()
    def the_state_stays_small(self) -> None:
        assert 0 <= self.state.damage <= ALL
        assert len(self.state._large) <= 3


TestViewing = pytest.mark.rule("W3", "W4")(Viewing.TestCase)
TestViewing.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
