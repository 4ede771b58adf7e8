"""Descriptors of random bytes and fds: refused as documented, or opened; no crash, no hang, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.run_volumes import rounds, seeded, unhurried
from support.tree_paths import TESTS

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
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=90 + count / 100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reported = json.loads(done.stdout)
    print(reported)
    assert reported["unseen"] == []
    assert reported["left"]["fds"] <= 0
    assert reported["left"]["kib"] < MOST_KIB
    assert reported["outcomes"]["opened"] > count / 20
    assert reported["outcomes"]["DescriptorError"] > count / 20
