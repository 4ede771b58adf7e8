"""SIGKILL of a mirror's process at any moment of its turns (rules G1 and K9)."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time

import pytest
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout

pytestmark = [pytest.mark.program, pytest.mark.every_driver, unhurried, pytest.mark.rule("G1", "K9", "K27")]

WIDTH, HEIGHT = 256, 192
PROGRAM = """
import socket, sys
import vkshare as vks
sock = socket.socket(fileno=int(sys.argv[1]))
device = vks.open(backend="cpu", validation=False)
with vks.SurfaceDescriptor.recv(sock, 30) as descriptor:
    mirror = device.mirror(descriptor)
assert mirror.statistics().path in ("memory", "host")
sock.send(b"ready")
while True:
    with mirror.access(1, 0, 60) as view:
        number = int(mirror.read()[5, 5, 0])
        assert (mirror.read()[..., 0] == number).all()
        device.submit(device.record().clear(view, (((number + 1) % 256) / 255,) * 4))
"""


class Child:
    """A process with a mirror: it adds one to the surface's number whenever the key is 1."""

    def __init__(self, surface: vks.Surface) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with mine, theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "VKSHARE_VALIDATION": "0", "VKSHARE_BACKEND": ""},
            )
            with surface.export() as descriptor:
                descriptor.send(mine, 30)
            mine.settimeout(60)
            assert mine.recv(16) == b"ready"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


def turn(surface: vks.Surface, expected: int) -> None:
    """Hand the surface to the mirror, and see what it has made of it."""
    device = surface.device
    surface.acquire(0, 60)
    device.submit(device.record().clear(surface, ((expected % 256) / 255,) * 4))
    surface.release(1)
    surface.acquire(0, 60)
    found = surface.read()[..., 0]
    surface.release(0)
    assert (found == (expected + 1) % 256).all()


def after_death(surface: vks.Surface) -> None:
    """Take the surface, whatever the killed process had of it, and give it back with key 0."""
    for key in (0, 1):
        try:
            surface.acquire(key, 0.2 if key else 0.5)
            break
        except AcquireTimeout:
            continue
        except AbandonedError:
            surface.recover(10)
            break
    else:
        pytest.fail(f"the surface cannot be taken: {surface.mutex.statistics()}")
    surface.release(0)


def _is_alone(surface: vks.Surface) -> bool:
    with contextlib.suppress(AcquireTimeout):
        surface.acquire(9, 0.01)  # a wait looks for dead processes; an acquire that finds the surface free does not
    with surface.access(0, 0, 60):
        return surface.mutex.statistics().handles == 1


def test_a_killed_mirror_leaves_its_last_release_or_an_abandoned_surface(device: vks.Device) -> None:
    if device.backend == "cpu":
        pytest.skip("the CPU backend's surfaces are opened, not mirrored, by its own devices")
    dice = random.Random(seeded().getrandbits(32))
    with device.create_surface(WIDTH, HEIGHT) as surface:
        with surface.access():
            pass
        for _ in range(rounds(60, 4)):
            child = Child(surface)
            try:
                number = dice.randrange(256)
                end = time.monotonic() + dice.uniform(0, 0.03)
                while True:
                    turn(surface, number)
                    number += 2
                    if time.monotonic() > end:
                        break
                surface.acquire(0, 60)
                device.submit(device.record().clear(surface, (0.5,) * 4))
                surface.release(1)  # and the mirror is killed somewhere in this turn
                time.sleep(dice.uniform(0, 0.004))
            finally:
                child.kill()
            after_death(surface)
        wait_until(lambda: _is_alone(surface))  # the kernel takes a while to end a process
