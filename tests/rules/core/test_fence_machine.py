"""Everything in any order: fences, held submissions and event fds against their oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support.fence_machine import FENCES, MOST_HELD, STRIDES, Machine
from support.machine_runs import DEVICES, MARKS, Rules, run_by_chance, run_by_hypothesis

pytest_plugins = ["support.peer_processes", "support.machine_runs"]

pytestmark = [*MARKS, pytest.mark.rule("X1", "X4", "X10", "X23", "X24")]

fences = st.integers(0, FENCES - 1)
numbers = st.integers(0, DEVICES - 1)
strides = st.sampled_from(STRIDES)


def test_whatever_hypothesis_does_the_fences_do_what_their_oracle_does(devices: list[Any]) -> None:
    class Fences(Rules):
        def __init__(self) -> None:
            super().__init__()
            self.machine = Machine(devices)

        @rule(fence=fences, stride=strides)
        def signal(self, fence: int, stride: int) -> None:
            self.machine.signal(fence, stride)

        @rule(
            device=numbers,
            waits=st.lists(st.tuples(fences, st.sampled_from((-2, 0, 1, 2))), max_size=3),
            signals=st.lists(st.tuples(st.integers(0, FENCES // DEVICES - 1), strides), max_size=2),
        )
        def submit(self, device: int, waits: list[tuple[int, int]], signals: list[tuple[int, int]]) -> None:
            mine = [(which * DEVICES + device, stride) for which, stride in signals]
            self.machine.submit(device, waits, mine)

        @rule(fence=fences, device=numbers, above=st.sampled_from((-1, 0, 1, 2, 3)))
        def watch(self, fence: int, device: int, above: int) -> None:
            self.machine.watch(fence, device, above)

        @rule(fence=fences, device=numbers)
        def signal_by_a_follower(self, fence: int, device: int) -> None:
            self.machine.signal_by_a_follower(fence, device)

        @rule(fence=fences)
        def replace(self, fence: int) -> None:
            self.machine.replace(fence)

        @precondition(lambda self: len(self.machine.oracle.held) > MOST_HELD // 2)
        @rule()
        def restart(self) -> None:
            self.machine.restart()

    run_by_hypothesis(Fences, devices)


def test_for_a_million_seeded_steps_the_fences_do_what_their_oracle_does(devices: list[Any]) -> None:
    run_by_chance(Machine(devices), devices, steps_a_check=5)
