"""The host's relay over a link that breaks: programs, deaths and viewers in any order; no turn is missing or double."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.relay_machine import Program, Remoting
from support.run_volumes import rounds, seeded, unhurried

from vkshare.remote import images, inbox, outbox, relay

pytestmark = [pytest.mark.no_driver, unhurried]

ANY = st.integers(0, 11)
SEEDS = st.integers(0, 1000)
SIZES = st.sampled_from([4, 600, 3000])


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane is full after some messages, and pictures and lists are several messages."""
    for module in (outbox, inbox):
        monkeypatch.setattr(module, "LANE_WINDOW", 4096)
    monkeypatch.setattr(images, "MOST_PIXELS", 1024)
    monkeypatch.setattr(relay, "_PART", 512)
    monkeypatch.setattr(relay, "_INLINE", 900)


class Steps(RuleBasedStateMachine):
    """Everything that may happen to a host, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.remoting = Remoting()
        for _ in range(2):
            self.remoting.open_program()
        self.remoting.create_image(self.remoting.programs[0])

    def program(self, number: int) -> Program:
        if not self.remoting.programs:
            self.remoting.open_program()
        return self.remoting.programs[number % len(self.remoting.programs)]

    def image(self, number: int, program: Program) -> int:
        """One of all images, which the program has opened then."""
        if not self.remoting.live():
            self.remoting.create_image(program)
        live = self.remoting.live()
        image = live[number % len(live)]
        self.remoting.open_image(program, image)
        return image

    @rule()
    def open_program(self) -> None:
        self.remoting.open_program()

    @rule(program=ANY)
    def create_image(self, program: int) -> None:
        self.remoting.create_image(self.program(program))

    @rule(program=ANY, image=ANY)
    def close_image(self, program: int, image: int) -> None:
        it = self.program(program)
        self.remoting.close_image(it, self.image(image, it))

    @rule(program=ANY, several=st.lists(ANY, min_size=1, max_size=3), size=SIZES, writes=st.booleans())
    def draw(self, program: int, several: list[int], size: int, writes: bool) -> None:
        it = self.program(program)
        self.remoting.draw(it, {self.image(image, it) for image in several}, size, writes=writes)

    @rule(program=ANY, image=ANY, seed=SEEDS, is_upload=st.booleans())
    def transfer(self, program: int, image: int, seed: int, is_upload: bool) -> None:
        it = self.program(program)
        self.remoting.transfer(it, self.image(image, it), seed, is_upload=is_upload)

    @rule(program=ANY, image=ANY, seed=SEEDS)
    def write_local(self, program: int, image: int, seed: int) -> None:
        self.remoting.write_local(self.image(image, self.program(program)), seed)

    @rule(program=ANY, image=ANY)
    def present(self, program: int, image: int) -> None:
        it = self.program(program)
        self.remoting.present(it, self.image(image, it))

    @rule(program=ANY)
    def die(self, program: int) -> None:
        self.remoting.die(self.program(program))

    @rule(frames=st.integers(1, 5))
    def send(self, frames: int) -> None:
        self.remoting.send(frames)

    @rule(nbytes=st.one_of(st.integers(1, 400), st.just(1 << 30)))
    def carry(self, nbytes: int) -> None:
        self.remoting.carry(nbytes)

    @rule()
    def acknowledge(self) -> None:
        self.remoting.acknowledge()

    @rule(lane=ANY, steps=st.integers(1, 8))
    def advance(self, lane: int, steps: int) -> None:
        lanes = sorted(self.remoting.replay.lanes)[-4:]
        for _ in range(steps if lanes else 0):
            self.remoting.advance(lanes[lane % len(lanes)])

    @rule()
    def flow(self) -> None:
        self.remoting.flow()

    @rule()
    def lose(self) -> None:
        self.remoting.lose()

    @rule()
    def connect(self) -> None:
        self.remoting.connect()

    @rule()
    def new_session(self) -> None:
        self.remoting.new_session()

    @invariant()
    def bounds_hold(self) -> None:
        self.remoting.check()

    def teardown(self) -> None:
        try:
            self.remoting.settle()
        finally:
            self.remoting.close()


@pytest.mark.rule("M2", "M5", "M6", "M7", "M9", "M15", "M17")
def test_whatever_happens_each_turn_is_executed_once_and_in_the_order_of_the_grants() -> None:
    run_state_machine_as_test(
        Steps,
        settings=settings(
            max_examples=rounds(2000, 40, full=200),
            stateful_step_count=60,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.rule("M4", "M6")
def test_a_full_lane_holds_up_no_upload_that_it_waits_for() -> None:
    """A dead program's second upload stands behind the upload of a program that waits for it."""
    remoting = Remoting()
    try:
        for _ in range(2):
            remoting.open_program()
        dying, other = remoting.programs
        for _ in range(3):
            remoting.create_image(dying)
        first, second, third = remoting.live()
        for image in (second, third):
            remoting.open_image(other, image)
        remoting.draw(dying, [third], 3000, writes=True)  # its lane is nearly full
        remoting.write_local(first, 1)
        remoting.write_local(second, 1)
        remoting.draw(dying, [first, second], 4, writes=True)  # two uploads, before the list
        remoting.die(dying)
        for _ in range(5):
            remoting.draw(other, [second], 600, writes=True)  # its lane is full until the first program's turn
        remoting.transfer(other, third, 1, is_upload=True)
        assert other.waiting
        remoting.settle()
    finally:
        remoting.close()


@pytest.mark.rule("M2", "M6", "M7", "M17")
def test_a_long_random_life_of_programs_loses_and_doubles_no_turn() -> None:
    dice, life = seeded(), Steps()
    n = dice.randrange
    often: list[Callable[[], Any]] = [
        lambda: life.draw(n(12), [n(12) for _ in range(n(1, 4))], dice.choice((4, 600, 3000)), dice.random() < 0.8),
        lambda: life.transfer(n(12), n(12), n(1000), dice.random() < 0.8),
        lambda: life.present(n(12), n(12)),
        lambda: life.send(n(1, 6)),
        lambda: life.carry(dice.choice((n(1, 2000), 1 << 30))),
        life.acknowledge,
        lambda: life.advance(n(12), n(1, 9)),
        lambda: life.advance(n(12), n(1, 9)),
        life.flow,
        life.connect,
        life.open_program,
    ]
    rarely: list[Callable[[], Any]] = [
        lambda: life.create_image(n(12)),
        lambda: life.close_image(n(12), n(12)),
        lambda: life.write_local(n(12), n(12), n(1000)),
        lambda: life.die(n(12)),
        life.lose,
        lambda: life.new_session() if dice.random() < 0.2 else None,
        lambda: life.remoting.settle() if dice.random() < 0.05 else None,
    ]
    try:
        for _ in range(rounds(300_000, 6000, full=30_000)):
            dice.choice(often if dice.random() < 0.9 else rarely)()
            life.remoting.check()
        life.remoting.settle()
    finally:
        life.remoting.close()
    remoting = life.remoting
    assert min(remoting.turns, remoting.deaths, remoting.losses, remoting.sessions) > 0
    assert remoting.skipped + remoting.replay.skipped > 0
