"""A pytest plugin: what machines, which do everything to vkshare and to an oracle, run on, and how."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

import vkshare as vks
from support.peer_processes import Peer
from support.run_volumes import FULL, SOAK, seeded, unhurried

DEVICES = 3

MARKS = [unhurried, pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

_STEPS = 1_000_000
_LEAST = 500  # however slow this machine is
_SECONDS = 2.5 if FULL else 0.8
_EXAMPLES = 300 if FULL else 60


@pytest.fixture(params=["one process", "three processes"])
def devices(request: pytest.FixtureRequest, vks_open: Callable[..., vks.Device]) -> list[Any]:
    """Three devices, the first of them here."""
    if not SOAK and os.environ.get("VKSHARE_TEST_DRIVER", "") in ("lavapipe22", "swiftshader"):
        pytest.skip("machines run on cpu and lavapipe25, and in a soak everywhere")
    if request.param == "one process":
        return [vks_open() for _ in range(DEVICES)]
    peers: Callable[..., Peer] = request.getfixturevalue("peers")
    return [vks_open(), peers().device, peers().device]


class Rules(RuleBasedStateMachine):
    """What Hypothesis may do, in any order. A subclass makes the machine, and has the rules."""

    machine: Any

    @invariant()
    def all_is_as_the_oracle_has_it(self) -> None:
        self.machine.check()

    def teardown(self) -> None:
        self.machine.end()


def _cheap(devices: list[Any]) -> bool:
    """Whether a step costs little here."""
    return devices[0].backend == "cpu" and all(isinstance(device, vks.Device) for device in devices)


def run_by_hypothesis(rules: type[Rules], devices: list[Any]) -> None:
    """300 runs of 50 steps, or as many as fit this run."""
    run_state_machine_as_test(
        rules,
        settings=settings(
            max_examples=_EXAMPLES if SOAK or _cheap(devices) else _EXAMPLES // 10,
            stateful_step_count=50,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def run_by_chance(machine: Any, devices: list[Any], steps_a_check: int) -> None:
    """A seeded million of steps, or as many as fit this run."""
    dice = seeded()
    end = time.monotonic() + _SECONDS * (2 if _cheap(devices) else 1)
    while machine.steps < _STEPS and (SOAK or machine.steps < _LEAST or time.monotonic() < end):
        for _ in range(steps_a_check):
            machine.step(dice)
        machine.check()
    print(f"\n{machine.steps} steps")
    machine.end()
