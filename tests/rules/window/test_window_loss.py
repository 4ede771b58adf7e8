"""A window system that goes away under its windows: an error, never the end of the process."""

from __future__ import annotations

import os

import pytest
from support import private_displays
from support.private_displays import XDisplay, run_child
from support.time_limits import Measured
from support.tree_paths import TESTS
from support.window_loss import LOSS, X_HANDLERS

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_on_cpu")]


@pytest.mark.rule("A24", "A9")
def test_a_killed_x_server_is_a_surface_lost_error_and_a_new_window_works_on_a_new_one() -> None:
    with private_displays.xvfb() as first, private_displays.xvfb() as second:
        reported = run_child(
            LOSS
            + f"""
    import signal
    windows = [vks.Window(64, 64, "one"), vks.Window(64, 64, "two")]
    for window in windows:
        window.poll()
    os.kill({first.pid}, signal.SIGKILL)
    until_lost(windows[0].poll)
    for name in ("size", "framebuffer_size", "should_close", "scale", "handle", "native_window"):
        until_lost(lambda: getattr(windows[1], name))
    until_lost(lambda: windows[1].resize(32, 32))
    assert "lost" in repr(windows[0])
    windows[0].close()
    os.environ["DISPLAY"] = "{second.name}"
    with vks.Window(100, 80, "new") as window:      # the other lost one is still open
        window.poll(0.1)
        tell(window.framebuffer_size, window.display_name == "{second.name}")
        until_lost(lambda: windows[1].size)
        windows[1].close()
        window.poll()
    tell("alive")
    """,
            first.environment,
        )
    assert reported == "(100, 80) True\nalive\n"


@pytest.mark.rule("A24")
def test_a_wait_for_ever_and_a_property_notice_the_killed_server_by_themselves() -> None:
    for call in ("window.poll(None)", "window.framebuffer_size", "window.close()"):
        with private_displays.xvfb(window_manager=False) as display:
            reported = run_child(
                LOSS
                + f"""
    import signal, threading
    window = vks.Window(64, 64)
    while window.poll(0.05): pass
    threading.Timer(0.1, os.kill, ({display.pid}, signal.SIGKILL)).start()
    if "close" in "{call}":
        until_ended({display.pid})
        {call}
    else:
        until_lost(lambda: {call})
        until_ended({display.pid})
        window.close()
    os.environ["DISPLAY"] = ":65432"  # another test's server may have taken the number of the dead one
    try:
        vks.Window(64, 64)
    except vks.UnsupportedError as error:
        tell(error.why.startswith("X11: Failed to open display"))
    """,
                display.environment,
            )
        assert reported == "True\n", call


@pytest.mark.serial
@pytest.mark.rule("A24")
def test_a_killed_x_server_is_noticed_within_a_second(measured: Measured) -> None:
    def attempt() -> float:
        with private_displays.xvfb(window_manager=False) as display:
            seconds = run_child(
                LOSS
                + f"""
    import signal
    window = vks.Window(64, 64)
    window.poll(0.05)
    os.kill({display.pid}, signal.SIGKILL)
    killed = time.monotonic()
    until_lost(window.poll)
    tell(time.monotonic() - killed)
    window.close()
    """,
                display.environment,
            )
        return float(seconds)

    measured(attempt, 1.0)


def test_a_window_that_is_destroyed_behind_our_back_does_not_end_the_process() -> None:
    with private_displays.xvfb() as display:
        reported = run_child(
            LOSS
            + f"""
    sys.path.insert(0, {os.fspath(TESTS)!r})
    import xcffib, xcffib.xproto
    window = vks.Window(64, 64, "one")
    window.poll(0.1)
    other = xcffib.connect(display="{display.name}")
    other.core.DestroyWindow(window.native_window, is_checked=True).check()
    for step in range(5):
        window.poll(0.02)
        window.resize(70 + step, 70)
        window.title = str(step)
    window.close()
    with vks.Window(64, 64, "two") as window:
        window.poll(0.1)
    tell("alive")
    """,
            display.environment,
        )
    assert reported == "alive\n"


def test_the_x_error_handlers_are_set_while_windows_are_open_and_put_back_with_the_last(x11: XDisplay) -> None:
    reported = run_child(
        X_HANDLERS
        + """
    import glfw
    glfw.init()
    before = handlers()
    import vkshare as vks
    one = vks.Window(64, 64)
    during = handlers()
    two = vks.Window(64, 64)
    assert handlers() == during
    one.close()
    assert handlers() == during
    two.close()
    print([a != b for a, b in zip(before, during)], handlers() == before)
    """,
        x11.environment,
    )
    assert reported == "[True, True] True\n"


@pytest.mark.rule("A24")
def test_an_engines_own_window_keeps_the_x_error_handlers_that_it_had() -> None:
    with private_displays.xvfb(window_manager=False) as display:
        reported = run_child(
            X_HANDLERS
            + f"""
    import glfw
    glfw.init()
    before = handlers()
    import vkshare as vks
    from vkshare.window import window
    glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
    theirs = glfw.create_window(64, 64, "engine", None, None)
    with vks.open(backend="cpu"):
        glfw.poll_events()
    print(handlers() == before, flush=True)
    pid = os.fork()
    if pid == 0:
        os.kill({display.pid}, signal.SIGKILL)
        for _ in range(500):
            glfw.poll_events()  # Xlib's own handler ends this process
            time.sleep(0.01)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    os._exit(0)
    """,
            display.environment,
        )
    assert reported == "True\n1\n"


def test_handlers_that_others_set_later_stay_and_none_is_called_in_a_circle(x11: XDisplay) -> None:
    reported = run_child(
        X_HANDLERS
        + """
    import vkshare as vks
    Handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    called, previous = [], []
    @Handler
    def first(display):
        called.append("first")
        return 0
    @Handler
    def later(display):
        called.append("later")
        return Handler(previous[0])(display)
    xlib.XSetIOErrorHandler(ctypes.cast(first, ctypes.c_void_p))
    window = vks.Window(64, 64)
    address = ctypes.cast(later, ctypes.c_void_p).value
    previous.append(xlib.XSetIOErrorHandler(address))
    window.close()
    assert handlers()[0] == address
    with vks.Window(64, 64):
        Handler(handlers()[0])(None)  # as if another display had failed
    print(called, handlers()[0] == address)
    """,
        x11.environment,
    )
    assert reported == "['later', 'first'] True\n"


def test_a_lost_display_of_an_engines_glfw_is_the_engines_to_terminate() -> None:
    with private_displays.xvfb(window_manager=False) as first, private_displays.xvfb(window_manager=False) as second:
        reported = run_child(
            LOSS
            + f"""
    import glfw, signal
    glfw.init()
    with vks.Window(64, 64) as window:
        os.kill({first.pid}, signal.SIGKILL)
        until_lost(window.poll)
        os.environ["DISPLAY"] = "{second.name}"
        try:
            vks.Window(64, 64)
        except vks.SurfaceLostError as error:
            tell("glfw.terminate()" in str(error))
        glfw.terminate()
    glfw.init()
    with vks.Window(64, 64) as window:
        tell(window.poll(0.1) is not None, window.native_window > 0)
    """,
            first.environment,
        )
    assert reported == "True\nTrue True\n"


def test_an_engine_that_terminates_glfw_takes_our_windows_along_and_nothing_else(x11: XDisplay) -> None:
    reported = run_child(
        LOSS
        + """
    import glfw
    window = vks.Window(64, 64)
    window.poll(0.05)
    glfw.terminate()
    until_lost(window.poll)
    glfw.init()
    window.close()
    with vks.Window(64, 64) as window:
        tell(window.poll(0.1) is not None, window.native_window > 0)
    """,
        x11.environment,
    )
    assert reported == "True True\n"
