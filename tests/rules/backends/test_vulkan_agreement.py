"""Vulkan and the CPU backend draw the same: to the bit where nothing has to be blended, within 2/255 where it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.pixel_formats import WITHOUT_DEPTH
from support.run_volumes import rounds

import vkshare as vks
from vkshare import formats
from vkshare.testing import assert_images_equal

pytestmark = [pytest.mark.wheel, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

FORMATS = WITHOUT_DEPTH  # test_depth.py has the others
COLOURS = tuple(name for name in FORMATS if not formats.get(name).is_integer)  # which blits and draws take

TILINGS = ("linear", "optimal")
Draw = Callable[[vks.CommandList, dict[str, vks.Surface]], object]


class Both:
    """The device of this run and the CPU backend: each thing is done on both."""

    def __init__(self, device: vks.Device, cpu: vks.Device) -> None:
        self.devices = (device, cpu)
        self.random = np.random.default_rng(7)

    def draw(self, pictures: dict[str, tuple[str, np.ndarray]], draw: Draw, tiling: str) -> list[np.ndarray]:
        """What surfaces of these formats and contents hold in "target" after `draw`: on the device, on the CPU."""
        results = []
        for format_name, _ in pictures.values():  # a driver may lack one
            if format_name not in self.devices[0].capabilities.formats:
                pytest.skip(f"no {format_name}: {self.devices[0].capabilities.reasons[f'format {format_name}']}")
        for device, device_tiling in zip(self.devices, (tiling, "linear"), strict=True):
            surfaces = {}
            for name, (format_name, pixels) in pictures.items():
                height, width = pixels.shape[:2]
                surfaces[name] = device.create_surface(width, height, format_name, tiling=device_tiling)
                surfaces[name].acquire(0)
                surfaces[name].write(pixels)
            commands = device.record()
            draw(commands, surfaces)
            try:
                device.submit(commands).wait(30)
            except vks.UnsupportedError as error:  # NVIDIA's linear images cannot be blended into
                if tiling != "linear" or device.adapter.kind != "gpu":
                    raise
                pytest.skip(str(error))
            results.append(surfaces["target"].read())
            for surface in surfaces.values():
                surface.close()
        return results

    def picture(self, format_name: str, width: int, height: int) -> tuple[str, np.ndarray]:
        """Random pixels; colours are premultiplied where they may be."""
        pixel = formats.get(format_name)
        shape = (height, width, pixel.channels)
        if pixel.dtype.startswith("float"):
            return format_name, self.random.random(shape).astype(pixel.numpy_dtype)
        limit = np.iinfo(pixel.dtype).max
        return format_name, self.random.integers(0, limit, shape, pixel.numpy_dtype, endpoint=True)

    def rect(self, width: int, height: int, *, mirrored: bool = False) -> tuple[int, int, int, int]:
        """A random rectangle within that size: x, y, width, height; some mirrored."""
        x0, x1 = sorted(self.random.choice(width + 1, 2, replace=False).tolist())
        y0, y1 = sorted(self.random.choice(height + 1, 2, replace=False).tolist())
        if mirrored and self.random.random() < 0.3:
            x0, x1 = x1, x0
        if mirrored and self.random.random() < 0.3:
            y0, y1 = y1, y0
        return x0, y0, x1 - x0, y1 - y0


@pytest.fixture
def both(device: vks.Device) -> Iterator[Both]:
    if device.backend != "vulkan":
        pytest.skip("compares Vulkan with the CPU backend")
    # The rasteriser takes the sub-pixel precision that the compared device reports.
    adapter = next(a for a in vks.adapters() if a.kind == "cpu")
    can = dataclasses.replace(adapter.capabilities, subpixel_bits=device.capabilities.subpixel_bits)
    with vks.open(dataclasses.replace(adapter, capabilities=can)) as cpu:
        yield Both(device, cpu)


@pytest.fixture(params=TILINGS)
def tiling(request: pytest.FixtureRequest, device: vks.Device) -> str:
    if request.param not in device.capabilities.tilings:
        pytest.skip(f"no {request.param}: {device.capabilities.reasons[request.param]}")
    name: str = request.param
    return name


def values(pixels: np.ndarray, format_name: str) -> np.ndarray:
    """Components as floats, unorm ones 0 to 1."""
    if format_name == "rgb10a2unorm":
        packed = pixels[..., 0]
        parts = [(packed >> shift & mask) / mask for shift, mask in ((0, 1023), (10, 1023), (20, 1023), (30, 3))]
        return np.stack(parts, -1)
    return pixels.astype(np.float64) if pixels.dtype.kind == "f" else pixels / np.iinfo(pixels.dtype).max


# One part of 255, and what rounding to two bits of alpha makes of it.
def assert_within(actual: np.ndarray, expected: np.ndarray, format_name: str, parts: float) -> None:
    difference = np.abs(values(actual, format_name) - values(expected, format_name))
    if format_name == "rgb10a2unorm":
        assert difference[..., 3].max() <= 1 / 3 + 1e-6
        difference = difference[..., :3]
    assert difference.max() <= parts / 255 + 1e-6


def assert_coverage(actual: np.ndarray, expected: np.ndarray, share: float) -> None:
    differ = float((actual != expected).any(axis=2).mean())
    assert differ <= share, f"{differ:.4%} of the pixels differ"


@pytest.mark.rule("E6")
@pytest.mark.parametrize("format_name", FORMATS)
def test_clear_and_fill_agree_to_the_bit(both: Both, tiling: str, format_name: str) -> None:
    target = both.picture(format_name, 61, 37)
    ties = [(n + 0.5) / 255 for n in (0, 1, 126, 254)] + [(n + 0.5) / 1023 for n in (0, 1, 511, 1022)]
    ties += [(n + 0.5) / 65535 for n in (0, 1, 32767, 65534)]
    edges = [0.0, 1.0, -0.0, -3.0, 1.5, 0.0031308, 2**-14, 2**-24, 65519.0]
    if formats.get(format_name).is_integer:
        edges += [2.5, 2**24 + 1, 2**32 - 1, 2**32]
    for _ in range(12):
        colours = [both.random.choice([*ties, *edges, *both.random.random(8)], 4).tolist() for _ in range(2)]
        rect = both.rect(61, 37)

        def draw(commands: vks.CommandList, surfaces: dict[str, vks.Surface], colours=colours, rect=rect) -> None:
            commands.clear(surfaces["target"], colours[0]).fill_rect(surfaces["target"], rect, colours[1])

        actual, expected = both.draw({"target": target}, draw, tiling)
        assert_images_equal(actual, expected)


@pytest.mark.rule("E6")
@pytest.mark.parametrize("format_name", FORMATS)
def test_copies_agree_to_the_bit(both: Both, tiling: str, format_name: str) -> None:
    pictures = {"source": both.picture(format_name, 33, 40), "target": both.picture(format_name, 50, 29)}

    def draw(commands: vks.CommandList, surfaces: dict[str, vks.Surface]) -> None:
        commands.copy(surfaces["source"], surfaces["target"], (3, 5, 20, 17), (11, 12))

    actual, expected = both.draw(pictures, draw, tiling)
    assert_images_equal(actual, expected)


def sources(to: str) -> tuple[str, ...]:
    """All colours; in `make test` every third, which are others for the next target."""
    step = rounds(1, 5, full=1)
    return COLOURS[COLOURS.index(to) % step :: step]


@pytest.mark.rule("E6")
@pytest.mark.parametrize("filter_name", ["nearest", "linear"])
@pytest.mark.parametrize("to", COLOURS)
def test_blits_between_all_formats_agree(both: Both, tiling: str, to: str, filter_name: str) -> None:
    for source_format in sources(to):
        pictures = {"source": both.picture(source_format, 33, 29), "target": both.picture(to, 50, 60)}
        rects = [(both.rect(33, 29, mirrored=True), both.rect(50, 60, mirrored=True)) for _ in range(3)]

        def draw(commands: vks.CommandList, surfaces: dict[str, vks.Surface], rects: Any = rects) -> None:
            for source_rect, target_rect in rects:
                commands.blit(surfaces["source"], surfaces["target"], source_rect, target_rect, filter_name)

        actual, expected = both.draw(pictures, draw, tiling)
        if filter_name == "nearest" and to.endswith("32float") and both.devices[0].adapter.kind == "gpu":
            np.testing.assert_allclose(actual, expected, rtol=1.3e-7)  # hardware divides by 255 to the last bit but one
        elif filter_name == "nearest":
            np.testing.assert_array_equal(actual, expected, err_msg=f"{source_format} to {to}, {rects}")
        else:
            assert_within(actual, expected, to, 2)


@pytest.mark.rule("E6")
@pytest.mark.parametrize("to", COLOURS)
def test_composites_of_all_formats_agree(both: Both, tiling: str, to: str) -> None:
    for source_format in sources(to):
        pictures = {"source": both.picture(source_format, 33, 29), "target": both.picture(to, 50, 60)}
        at = tuple(both.random.integers(-20, 40, 2).tolist())
        opacity = float(both.random.choice([1.0, 0.5, both.random.random()]))
        alpha = str(both.random.choice(["premultiplied", "straight"]))

        def draw(
            commands: vks.CommandList, surfaces: dict[str, vks.Surface], at=at, opacity=opacity, alpha=alpha
        ) -> None:
            commands.composite(surfaces["source"], surfaces["target"], at, opacity, alpha)

        actual, expected = both.draw(pictures, draw, tiling)
        assert_within(actual, expected, to, 2)


def test_the_coverage_of_ten_thousand_triangles_agrees(both: Both, tiling: str) -> None:
    size = (640, 360)
    centres = both.random.uniform(-1.05, 1.05, (10_000, 1, 2))
    vertices = np.zeros((10_000, 3, 8), np.float32)
    vertices[..., :2] = centres + both.random.uniform(-0.04, 0.04, (10_000, 3, 2))
    vertices[..., 3] = 1
    vertices[..., 4:] = (1 / 255, 0, 0, 0)  # adds one code for each triangle that covers the pixel
    blank = ("rgba8unorm", np.zeros((size[1], size[0], 4), np.uint8))

    def draw(commands: vks.CommandList, surfaces: dict[str, vks.Surface]) -> None:
        commands.draw_triangles(surfaces["target"], vertices)

    actual, expected = both.draw({"target": blank}, draw, tiling)
    assert expected.any(axis=2).mean() > 0.5
    assert_coverage(actual, expected, 0.001)


def test_perspective_textures_and_clipping_agree(both: Both, tiling: str) -> None:
    texture = ("rgba8unorm", np.kron(np.indices((8, 8)).sum(0) % 2, np.ones((8, 8)))[..., None].repeat(4, 2) * 255)
    texture = (texture[0], texture[1].astype(np.uint8))
    blank = ("rgba8unorm", np.zeros((200, 320, 4), np.uint8))
    corners = {"a": (-0.9, -0.8, 0, 1), "b": (2.4, -2.4, 0, 3), "c": (2.4, 2.4, 3, 3), "d": (-0.9, 0.8, 0.5, 1)}
    uv = {"a": (0, 0), "b": (1, 0), "c": (1, 1), "d": (0, 1)}
    behind = [(-0.5, -0.5, 0.2, 1, 0, 0), (0.5, -0.5, 0.2, 1, 1, 0), (0, 0.5, -0.5, -1, 0.5, 1)]
    quad = [(*corners[name], *uv[name]) for name in "abcacd"]
    vertices = np.array(quad + behind, np.float32)

    def draw(commands: vks.CommandList, surfaces: dict[str, vks.Surface]) -> None:
        commands.draw_triangles(surfaces["target"], vertices, surfaces["texture"], "nearest")

    actual, expected = both.draw({"target": blank, "texture": texture}, draw, tiling)
    assert expected.any(axis=2).mean() > 0.3
    assert_coverage(actual, expected, 0.01)  # nearest texels on the edge between two may fall either way


def test_operations_that_depend_on_each_other_run_in_order(both: Both, tiling: str) -> None:
    pictures = {
        "source": both.picture("rgba8unorm", 40, 30),
        "between": both.picture("rgba8unorm", 40, 30),
        "target": both.picture("rgba8unorm", 40, 30),
    }

    def draw(commands: vks.CommandList, s: dict[str, vks.Surface]) -> None:
        for step in range(8):
            commands.fill_rect(s["between"], (step, step, 20, 15), (step / 8, 0.5, 0.25, 0.5))
            commands.composite(s["between"], s["target"], (step, -step), 0.5)
            commands.copy(s["target"], s["source"], (0, 0, 9, 9), (step, step))
            commands.blit(s["source"], s["between"], None, (2, 3, 31, 17), "nearest")

    actual, expected = both.draw(pictures, draw, tiling)
    assert_within(actual, expected, "rgba8unorm", 8)  # up to one part a step
