"""Everything in any order: the keyed mutex against its oracle, by Hypothesis and by a seeded million of steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.mutex_machine import KEYS, SEATS, Machine
from support.peers import Peer
from support.scale import SOAK, seeded, unhurried

import vkshare as vks

pytest_plugins = ["support.peers"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    unhurried,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    pytest.mark.rule("K1", "K2", "K3", "K4", "K5", "K6", "K7", "K14", "K16", "K17", "K20", "K21", "K27", "K29"),
]

STEPS = 1_000_000
QUICK_SECONDS = 2.5
seats = st.integers(0, SEATS - 1)
keys = st.sampled_from(KEYS)


@pytest.fixture(params=["one process", "three processes"])
def devices(request: pytest.FixtureRequest, vks_open: Callable[..., vks.Device]) -> list[Any]:
    """Three devices, the first of them here."""
    if request.param == "one process":
        return [vks_open() for _ in range(3)]
    peers: Callable[..., Peer] = request.getfixturevalue("peers")
    return [vks_open(), peers().device, peers().device]


def test_whatever_hypothesis_does_the_mutex_does_what_its_oracle_does(devices: list[Any]) -> None:
    cheap = devices[0].backend == "cpu" and all(isinstance(device, vks.Device) for device in devices)

    class KeyedMutex(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.machine = Machine(devices)

        @rule(seat=seats, key=keys)
        def acquire(self, seat: int, key: int) -> None:
            self.machine.acquire(seat, key)

        @rule(seat=seats)
        def acquire_what_was_released(self, seat: int) -> None:
            self.machine.acquire(seat, self.machine.oracle.key)

        @rule(seat=seats, key=keys)
        def release(self, seat: int, key: int) -> None:
            self.machine.release(seat, key)

        @rule(key=keys)
        def release_by_the_owner(self, key: int) -> None:
            if self.machine.oracle.owner is not None:
                self.machine.release(self.machine.oracle.owner, key)

        @rule(seat=seats)
        def close(self, seat: int) -> None:
            self.machine.close(seat)

        @rule(seat=seats)
        def open(self, seat: int) -> None:
            self.machine.open(seat)

        @rule(seat=seats)
        def recover(self, seat: int) -> None:
            self.machine.recover(seat)

        @rule(seat=seats)
        def write(self, seat: int) -> None:
            self.machine.write(seat)

        @rule(seat=seats)
        def clear(self, seat: int) -> None:
            self.machine.clear(seat)

        @rule(seat=seats)
        def read(self, seat: int) -> None:
            self.machine.read(seat)

        @invariant()
        def all_is_as_the_oracle_has_it(self) -> None:
            self.machine.check()

        def teardown(self) -> None:
            self.machine.end()

    run_state_machine_as_test(
        KeyedMutex,
        settings=settings(
            max_examples=300 if SOAK or cheap else 30,
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_for_a_million_seeded_steps_the_mutex_does_what_its_oracle_does(devices: list[Any]) -> None:
    dice = seeded()
    machine = Machine(devices)
    end = time.monotonic() + QUICK_SECONDS
    while machine.steps < STEPS and (SOAK or time.monotonic() < end):
        for _ in range(100):
            machine.step(dice)
        machine.check()
    print(f"\n{machine.steps} steps")
    machine.end()
    assert machine.steps >= 500
