"""A pytest plugin: a runtime folder of a test's own, and publishers in it, here and in peers."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from support.shared_handles import wait_until
from vkshare.core import watching
from vkshare.core.service_thread import service
from vkshare.errors import AcquireTimeout, ClosedError
from vkshare.ipc import sockets

LIMIT = 30  # seconds


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """XDG_RUNTIME_DIR of this process. After the test no name is left in it.

    The names of the user's other programs, in the folder in /tmp, are hidden from this process.
    """
    home = Path(tempfile.mkdtemp(prefix="vks-"))
    folder = home / "run"
    folder.mkdir(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(sockets, "_in_tmp", lambda: home / "tmp")
    yield folder
    vks.find()  # removes what killed processes left
    left = list(folder.iterdir())
    shutil.rmtree(home)
    assert left == []


def service_is_at_rest() -> bool:
    """Whether the process's service thread has ended."""
    return service._thread is None


# ---- run by peers ------------------------------------------------------------------------------------------------


def use_runtime(folder: str) -> None:
    os.environ["XDG_RUNTIME_DIR"] = folder


def watch(source: Any, device: vks.Device, count: int = 3) -> Any:
    return watching.watch(source, device, count=count)


def try_to_publish(surface: vks.Surface, name: str) -> str:
    """Returns "" or the refusal."""
    try:
        surface.publish(name)
    except vks.InvalidCallError as error:
        return str(error)
    return ""


def fork_a_child() -> int:
    """Fork a process that does nothing for as long as it is let; return its pid."""
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(60)
    return pid


def newest(receiver: Any) -> tuple[Any, int]:
    """The serial number and the first pixel's red of the newest copy."""
    with receiver.frame(LIMIT, latest=True) as (surface, metadata):
        stamp = watching.stamp_of(metadata)
        assert stamp is not None
        return stamp.serial, int(surface.read()[0, 0, 2 if surface.format.startswith("bgra") else 0])


# ---- frames ------------------------------------------------------------------------------------------------------


class Pipe:
    """A pipe on one device, whose receiver takes each frame at once."""

    def __init__(self, device: vks.Device, reader: vks.Device | None = None, width: int = 16, height: int = 8) -> None:
        self.device = device
        self.sender, self.descriptor = vks.pipe(device, width, height)
        self.receiver = vks.open_receiver(reader or device, self.descriptor)
        self.number = 0

    def turn(self, *, reads: bool = False) -> int:
        """Send a frame, and take it, or also read it; return its number, which is its red."""
        self.number = self.number % 255 + 1
        with self.sender.frame(timeout=LIMIT) as frame:
            self.device.submit(self.device.record().clear(frame.view, (self.number / 255, 0, 0, 1)))
        with self.receiver.frame(LIMIT) as (surface, _):
            assert not reads or surface.read(LIMIT)[0, 0, 0] == self.number
        return self.number

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()
        self.descriptor.close()

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def clear_red(surface: vks.Surface, red: int, acquire: int = 0, release: int = 0) -> None:
    with surface.access(acquire, release, LIMIT) as view:
        surface.device.submit(surface.device.record().clear(view, (red / 255, 0, 0, 1)))


def wait_for_red(receiver: Any, red: int) -> int:
    """Take copies until the newest one has that red; return its serial number."""
    serial = 0

    def is_there() -> bool:
        nonlocal serial
        serial, found = newest(receiver)
        return found == red

    wait_until(is_there)
    return serial


def has_ended(receiver: Any) -> bool:
    """Whether the pipe has: takes what is left."""
    try:
        while True:
            newest_now(receiver)
    except ClosedError:
        return True
    except AcquireTimeout:
        return False


def newest_now(receiver: Any) -> int:
    """The newest copy's serial number. AcquireTimeout: none is there."""
    with receiver.frame(0, latest=True) as (_, metadata):
        stamp = watching.stamp_of(metadata)
        assert stamp is not None
        return stamp.serial


def pixels_of(receiver: Any) -> np.ndarray[Any, Any]:
    """The pixels of the newest copy."""
    with receiver.frame(LIMIT, latest=True) as (surface, _):
        found: np.ndarray[Any, Any] = surface.read()
        return found
