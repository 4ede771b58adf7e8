"""A program in C that draws the frames of a window at a display's ticks."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from support import c_client
from support.c_client import complaints

import vkshare as vks

pytestmark = [pytest.mark.slow]


@pytest.mark.rule("C4")
def test_a_c_program_draws_frames_at_ticks_and_resizes_its_window(device: vks.Device) -> None:
    if device.backend == "cpu":
        pytest.skip("the program draws on a VkSurfaceKHR")
    layers = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"} if os.environ.get("VKSHARE_VALIDATION") else {}
    done = subprocess.run(
        [c_client.program("frames"), "12"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | layers,
    )
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stderr) == (0, ""), complaints(done.stdout + done.stderr)
    assert re.fullmatch(r"12 frames of 96x64, \d+ images\n", done.stdout)
