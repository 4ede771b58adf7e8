"""The displays that windows are tested on: what is read from them is exact, and they end whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import private_displays
from support.private_displays import XDisplay, wait_for
from support.tree_paths import TESTS

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_on_cpu")]


@pytest.fixture
def painted(x11: XDisplay) -> Iterator[tuple[XDisplay, int]]:
    """A window of 40x30, (10, 20, 30) all over but for one pixel of (200, 150, 100) at (7, 5)."""
    import xcffib
    import xcffib.xproto as x

    connection: Any = xcffib.connect(display=x11.name)
    core, screen = connection.core, connection.get_setup().roots[0]
    window, context = connection.generate_id(), connection.generate_id()
    core.CreateWindow(
        screen.root_depth, window, screen.root, 0, 0, 40, 30, 0, x.WindowClass.InputOutput, screen.root_visual,
        x.CW.BackPixel, [0x0A141E], is_checked=True,
    ).check()  # fmt: skip
    core.MapWindow(window, is_checked=True).check()
    wait_for(lambda: x11.state(window) == "normal" and x11._is_viewable(window), "the window is shown")
    core.CreateGC(context, window, x.GC.Foreground, [0xC89664], is_checked=True).check()
    core.PolyPoint(x.CoordMode.Origin, window, context, 1, [x.POINT.synthetic(7, 5)], is_checked=True).check()
    yield x11, window
    connection.disconnect()


def test_an_x_window_is_read_from_the_screen_to_the_bit(painted: tuple[XDisplay, int]) -> None:
    display, window = painted
    wanted = np.full((30, 40, 4), (10, 20, 30, 255), np.uint8)
    wanted[5, 7] = (200, 150, 100, 255)
    np.testing.assert_array_equal(display.picture(window), wanted)
    display.move(window, 100, 120)
    assert display.screen().shape == (800, 1280, 4)
    assert display.place(window)[2:] == (40, 30)


@pytest.mark.parametrize("open_display", [private_displays.xvfb, private_displays.sway])
def test_a_display_ends_with_its_test_even_where_the_test_fails(open_display: Any) -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError):
        _fail_inside(open_display, pids)
    assert not Path(f"/proc/{pids[0]}").exists()


def _fail_inside(open_display: Any, pids: list[int]) -> None:
    with open_display() as display:
        pids.append(display.pid)
        assert Path(f"/proc/{display.pid}").exists()
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["xvfb", "sway"])
def test_a_display_ends_when_the_process_that_started_it_is_killed(name: str) -> None:
    code = f"""
        import sys, time
        sys.path.insert(0, {str(TESTS)!r})
        from support import private_displays
        try:
            with private_displays.{name}() as display:
                print(display.pid, flush=True)
                time.sleep(30)
        except BaseException as error:
            print("skip", error, flush=True)
    """
    folder = tempfile.mkdtemp(prefix="vkshare-", dir="/tmp")  # no other process removes it
    command = [sys.executable, "-c", textwrap.dedent(code)]
    try:
        os.chmod(folder, 0o755)
        environment = os.environ | {"TMPDIR": folder}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            reported = process.stdout.readline().split()
            process.send_signal(signal.SIGKILL)
        if reported[0] == "skip":
            pytest.skip(" ".join(reported[1:]))
        wait_for(
            lambda: not Path(f"/proc/{reported[0]}").exists() or _is_zombie(int(reported[0])), "the server has ended"
        )
    finally:
        shutil.rmtree(folder)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
