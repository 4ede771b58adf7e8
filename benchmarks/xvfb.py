"""An X server of the benchmark's own: the contents of the user's screen must not change the figures."""

from __future__ import annotations

import contextlib
import select
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

_STARTS_WITHIN = 20.0  # seconds


class NoXvfb(Exception):
    """There is no Xvfb, or it did not start."""


class Server(NamedTuple):
    """It runs."""

    display: str  # e.g. ":7"
    pid: int


@contextlib.contextmanager
def started(command: list[str], failure: Exception) -> Iterator[Server]:
    """Runs an X server that writes its display's number to stdout. `failure`: it did not start."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True) as server:
        try:
            assert server.stdout
            ready, _, _ = select.select([server.stdout], [], [], _STARTS_WITHIN)
            number = server.stdout.readline().strip() if ready else ""
            if not number:
                raise failure
            yield Server(f":{number}", server.pid)
        finally:
            server.terminate()


@contextlib.contextmanager
def xvfb(width: int = 1920, height: int = 1200) -> Iterator[Server]:
    """A server on a free display. Its clients must be gone before the block ends. NoXvfb."""
    program = shutil.which("Xvfb")
    if not program:
        raise NoXvfb("Xvfb is not installed")
    command = [program, "-displayfd", "1", "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp", "-noreset"]
    with started(command, NoXvfb("Xvfb did not start")) as server:
        yield server
