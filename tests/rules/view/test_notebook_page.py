"""The notebook's widget in headless Chromium, whose comm this test carries (rules W2, W3 and W5)."""

from __future__ import annotations

import base64
import importlib.util
import json
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.required_parts import need

import vkshare as vks
from vkshare.view import bundle

pytest_plugins = ["support.chromium_pages"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W2")]

HANG = 30.0  # seconds: only ends hangs
# A model of anywidget's, whose messages wait in `outbox` and come by `deliver()`.
_MODEL = """async (script) => {
    const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const listeners = new Set();
    window.outbox = [];
    const model = {
        on: (kind, listener) => listeners.add(listener),
        off: (kind, listener) => listeners.delete(listener),
        send: (content) => window.outbox.push(content),
    };
    window.deliver = (content, packed) => {
        const buffers = packed.map((each) => {
            const bytes = Uint8Array.from("xx" + atob(each), (letter) => letter.charCodeAt(0));
            return new DataView(bytes.buffer, 2); // as a front end has them: a part of something larger
        });
        for (const listener of listeners) listener(content, buffers);
    };
    const { default: widget } = await import(url);
    window.leave = widget.render({ model, el: document.body.appendChild(document.createElement("div")) });
}"""
_PIXELS = """() => {
    const canvas = document.querySelector("canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return [canvas.height, canvas.width, btoa(Array.from(data, (each) => String.fromCharCode(each)).join(""))];
}"""


class Cell:
    """A page with the widget, and the messages between both."""

    def __init__(self, page: Any, shown: Any, from_kernel: queue.Queue[Any]) -> None:
        self.page, self.shown, self._from_kernel = page, shown, from_kernel
        page.set_content("<!doctype html><title>a cell</title>")
        page.evaluate(_MODEL, bundle.widget())

    def carry(self) -> None:
        for content in self.page.evaluate("window.outbox.splice(0)"):
            self.shown._views.receive(json.loads(json.dumps(content)))
        while not self._from_kernel.empty():
            content, buffers = self._from_kernel.get()
            packed = [base64.b64encode(each).decode() for each in buffers]
            self.page.evaluate("([content, packed]) => window.deliver(content, packed)", [content, packed])

    def until(self, is_true: Callable[[], Any]) -> None:
        limit = time.monotonic() + HANG
        while not is_true():
            assert time.monotonic() < limit, self.page.text_content("body")
            self.carry()
            self.page.wait_for_timeout(10)

    def pixels(self) -> np.ndarray[Any, Any]:
        height, width, data = self.page.evaluate(_PIXELS)
        return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)

    def until_it_shows(self, picture: np.ndarray[Any, Any]) -> None:
        self.until(lambda: np.array_equal(self.pixels()[..., :3], picture[..., :3]))


@pytest.fixture
def cell(device: vks.Device, new_page: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cell]]:
    """cell(source): a Cell of vks.show(source)."""
    need("notebook", importlib.util.find_spec("anywidget") is not None, "anywidget is missing")
    from vkshare.view.widget import PictureWidget

    made: list[Any] = []

    def make(source: Any) -> Cell:
        sent: queue.Queue[Any] = queue.Queue()
        monkeypatch.setattr(PictureWidget, "pass_on", lambda self, content, buffers: sent.put((content, buffers)))
        shown = vks.show(source, name="it")
        made.append(shown)
        return Cell(new_page(), shown, sent)

    yield make
    for shown in made:
        shown.close()


def noise(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (30, 40, 4), dtype=np.uint8)


@pytest.mark.rule("W3")
def test_a_cell_shows_each_pixel_and_new_pictures_and_says_how(device: vks.Device, cell: Any) -> None:
    with device.create_surface(40, 30) as surface:
        shown = cell(surface)
        for seed in range(4):
            with surface.access(timeout=HANG):
                surface.write(noise(seed))
            shown.until_it_shows(noise(seed))
        shown.until(lambda: "it \u00b7 40 \u00d7 30 \u00b7 lossless" in shown.page.text_content("body"))
        box = shown.page.locator("canvas").bounding_box()
        assert (box["width"], box["height"]) == (320, 240)  # enlarged by a whole number
        assert shown.shown.statistics().views == 1
        shown.page.evaluate("window.leave()")
        shown.until(lambda: shown.shown.statistics().views == 0)


@pytest.mark.rule("W5")
def test_keys_and_pointer_come_back_in_pixels_of_the_picture(device: vks.Device, cell: Any) -> None:
    with device.create_surface(40, 30) as surface:
        with surface.access():
            surface.write(noise(1))
        shown = cell(surface)
        shown.until_it_shows(noise(1))
        box = shown.page.locator("canvas").bounding_box()
        shown.page.mouse.click(box["x"] + 8 * 5 + 4, box["y"] + 8 * 6 + 4)
        shown.page.keyboard.press("a")
        events: list[Any] = []

        def have_come() -> bool:
            events.extend(shown.shown.events())
            return any(each.event_type == "key_up" for each in events)

        shown.until(have_come)
        kinds = [each.event_type for each in events]
        assert [each for each in kinds if each not in ("resize", "pointer_move", "pointer_enter")] == [
            "pointer_down",
            "pointer_up",
            "key_down",
            "char",
            "key_up",
        ]
        (down,) = [each for each in events if each.event_type == "pointer_down"]
        assert (down.x, down.y, down.button) == (5.5, 6.5, 1)


def test_the_cell_follows_a_new_size_and_keeps_the_last_picture_of_a_source_that_ends(
    device: vks.Device, cell: Any
) -> None:
    def draw(*colour: float) -> None:
        with swapchain.frame(timeout=HANG) as frame:
            device.submit(device.record().clear(frame.view, (*colour, 1)))

    with device.create_swapchain(vks.Headless(40, 30)) as swapchain:
        draw(1, 0, 0)
        shown = cell(swapchain)
        shown.until_it_shows(np.full((30, 40, 3), (255, 0, 0), np.uint8))
        swapchain.retarget(vks.Headless(16, 8))
        draw(0, 1, 0)
        shown.until_it_shows(np.full((8, 16, 3), (0, 255, 0), np.uint8))
    shown.until(lambda: "ended: the swapchain was closed" in shown.page.text_content("body"))
    assert (shown.pixels()[..., :3] == (0, 255, 0)).all()


def test_the_script_is_one_module_of_the_pages_own_parts() -> None:
    script = bundle.widget()
    lines = script.splitlines()
    assert [line for line in lines if line.startswith(("import ", "export "))] == ["export default { render };"]
    for name in ("messages", "tiles", "video", "layout", "input", "player"):
        assert sum(line.startswith(f"const $_{name} = ") for line in lines) == 1
