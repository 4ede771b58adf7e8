"""Outbox, inbox and stream over a connection that breaks at any byte: once, in order, whole, within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.link_machine import Machine
from support.run_volumes import rounds, seeded, unhurried

pytestmark = [pytest.mark.no_driver, unhurried]

ENDS = st.integers(0, 1)
LANES = st.integers(0, 3)
SIZES = st.one_of(st.integers(8, 600), st.sampled_from([32768, 32769, 100_000, 400_000]))


class Steps(RuleBasedStateMachine):
    """Everything that may happen to a link, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()

    @rule(
        end=ENDS,
        lane=LANES,
        size=SIZES,
        key=st.sampled_from([None, "present"]),
        stale=st.booleans(),
        pixels=st.booleans(),
    )
    def put(self, end: int, lane: int, size: int, key: str | None, stale: bool, pixels: bool) -> None:
        self.machine.put(end, lane, size, key, stale, pixels)

    @rule(end=ENDS, frames=st.integers(1, 20))
    def send(self, end: int, frames: int) -> None:
        self.machine.send(end, frames)

    @rule(end=ENDS, nbytes=st.one_of(st.integers(1, 400), st.just(1 << 30)))
    def carry(self, end: int, nbytes: int) -> None:
        self.machine.carry(end, nbytes)

    @rule(end=ENDS, lane=LANES)
    def consume(self, end: int, lane: int) -> None:
        self.machine.consume(end, lane)

    @rule(end=ENDS, lane=LANES)
    def end_lane(self, end: int, lane: int) -> None:
        self.machine.end_lane(end, lane)

    @rule(seconds=st.sampled_from([0.001, 0.021, 0.5]))
    def wait(self, seconds: float) -> None:
        self.machine.wait(seconds)

    @rule()
    def lose(self) -> None:
        self.machine.lose()

    @rule()
    def connect(self) -> None:
        self.machine.connect()

    @invariant()
    def bounds_hold(self) -> None:
        self.machine.check()

    def teardown(self) -> None:
        self.machine.settle()


@pytest.mark.rule("M7", "M17")
def test_whatever_happens_each_message_arrives_once_whole_and_in_order() -> None:
    run_state_machine_as_test(
        Steps,
        settings=settings(
            max_examples=rounds(2000, 60, full=300),
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.rule("M17")
def test_a_long_random_life_with_many_losses_loses_and_doubles_nothing() -> None:
    dice, machine = seeded(), Machine()
    steps: list[Any] = [
        lambda: machine.put(dice.randrange(2), dice.randrange(6), dice.randrange(8, 2000)),
        lambda: machine.put(
            dice.randrange(2), dice.randrange(6), dice.randrange(8, 200_000), pixels=dice.random() < 0.5
        ),
        lambda: machine.put(dice.randrange(2), dice.randrange(6), 500, "present", dice.random() < 0.5),
        lambda: machine.send(dice.randrange(2), dice.randrange(1, 30)),
        lambda: machine.carry(dice.randrange(2), dice.choice((dice.randrange(1, 5000), 1 << 30))),
        lambda: machine.consume(dice.randrange(2), dice.randrange(6)),
        lambda: machine.wait(dice.choice((0.0001, 0.021, 0.2))),
        lambda: machine.lose() if dice.random() < 0.1 else None,
        machine.connect,
    ]
    for _ in range(rounds(1_000_000, 20_000, full=50_000)):
        dice.choice(steps)()
        machine.check()
    assert machine.losses > 5
    machine.settle()
    for end in machine.ends:
        sent, got = end.session.outbox.statistics(), end.session.inbox.statistics()
        print(f"\n{sent}\n{got}")
        assert sent.messages > 100
        assert sent.replaced
        assert sent.resent
        assert got.acknowledgements
