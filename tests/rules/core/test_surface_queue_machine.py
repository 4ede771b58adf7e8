"""Everything in any order: networks of queues against their oracle, by Hypothesis and by a seeded million of steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from support.machine_runs import DEVICES, MARKS, Rules, run_by_chance, run_by_hypothesis
from support.queue_machine import CONSUMER, PRODUCER, QUEUES, SURFACES, WAITS, Machine

pytest_plugins = ["support.peer_processes", "support.machine_runs"]

pytestmark = [*MARKS, pytest.mark.rule("Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q11", "Q12", "Q13", "Q16", "Q24")]

queues = st.integers(0, QUEUES - 1)
ends = st.sampled_from((PRODUCER, CONSUMER))
numbers = st.integers(0, DEVICES - 1)


def test_whatever_hypothesis_does_the_queues_do_what_their_oracle_does(devices: list[Any]) -> None:
    class Queues(Rules):
        def __init__(self) -> None:
            super().__init__()
            self.machine = Machine(devices)
            for queue in range(QUEUES):  # something to do from the first step on
                self.machine.open(queue, CONSUMER, queue)
                self.machine.open((queue + 1) % QUEUES, PRODUCER, queue)

        @rule(queue=queues, end=ends, device=numbers)
        def open(self, queue: int, end: str, device: int) -> None:
            self.machine.open(queue, end, device)

        @rule(queue=queues, end=ends)
        def close(self, queue: int, end: str) -> None:
            self.machine.close(queue, end)

        @rule(
            queue=queues,
            surface=st.integers(0, SURFACES - 1),
            metadata=st.binary(max_size=8),
            wait=st.sampled_from(WAITS),
        )
        def enqueue(self, queue: int, surface: int, metadata: bytes, wait: Any) -> None:
            self.machine.enqueue(queue, surface, metadata, wait)

        @rule(queue=queues, wait=st.booleans())
        def flush(self, queue: int, wait: bool) -> None:
            self.machine.flush(queue, wait)

        @rule(queue=queues)
        def dequeue(self, queue: int) -> None:
            self.machine.dequeue(queue)

    run_by_hypothesis(Queues, devices)


def test_for_a_million_seeded_steps_the_queues_do_what_their_oracle_does(devices: list[Any]) -> None:
    run_by_chance(Machine(devices), devices, steps_a_check=5)
