"""Work that goes on while an end of a remote session is killed, and what must be as before afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

import vkshare as vks
from support.fd_counts import open_fds
from support.remote_ends import WAIT, Ends, random_pixels
from support.shared_handles import wait_until
from vkshare.errors import VkshareError


def busy(device: vks.Device, seed: int) -> None:
    """Draws, writes and reads until the device is lost."""
    dice = random.Random(seed)
    with contextlib.suppress(VkshareError), device.create_surface(200, 150) as surface:
        while True:
            with surface.access(timeout=WAIT) as view:
                if dice.random() < 0.3:
                    surface.write(random_pixels(surface, dice.randrange(99)))
                device.submit(device.record().fill_rect(view, (0, 0, 50, 50), (dice.random(), 0, 0, 1)))
                if dice.random() < 0.2:
                    surface.read(WAIT)


@contextlib.contextmanager
def working(devices: list[vks.Device]) -> Iterator[None]:
    """Threads that work with the devices; they end with them."""
    threads = [threading.Thread(target=busy, args=(device, i)) for i, device in enumerate(devices)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "a call waits for ever"


def keeps_its_files(counts: list[Counter[str]]) -> None:
    """Notes the open files, once there are no others than after the first call."""
    if counts:
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not _files() - counts[0])
        assert not _files() - counts[0], f"round {len(counts)}"
    counts.append(_files())


def _files() -> Counter[str]:
    """The open files of this process, by their kinds."""
    found = Counter[str]()
    for fd in open_fds():
        with contextlib.suppress(OSError):  # another thread has closed it
            found[re.sub(r"[0-9]+", "", os.readlink(f"/proc/self/fd/{fd}"))] += 1
    return found


def draws(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, surface.access():
        device.submit(device.record().clear(surface, (1, 0, 0, 1)))
        assert surface.read()[0, 0].tolist() == [255, 0, 0, 255]


def until_lost(device: vks.Device) -> None:
    wait_until(lambda: device.is_lost)
    with pytest.raises(VkshareError, match="lost"):
        device.create_surface(8, 8)


def await_end(ends: Ends, counts: list[Counter[str]]) -> None:
    """Waits until one program alone is left, and nothing of those that have ended."""
    wait_until(lambda: ends.viewer.statistics().programs == 1)
    wait_until(lambda: ends.viewer._server.statistics().workers == 1)
    wait_until(lambda: not ends.host._relay._images)
    wait_until(lambda: pictures_of(ends.viewer) == 0)
    ends.viewer._device.wait_idle(WAIT)
    keeps_its_files(counts)


def pictures_of(viewer: vks.remote.Viewer) -> int:
    viewer._pictures.reap()
    return len(viewer._pictures._pictures) + len(viewer._pictures._used)
