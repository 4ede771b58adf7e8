"""Demos as a user starts them: `vkshare demo NAME`, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support.private_displays import XDisplay, wait_for
from vkshare.testing import validation

ESCAPE = 0xFF1B  # X11/keysymdef.h


def demo(
    *arguments: str, environment: dict[str, str] | None = None, timeout: float = 100
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    command = [sys.executable, "-m", "vkshare", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)


def name_of(adapter: Any) -> str:
    """What selects it: its UUID as text."""
    return str(uuid.UUID(bytes=adapter.uuid))


def on(adapter: Any) -> tuple[str, ...]:
    """The arguments that choose the adapter of this run of the test."""
    return "--backend", adapter.backend, "--adapter", name_of(adapter)


def said(stderr: str) -> list[str]:
    """Lines of stderr, without what the validation layer is known to report falsely: anything else it says counts."""
    known = [(each.message_id, each.pattern) for each in validation.FILTERS]
    return [line for line in stderr.splitlines() if not any(i in line and re.search(p, line) for i, p in known)]


def picture(path: Path) -> Any:
    """(H, W, 4) uint8 of a picture file."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGBA"))


class Shown:
    """A demo that runs in a window."""

    def __init__(self, display: XDisplay, process: subprocess.Popen[str]) -> None:
        self.display = display
        self.process = process
        self.window = 0

    def end(self) -> tuple[int, list[str]]:
        """Exit status, and what it said on stderr."""
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, said(err)

    def press_escape(self) -> tuple[int, list[str]]:
        self.display.focus(self.window)
        self.display.type(ESCAPE)
        return self.end()

    def seconds_of_cpu(self) -> float:
        """That the process has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_for_colours(self) -> None:
        """Until something is drawn in the window."""
        wait_for(lambda: len(np.unique(self.display.picture(self.window)[::4, ::4, 0])) > 20, "a picture", 20)


@contextmanager
def shown(display: XDisplay, title: str, command: list[str]) -> Iterator[Shown]:
    """Starts a program, and waits until its window of that title shows something."""
    process = subprocess.Popen(
        command, env=display.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        run = Shown(display, process)
        try:
            run.window = display.find(title, 20)
            run.wait_for_colours()
        except Exception as error:  # also those of a window that has gone with its program
            process.kill()
            raise AssertionError(process.communicate()[1]) from error
        yield run
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def shown_demo(display: XDisplay, name: str, *arguments: str) -> Any:
    """``with shown_demo(x11, "window", *on(adapter)) as run:``"""
    return shown(display, f"vkshare: {name}", [sys.executable, "-m", "vkshare", "demo", name, *arguments])
