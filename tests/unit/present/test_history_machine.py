"""Everything in any order: the present history against a presentation engine in Python, for a million steps."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from support.history_machine import DEADLINE, IMAGES, Machine
from support.machine_runs import Rules
from support.run_volumes import FULL, rounds

STEPS = rounds(1_000_000, 100_000, full=1_000_000)

pytestmark = [
    pytest.mark.no_driver,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.rule("A1", "A2", "A3", "A4", "A5", "A7", "A8", "A11", "A12", "A15", "A16", "A20"),
]

images = st.integers(0, IMAGES - 1)


class History(Rules):
    policy = ""
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(self.policy)

    @initialize(count=st.integers(1, IMAGES), drains=st.booleans())
    def begin(self, count: int, drains: bool) -> None:
        self.machine.drains = drains
        self.machine.resize(count, False, False)

    def count(self) -> None:
        type(self).steps += 1

    @rule(codes=st.binary(min_size=100, max_size=200))
    def several_steps(self, codes: bytes) -> None:
        """A draw for each single step would cost ten times what the step does."""
        for code in codes:
            self.count()
            self.machine.step(code)

    @rule(image=images, semaphores=st.integers(0, 3), told_late=st.booleans())
    def frame(self, image: int, semaphores: int, told_late: bool) -> None:
        self.count()
        self.machine.frame(image, semaphores, told_late)

    @rule(image=images)
    def frame_that_runs_at_once(self, image: int) -> None:
        self.count()
        self.machine.frame(image)
        self.machine.run_dry()
        self.machine.collect()

    @rule(image=images)
    def drop(self, image: int) -> None:
        self.count()
        self.machine.drop(image)

    @rule(image=images)
    def acquire_with_a_fence(self, image: int) -> None:
        self.count()
        self.machine.acquire_with_a_fence(image)

    @rule(image=images)
    def run_out_of_memory(self, image: int) -> None:
        self.count()
        self.machine.run_out_of_memory(image)

    @rule()
    def consume(self) -> None:
        self.count()
        self.machine.consume()

    @rule()
    def complete(self) -> None:
        self.count()
        self.machine.complete()

    @rule()
    def run_dry(self) -> None:
        self.count()
        self.machine.run_dry()

    @rule(number=st.integers(0, 7))
    def signal(self, number: int) -> None:
        self.count()
        self.machine.signal(number)

    @rule()
    def collect(self) -> None:
        self.count()
        self.machine.collect()

    @rule(ns=st.sampled_from([1, DEADLINE // 3, DEADLINE]))
    def time_passes(self, ns: int) -> None:
        self.count()
        self.machine.now += ns

    @rule(count=st.integers(1, IMAGES), is_shared=st.booleans(), fails=st.booleans())
    def resize(self, count: int, is_shared: bool, fails: bool) -> None:
        self.count()
        self.machine.resize(count, is_shared, fails)


@pytest.mark.parametrize("policy", ["acquires", "fences"])
def test_whatever_hypothesis_does_nothing_comes_out_that_may_be_in_use(policy: str) -> None:
    class OfPolicy(History):
        pass

    OfPolicy.policy = policy
    every = settings(
        max_examples=200 if FULL else 20,
        stateful_step_count=50,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    while OfPolicy.steps < STEPS // 2:
        run_state_machine_as_test(OfPolicy, settings=every)
    print(f"\n{OfPolicy.steps} steps")
