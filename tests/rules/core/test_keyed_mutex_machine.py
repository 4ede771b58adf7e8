"""Everything in any order: the keyed mutex against its oracle, by Hypothesis and by a seeded million of steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from support.machine_runs import MARKS, Rules, run_by_chance, run_by_hypothesis
from support.mutex_machine import KEYS, SEATS, Machine

pytest_plugins = ["support.peer_processes", "support.machine_runs"]

pytestmark = [
    *MARKS,
    pytest.mark.rule("K1", "K2", "K3", "K4", "K5", "K6", "K7", "K14", "K16", "K17", "K20", "K21", "K27", "K29"),
]

seats = st.integers(0, SEATS - 1)
keys = st.sampled_from(KEYS)


def test_whatever_hypothesis_does_the_mutex_does_what_its_oracle_does(devices: list[Any]) -> None:
    class KeyedMutex(Rules):
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

    run_by_hypothesis(KeyedMutex, devices)


def test_for_a_million_seeded_steps_the_mutex_does_what_its_oracle_does(devices: list[Any]) -> None:
    run_by_chance(Machine(devices), devices, steps_a_check=100)
