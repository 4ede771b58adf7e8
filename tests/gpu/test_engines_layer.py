"""Stock wgpu in turns that the GPU orders: its submit waits for no other party on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.engine_process import run_with_layer
from support.wgpu_engine import pair

import vkshare as vks

pytestmark = pytest.mark.vks_gpu

SIDE = 4096


def slow_work(device: vks.Device, surface: vks.Surface, times: int = 400) -> Any:
    """Tens of milliseconds, which leave the surface red."""
    commands = device.record()
    for n in range(times):
        commands.fill_rect(surface, (0, 0, SIDE, SIDE), (n / times, 0, 0, 1))
    return commands.clear(surface, (1, 0, 0, 1))


def overlapping_turns(turns: int) -> list[tuple[bool, bool]]:
    found = []
    with pair(SIDE, SIDE, "rgba8unorm") as (engine, near, texture, far):
        for _ in range(turns):
            far.acquire(0, 60)
            submission = far.device.submit(slow_work(far.device, far))
            far.release(1)
            near.acquire(1, 60)
            engine.write(texture, np.full((1, 64, 4), 255, np.uint8))
            was_running = not submission.is_done()
            near.release(2)
            with far.access(2, 0, 60):
                pixels = far.read()
            found.append((was_running, bool((pixels[0, :64] == 255).all() and (pixels[1:] == (255, 0, 0, 255)).all())))
    return found


@pytest.mark.rule("E12")
def test_wgpus_submit_returns_while_the_previous_owners_work_still_runs(gpu: Callable[..., vks.Device]) -> None:
    pytest.importorskip("wgpu", reason="wgpu is not installed (vkshare[engines])")
    gpu()  # skips where there is none
    found = run_with_layer(overlapping_turns, 5)
    assert any(was_running for was_running, _ in found)
    assert all(is_right for _, is_right in found)
