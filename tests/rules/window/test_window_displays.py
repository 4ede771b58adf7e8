"""Which display vks.Window connects to, which library it chooses for it, and what it leaves alone."""

from __future__ import annotations

import os

import pytest
from support import private_displays
from support.private_displays import XDisplay, run_child

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_on_cpu")]


def test_without_a_display_it_says_what_to_set() -> None:
    reported = run_child(
        """
        import vkshare as vks
        try:
            vks.Window(64, 64)
        except vks.UnsupportedError as error:
            print(error)
        """,
        private_displays.without_displays(dict(os.environ)),
    )
    assert reported.startswith("vks.Window is not supported: X11: The DISPLAY environment variable is missing;")
    assert "vks.Headless" in reported


def test_a_display_that_is_not_there_is_unsupported_and_a_later_one_works(x11: XDisplay) -> None:
    reported = run_child(
        f"""
        import os
        import vkshare as vks
        os.environ["DISPLAY"] = ":65432"
        try:
            vks.Window(64, 64)
        except vks.UnsupportedError as error:
            print(error.why)
        os.environ["DISPLAY"] = "{x11.name}"
        with vks.Window(64, 64) as window:
            print(window)
        """,
        x11.environment,
    )
    assert reported.split("\n")[:2] == [
        "X11: Failed to open display :65432",
        "<vkshare.Window '' 64x64 pixels, x11>",
    ]


def test_nothing_of_glfw_is_loaded_before_the_first_window(x11: XDisplay) -> None:
    reported = run_child(
        """
        import sys
        import vkshare as vks
        def loaded():
            names = {name.split(".")[0] for name in sys.modules}
            return sorted(names & {"glfw", "numpy", "vulkan", "cffi", "xcffib"})
        vks.Window
        print(loaded())
        with vks.Window(64, 64):
            print("glfw" in loaded(), "vulkan" in loaded())
        """,
        x11.environment,
    )
    assert reported.split("\n")[:2] == ["[]", "True False"]


def test_the_library_for_x11_is_chosen_where_only_x11_is_even_in_a_wayland_session(x11: XDisplay) -> None:
    reported = run_child(
        """
        import os
        import vkshare as vks
        with vks.Window(64, 64) as window:
            print(window.platform, os.environ.get("PYGLFW_LIBRARY_VARIANT"))
        """,
        x11.environment | {"XDG_SESSION_TYPE": "wayland"},
    )
    assert reported == "x11 None\n"


def test_glfws_errors_are_exceptions_and_never_warnings_and_the_callback_of_others_stays(x11: XDisplay) -> None:
    reported = run_child(
        """
        import warnings, glfw
        warnings.simplefilter("error")
        import vkshare as vks
        seen = []
        mine = lambda code, text: seen.append(code)
        glfw.set_error_callback(mine)
        with vks.Window(64, 64) as window:
            window.poll()
        print(seen, glfw.set_error_callback(None) is mine)
        """,
        x11.environment,
    )
    assert reported == "[] True\n"


def test_ctrl_c_ends_a_wait_for_ever_at_once(x11: XDisplay) -> None:
    reported = run_child(
        """
        import os, signal, threading
        import vkshare as vks
        with vks.Window(64, 64) as window:
            while window.poll(0.2):
                pass
            def interrupt():
                os.kill(os.getpid(), signal.SIGINT)
            threading.Timer(0.2, interrupt).start()
            try:
                while True:
                    window.poll(None)
            except KeyboardInterrupt:
                print("interrupted")
        """,
        x11.environment,
    )
    assert reported == "interrupted\n"
