"""Pictures of a GPU in a view server and in a recording: each pixel is the GPU's, whatever memory it lies in.

These tests pass on lavapipe too. A GPU adds memory that the CPU does not see, so that pictures are
read back through staging memory, and a second device on the same adapter that opens the copies.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.recorded_files import need_av, pixels_of
from support.run_volumes import unhurried
from support.view_servers import HANG, RawPage, need_aiohttp

import vkshare as vks
from vkshare import view
from vkshare.view import messages
from vkshare.view.display_pixels import to_rgba8
from vkshare.view.tiles import Tiles

pytestmark = unhurried

Array = np.ndarray[Any, Any]
Open = Callable[..., vks.Device]
WIDTH, HEIGHT = 333, 271  # rows that are no multiples of an alignment
TILINGS: dict[str, dict[str, Any]] = {
    "optimal": {"tiling": "optimal"},
    "linear": {"tiling": "linear"},
    "host": {"tiling": "linear", "memory": "host"},
}
FORMATS = ("rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "r8unorm", "rg8unorm", "rgba16float", "rgb10a2unorm")


@pytest.fixture
def publisher(vks_open: Open, vks_adapter: vks.Adapter) -> vks.Device:
    """The device that draws; its memory can be opened by other devices."""
    if vks_adapter.backend == "cpu":
        pytest.skip("the CPU backend has one kind of memory; tests/rules/view has its tests")
    if not vks_adapter.capabilities.export_timelines and vks_adapter.kind == "gpu":
        pytest.skip(f"{vks_adapter.name!r} shares no timeline semaphores")
    return vks_open(name="publisher")


class Page:
    """A page without a browser: it puts what comes on a canvas, and acknowledges it."""

    def __init__(self, server: view.ViewServer) -> None:
        self.canvas: Array = np.zeros((0, 0, 4), np.uint8)
        self._raw = RawPage(server).open()
        self._raw.say({"type": "mode", "mode": "lossless"})

    def shows(self, expected: Array) -> None:
        """Take messages until the canvas has exactly these pixels."""
        limit = time.monotonic() + HANG
        while not np.array_equal(self.canvas, expected):
            assert time.monotonic() < limit, f"the canvas {self.canvas.shape} differs"
            opcode, body = self._raw.frame()
            assert opcode == 2, (opcode, body)
            self._take(body)

    def _take(self, body: bytes) -> None:
        if body[0] == messages.Kind.CONFIG:
            width, height = (int.from_bytes(body[at : at + 4], "little") for at in (4, 8))
            self.canvas = np.zeros((height, width, 4), np.uint8)
            return
        tiles = Tiles.read(body)
        tiles.apply(self.canvas)
        self._raw.say({"type": "ack", "frame": tiles.frame})

    def close(self) -> None:
        self._raw.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Page]]:
    """serve(source): a page that shows the source through a view server."""
    need_aiohttp()
    with contextlib.ExitStack() as stack:

        def begin(source: Any, **options: Any) -> Page:
            return stack.enter_context(contextlib.closing(Page(stack.enter_context(view.serve(source, **options)))))

        yield begin


def noise(surface: vks.Surface, seed: int) -> Array:
    dtype: Any = surface.spec.format.numpy_dtype
    if dtype.kind == "f":
        return np.random.default_rng(seed).random(surface.shape).astype(dtype)
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, surface.shape, dtype, endpoint=True)


def drawn(device: vks.Device, surface: vks.Surface, seed: int) -> Array:
    """The pixels after the CPU has written noise and the GPU a rectangle over it; the surface is released."""
    with surface.access() as target:
        surface.write(noise(surface, seed))
        device.submit(device.record().fill_rect(target, (10 * seed, 20, 100, 50), (1, 0.5, 0.25, 1)))
        return surface.read()


@pytest.mark.rule("W3")
@pytest.mark.parametrize("tiling", TILINGS)
def test_a_page_has_each_pixel_of_a_surface_in_each_kind_of_memory(
    publisher: vks.Device, serve: Any, tiling: str
) -> None:
    if TILINGS[tiling]["tiling"] not in publisher.capabilities.tilings:
        pytest.skip(f"{publisher.adapter.name!r} has {', '.join(publisher.capabilities.tilings)} surfaces")
    with publisher.create_surface(WIDTH, HEIGHT, **TILINGS[tiling]) as surface:
        page = serve(surface)
        for seed in range(1, 6):
            page.shows(drawn(publisher, surface, seed))


@pytest.mark.rule("W3")
@pytest.mark.parametrize("name", FORMATS)
def test_a_page_has_the_pixels_of_each_format(publisher: vks.Device, serve: Any, name: str) -> None:
    with publisher.create_surface(WIDTH, HEIGHT, name) as surface:
        page = serve(surface)
        for seed in (1, 2):
            page.shows(to_rgba8(drawn(publisher, surface, seed), name))


@pytest.mark.rule("W3")
def test_the_frames_of_a_swapchain_reach_a_page_on_a_device_that_the_program_chose(
    publisher: vks.Device, vks_open: Open, serve: Any
) -> None:
    with publisher.create_swapchain(vks.Headless(WIDTH, HEIGHT)) as swapchain:
        page = serve(swapchain, device=vks_open(name="viewer"))
        for step in range(6):
            with swapchain.frame() as frame:
                commands = publisher.record().clear(frame.view, (step / 8, 0.25, 0.5, 1))
                publisher.submit(commands.fill_rect(frame.view, (30 * step, 7, 64, 64), (1, 1, 1, 1)))
            page.shows(to_rgba8(swapchain.capture(), swapchain.format))


@pytest.mark.rule("W4")
def test_a_page_that_stops_costs_the_producer_no_frame(publisher: vks.Device, serve: Any) -> None:
    with publisher.create_swapchain(vks.Headless(WIDTH, HEIGHT)) as swapchain:
        page = serve(swapchain)
        for step in range(300):  # nothing is read from the socket meanwhile
            with swapchain.frame(timeout=HANG) as frame:
                publisher.submit(publisher.record().clear(frame.view, (step / 300, 0, 1, 1)))
        page.shows(to_rgba8(swapchain.capture(), swapchain.format))


@pytest.mark.rule("W8")
@pytest.mark.full
@pytest.mark.parametrize("name", ["rgba8unorm", "bgra8unorm", "rgba16unorm"])
def test_a_lossless_recording_has_each_pixel_of_30_frames(publisher: vks.Device, tmp_path: Path, name: str) -> None:
    need_av()
    path, expected = tmp_path / "out.mkv", []
    sender, descriptor = vks.pipe(publisher, WIDTH, HEIGHT, name)
    with sender, descriptor, vks.open_receiver(publisher, descriptor) as receiver:
        with view.record(receiver, path, frames=30, drop=False) as recorder:
            for seed in range(30):
                with sender.frame(timeout=HANG) as frame:
                    frame.surface.write(noise(frame.surface, seed))
                    commands = publisher.record().fill_rect(frame.view, (3 * seed, 40, 90, 90), (0.5, 1, 0.25, 1))
                    publisher.submit(commands)
                    expected.append(frame.surface.read())
            assert recorder.wait(2 * HANG)
        counts = recorder.statistics()
    assert (counts.frames, counts.dropped, counts.is_lossless) == (30, 0, True)
    for wanted, got in zip(expected, pixels_of(path, name), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.rule("W8")
def test_a_recording_of_a_published_surface_ends_with_its_newest_picture(
    publisher: vks.Device, vks_open: Open, tmp_path: Path
) -> None:
    need_av()
    path = tmp_path / "out.mkv"
    with publisher.create_surface(WIDTH, HEIGHT, tiling="optimal") as surface:
        drawn(publisher, surface, 1)
        with view.record(surface, path, device=vks_open(name="recorder")) as recorder:
            for seed in range(2, 8):
                expected = drawn(publisher, surface, seed)
                before = recorder.statistics().frames
                limit = time.monotonic() + HANG
                while recorder.statistics().frames == before:
                    assert time.monotonic() < limit, "the picture is not recorded"
                    time.sleep(0.005)
    np.testing.assert_array_equal(pixels_of(path, "rgba8unorm")[-1], expected)
