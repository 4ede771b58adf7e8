"""Random messages to `vkshare serve` in Python's development mode. Rules R13, R18."""

from __future__ import annotations

import sys

import pytest
from support import message_fuzz
from support.run_volumes import rounds, seeded, unhurried

pytestmark = [unhurried, pytest.mark.slow]


@pytest.mark.rule("R13", "R18", "R11")
def test_random_messages_leave_a_server_with_a_compositor_that_works_and_ends_cleanly() -> None:
    """1,000,000 in a soak: no crash, no hang, no unreported exception."""
    run = message_fuzz.run(rounds(1_000_000, 5_000), seeded().getrandbits(32))
    print(run, f"{run.messages / run.seconds:.0f} a second", file=sys.stderr)
    assert run.trouble == ""
    assert run.status == 0
    assert run.slowest < message_fuzz.HANG
    assert run.requests > run.messages // 4, "most of it was no request"
