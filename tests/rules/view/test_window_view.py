"""A published picture in a window, on a real screen, and headless (rule W2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support.pixel_formats import ONE_PLANE
from support.private_displays import XDisplay, wait_for
from support.published_names import LIMIT

import vkshare as vks
from vkshare.formats import FORMATS
from vkshare.view.display_pixels import to_rgba8
from vkshare.view.window import PictureWindow

pytest_plugins = ["support.private_displays", "support.published_names"]
pytestmark = [pytest.mark.rule("W2"), pytest.mark.usefixtures("runtime")]

ESCAPE = 0xFF1B  # keysym, X11/keysymdef.h
AROUND = 18  # 0.07 of 255: the red of what is beside the picture
NAME = "a picture"


class Publisher:
    """A swapchain under a name, on a device of its own."""

    def __init__(self, device: vks.Device, width: int = 40, height: int = 30, *, wants_input: bool = False) -> None:
        self.device = device
        self.swapchain = device.create_swapchain(vks.Headless(width, height))
        self.publication = self.swapchain.publish(NAME, wants_input=wants_input)

    def draw(self, seed: int) -> np.ndarray[Any, Any]:
        """Presents a picture of noise, and returns it."""
        with self.swapchain.frame() as frame:
            pixels = noise(frame.width, frame.height, seed)
            is_bgra = self.swapchain.format.startswith("bgra")
            frame.view.surface.write(pixels[..., [2, 1, 0, 3]] if is_bgra else pixels)
        return pixels

    def close(self) -> None:
        self.publication.close()
        self.swapchain.close()


def noise(width: int, height: int, seed: int) -> np.ndarray[Any, Any]:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 4), np.uint8)
    pixels[..., 3] = 255
    return pixels


def turn_until(shown: PictureWindow, what: str, is_there: Any) -> None:
    """Lets the window go on until that is true."""

    def turned() -> bool:
        shown.turn(0.01)
        return bool(is_there())

    wait_for(turned, what, LIMIT)


@pytest.fixture
def publisher(device: vks.Device) -> Iterator[Publisher]:
    made = Publisher(device)
    yield made
    made.close()


# ---- on a screen ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_on_cpu")
def test_the_screen_has_each_pixel_enlarged_by_a_whole_number(x11: XDisplay, publisher: Publisher) -> None:
    pixels = publisher.draw(1)
    with PictureWindow(NAME, NAME, size=(100, 130)) as shown:
        assert shown.window is not None
        window = shown.window.native_window
        enlarged = pixels.repeat(2, 0).repeat(2, 1)
        turn_until(shown, "the picture", lambda: np.array_equal(x11.picture(window)[35:95, 10:90], enlarged))
        screen = x11.picture(window)
        beside = np.ones(screen.shape[:2], bool)
        beside[35:95, 10:90] = False
        assert (screen[beside, 0] == AROUND).all()
        x11.resize(window, 120, 90)  # the picture follows
        enlarged = pixels.repeat(3, 0).repeat(3, 1)
        turn_until(shown, "the larger one", lambda: np.array_equal(x11.picture(window), enlarged))
        pixels = publisher.draw(2)
        enlarged = pixels.repeat(3, 0).repeat(3, 1)
        turn_until(shown, "the next one", lambda: np.array_equal(x11.picture(window), enlarged))


@pytest.mark.usefixtures("only_on_cpu")
def test_the_title_has_name_size_and_rate_and_tells_the_end(x11: XDisplay, publisher: Publisher) -> None:
    publisher.draw(1)
    with PictureWindow(NAME, NAME) as shown:
        assert shown.window is not None
        window = shown.window.native_window
        assert x11.place(window)[2:] == (640, 480)
        turn_until(shown, "the title", lambda: "a picture: 40x30, " in x11.title(window))
        assert x11.title(window).endswith("frames a second")
        publisher.close()
        turn_until(shown, "the end", lambda: x11.title(window) == "a picture: 40x30, ended, its last picture")
        assert shown.statistics().has_ended
        assert not shown.has_ended


@pytest.mark.usefixtures("only_on_cpu")
@pytest.mark.parametrize("by", ["Escape", "the close button"])
def test_escape_and_the_close_button_end_it(x11: XDisplay, publisher: Publisher, by: str) -> None:
    publisher.draw(1)
    with PictureWindow(NAME, NAME) as shown:
        assert shown.window is not None
        window = shown.window.native_window
        turn_until(shown, "the window", lambda: window in x11.windows())
        if by == "Escape":
            x11.focus(window)
            x11.type(ESCAPE)
        else:
            x11.ask_to_close(window)
        turn_until(shown, "its end", lambda: shown.has_ended)


@pytest.mark.rule("W5")
@pytest.mark.usefixtures("only_on_cpu")
def test_what_the_user_does_in_the_picture_goes_to_its_publisher(x11: XDisplay, device: vks.Device) -> None:
    publisher = Publisher(device, wants_input=True)
    publisher.draw(1)
    got: list[Any] = []
    with PictureWindow(NAME, NAME, size=(100, 130)) as shown:
        assert shown.window is not None
        window = shown.window.native_window
        turn_until(shown, "the picture", lambda: window in x11.windows() and shown.statistics().presents)
        x11.pointer_to(window, 5, 5)  # beside the picture, which is enlarged twice from (10, 35) on
        x11.click()
        x11.focus(window)

        def came(kind: str) -> list[Any]:
            got.extend(publisher.publication.events())
            return [each for each in got if each.event_type == kind]

        def click() -> bool:  # the first may come before the screen has the window
            x11.pointer_to(window, 10 + 2 * 7, 35 + 2 * 9)
            x11.click()
            x11.type("a")
            return all(came(kind) for kind in ("pointer_down", "pointer_up", "key_down", "key_up"))

        turn_until(shown, "a click and a key", click)
        pressed, key = came("pointer_down")[0], came("key_down")[0]
        assert (round(pressed.x), round(pressed.y), pressed.button, key.key) == (7, 9, 1, "a")
    wait_for(lambda: came("close"), "the end of the viewer", LIMIT)
    publisher.close()


# ---- headless, on each driver ------------------------------------------------------------------------------------


def test_a_publisher_that_comes_back_is_shown_again_with_its_new_size(device: vks.Device, stack: ExitStack) -> None:
    first = Publisher(device)
    pixels = first.draw(1)
    shown = stack.enter_context(PictureWindow(NAME, NAME, size=(40, 30), headless=True))
    turn_until(shown, "the picture", lambda: np.array_equal(shown.capture(), pixels))
    first.close()
    turn_until(shown, "its end", lambda: shown.statistics().has_ended)
    assert np.array_equal(shown.capture(), pixels)
    second = Publisher(device, 20, 15)
    stack.callback(second.close)
    enlarged = second.draw(2).repeat(2, 0).repeat(2, 1)
    turn_until(shown, "the other picture", lambda: np.array_equal(shown.capture(), enlarged))
    assert not shown.statistics().has_ended


def test_a_source_that_changes_its_size_is_followed(device: vks.Device, stack: ExitStack) -> None:
    publisher = Publisher(device)
    stack.callback(publisher.close)
    publisher.draw(1)
    shown = stack.enter_context(PictureWindow(NAME, NAME, size=(40, 30), headless=True))
    turn_until(shown, "a picture", lambda: shown.statistics().frames)
    publisher.swapchain.resize(20, 15)
    enlarged = publisher.draw(2).repeat(2, 0).repeat(2, 1)
    turn_until(shown, "the smaller one", lambda: np.array_equal(shown.capture(), enlarged))
    assert shown.statistics().width == 20


@pytest.mark.parametrize("format", ONE_PLANE)
def test_each_format_is_shown_as_a_page_shows_it(device: vks.Device, stack: ExitStack, format: str) -> None:
    if FORMATS[format].is_depth:
        pytest.skip("no pipe has depth")
    sender, descriptor = vks.pipe(device, 8, 4, format)
    stack.enter_context(descriptor)
    receiver = stack.enter_context(vks.open_receiver(device, descriptor))
    stack.enter_context(sender)
    shape, dtype = (4, 8, FORMATS[format].channels), FORMATS[format].numpy_dtype
    values = np.random.default_rng(3).random(shape)
    top = 1 if dtype.kind == "f" else 256**dtype.itemsize - 1
    pixels = (values * top).astype(dtype)
    shown = stack.enter_context(PictureWindow(receiver, NAME, size=(8, 4), headless=True))
    with sender.frame(timeout=LIMIT) as frame:
        frame.surface.write(pixels)
    turn_until(shown, "the picture", lambda: shown.statistics().presents)
    assert np.array_equal(shown.capture()[..., :3], to_rgba8(pixels, format)[..., :3])


def test_a_window_without_a_picture_yet_has_none_to_capture(device: vks.Device, stack: ExitStack) -> None:
    surface = stack.enter_context(device.create_surface(8, 4))
    surface.acquire(0)
    with PictureWindow(surface, NAME, size=(8, 4), headless=True) as shown:
        shown.turn(0.01)
        assert shown.capture() is None
        assert shown.statistics().width == 0
    assert shown.is_closed
    assert repr(shown) == "<vkshare view.PictureWindow of 'a picture', closed>"
