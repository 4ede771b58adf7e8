"""Programs of a remote session, each a process of its own: a viewer, a host, one that draws, one that composites."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from support import numbered_kills
from support.tree_paths import TESTS

KEEPALIVE, GRACE = 0.5, 0.5  # seconds

VIEWER = """
import sys, vkshare as vks
with vks.open(backend="cpu") as device:
    with vks.remote.Viewer(sys.argv[1], token=sys.argv[2], device=device, headless=True) as viewer:
        print("up", flush=True)
        viewer.run()
"""

HOST = f"""
import sys, vkshare as vks
with vks.remote.Host("127.0.0.1:0", token=sys.argv[1], keepalive={KEEPALIVE}, grace={GRACE}) as host:
    print(host.address, host.path, flush=True)
    sys.stdin.read()
"""

PROGRAM = """
import sys, numpy as np, vkshare as vks
from vkshare.remote.device import open_device
with open_device(sys.argv[1]) as device, device.create_surface(512, 512) as surface:
    pixels, number = np.random.default_rng(1).integers(0, 256, (512, 512, 4), np.uint8), 0
    while True:
        with surface.access():
            surface.write(pixels + np.uint8(number % 256))
            device.submit(device.record().fill_rect(surface, (0, 0, 9, 9), (1, 0, 0, 1)))
            if number % 3 == 0:
                surface.read()
        number += 1
        if number == 2:
            print("drawing", flush=True)
"""

COMPOSITOR = """
import sys, vkshare as vks
from vkshare.remote.device import open_device
with open_device(sys.argv[1]) as device, vks.open_published(sys.argv[2], device) as frames:
    with device.create_surface(64, 64) as picture, picture.access():
        print("up", flush=True)
        while True:
            with frames.frame() as (surface, number):
                print(int.from_bytes(number, "little"), flush=True)
                device.submit(device.record().composite(surface, picture, (8, 8)))
                picture.read()
"""


@contextlib.contextmanager
def process(
    code: str, *arguments: str, kill_at: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A program, and the words of its first line; none if it kills itself before, at the point of that number."""
    environment = {**os.environ, "PYTHONPATH": os.fspath(TESTS)}
    if kill_at is not None:
        code = f"import support.numbered_kills\n{code}"
        environment[numbered_kills.VARIABLE] = str(kill_at)
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as started:  # type: ignore[call-overload]
        try:
            yield started, started.stdout.readline().split()
        finally:
            started.kill()
