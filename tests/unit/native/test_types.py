"""Objects without an __init__, with one that failed and with a second one: of each type that the extension has."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.tree_paths import TESTS

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


@pytest.mark.rule("X25")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_member_of_an_object_without_a_finished_init_crashes_and_no_exception_is_lost(seed: int) -> None:
    command = [sys.executable, "-X", "dev", "-X", "faulthandler", "-m", "support.every_type", str(seed)]
    child = subprocess.run(command, cwd=TESTS, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    assert child.returncode == 0, f"it ended by {child.returncode} in {child.stderr.rpartition(chr(13))[2]}"
    assert "native types" in child.stdout
