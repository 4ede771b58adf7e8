"""A random walk over the public API, in its own process: 1,000,000 calls with VKSHARE_SOAK=1, else some thousands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.run_volumes import SOAK, rounds, unhurried
from support.tree_paths import TESTS

import vkshare as vks
from vkshare import vsync

pytestmark = unhurried

WALKED = (
    *(vks.Device, vks.Fence, vks.Surface, vks.CommandList, vks.Submission, vks.View, vks.KeyedMutex, vks.SurfaceQueue),
    *(vks.Buffer, vks.BufferView, vks.BufferDescriptor),
    *(vks.Producer, vks.Consumer, vks.Sender, vks.Receiver, vks.Swapchain, vks.Frame, vks.SurfaceDescriptor),
    *(
        vks.FenceDescriptor,
        vks.QueueDescriptor,
        vsync.Display,
        vsync.VsyncDispatcher,
        vsync.Observer,
        vsync.VsyncBridge,
    ),
    *(vsync.RefreshTimer, vsync.VsyncDescriptor, vks.Publication),
)
# Raw handles, which must be valid; libraries that may be missing; what runs until it is ended.
LEFT_OUT = {
    "Device": {"adopt_fence", "from_handles"},
    "View": {"cairo", "skia"},
    "RefreshTimer": {"run", "run_async", "turn_async"},
}


@pytest.mark.rule("X25")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_order_of_calls_by_four_threads_crashes_hangs_or_raises_what_is_not_documented(
    vks_adapter: vks.Adapter, seed: int
) -> None:
    calls = rounds(500_000, 4000 if vks_adapter.backend == "cpu" else 1500)
    environment = {**os.environ, "PYTHONDEVMODE": "1", "VKSHARE_VALIDATION": "0"}  # speed: orders, not uses
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore::ResourceWarning", "-m", "support.random_walk"]
    walk = subprocess.run(
        [*command, str(seed), str(calls)],
        cwd=TESTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=14_000 if SOAK else 110,
    )
    assert walk.returncode == 0, walk.stderr[-8000:]
    assert "Exception ignored" not in walk.stderr
    print(walk.stdout)


@pytest.mark.parametrize("kind", WALKED, ids=lambda kind: kind.__name__)
def test_each_public_method_is_among_the_calls(kind: type) -> None:
    methods = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    text = (TESTS / "support" / "walker_calls.py").read_text() + (TESTS / "support" / "random_walk.py").read_text()
    missing = {name for name in methods if f'"{name}"' not in text}
    assert missing == LEFT_OUT.get(kind.__name__, set())
