"""vks.Window on Wayland, under sway, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from support import private_displays
from support.private_displays import run_child, wait_for
from support.tree_paths import TESTS
from support.window_loss import LOSS

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_on_cpu")]


@pytest.mark.rule("A24")
def test_on_wayland_a_window_is_made_polled_and_closed() -> None:
    with private_displays.sway() as display:
        reported = run_child(
            """
            import vkshare as vks
            with vks.Window(320, 200, "on Wayland") as window:
                for _ in range(5):
                    window.poll(0.02)
                print(window.platform, window.size, window.framebuffer_size)
                print(window.native_window > 0, window.native_display > 0, window.should_close)
            with vks.Window(64, 64) as window:
                window.poll()
            print(window)
            """,
            display.environment,
        )
    assert reported.split("\n")[:3] == [
        "wayland (320, 200) (320, 200)",
        "True True False",
        "<vkshare.Window '' closed>",
    ]


@pytest.mark.rule("A24", "A9")
def test_a_killed_wayland_compositor_is_a_surface_lost_error() -> None:
    with private_displays.sway() as first, private_displays.sway() as second:
        reported = run_child(
            LOSS
            + f"""
    import signal
    window = vks.Window(64, 64, "one")
    window.poll(0.05)
    os.kill({first.pid}, signal.SIGKILL)
    until_lost(window.poll)
    until_lost(lambda: window.framebuffer_size)
    window.close()
    os.environ["XDG_RUNTIME_DIR"] = {second.environment["XDG_RUNTIME_DIR"]!r}
    os.environ["WAYLAND_DISPLAY"] = "{second.name}"
    with vks.Window(100, 80, "new") as window:
        window.poll(0.05)
        tell(window.size)
    """,
            first.environment,
        )
    assert reported == "(100, 80)\n"


@pytest.mark.rule("A24")
def test_on_wayland_a_window_is_on_the_screen_follows_its_resizes_and_is_asked_to_close() -> None:
    with private_displays.sway() as display:
        command = [sys.executable, "-m", "support.wayland_client", "mine", "320", "200", "200", "100", "50"]
        path = os.pathsep.join([os.fspath(TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        environment = display.environment | {"PYTHONPATH": path}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as client:
            try:
                wait_for(lambda: _is_filled(display.picture("mine"), 320, 200), "the window is on the screen")
                display.resize("mine", 400, 260)
                wait_for(lambda: _is_filled(display.picture("mine"), 400, 260), "the window is larger")
                display.ask_to_close("mine")
                reported, _ = client.communicate(timeout=10)
            finally:
                client.kill()
    assert "Event('resize', width=400.0, height=260.0, pixel_ratio=1.0)" in reported
    assert reported.rstrip().endswith("Event('close')")
    assert client.returncode == 0


def _is_filled(picture: Any, width: int, height: int) -> bool:
    return picture.shape[:2] == (height, width) and bool((picture == (200, 100, 50, 255)).all())
