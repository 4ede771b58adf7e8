"""Input on windows: presses raise, the left button drags, other events go to the windows. Rules R18, V15."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import pytest
from support.compositor_fixtures import Compose
from support.painted_clients import Painter, shows
from support.render_servers import until

import vkshare as vks
from vkshare.compositor import ClientWindow, Compositor, pointer
from vkshare.compositor.loop import Loop
from vkshare.vsync import Display, Tick
from vkshare.window.events import Event

pytest_plugins = ["support.compositor_fixtures"]

pytestmark = pytest.mark.no_driver

Paint = Callable[..., Painter]
RED, GREEN, BLUE = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)


def post(compositor: Compositor, event_type: str, x: float = 0, y: float = 0, **fields: Any) -> None:
    compositor.post(Event(event_type, time.perf_counter(), x=x, y=y, **fields))


def press(compositor: Compositor, x: float, y: float, **fields: Any) -> None:
    post(compositor, "pointer_down", x, y, **{"button": 1, "buttons": (1,)} | fields)


def let_go(compositor: Compositor, x: float, y: float, **fields: Any) -> None:
    post(compositor, "pointer_up", x, y, **{"button": 1} | fields)


def drag(compositor: Compositor, x: float, y: float, **fields: Any) -> None:
    post(compositor, "pointer_move", x, y, **{"buttons": (1,)} | fields)


class Scene:
    """Two windows of 16x12 pixels, which overlap; `received` has the upper one's events, if it takes input."""

    def __init__(self, compositor: Compositor, below: Painter, above: Painter, **options: Any) -> None:
        self.received: list[Event] = []
        if options.pop("takes_input", False):
            options["on_input"] = self.received.append
        self.compositor = compositor
        self.below = compositor.open_window(below.descriptor, at=(4, 4))
        self.above = compositor.open_window(above.descriptor, at=(12, 8), **options)
        below.paint(RED)
        above.paint(GREEN)
        shows(compositor, 13, 9, GREEN)
        shows(compositor, 5, 5, RED)

    def handled(self) -> None:
        """Waits until all that was posted is."""
        until(lambda: self.compositor._inputs.is_idle)
        ticks = self.compositor.statistics().ticks
        post(self.compositor, "pointer_enter")  # no window's
        until(lambda: self.compositor.statistics().ticks > ticks and self.compositor._inputs.is_idle)


@pytest.fixture
def scene(compose: Compose, painter: Paint) -> Callable[..., Scene]:
    def make(**options: Any) -> Scene:
        own = {name: options.pop(name) for name in ("display", "target") if name in options}
        on_input = options.pop("heard_first", None)
        return Scene(compose(on_input=on_input, **own), painter(), painter(), **options)

    return make


def test_a_press_raises_the_window_under_it(scene: Callable[..., Scene]) -> None:
    made = scene()
    press(made.compositor, 5, 5)
    until(lambda: made.compositor.windows == (made.above, made.below))
    shows(made.compositor, 13, 9, RED)
    let_go(made.compositor, 5, 5)
    press(made.compositor, 40, 40)  # on nothing
    let_go(made.compositor, 40, 40)
    press(made.compositor, 22, 18)
    until(lambda: made.compositor.windows == (made.below, made.above))


def test_the_left_button_drags_a_window_that_takes_no_input(scene: Callable[..., Scene]) -> None:
    made = scene()
    press(made.compositor, 14, 10)
    drag(made.compositor, 34, 30)
    until(lambda: (made.above.x, made.above.y) == (32, 28))
    shows(made.compositor, 33, 29, GREEN)
    let_go(made.compositor, 36, 30)
    until(lambda: (made.above.x, made.above.y) == (34, 28))
    drag(made.compositor, 5, 5, buttons=())
    made.handled()
    assert (made.above.x, made.above.y) == (34, 28), "the button is up"


@pytest.mark.parametrize("button", [2, 3])
def test_other_buttons_drag_nothing(scene: Callable[..., Scene], button: int) -> None:
    made = scene()
    press(made.compositor, 14, 10, button=button, buttons=(button,))
    drag(made.compositor, 34, 30, buttons=(button,))
    made.handled()
    assert (made.above.x, made.above.y) == (12, 8)


def test_a_window_that_takes_input_is_dragged_with_alt_only(scene: Callable[..., Scene]) -> None:
    made = scene(takes_input=True)
    press(made.compositor, 14, 10)
    drag(made.compositor, 20, 16)
    let_go(made.compositor, 20, 16)
    until(lambda: [event.event_type for event in made.received][-1:] == ["pointer_up"])
    assert (made.above.x, made.above.y) == (12, 8)
    made.received.clear()
    press(made.compositor, 14, 10, modifiers=("Alt",))
    drag(made.compositor, 34, 30, modifiers=("Alt",))
    let_go(made.compositor, 34, 30, modifiers=("Alt",))
    until(lambda: (made.above.x, made.above.y) == (32, 28))
    made.handled()
    assert made.received == [], "what drags it is not its own"


def test_events_go_to_the_window_under_the_pointer_with_positions_in_its_pixels(
    scene: Callable[..., Scene],
) -> None:
    made = scene(takes_input=True)
    post(made.compositor, "wheel", 15, 12, dy=100.0)
    post(made.compositor, "wheel", 5, 5, dy=100.0, modifiers=("Shift",))  # on the one below, which takes none
    post(made.compositor, "double_click", 12, 8, button=1)
    until(lambda: len(made.received) == 2)
    wheel, click = made.received
    assert (wheel.event_type, wheel.x, wheel.y, wheel.dy) == ("wheel", 3, 4, 100)
    assert (click.event_type, click.x, click.y) == ("double_click", 0, 0)


def test_positions_are_logical_pixels_of_a_target_that_is_scaled(scene: Callable[..., Scene]) -> None:
    class Scaled(vks.Headless):
        scale = (2.0, 2.0)

    made = scene(takes_input=True, target=Scaled(64, 48))
    post(made.compositor, "double_click", 10, 5, button=1)
    until(lambda: made.received)
    assert (made.received[0].x, made.received[0].y) == (8, 2)


def test_the_pressed_window_gets_events_until_the_last_button_is_up(scene: Callable[..., Scene]) -> None:
    made = scene(takes_input=True)
    press(made.compositor, 14, 10)
    drag(made.compositor, 1, 40)
    press(made.compositor, 5, 5, button=2, buttons=(1, 2))  # of the same press: raises nothing
    let_go(made.compositor, 5, 5, buttons=(2,))
    let_go(made.compositor, 60, 40, button=2)
    post(made.compositor, "wheel", 60, 40, dy=100.0)
    made.handled()
    kinds = [event.event_type for event in made.received]
    for _ in range(kinds.count("pointer_move") - 1):
        kinds.remove("pointer_move")  # moves are merged unless the compositor's turn ended between them
    assert kinds == ["pointer_down", "pointer_move", "pointer_down", "pointer_up", "pointer_up"]
    assert (made.received[-1].x, made.received[-1].y) == (48, 32)
    assert made.compositor.windows == (made.below, made.above)


def test_key_events_go_to_the_window_pressed_last(scene: Callable[..., Scene]) -> None:
    made = scene(takes_input=True)
    post(made.compositor, "key_down", key="a")  # no window was pressed
    press(made.compositor, 14, 10)
    let_go(made.compositor, 14, 10)
    post(made.compositor, "key_down", key="b")
    post(made.compositor, "char", char_str="b")
    press(made.compositor, 5, 5)
    let_go(made.compositor, 5, 5)
    post(made.compositor, "key_up", key="c")
    made.handled()
    assert [(event.event_type, event.key or event.char_str) for event in made.received[2:]] == [
        ("key_down", "b"),
        ("char", "b"),
    ]


def test_the_compositors_on_input_runs_first_and_can_consume_an_event(scene: Callable[..., Scene]) -> None:
    heard: list[str] = []

    def keep_keys(event: Event) -> bool:
        heard.append(event.event_type)
        return event.event_type == "key_down"

    made = scene(takes_input=True, heard_first=keep_keys)
    press(made.compositor, 14, 10)
    post(made.compositor, "key_down", key="Escape")
    post(made.compositor, "key_up", key="Escape")
    made.handled()
    assert heard[:3] == ["pointer_down", "key_down", "key_up"]
    assert [event.event_type for event in made.received] == ["pointer_down", "key_up"]


def test_an_on_input_that_raises_is_logged_and_others_are_called(
    compose: Compose, painter: Paint, caplog: pytest.LogCaptureFixture
) -> None:
    compositor, client = compose(), painter()
    reported: list[Event] = []

    def fail_once(event: Event) -> None:
        reported.append(event)
        if len(reported) == 1:
            raise ZeroDivisionError("a mistake")

    compositor.open_window(client.descriptor, on_input=fail_once)
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    press(compositor, 2, 2)
    let_go(compositor, 2, 2)
    until(lambda: len(reported) == 2)
    assert "a mistake" in caplog.text


# ---- windows that go -------------------------------------------------------------------------------------------------


def test_a_window_that_is_closed_in_the_middle_of_a_drag_is_let_go(scene: Callable[..., Scene]) -> None:
    made = scene()
    press(made.compositor, 14, 10)
    drag(made.compositor, 16, 12)
    until(lambda: made.above.x == 14)
    made.above.close()
    drag(made.compositor, 30, 30)
    post(made.compositor, "key_down", key="a")
    let_go(made.compositor, 30, 30)
    made.handled()
    assert (made.below.x, made.below.y) == (4, 4)
    press(made.compositor, 5, 5)
    drag(made.compositor, 7, 7)
    until(lambda: (made.below.x, made.below.y) == (6, 6))


def test_a_window_that_another_thread_closes_between_two_looks_at_it_is_let_go(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene()
    closing = made.above.close
    reads = []

    class Raced(pointer.Pointer):
        @property
        def _dragged(self) -> Any:
            held = self.__dict__.get("held")
            if held is not None and threading.current_thread() is made.compositor._thread:
                reads.append(held)
                closer = threading.Thread(target=closing)
                closer.start()
                closer.join(20)
            return held

        @_dragged.setter
        def _dragged(self, value: Any) -> None:
            self.__dict__["held"] = value

    monkeypatch.setattr(made.compositor, "_pointer", Raced(made.compositor, None))
    press(made.compositor, 14, 10)
    drag(made.compositor, 20, 20)
    let_go(made.compositor, 20, 20)
    until(lambda: made.above.is_closed)
    made.handled()
    assert reads
    assert made.compositor.error is None
    assert made.compositor.is_running


def test_a_callback_may_close_its_own_window(compose: Compose, painter: Paint) -> None:
    compositor, client = compose(), painter()
    opened: list[ClientWindow] = []
    opened.append(compositor.open_window(client.descriptor, on_input=lambda _: opened[0].close()))
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    press(compositor, 2, 2)
    let_go(compositor, 2, 2)
    until(lambda: opened[0].is_closed)
    post(compositor, "key_down", key="a")
    until(lambda: compositor._inputs.is_idle)
    assert compositor.is_running


def test_a_callback_may_close_the_compositor(compose: Compose, painter: Paint) -> None:
    compositor, client = compose(), painter()
    compositor.open_window(client.descriptor, on_input=lambda _: compositor.close())
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    press(compositor, 2, 2)
    assert compositor.wait(20)
    assert (compositor.is_closed, compositor.error) == (True, None)


@pytest.mark.parametrize("place", [math.nan, math.inf, -math.inf, 1e300])
def test_positions_that_are_nowhere_are_survived(scene: Callable[..., Scene], place: float) -> None:
    made = scene()
    press(made.compositor, 14, 10)
    let_go(made.compositor, place, place, buttons=(1,))  # in the middle of a drag
    press(made.compositor, place, place)
    let_go(made.compositor, 14, 10)
    made.handled()
    press(made.compositor, 14, 10)
    let_go(made.compositor, 15, 11)
    until(lambda: (made.above.x, made.above.y) == (13, 9))
    assert made.compositor.is_running


# ---- V15 -------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V15", "R18")
def test_input_posted_before_a_tick_is_handled_before_its_composite(
    scene: Callable[..., Scene], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = stack.enter_context(Display("slow", interval=Fraction(1, 50)))
    handled: list[float] = []
    late: list[float] = []
    composites: list[int] = []
    posted: list[tuple[float, int]] = []  # what, and when post() had returned, ns
    composite = Loop._composite

    def looked_at(self: Loop, tick: Tick) -> None:
        composites.append(tick.vsync_time)
        due = {stamp for stamp, by in list(posted) if by < tick.vsync_time}
        late.extend(due - set(handled))
        composite(self, tick)

    monkeypatch.setattr(Loop, "_composite", looked_at)
    made = scene(display=slow, heard_first=lambda event: handled.append(event.time_stamp))
    for number in range(60):
        made.below.move(number % 3, 0)  # there is a composite at each tick
        event = Event("double_click", time.perf_counter(), x=50, y=40, button=1)
        made.compositor.post(event)
        posted.append((event.time_stamp, time.perf_counter_ns()))
        time.sleep(0.005)
    made.handled()
    assert len(composites) > 3
    assert late == []
    stamps = [stamp for stamp, _ in posted]
    assert [each for each in handled if each in stamps] == stamps


@pytest.mark.rule("V15")
def test_changes_by_input_are_in_the_composite_of_its_tick(scene: Callable[..., Scene]) -> None:
    """And input while idle has the display observed."""
    made = scene()
    until(lambda: made.compositor.display.statistics().observing == 0)
    before = made.compositor.statistics().composites
    press(made.compositor, 5, 5)
    shows(made.compositor, 13, 9, RED)
    assert made.compositor.statistics().composites == before + 1
