"""An X server of the benchmark's own: the contents of the user's screen must not change the figures."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

_STARTS_WITHIN = 20.0  # seconds


class NoXvfb(Exception):
    """There is no Xvfb, or it did not start."""


@dataclass(frozen=True, slots=True)
class Server:
    """It runs."""

    display: str  # e.g. ":7"
    pid: int


@contextlib.contextmanager
def xvfb(width: int = 1920, height: int = 1200) -> Iterator[Server]:
    """A server on a free display. Its clients must be gone before the block ends. NoXvfb."""
    program = shutil.which("Xvfb")
    if not program:
        raise NoXvfb("Xvfb is not installed")
    reader, writer = os.pipe()
    screen = ("-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp", "-noreset")
    with os.fdopen(reader) as reported:
        try:
            server = subprocess.Popen(
                [program, "-displayfd", str(writer), *screen],
                pass_fds=[writer],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        finally:
            os.close(writer)
        try:
            ready, _, _ = select.select([reported], [], [], _STARTS_WITHIN)
            number = reported.readline().strip() if ready else ""
            if not number:
                raise NoXvfb("Xvfb did not start")
            yield Server(f":{number}", server.pid)
        finally:
            server.terminate()
            server.wait()
