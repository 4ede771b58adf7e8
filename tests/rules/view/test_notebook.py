"""Pictures in cells of notebooks, in a real kernel: surfaces, vks.show(), events (rules W2, W4 and W5)."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from support.notebook_kernels import Kernel

from vkshare.view import messages

pytest_plugins = ["support.notebook_kernels"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W2")]

WIDGET = "application/vnd.jupyter.widget-view+json"
MAKE = """
pixels = np.random.default_rng(1).integers(0, 256, (48, 64, 4), dtype=np.uint8)
surface = device.create_surface(64, 48)
with surface.access():
    surface.write(pixels)
"""
PIXELS = np.random.default_rng(1).integers(0, 256, (48, 64, 4), dtype=np.uint8)


def picture(bundle: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The pixels of the bundle's PNG."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))))


def test_a_surface_at_the_end_of_a_cell_shows_its_pixels_and_a_widget_that_goes_on(kernel: Kernel) -> None:
    kernel.run(MAKE)
    bundle = kernel.run("surface")
    np.testing.assert_array_equal(picture(bundle), PIXELS[..., :3])
    assert bundle["text/plain"].startswith("<vkshare.Surface 64x48")
    assert WIDGET in bundle
    assert kernel.run("surface")[WIDGET] == bundle[WIDGET]  # all cells of a surface share one widget
    kernel.run("surface.close()")
    assert set(kernel.run("surface")) == {"text/plain"}


def test_without_anywidget_there_is_a_png_and_without_pillow_words(kernel: Kernel) -> None:
    kernel.run(MAKE)
    kernel.run('sys.modules["anywidget"] = None')
    bundle = kernel.run("surface")
    assert set(bundle) == {"text/plain", "image/png"}
    np.testing.assert_array_equal(picture(bundle), PIXELS[..., :3])
    bundle = kernel.run("shown = vks.show(surface, name='s'); shown")
    assert set(bundle) == {"text/plain", "image/png"}
    kernel.run('shown.close(); sys.modules["PIL"] = None')
    bundle = kernel.run("surface")
    assert set(bundle) == {"text/plain"}
    assert "pip install 'vkshare[notebook]'" in bundle["text/plain"]
    kernel.run("surface.close()")


def test_a_surface_that_another_handle_owns_says_so_and_the_cell_does_not_wait_for_it(kernel: Kernel) -> None:
    kernel.run(MAKE)
    kernel.run("other = device.open_surface(surface); other.acquire(0)")
    bundle = kernel.run("surface")
    assert set(bundle) == {"text/plain"}
    assert "no picture now" in bundle["text/plain"]
    np.testing.assert_array_equal(picture(kernel.run("other")), PIXELS[..., :3])  # the owner sees it
    kernel.run("other.release(5)")
    bundle = kernel.run("surface")  # by whatever key it is free
    np.testing.assert_array_equal(picture(bundle), PIXELS[..., :3])
    assert kernel.run("surface.mutex.statistics().key")["text/plain"] == "5"
    kernel.run("other.close(); surface.close()")


def test_a_large_surface_is_reduced_and_a_depth_surface_is_grey(kernel: Kernel) -> None:
    kernel.run("big = device.create_surface(3000, 40)")
    assert picture(kernel.run("big")).shape[1] <= 1280
    kernel.run(
        "grey = device.create_surface(8, 8, 'r8unorm')\nwith grey.access(): grey.write(np.full((8, 8, 1), 9, np.uint8))"
    )
    assert (picture(kernel.run("grey")) == 9).all()
    kernel.run("big.close(); grey.close()")


def test_a_terminal_shows_text_and_loads_nothing(device: Any) -> None:
    with device.create_surface(8, 8) as surface:
        assert surface._repr_mimebundle_() == {"text/plain": repr(surface)}


# ---- a front end -------------------------------------------------------------------------------------------------


class Page:
    """A view of a widget, by its kernel's messages."""

    def __init__(self, kernel: Kernel, bundle: dict[str, Any], name: str = "a page") -> None:
        self.kernel, self.name = kernel, name
        self.comm = bundle[WIDGET]["model_id"]
        self.canvas = np.zeros((0, 0, 4), np.uint8)
        self.frames: list[int] = []
        self.ends: list[str] = []
        self.agains = 0
        self._taken = 0

    def say(self, message: Any) -> None:
        self.kernel.say(self.comm, {"view": self.name, "message": message})

    def hello(self) -> None:
        self.say({"type": "hello", "version": 1, "codecs": []})
        self.say({"type": "mode", "mode": "lossless"})

    def take(self) -> None:
        """Show what came."""
        for message in self.kernel.comm_messages[self._taken :]:
            self._taken += 1
            content = message["content"]
            data = content["data"] if message["msg_type"] == "comm_msg" else {}
            if content["comm_id"] != self.comm or data.get("method") != "custom":
                continue
            if data["content"]["view"] != self.name:
                continue
            self.agains += bool(data["content"].get("again"))
            for each in message["buffers"]:
                self._show(bytes(each))

    def _show(self, data: bytes) -> None:
        if data[0] == messages.Kind.CONFIG:
            width, height = struct.unpack_from("<2I", data, 4)
            self.canvas = np.zeros((height, width, 4), np.uint8)
        elif data[0] == messages.Kind.END:
            self.ends.append(data[4:].decode())
        elif data[0] == messages.Kind.TILES:
            count, frame = struct.unpack_from("<IQ", data, 4)
            rows = zlib.decompress(data[32 + 16 * count :], -15)
            for index in range(count):
                x, y, width, height = struct.unpack_from("<4I", data, 32 + 16 * index)
                tile = np.frombuffer(rows[: width * height * 4], np.uint8).reshape(height, width, 4)
                self.canvas[y : y + height, x : x + width] = tile
                rows = rows[width * height * 4 :]
            self.frames.append(frame)

    def until_it_shows(self, pixels: np.ndarray[Any, Any]) -> None:
        def does() -> bool:
            before = len(self.frames)
            self.take()
            if len(self.frames) > before:
                self.say({"type": "ack", "frame": self.frames[-1]})
            return np.array_equal(self.canvas[..., :3], pixels[..., :3])

        self.kernel.until(does)


@pytest.fixture
def page(kernel: Kernel) -> Any:
    """page(source): a Page of vks.show(source), which is `shown`, after its hello."""
    kernel.run(MAKE)

    def make(source: str = "surface") -> Page:
        bundle = kernel.run(f"shown = vks.show({source}, name='it'); shown")
        made = Page(kernel, bundle)
        made.hello()
        return made

    yield make
    kernel.run("shown.close(); surface.close()")


@pytest.mark.rule("W3")
def test_the_widget_shows_each_pixel_and_goes_on_with_new_pictures(kernel: Kernel, page: Any) -> None:
    shown = page()
    shown.until_it_shows(PIXELS)
    kernel.run("with surface.access(): surface.write(pixels[::-1].copy())")
    shown.until_it_shows(PIXELS[::-1])
    assert kernel.run("shown.statistics().views")["text/plain"] == "1"
    kernel.say(shown.comm, {"view": shown.name, "leaves": True})
    kernel.until(lambda: kernel.run("shown.statistics().views")["text/plain"] == "0")


@pytest.mark.rule("W4")
def test_a_page_that_acknowledges_nothing_gets_three_frames_and_holds_up_no_drawing(kernel: Kernel, page: Any) -> None:
    shown = page()
    kernel.until(lambda: shown.take() or shown.frames)
    kernel.run(
        "for step in range(40):\n"
        "    with surface.access(timeout=10): surface.write(np.full((48, 64, 4), step, np.uint8))\n"
        "    time.sleep(0.01)"
    )
    kernel.settle()
    shown.take()
    assert 1 <= len(shown.frames) <= 3
    shown.say({"type": "ack", "frame": shown.frames[-1]})
    shown.until_it_shows(np.full((48, 64, 4), 39, np.uint8))


@pytest.mark.rule("W5")
def test_events_come_back_in_order_and_a_page_that_leaves_releases_what_it_held(kernel: Kernel, page: Any) -> None:
    shown = page()
    shown.say({"type": "event", "event_type": "pointer_down", "x": 3.5, "y": 4.0, "button": 1, "buttons": [1]})
    shown.say({"type": "event", "event_type": "key_down", "key": "a"})
    kernel.say(shown.comm, {"view": shown.name, "leaves": True})
    kernel.run("kinds = []")
    ask = "kinds += [each.event_type for each in shown.events()]; kinds"
    wanted = "['pointer_down', 'key_down', 'key_up', 'pointer_up', 'close']"
    kernel.until(lambda: len(eval(kernel.run(ask)["text/plain"])) >= 5)
    assert kernel.run("kinds")["text/plain"] == wanted


@pytest.mark.rule("W5")
def test_a_malformed_message_ends_that_page_alone(kernel: Kernel, page: Any) -> None:
    good = page()
    good.until_it_shows(PIXELS)
    bad = Page(kernel, {WIDGET: {"model_id": good.comm}}, "another page")
    bad.hello()
    bad.until_it_shows(PIXELS)
    for content in (
        {"view": bad.name, "message": {"type": "ack", "frame": 10**6}},
        {"view": 7},
        [],
        {"view": "x" * 99},
    ):
        kernel.say(good.comm, content)
    kernel.until(lambda: kernel.run("(shown.statistics().garbage, shown.statistics().views)")["text/plain"] == "(1, 1)")
    kernel.run("with surface.access(): surface.write(pixels[:, ::-1].copy())")
    good.until_it_shows(PIXELS[:, ::-1])


def test_a_source_that_ends_says_so_and_one_that_changes_its_size_begins_anew(kernel: Kernel, page: Any) -> None:
    shown = page("device.create_swapchain(vks.Headless(32, 16))")
    kernel.run("swapchain = shown._show._arguments[0]")
    draw = "with swapchain.frame() as frame: device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))"
    red = np.broadcast_to(np.array([255, 0, 0, 255], np.uint8), (16, 32, 4))
    kernel.run(draw)
    shown.until_it_shows(red)
    kernel.run(f"swapchain.retarget(vks.Headless(8, 8))\n{draw}\n{draw}")
    kernel.until(lambda: shown.take() or shown.agains)
    shown.hello()
    shown.until_it_shows(red[:8, :8])
    kernel.run("swapchain.close()")
    kernel.until(lambda: shown.take() or shown.ends)
    assert shown.ends == ["the swapchain was closed"]
