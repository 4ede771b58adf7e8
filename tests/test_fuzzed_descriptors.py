"""Descriptors of random bytes and fds: refused as documented, or opened; no crash, no hang, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks

pytestmark = unhurried
MOST_KIB = 8192  # that allocators keep after many of them


@pytest.mark.rule("X13", "X15", "X16", "X18")
def test_fuzzed_descriptors_end_as_documented_and_leave_nothing(vks_adapter: vks.Adapter) -> None:
    del vks_adapter  # the run's driver, which the program opens too
    count = rounds(200_000, 3_000)
    command = [sys.executable, "-X", "dev", "-X", "faulthandler", "-W", "ignore::ResourceWarning"]
    done = subprocess.run(
        [*command, "-m", "support.descriptor_fuzz", str(count), str(seeded().getrandbits(32))],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=90 + count / 100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    print(told)
    assert told["unseen"] == []
    assert told["left"]["fds"] <= 0
    assert told["left"]["kib"] < MOST_KIB
    assert told["outcomes"]["opened"] > count / 20
    assert told["outcomes"]["DescriptorError"] > count / 20
