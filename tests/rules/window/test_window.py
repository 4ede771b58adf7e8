"""vks.Window on X11: what it tells, what happens to it, and what it refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.child_processes import in_child
from support.private_displays import XDisplay, wait_for
from support.time_limits import at_least, no_hang

import vkshare as vks
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.window.events import Event

pytest_plugins = ["support.private_displays"]
pytestmark = pytest.mark.usefixtures("only_on_cpu")

ESCAPE, SHIFT, LEFT = 0xFF1B, 0xFFE1, 0xFF51  # keysyms, X11/keysymdef.h


@pytest.fixture
def window(x11: XDisplay) -> Iterator[vks.Window]:
    """A window of 320x200 that has the keyboard, all its first events taken."""
    with vks.Window(320, 200, "under test") as made:
        x11.find("under test")
        x11.focus(made.native_window)
        x11.pointer_to(made.native_window, -30, -60)
        made.poll(0.05)
        yield made


def events_until(window: vks.Window, kind: str, timeout: float = 20) -> list[Event]:
    """All events up to and with the first of that kind."""
    found: list[Event] = []
    deadline = time.monotonic() + timeout
    while not any(event.event_type == kind for event in found):
        assert time.monotonic() < deadline, f"no {kind} among {found}"
        found += window.poll(0.1)
    return found


def _run_through(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def one(window: vks.Window, kind: str) -> Event:
    return next(event for event in events_until(window, kind) if event.event_type == kind)


# ---- what it is ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("A24")
def test_a_window_is_really_on_the_screen_with_its_size_and_title(x11: XDisplay) -> None:
    with vks.Window(320, 200, "größer 窓") as window:
        assert x11.find("größer 窓") == window.native_window
        assert x11.place(window.native_window)[2:] == (320, 200)
        assert window.size == window.framebuffer_size == (320, 200)
        assert window.scale == (1.0, 1.0)
        assert (window.platform, window.display_name) == ("x11", x11.name)
        assert window.handle
        assert window.native_display
        assert not window.should_close
        assert not window.is_closed
        window.title = "another"
        assert (x11.find("another"), window.title) == (window.native_window, "another")
        assert "'another' 320x200 pixels, x11" in repr(window)
    assert window.is_closed
    assert "closed" in repr(window)
    wait_for(lambda: window._native not in x11.windows(), "the window is off the screen")


def test_a_window_that_is_not_visible_is_never_shown(x11: XDisplay) -> None:
    with vks.Window(64, 64, "unseen", visible=False) as window:
        window.poll(0.1)
        assert x11.state(window.native_window) == "withdrawn"
        assert window.native_window not in x11.windows()


def test_a_window_that_is_not_resizable_says_so_to_the_window_manager(x11: XDisplay) -> None:
    with vks.Window(64, 64, "fixed", resizable=False) as window:
        x11.find("fixed")
        x11.resize(window.native_window, 128, 128, wait=False)
        window.poll(0.1)
        assert window.framebuffer_size == (64, 64)


def test_the_glfw_window_is_one_for_the_glfw_package(window: vks.Window, x11: XDisplay) -> None:
    import glfw

    glfw.set_window_size(window.glfw_window, 200, 150)
    events_until(window, "resize")
    assert window.framebuffer_size == (200, 150)


def test_windows_are_counted_by_their_statistics(window: vks.Window, x11: XDisplay) -> None:
    before = window.statistics()
    for size in ((330, 210), (340, 220)):
        x11.resize(window.native_window, *size)
    wait_for(lambda: bool(window.poll()) or window.size == (340, 220), "the last size")
    after = window.statistics()
    assert after.polls > before.polls
    assert after.events > before.events
    assert after.resizes >= before.resizes + 1
    assert after.dependents == 0


# ---- events --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A24")
def test_a_resize_from_outside_arrives_as_an_event_and_in_the_framebuffer_size(
    window: vks.Window, x11: XDisplay
) -> None:
    x11.resize(window.native_window, 401, 299)
    event = one(window, "resize")
    assert (event.width, event.height, event.pixel_ratio) == (401.0, 299.0, 1.0)
    assert window.framebuffer_size == window.size == (401, 299)
    assert event.as_dict() == {
        "event_type": "resize",
        "width": 401.0,
        "height": 299.0,
        "pixel_ratio": 1.0,
        "time_stamp": event.time_stamp,
    }
    assert abs(time.perf_counter() - event.time_stamp) < 10


@pytest.mark.rule("A24")
def test_a_resize_of_our_own_is_granted_by_the_window_manager(window: vks.Window, x11: XDisplay) -> None:
    window.resize(222, 111)
    events_until(window, "resize")
    assert window.framebuffer_size == x11.place(window.native_window)[2:] == (222, 111)


def test_many_resizes_between_two_polls_are_one_event_with_the_last_size(window: vks.Window, x11: XDisplay) -> None:
    for step in range(20):
        x11.resize(window.native_window, 300 + step, 200)
    events = [event for event in events_until(window, "resize") if event.event_type == "resize"]
    assert [event.width for event in events] == [319.0]


def test_another_thread_reads_the_sizes_that_poll_brought(window: vks.Window, x11: XDisplay) -> None:
    x11.resize(window.native_window, 350, 250)
    events_until(window, "resize")
    read: list[Any] = []

    def look() -> None:
        read.extend([window.framebuffer_size, window.size, window.should_close, window.is_minimized, window.handle])

    thread = threading.Thread(target=look)
    _run_through(thread)
    assert read == [(350, 250), (350, 250), False, False, window.handle]


def test_keys_arrive_under_the_names_of_the_web(window: vks.Window, x11: XDisplay) -> None:
    x11.type("a")
    x11.key(SHIFT, down=True)
    x11.type("b")
    x11.key(SHIFT, down=False)
    x11.type(LEFT)
    x11.type(" ")
    x11.type("1")
    x11.type(ESCAPE)
    found: list[Event] = []
    while not any((event.event_type, event.key) == ("key_up", "Escape") for event in found):
        found += events_until(window, "key_up")
    keys = [(event.event_type[4:], event.key, event.modifiers) for event in found if event.event_type[:4] == "key_"]
    assert keys == [
        ("down", "a", ()),
        ("up", "a", ()),
        ("down", "Shift", ("Shift",)),
        ("down", "B", ("Shift",)),
        ("up", "B", ("Shift",)),
        ("up", "Shift", ()),
        ("down", "ArrowLeft", ()),
        ("up", "ArrowLeft", ()),
        ("down", " ", ()),
        ("up", " ", ()),
        ("down", "1", ()),
        ("up", "1", ()),
        ("down", "Escape", ()),
        ("up", "Escape", ()),
    ]
    assert "".join(event.char_str for event in found if event.event_type == "char") == "aB 1"


def test_the_pointer_enters_moves_clicks_turns_its_wheel_and_leaves(window: vks.Window, x11: XDisplay) -> None:
    x11.pointer_to(window.native_window, 40, 30)
    assert one(window, "pointer_enter").event_type == "pointer_enter"
    x11.pointer_to(window.native_window, 50, 60)
    move = one(window, "pointer_move")
    while (move.x, move.y) != (50.0, 60.0):
        move = one(window, "pointer_move")
    x11.button(3, down=True)
    down = one(window, "pointer_down")
    assert (down.x, down.y, down.button, down.buttons) == (50.0, 60.0, 2, (2,))
    x11.button(3, down=False)
    assert one(window, "pointer_up").buttons == ()
    for _ in range(3):
        x11.click(5)
    turned = 0.0
    while turned < 300:
        turned += one(window, "wheel").dy  # down is positive
    assert turned == 300
    x11.pointer_to(window.native_window, -30, -60)
    events_until(window, "pointer_leave")


def test_two_quick_clicks_are_a_double_click_and_two_slow_ones_are_not(window: vks.Window, x11: XDisplay) -> None:
    x11.pointer_to(window.native_window, 40, 30)
    x11.click()
    events_until(window, "pointer_up")
    assert not [event for event in window.poll(0.5) if event.event_type == "double_click"]
    x11.click()
    first = [event.event_type for event in events_until(window, "pointer_up")]
    assert "double_click" not in first
    x11.click()
    assert one(window, "double_click").button == 1


@pytest.mark.rule("A24")
def test_closing_from_outside_is_asked_and_the_window_stays_until_it_is_closed(
    window: vks.Window, x11: XDisplay
) -> None:
    x11.ask_to_close(window.native_window)
    events_until(window, "close")
    assert window.should_close
    assert not window.is_closed
    assert x11.state(window.native_window) == "normal"
    window.close()
    window.close()
    assert window.is_closed


@pytest.mark.rule("A14")
def test_minimising_and_restoring_really_happen_and_x11_keeps_the_size(window: vks.Window, x11: XDisplay) -> None:
    x11.iconify(window.native_window)
    assert x11.state(window.native_window) == "iconic"
    wait_for(lambda: window.poll() is not None and window.is_minimized, "the window knows that it is minimised")
    assert window.framebuffer_size == (320, 200)
    assert "minimised" in repr(window)
    x11.restore(window.native_window)
    wait_for(lambda: window.poll() is not None and not window.is_minimized, "the window knows that it is shown")
    assert x11.place(window.native_window)[2:] == (320, 200)


@pytest.mark.rule("A24")
def test_each_of_two_windows_gets_its_own_events(window: vks.Window, x11: XDisplay) -> None:
    with vks.Window(100, 100, "second") as second:
        x11.find("second")
        second.poll(0.1)
        x11.resize(second.native_window, 150, 160)
        x11.resize(window.native_window, 250, 260)
        assert one(window, "resize").width == 250
        assert one(second, "resize").width == 150
    assert window.poll() == []


def test_poll_returns_at_once_waits_as_long_as_told_and_ends_with_the_first_event(
    window: vks.Window, x11: XDisplay
) -> None:
    with no_hang():
        for _ in range(100):
            window.poll()
    with at_least(0.19):
        assert window.poll(0.2) == []
    threading.Timer(0.1, x11.type, "x").start()
    assert window.poll(None)


def test_waiting_for_ever_burns_no_cpu(window: vks.Window, x11: XDisplay) -> None:
    x11.iconify(window.native_window)
    while window.poll(0.2):
        pass
    before = time.process_time()
    window.poll(1)
    assert time.process_time() - before < 0.05


# ---- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "reported"),
    [
        ((0, 200), ValueError, "width is 0; allowed is 1 to 32767"),
        ((200, 0), ValueError, "height is 0; allowed is 1 to 32767"),
        ((-5, 200), ValueError, "width is -5; allowed is 1 to 32767"),
        ((200, 1 << 40), ValueError, "height is 1099511627776; allowed is 1 to 32767"),
        ((32768, 1), ValueError, "width is 32768; allowed is 1 to 32767"),
        ((2.5, 200), TypeError, "width must be an integer, not float"),
        (("200", 200), TypeError, "width must be an integer, not str"),
        ((200, None), TypeError, "height must be an integer, not NoneType"),
        ((200, 200, 7), TypeError, "title must be a string, not int"),
        ((200, 200, "a\0b"), ValueError, "title is 'a\\\\x00b'; it must not hold a null character"),
    ],
)
def test_wrong_arguments_are_refused_by_name_with_what_is_allowed(
    arguments: tuple[Any, ...], error: type[Exception], reported: str
) -> None:
    with pytest.raises(error, match=reported):
        vks.Window(*arguments)


@pytest.mark.parametrize("name", ["resizable", "visible"])
def test_a_flag_is_true_or_false_and_nothing_else(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be True or False, not int"):
        vks.Window(64, 64, **{name: 1})  # type: ignore[arg-type]


def test_a_timeout_is_seconds_or_none(window: vks.Window) -> None:
    for wrong, error in ((-1, ValueError), (float("nan"), ValueError), ("1", TypeError)):
        with pytest.raises(error, match="timeout"):
            window.poll(wrong)  # type: ignore[arg-type]


def test_another_thread_is_refused_with_its_name(window: vks.Window) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: vks.Window(64, 64),
        window.poll,
        window.close,
        lambda: window.resize(64, 64),
        lambda: setattr(window, "title", "no"),
    ]
    refused: list[str] = []

    def run() -> None:
        for call in calls:
            with pytest.raises(RuntimeError) as caught:
                call()
            refused.append(str(caught.value))

    thread = threading.Thread(target=run, name="painter")
    _run_through(thread)
    assert len(refused) == len(calls)
    assert all("main thread only, and this is painter" in reported for reported in refused)
    assert not window.is_closed


def test_a_closed_window_says_so_whatever_is_asked_of_it(x11: XDisplay) -> None:
    window = vks.Window(64, 64)
    window.close()
    for ask in ("size", "framebuffer_size", "scale", "should_close", "handle", "native_window", "glfw_window"):
        with pytest.raises(ClosedError, match="this Window was closed"):
            getattr(window, ask)
    with pytest.raises(ClosedError):
        window.poll()
    with pytest.raises(ClosedError):
        window.resize(32, 32)


def test_a_window_cannot_be_pickled(window: vks.Window) -> None:
    import pickle

    with pytest.raises(TypeError, match="a Window cannot be pickled"):
        pickle.dumps(window)


def test_what_shows_pictures_in_a_window_is_closed_before_it(x11: XDisplay) -> None:
    class Shows:
        is_closed = was_there = False

        def close(self) -> None:
            self.is_closed, self.was_there = True, not shown.is_closed

    window = shown = vks.Window(64, 64)
    shows: Any = Shows()
    window._add_dependent(shows)
    assert window.statistics().dependents == 1
    window.close()
    assert shows.was_there


def test_a_window_that_is_lost_unclosed_warns_and_goes_off_the_screen(x11: XDisplay) -> None:
    kept = [vks.Window(64, 64, "forgotten")]
    native = x11.find("forgotten")
    with pytest.warns(ResourceWarning, match="unclosed <vkshare.Window 'forgotten'"):
        kept.clear()
    wait_for(lambda: native not in x11.windows(), "the window is off the screen")


def test_a_window_that_is_lost_in_another_thread_goes_at_the_next_poll_of_any(
    window: vks.Window, x11: XDisplay
) -> None:
    kept = [vks.Window(64, 64, "lost elsewhere")]
    native = x11.find("lost elsewhere")
    thread = threading.Thread(target=kept.clear)
    with pytest.warns(ResourceWarning, match="lost elsewhere"):
        _run_through(thread)
    window.poll()
    wait_for(lambda: native not in x11.windows(), "the window is off the screen")


def test_a_forked_child_is_refused_and_its_parent_never_notices(window: vks.Window, x11: XDisplay) -> None:
    def child() -> None:
        for call in (window.poll, window.close, lambda: window.size, lambda: vks.Window(64, 64)):
            with pytest.raises(InvalidCallError, match=r"before os\.fork\(\)"):
                call()

    in_child(child)
    x11.type("q")
    assert one(window, "key_down").key == "q"
