"""Depth: surfaces of d16unorm and d32float, and draws that are tested against them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.peer_processes import Peer

import vkshare as vks
from vkshare.errors import InvalidCallError, UnsupportedError

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.rule("E6"),
    pytest.mark.driver_dependent,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

FORMATS = ("d16unorm", "d32float")
RED, GREEN, BLUE = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "never": lambda new, old: np.zeros_like(old, bool),
    "less": operator.lt,
    "equal": operator.eq,
    "less_equal": operator.le,
    "greater": operator.gt,
    "not_equal": operator.ne,
    "greater_equal": operator.ge,
    "always": lambda new, old: np.ones_like(old, bool),
}

Open = Callable[..., vks.Device]
Rows = list[tuple[float, ...]]


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest, device: vks.Device) -> str:
    found: str = request.param
    assert found in device.capabilities.formats, device.capabilities.reasons
    return found


def box(left: float, right: float, z: float, colour: tuple[float, ...], top: float = -1, bottom: float = 1) -> Rows:
    """Two triangles that cover the rectangle, in clip space."""
    a, b, c, d = ((x, y, z, 1, *colour) for y in (top, bottom) for x in (left, right))
    return [a, b, c, c, b, d]


class Scene:
    """A colour surface and a depth surface, which a device owns."""

    def __init__(self, device: vks.Device, name: str, width: int = 32, height: int = 8) -> None:
        self.device = device
        self.colours = device.create_surface(width, height, "rgba8unorm")
        self.depth = device.create_surface(width, height, name)
        self.colours.acquire()
        self.depth.acquire()

    def draw(self, *draws: tuple[Any, dict[str, Any]], clear: float | None = 1.0) -> None:
        commands = self.device.record()
        if clear is not None:
            commands.clear(self.colours, (0, 0, 0, 0)).clear(self.depth, clear)
        for vertices, how in draws:
            commands.draw_triangles(self.colours, vertices, **{"depth": self.depth, **how})
        self.device.submit(commands)

    def red(self) -> np.ndarray:
        """Where red was drawn."""
        return self.colours.read()[:, :, 0] == 255


@pytest.fixture
def scene(device: vks.Device, name: str) -> Iterator[Scene]:
    made = Scene(device, name)
    yield made
    made.colours.close()
    made.depth.close()


def stored(name: str, values: Any) -> np.ndarray:
    """What an image of the format holds of these values."""
    exact = np.asarray(values, np.float32)
    return np.rint(exact * np.float32(65535)).astype(np.uint16) if name == "d16unorm" else exact


# ---- the test ----------------------------------------------------------------------------------------------------


def test_the_nearest_triangle_shows_in_whatever_order_they_are_drawn(scene: Scene) -> None:
    near, far = box(-1, 0, 0.25, RED), box(-1, 1, 0.75, BLUE)
    pictures = []
    for order in ((near, far), (far, near), ([*far, *near],), ([*near, *far],)):
        scene.draw(*((vertices, {}) for vertices in order))
        pictures.append(scene.colours.read())
    expected = np.zeros_like(pictures[0])
    expected[:, :16] = (255, 0, 0, 255)
    expected[:, 16:] = (0, 0, 255, 255)
    for picture in pictures:
        np.testing.assert_array_equal(picture, expected)


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("test", COMPARISONS)
def test_each_comparison_passes_the_pixels_that_it_names_and_writes_their_depth(
    scene: Scene, name: str, test: str, writes: bool
) -> None:
    below = [(box(-1, -0.5, 0.25, GREEN), {}), (box(-0.5, 0, 0.6, GREEN), {}), (box(0, 0.5, 0.75, GREEN), {})]
    scene.draw(*below)
    before = scene.depth.read()
    np.testing.assert_array_equal(before[0, ::8, 0], stored(name, [0.25, 0.6, 0.75, 1]))
    scene.draw((box(-1, 1, 0.6, RED), {"depth_test": test, "depth_write": writes}), clear=None)
    new = stored(name, 0.6)
    passes = COMPARISONS[test](new, before)
    np.testing.assert_array_equal(scene.red(), passes[:, :, 0])
    np.testing.assert_array_equal(scene.depth.read(), np.where(passes & writes, new, before))


# GPUs compute z with a few bits below a code: halves may go either way there.
@pytest.mark.parametrize("z", [0.0, 1.0, 0.3, 0.7, 1 / 3, 1e-5, 0.99999, 1000.4 / 65535, 1000.6 / 65535])
def test_a_triangle_of_one_depth_stores_that_depth_rounded_to_nearest(scene: Scene, name: str, z: float) -> None:
    scene.draw((box(-1, 1, z, RED), {"depth_test": "always"}), clear=0.5)
    np.testing.assert_array_equal(scene.depth.read(), np.full((8, 32, 1), stored(name, z)))
    assert scene.red().all()


def test_pixels_of_equal_codes_are_equal_whatever_was_rounded_away(scene: Scene, name: str) -> None:
    """The depth of d16unorm is rounded before the test."""
    first, second = 1000.3 / 65535, 999.8 / 65535  # one code
    scene.draw((box(-1, 1, first, GREEN), {}), (box(-1, 1, second, RED), {"depth_test": "less"}))
    assert scene.red().any() == (name == "d32float")


def test_a_transparent_pixel_writes_its_depth_too(scene: Scene, name: str) -> None:
    scene.draw((box(-1, 1, 0.25, (0, 0, 0, 0)), {}), (box(-1, 1, 0.5, RED), {}))
    assert not scene.red().any()
    assert (scene.depth.read() == stored(name, 0.25)).all()


def test_depth_stays_from_one_list_to_the_next_and_two_depths_serve_one_list(device: vks.Device) -> None:
    first, second = (Scene(device, name) for name in FORMATS)
    commands = device.record().clear(first.colours, (0, 0, 0, 0)).clear(first.depth, 1).clear(second.depth, 0.5)
    near, middle, far = (box(-1, 1, z, c) for z, c in ((0.25, RED), (0.4, GREEN), (0.75, BLUE)))
    commands.draw_triangles(first.colours, far, depth=first.depth)
    commands.draw_triangles(first.colours, far, depth=second.depth)  # nothing passes
    commands.draw_triangles(first.colours, middle, depth=second.depth)
    commands.fill_rect(first.colours, (0, 0, 4, 8), BLUE)
    commands.draw_triangles(first.colours, box(-1, -0.9375, 0, RED))  # a pixel, without depth
    device.submit(commands)
    assert (first.depth.read() == stored("d16unorm", 0.75)).all()
    assert (second.depth.read() == stored("d32float", 0.4)).all()
    row = first.colours.read()[3]
    assert row[:, :3].tolist() == [[255, 0, 0]] + [[0, 0, 255]] * 3 + [[0, 255, 0]] * 28
    device.submit(device.record().draw_triangles(first.colours, near, depth=second.depth, depth_write=False))
    assert first.red().all()
    assert (second.depth.read() == stored("d32float", 0.4)).all()


@pytest.mark.parametrize("filter", ["nearest", "linear"])
def test_textured_triangles_are_tested_too(scene: Scene, device: vks.Device, filter: str) -> None:
    image = device.create_surface(4, 4, "rgba8unorm")
    image.acquire()
    device.submit(device.record().clear(image, RED))
    rows = [(*row[:4], 0.5, 0.5) for row in box(-1, 1, 0.5, RED)]
    scene.draw((box(-1, 0, 0.25, GREEN), {}), (rows, {"texture": image, "filter": filter}))
    np.testing.assert_array_equal(scene.red(), np.broadcast_to(np.arange(32) >= 16, (8, 32)))


def slopes(seed: int, count: int = 60) -> np.ndarray:
    """Triangles at random over 64x64 pixels, half of them in perspective.

    Corners are on the grid of 4 sub-pixel bits, which all drivers have, and none is a sliver: so drivers agree on
    coverage, and on depth but for the rounding of floats.
    """
    random = np.random.default_rng(seed)
    pixels = random.integers(-8 * 16, 72 * 16, (8 * count, 3, 2)) / 16
    (ax, ay), (bx, by) = ((pixels[:, i] - pixels[:, 0]).T for i in (1, 2))
    pixels = pixels[np.abs(ax * by - ay * bx) > 800][:count].reshape(-1, 2)
    rows = np.ones((len(pixels), 8), np.float32)
    rows[:, :2] = pixels / 32 - 1
    rows[:, 2] = random.uniform(0, 1, len(pixels))
    rows[len(rows) // 6 * 3 :, 3] = random.choice([0.5, 1, 2, 4], len(rows) - len(rows) // 6 * 3)
    rows[:, :3] *= rows[:, 3:4]
    rows[:, 4:7] = np.repeat(random.uniform(0, 1, (len(rows) // 3, 3)), 3, axis=0)
    return rows


# Between interpolations in floats: in codes of d16unorm, and in depth.
BOUNDS = {"d16unorm": 1, "d32float": 4e-6}


def test_slopes_have_the_depth_of_the_cpu_backend_within_a_bound(device: vks.Device, name: str) -> None:
    with vks.open(backend="cpu") as cpu:
        seen = []
        for each in (device, cpu):
            picture = Scene(each, name, 64, 64)
            picture.draw((slopes(5), {}))
            seen.append((picture.colours.read().astype(int), picture.depth.read().astype(np.float64)))
    (colours, depth), (expected, wanted) = seen
    assert np.unique(wanted).size > 500, "there are slopes"
    # SwiftShader, with 4 bits, covers some pixels whose centre is on an edge where the top-left rule covers none.
    on_edges = 0 if device.capabilities.subpixel_bits == 8 else 0.02
    assert (np.abs(depth - wanted) > BOUNDS[name]).mean() <= on_edges
    # Of two triangles that meet within the bound, either may be the nearer.
    assert (np.abs(colours - expected).max(axis=2) > 2).mean() <= on_edges + 0.002


def test_depth_of_coplanar_triangles_is_equal_when_they_are_drawn_again(scene: Scene) -> None:
    """One shape drawn twice has the same depth to the bit: multi-pass drawing depends on it."""
    triangles = slopes(9, 12)
    green, red = triangles.copy(), triangles.copy()
    green[:, 4:], red[:, 4:] = GREEN, RED
    scene.draw((green, {}))
    drawn = scene.colours.read()[:, :, 1] == 255
    scene.draw((red, {"depth_test": "equal", "depth_write": False}), clear=None)
    np.testing.assert_array_equal(scene.red(), drawn)


# ---- surfaces of depth -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, 0.25, 0.3, np.float32(0.7), (0.5, 9, 9, 9), [1 / 3, 0, 0, 0]])
def test_a_clear_takes_one_number_and_stores_the_nearest(scene: Scene, name: str, value: Any) -> None:
    scene.draw(clear=value)
    near = value[0] if isinstance(value, (tuple, list)) else value
    np.testing.assert_array_equal(scene.depth.read(), np.full((8, 32, 1), stored(name, near)))


@pytest.mark.parametrize(
    "value", [-0.001, 1.001, float("nan"), (2, 0, 0, 0), (-1e-9, 0, 0, 0), "1", None, True, (1, 1)]
)
def test_a_clear_of_another_value_is_refused(scene: Scene, device: vks.Device, value: Any) -> None:
    commands = device.record()
    with pytest.raises((ValueError, TypeError), match=r"colour|the depth is .*; allowed is 0 to 1"):
        commands.clear(scene.depth, value)
    with pytest.raises(TypeError, match="colour must be four floats"):
        commands.clear(scene.colours, 0.5)
    assert len(commands) == 0


def test_another_device_opens_it_and_sees_what_was_written_copied_and_drawn(
    device: vks.Device, vks_open: Open, name: str
) -> None:
    elsewhere = vks_open(name="other")
    source, target = (device.create_surface(*size, name) for size in ((37, 11), (40, 20)))
    with target.export() as descriptor:
        other = elsewhere.open_surface(descriptor)
    assert (other.format, other.shape) == (name, (20, 40, 1))
    random = np.random.default_rng(3)
    pixels = stored(name, random.uniform(0, 1, source.shape))
    with source.access() as view, target.access(release=1) as picture:
        source.write(pixels)
        np.testing.assert_array_equal(source.read(), pixels)
        device.submit(device.record().clear(picture, 0).copy(view, picture, (2, 1, 30, 10), (5, 6)))
    colours = elsewhere.create_surface(40, 20, "r8unorm")
    with other.access(acquire=1, release=2), colours.access():
        seen = other.read()
        expected = np.zeros_like(seen)
        expected[6:16, 5:35] = pixels[1:11, 2:32]
        np.testing.assert_array_equal(seen, expected)
        elsewhere.submit(
            elsewhere.record()
            .clear(colours, (0, 0, 0, 0))
            .draw_triangles(colours, box(-1, 1, 0, RED), depth=other, depth_test="equal")
            .draw_triangles(colours, box(-1, 1, 1, RED), depth=other, depth_test="equal")
            .draw_triangles(colours, box(0, 1, 0.6, RED), depth=other, depth_test="always")
        )
        equal = (seen == 0) | (seen == stored(name, 1))
        np.testing.assert_array_equal(colours.read() == 255, equal | (np.arange(40)[None, :, None] >= 20))
    with target.access(acquire=2):
        assert (target.read()[:, 20:] == stored(name, 0.6)).all()


def test_another_process_draws_against_the_depth(device: vks.Device, peers: Callable[[], Peer], name: str) -> None:
    depth = device.create_surface(16, 8, name)
    with depth.access(release=1):
        device.submit(device.record().clear(depth, 0.5))
    there = peers().device
    with depth.export() as descriptor:
        theirs = there.open_surface(descriptor)
    colours = there.create_surface(16, 8)
    colours.acquire()
    theirs.acquire(1, 30)
    commands = there.record()
    commands.clear(colours, (0, 0, 0, 0))
    commands.draw_triangles(colours, box(-1, 0, 0.25, RED), depth=theirs)
    commands.draw_triangles(colours, box(-1, 1, 0.75, RED), depth=theirs)
    there.submit(commands)
    np.testing.assert_array_equal(colours.read()[0, :, 0], [255] * 8 + [0] * 8)
    theirs.release(2)
    with depth.access(2):
        np.testing.assert_array_equal(depth.read()[0, :, 0], stored(name, [0.25] * 8 + [0.5] * 8))


def test_a_new_surface_is_zeros_and_its_view_is_one_channel(device: vks.Device, name: str) -> None:
    with device.create_surface(5, 3, name) as surface, surface.access() as view:
        pixels = surface.read()
        assert (pixels.shape, pixels.dtype) == ((3, 5, 1), {"d16unorm": np.uint16, "d32float": np.float32}[name])
        assert not pixels.any()
        assert (surface.tiling, view.format) == ("linear" if device.backend == "cpu" else "optimal", name)
        if device.backend == "vulkan":
            with pytest.raises(UnsupportedError, match=r"cannot be mapped; use surface.read\(\) and write\(\)$"):
                _ = view.array
        if device.backend == "cpu":
            view.array[1, 2] = pixels.dtype.type(1)
            assert surface.read()[1, 2] == 1


def test_values_that_no_depth_has_are_not_written(device: vks.Device) -> None:
    with device.create_surface(3, 2, "d32float") as surface, surface.access():
        for bad in (-0.5, 1.5, np.nan):
            pixels = np.full((2, 3, 1), 0.5, np.float32)
            pixels[1, 2] = bad
            with pytest.raises(ValueError, match=r"outside 0 to 1 .*d32float holds depth"):
                surface.write(pixels)
        assert not surface.read().any()


def test_rows_in_order_are_for_the_cpu_backend_alone(device: vks.Device, name: str) -> None:
    with vks.open(backend="cpu") as cpu, cpu.create_surface(8, 4, name, tiling="linear") as surface:
        assert surface.tiling == "linear"
        if device.backend == "cpu":
            return
        with pytest.raises(UnsupportedError, match=rf"linear {name} .*driver's own order; use tiling=\"optimal\""):
            device.create_surface(8, 4, name, tiling="linear")
        with (
            surface.export() as descriptor,
            pytest.raises(UnsupportedError, match=r"the CPU backend|driver's own order"),
        ):
            device.open_surface(descriptor)


def test_without_ownership_a_discarding_depth_reads_zeros_and_keeps_what_it_has(device: vks.Device, name: str) -> None:
    colours = device.create_surface(8, 4, "rgba8unorm")
    depth = device.create_surface(8, 4, name, unowned="discard")
    with depth.access():
        device.submit(device.record().clear(depth, 0.5))
    commands = device.record().clear(colours, (0, 0, 0, 0)).clear(depth, 1)
    commands.draw_triangles(colours, box(-1, 0, 0.25, RED), depth=depth)  # zeros: nothing is nearer
    commands.draw_triangles(colours, box(0, 1, 0.25, RED), depth=depth, depth_test="greater")
    with colours.access():
        device.submit(commands)
        np.testing.assert_array_equal(colours.read()[0, :, 0], [0] * 4 + [255] * 4)
    with depth.access():
        assert (depth.read() == stored(name, 0.5)).all()


def test_a_frame_of_a_swapchain_is_drawn_with_a_depth_test(device: vks.Device, name: str) -> None:
    with (
        device.create_swapchain(vks.Headless(32, 8), capture=True) as swapchain,
        device.create_surface(32, 8, name) as depth,
        depth.access(),
    ):
        for _ in range(3):
            with swapchain.frame() as frame:
                commands = device.record().clear(frame.view, (0, 0, 0, 1)).clear(depth, 1)
                commands.draw_triangles(frame.view, box(-1, 0, 0.25, GREEN), depth=depth)
                device.submit(commands.draw_triangles(frame.view, box(-1, 1, 0.5, (1, 1, 1, 1)), depth=depth))
            seen = swapchain.capture()
            assert (seen[:, :16, :3] == (0, 255, 0)).all()
            assert (seen[:, 16:] == 255).all()


# ---- what is refused ---------------------------------------------------------------------------------------------


def refusals(on: vks.Device, name: str) -> list[str]:
    depth, other, colours = (on.create_surface(8, 8, n) for n in (name, name, "rgba8unorm"))
    small, unusable = on.create_surface(8, 4, name), on.create_surface(8, 8, name, usage=("copy",))
    texture = [(0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1)]
    triangle = box(-1, 1, 0.5, RED)
    commands = on.record()
    calls: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (
            UnsupportedError,
            f"target has format {name}, and depth",
            lambda: commands.fill_rect(depth, (0, 0, 2, 2), RED),
        ),
        (UnsupportedError, f"source has format {name}, and depth", lambda: commands.blit(depth, other)),
        (UnsupportedError, f"target has format {name}, and depth", lambda: commands.blit(colours, depth)),
        (UnsupportedError, f"source has format {name}, and depth", lambda: commands.composite(depth, colours)),
        (UnsupportedError, f"target has format {name}, and depth", lambda: commands.composite(colours, depth)),
        (UnsupportedError, f"target has format {name}, and depth", lambda: commands.draw_triangles(depth, triangle)),
        (
            UnsupportedError,
            f"texture has format {name}, and depth",
            lambda: commands.draw_triangles(colours, texture, depth, depth=other),
        ),
        (
            ValueError,
            "depth has format rgba8unorm; allowed are d16unorm and d32float",
            lambda: commands.draw_triangles(colours, triangle, depth=on.create_surface(8, 8)),
        ),
        (
            ValueError,
            "depth is 8x4 and target 8x8; they must have one size",
            lambda: commands.draw_triangles(colours, triangle, depth=small),
        ),
        (
            ValueError,
            "depth_test is 'nearer'; allowed are 'never', 'less', .*'always'",
            lambda: commands.draw_triangles(colours, triangle, depth_test="nearer"),
        ),
        (
            TypeError,
            "depth_test must be one of .*, not int",
            lambda: commands.draw_triangles(colours, triangle, depth=depth, depth_test=3),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "depth_write must be True or False, not 1",
            lambda: commands.draw_triangles(colours, triangle, depth=depth, depth_write=1),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "depth must be a Surface or a View, not int",
            lambda: commands.draw_triangles(colours, triangle, depth=7),  # type: ignore[arg-type]
        ),
        (
            InvalidCallError,
            "depth was created with usage .*needs 'render'",
            lambda: commands.draw_triangles(colours, triangle, depth=unusable),
        ),
        (ValueError, "use blit", lambda: commands.copy(depth, colours)),
    ]
    texts = []
    for kind, text, call in calls:
        with pytest.raises(kind, match=text) as caught:
            call()
        texts.append(str(caught.value))
    assert len(commands) == 0, "a refused command is not recorded"
    with pytest.raises(UnsupportedError, match=f"a swapchain of format {name} .*depth is not shown") as caught:
        on.create_swapchain(vks.Headless(8, 8), format=name)
    return [*texts, str(caught.value)]


def test_what_needs_colours_refuses_depth_in_the_same_words_everywhere(device: vks.Device, name: str) -> None:
    texts = refusals(device, name)
    assert texts[0] == (
        f"CommandList.fill_rect() is not supported: target has format {name}, and depth is not filled, scaled, "
        "converted, sampled or blended; clear(), copy() and draw_triangles(depth=) take it"
    )
    with vks.open(backend="cpu") as cpu:
        assert texts == refusals(cpu, name)


def test_a_pipe_carries_depth_to_its_receiver(device: vks.Device, name: str) -> None:
    sender, descriptor = vks.pipe(device, 8, 4, name, count=2)
    with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
        with sender.frame() as frame:
            device.submit(device.record().clear(frame.view, 0.25))
        with receiver.frame() as frame:
            assert (frame.surface.read() == stored(name, 0.25)).all()
