"""What a Vulkan driver draws and what the CPU backend draws: the same, as exactly as issue and drivers allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.errors import UnsupportedError

Open = Callable[..., vks.Device]
Draw = Callable[[vks.CommandList, vks.Surface, vks.Surface], Any]
BYTES = ("r8unorm", "rg8unorm", "rgba8unorm", "rgba8unorm-srgb", "bgra8unorm")
WORDS = (*BYTES, "rgb10a2unorm", "r32float", "rgba16float", "rgba32float")
WIDTH, HEIGHT = 61, 43


@pytest.fixture
def both(vks_open: Open, vks_adapter: vks.Adapter) -> Iterator[tuple[vks.Device, vks.Device]]:
    """The driver of this run, and the CPU backend with the sub-pixel precision that the driver reports."""
    if vks_adapter.backend == "cpu":
        pytest.skip("the CPU backend is what the drivers are compared with")
    cpu = vks.adapters("cpu")[0]
    bits = min(max(vks_adapter.capabilities.subpixel_bits, 4), 8)
    same = dataclasses.replace(cpu, capabilities=dataclasses.replace(cpu.capabilities, subpixel_bits=bits))
    with vks.open(same) as reference:
        yield vks_open(), reference


def noise(surface: vks.Surface, seed: int) -> np.ndarray[Any, Any]:
    """Premultiplied where there is an alpha, so that composite stays in range."""
    rng = np.random.default_rng(seed)
    shape, dtype = surface.shape, surface.read().dtype
    if dtype == np.uint8:
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        if shape[2] == 4:
            pixels[..., :3] = (pixels[..., :3].astype(np.uint16) * pixels[..., 3:] // 255).astype(np.uint8)
        return pixels
    if dtype == np.uint32:
        return rng.integers(0, 2**32, shape, dtype=np.uint32)
    pixels = rng.random(shape)
    if shape[2] == 4:
        pixels[..., :3] *= pixels[..., 3:]
    return pixels.astype(dtype)


def drawn(
    device: vks.Device, name: str, draw: Draw, size: tuple[int, int], source_size: tuple[int, int]
) -> np.ndarray[Any, Any]:
    target = device.create_surface(*size, name)
    source = device.create_surface(*source_size, name)
    target.acquire()
    source.acquire()
    target.write(noise(target, 1))
    source.write(noise(source, 2))
    device.submit(draw(device.record(), target, source))
    picture = target.read()
    target.close()
    source.close()
    return picture


def compare(
    both: tuple[vks.Device, vks.Device],
    name: str,
    draw: Draw,
    *,
    tolerance: float = 0,
    linear_light: bool = False,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    source_size: tuple[int, int] = (37, 29),
) -> None:
    try:
        driver = drawn(both[0], name, draw, size, source_size)
    except UnsupportedError as error:
        pytest.skip(f"{name}: {error}")
    cpu = drawn(both[1], name, draw, size, source_size)
    if tolerance == 0:
        assert np.array_equal(driver, cpu), f"{np.count_nonzero(np.any(driver != cpu, axis=2))} pixels differ"
        return
    scale = {"u": 255.0, "f": 1.0}[driver.dtype.kind]
    if name == "rgb10a2unorm":
        driver, cpu = (np.stack([p[..., 0] >> s & 1023 for s in (0, 10, 20)], axis=2) / 1023 for p in (driver, cpu))
        scale = 1.0
    if (
        linear_light and name == "rgba8unorm-srgb"
    ):  # filtering works in linear light, and encoding stretches dark differences
        driver, cpu = (np.where(p <= 10, p / 255 / 12.92, ((p / 255 + 0.055) / 1.055) ** 2.4) for p in (driver, cpu))
        scale = 1.0
    worst = np.abs(driver.astype(float) - cpu.astype(float)).max() / scale
    assert worst <= tolerance / 255 + 1e-6, f"the largest difference is {worst * 255:.2f} / 255"


@pytest.mark.parametrize("name", WORDS)
def test_clear_and_fill_agree_to_the_bit(both: tuple[vks.Device, vks.Device], name: str) -> None:
    colours = np.random.default_rng(3).uniform(-0.2, 1.2, (40, 4))
    colours[:12] = (np.arange(12)[:, None] + 0.5) / 255  # half-way values

    def draw(commands: vks.CommandList, target: vks.Surface, source: vks.Surface) -> Any:
        commands.clear(target, (0.2, 0.4, 0.6, 0.8))
        for n, colour in enumerate(np.clip(colours, 0, 1)):
            commands.fill_rect(target, (n, n % 7, 5, 30), colour.tolist())
        return commands

    compare(both, name, draw)


@pytest.mark.parametrize("name", WORDS)
def test_copies_agree_to_the_bit(both: tuple[vks.Device, vks.Device], name: str) -> None:
    compare(both, name, lambda c, t, s: c.copy(s, t).copy(s, t, source_rect=(3, 4, 11, 12), at=(40, 30)))


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize(
    "rects",
    [
        ((0, 0, 37, 29), (0, 0, 61, 43)),
        ((5, 3, 20, 11), (60, 2, -40, 30)),
        ((30, 28, -23, -20), (7, 9, 13, 29)),
        ((2, 2, 30, 24), (11, 5, 7, 3)),
    ],
    ids=["larger", "mirrored", "turned", "smaller"],
)
def test_nearest_blits_agree_to_the_bit(both: tuple[vks.Device, vks.Device], name: str, rects: Any) -> None:
    compare(both, name, lambda c, t, s: c.blit(s, t, rects[0], rects[1], filter="nearest"))


@pytest.mark.parametrize("name", [*BYTES, "rgb10a2unorm", "rgba16float"])
def test_linear_blits_agree_within_two_255ths(both: tuple[vks.Device, vks.Device], name: str) -> None:
    compare(
        both,
        name,
        lambda c, t, s: c.blit(s, t, (1, 2, 30, 20), (0, 0, 61, 43), filter="linear"),
        tolerance=2,
        linear_light=True,
    )


@pytest.mark.parametrize("name", [*BYTES, "rgba16float", "rgba32float"])
@pytest.mark.parametrize("opacity", [1.0, 0.37])
def test_composites_agree_within_two_255ths(both: tuple[vks.Device, vks.Device], name: str, opacity: float) -> None:
    compare(both, name, lambda c, t, s: c.composite(s, t, at=(9, 7), opacity=opacity), tolerance=2)


def triangles(count: int, seed: int, size: float) -> np.ndarray[Any, Any]:
    """Opaque white ones at random places, vertices anywhere between the pixels."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1, 1, (count, 1, 2))
    corners = centres + rng.uniform(-size, size, (count, 3, 2))
    return np.concatenate([corners, np.ones((count, 3, 4))], axis=2).astype(np.float32)


def test_coverage_of_ten_thousand_triangles_differs_on_at_most_one_pixel_in_a_thousand(
    both: tuple[vks.Device, vks.Device],
) -> None:
    vertices = triangles(10_000, 11, 0.012)  # some 12 pixels each at this size
    pictures = [
        drawn(
            device,
            "rgba8unorm",
            lambda c, t, s: c.clear(t, (0, 0, 0, 0)).draw_triangles(t, vertices),
            (1024, 1024),
            (1, 1),
        )
        for device in both
    ]
    covered = [picture[..., 3] > 0 for picture in pictures]
    assert covered[0].mean() > 0.05
    assert np.mean(covered[0] != covered[1]) <= 0.001


def test_perspective_and_texture_agree(both: tuple[vks.Device, vks.Device]) -> None:
    w = np.array([1, 3, 1, 1, 3, 3], dtype=np.float32)[:, None]
    xy = np.array([[-0.9, -0.9], [0.9, -0.5], [-0.8, 0.9], [-0.8, 0.9], [0.9, -0.5], [0.8, 0.4]], dtype=np.float32)
    uv = np.array([[0, 0], [1, 0], [0, 1], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    vertices = np.concatenate([xy * w, 0.5 * w, w, uv], axis=1)
    pictures = [
        drawn(
            device,
            "rgba8unorm",
            lambda c, t, s: c.clear(t, (0, 0, 0, 1)).draw_triangles(t, vertices, texture=s),
            (320, 240),
            (64, 64),
        )
        for device in both
    ]
    difference = np.abs(pictures[0].astype(int) - pictures[1].astype(int)).max(axis=2)
    assert np.mean(difference > 4) <= 0.01, f"{np.mean(difference > 4):.3%} of the pixels differ by more than 4/255"
