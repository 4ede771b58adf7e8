"""Displays of our own for tests: Xvfb with openbox, and headless sway. Nothing here touches the user's own.

    pytest_plugins = ["support.private_displays"]

    def test_x(x11):                            # one Xvfb for the session; DISPLAY is set for the test
        with vks.Window(320, 200, "mine") as window:
            x11.resize(window.native_window, 400, 300)
            picture = x11.picture(window.native_window)

    with displays.xvfb() as display:            # a server for this test alone, which may be killed
        subprocess.run(program, env=display.environment)
        display.kill()

Pictures are read from what is really on the screen: the server's own framebuffer, a file that is mapped (Xvfb), or
grim (sway). Input comes through the window system: XTEST, and requests that the window manager answers.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.display_servers import missing, wait_for, without_displays
from support.required_parts import need
from support.wayland_display import WaylandDisplay
from support.x_display import XDisplay

__all__ = ["WaylandDisplay", "XDisplay", "run_child", "sway", "wait_for", "without_displays", "xvfb"]


@contextlib.contextmanager
def xvfb(
    width: int = 1280, height: int = 800, *, window_manager: bool = True, options: tuple[str, ...] = ()
) -> Iterator[XDisplay]:
    """An X server of the test's own, with openbox unless told otherwise. Skips the test where there is none.

    `options` are more of Xvfb's, e.g. ``("-fakescreenfps", "144")``.
    """
    lacking = missing("Xvfb", "openbox", "setpriv") or _without_xcffib()
    need("x11", not lacking, lacking)
    with tempfile.TemporaryDirectory(prefix="vkshare-x11-") as folder:
        display = XDisplay(Path(folder), width, height, window_manager, options)
        try:
            yield display
        finally:
            display.end()


def _without_xcffib() -> str:
    try:
        import xcffib  # noqa: F401
    except ImportError:
        return "xcffib is not installed (pip install vkshare[test])"
    return ""


@contextlib.contextmanager
def sway(width: int = 1280, height: int = 800) -> Iterator[WaylandDisplay]:
    """A Wayland compositor of the test's own, run by an ordinary user. Skips the test where there is none."""
    lacking = missing("sway", "swaymsg", "grim", "setpriv")
    need("wayland", not lacking, lacking)
    user = _ordinary_user()
    with tempfile.TemporaryDirectory(prefix="vkshare-wl-") as folder:
        display = WaylandDisplay(Path(folder), width, height, user)
        try:
            yield display
        finally:
            display.end()


def _ordinary_user() -> pwd.struct_passwd | None:
    """None to run it as we are; root, as which sway does not run, becomes nobody."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        need("wayland", False, "sway does not run as root, and there is no user called nobody")
        raise


# ---- fixtures ------------------------------------------------------------------------------------------------------


@pytest.fixture
def only_on_cpu() -> None:
    """For what needs no Vulkan: it is tested once, with the CPU's run."""
    if os.environ.get("VKSHARE_TEST_DRIVER", "cpu") != "cpu":
        pytest.skip("windows alone need no driver: the run on cpu tests them")


@pytest.fixture(scope="session")
def _x_server() -> Iterator[list[Any]]:
    """The session's server, restarted if a test was its end: [display] or []."""
    kept: list[Any] = []
    yield kept
    for _, stack in kept:
        stack.close()


@pytest.fixture
def x11(_x_server: list[Any], monkeypatch: pytest.MonkeyPatch) -> XDisplay:
    """An X server with a window manager that all tests of the session use in turn; DISPLAY leads to it."""
    if not _x_server or not _x_server[0][0].is_running:
        while _x_server:
            _x_server.pop()[1].close()
        stack = contextlib.ExitStack()
        _x_server.append((stack.enter_context(xvfb()), stack))
    display: XDisplay = _x_server[0][0]
    for name in set(os.environ) - set(display.environment):
        monkeypatch.delenv(name)
    for name in ("DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.setenv(name, display.environment[name])
    return display


def run_child(code: str, environment: dict[str, str], timeout: float = 30) -> str:
    """Runs Python code in a process of its own, as on a command line; returns what it prints, fails if it fails."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
