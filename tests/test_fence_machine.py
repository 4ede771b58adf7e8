"""Everything in any order: fences, held submissions and event fds against their oracle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support.fence_machine import FENCES, MOST_HELD, STRIDES, Machine
from support.peers import Peer
from support.scale import SOAK, seeded, unhurried

import vkshare as vks

pytest_plugins = ["support.peers"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    unhurried,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    pytest.mark.rule("X1", "X4", "X10", "X23", "X24"),
]

STEPS = 1_000_000
QUICK_SECONDS = 2.5
DEVICES = 3
fences = st.integers(0, FENCES - 1)
numbers = st.integers(0, DEVICES - 1)
strides = st.sampled_from(STRIDES)


@pytest.fixture(params=["one process", "three processes"])
def devices(request: pytest.FixtureRequest, vks_open: Callable[..., vks.Device]) -> list[Any]:
    """Three devices, the first of them here."""
    if request.param == "one process":
        return [vks_open() for _ in range(DEVICES)]
    peers: Callable[..., Peer] = request.getfixturevalue("peers")
    return [vks_open(), peers().device, peers().device]


def test_whatever_hypothesis_does_the_fences_do_what_their_oracle_does(devices: list[Any]) -> None:
    cheap = devices[0].backend == "cpu" and all(isinstance(device, vks.Device) for device in devices)

    class Fences(RuleBasedStateMachine):
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

        @invariant()
        def all_is_as_the_oracle_has_it(self) -> None:
            self.machine.check()

        def teardown(self) -> None:
            self.machine.end()

    run_state_machine_as_test(
        Fences,
        settings=settings(
            max_examples=300 if SOAK or cheap else 30,
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_for_a_million_seeded_steps_the_fences_do_what_their_oracle_does(devices: list[Any]) -> None:
    dice = seeded()
    machine = Machine(devices)
    end = time.monotonic() + QUICK_SECONDS
    while machine.steps < STEPS and (SOAK or time.monotonic() < end):
        for _ in range(5):
            machine.step(dice)
        machine.check()
    print(f"\n{machine.steps} steps")
    machine.end()
    assert machine.steps >= 500
