"""Command lists: what each command does to the pixels, and what it refuses."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.peer_processes import later

import vkshare as vks
from vkshare.errors import ClosedError, DeviceMismatchError, InvalidCallError, NotOwnerError
from vkshare.testing import assert_images_close, assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

Open = Callable[..., vks.Device]
RED, CLEAR = (1, 0, 0, 1), (0, 0, 0, 0)


def owned(
    device: vks.Device, width: int = 16, height: int = 12, name: str = "rgba8unorm", **options: Any
) -> vks.Surface:
    surface = device.create_surface(width, height, name, **options)
    surface.acquire()
    return surface


def noise(surface: vks.Surface, seed: int = 0) -> np.ndarray:
    """Premultiplied random pixels: no colour is above its alpha."""
    pixels = np.random.default_rng(seed).integers(0, 256, surface.shape, np.uint8)
    if surface.shape[2] == 4:
        pixels[..., :3] = np.minimum(pixels[..., :3], pixels[..., 3:])
    return pixels


def filled(device: vks.Device, seed: int, width: int = 16, height: int = 12) -> tuple[vks.Surface, np.ndarray]:
    surface = owned(device, width, height)
    pixels = noise(surface, seed)
    surface.write(pixels)
    return surface, pixels


# ---- several threads ---------------------------------------------------------------------------------------------


def test_a_list_that_grows_while_submit_compiles_another_one_is_compiled_again(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with device.create_surface(4, 4) as surface:
        surface.acquire()
        first, second = (device.record().clear(surface, (0, 0, 0, 1)) for _ in range(2))
        compiled = second._compile

        def meanwhile() -> None:
            compiled()
            first.clear(surface, (1, 1, 1, 1))  # as another thread may

        monkeypatch.setattr(second, "_compile", meanwhile)
        device.submit(second, first).wait()
        assert surface.read().min() == 255
        first.clear(surface, (0, 0, 0, 0))
        second.clear(surface, (0, 0, 0, 0))
        device.submit(first, second).wait()
        assert first._is_compiled
        surface.release()


def test_two_threads_may_submit_one_list_for_the_first_time_and_a_third_records_on(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface = owned(device)
    commands = device.record().clear(surface, CLEAR)
    compile_it, calls, submits, records = device._compile, [], [], []

    def late(compiled: vks.CommandList, missing: Any) -> None:
        calls.append(missing)
        if len(calls) == 1:  # what the first list of a device lacks is made, and Python code runs meanwhile
            submits.append(later(device.submit, commands))
            records.append(later(commands.draw_triangles, surface, [(-1, -1, *RED), (3, -1, *RED), (-1, 3, *RED)]))
            records[0].result(30)
        compile_it(compiled, missing)

    monkeypatch.setattr(device, "_compile", late)
    device.submit(commands)
    submits[0].result(30)
    device.submit(commands)
    assert_images_equal(surface.read(), np.full((12, 16, 4), (255, 0, 0, 255), np.uint8))


@pytest.mark.parametrize("moment", range(1, 9))
def test_a_command_that_a_garbage_collection_records_within_submit_is_in_the_next_submission(
    device: vks.Device, moment: int
) -> None:
    surface = owned(device)
    commands, collections, thresholds = device.record().clear(surface, CLEAR), itertools.count(1), gc.get_threshold()
    device.submit(commands)  # what the first list of a device lacks is made
    for _ in range(24):  # Python reuses short tuples without a collection
        commands.clear(owned(device), CLEAR)
    n_commands = len(commands)

    def record(phase: str, _info: dict[str, int]) -> None:
        if phase == "start" and next(collections) == moment:
            commands.clear(surface, RED)

    gc.callbacks.append(record)
    gc.set_threshold(1)
    try:
        device.submit(commands)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(record)
    is_recorded = len(commands) > n_commands  # else submit() ran fewer collections
    device.submit(commands)
    assert surface.read()[0, 0].tolist() == ([255, 0, 0, 255] if is_recorded else [0, 0, 0, 0])


# ---- what they draw ----------------------------------------------------------------------------------------------


def test_clear_sets_every_pixel_to_the_rounded_colour(device: vks.Device) -> None:
    surface = owned(device)
    device.submit(device.record().clear(surface, (0.5, 1.5, -1, 0.25)))
    assert (surface.read() == (128, 255, 0, 64)).all()


def test_fill_rect_sets_the_part_inside_and_nothing_else(device: vks.Device) -> None:
    for rect in ((2, 3, 5, 4), (-3, -2, 6, 5), (12, 8, 100, 100), (20, 20, 4, 4), (3, 3, 0, 5), (0, 0, 16, 12)):
        surface, expected = filled(device, 1)
        x, y, width, height = rect
        expected[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = (255, 0, 0, 255)
        device.submit(device.record().fill_rect(surface, rect, RED))
        assert_images_equal(surface.read(), expected)


def test_copy_moves_a_region_bit_for_bit(device: vks.Device) -> None:
    source, from_pixels = filled(device, 2)
    target, expected = filled(device, 3, 20, 20)
    expected[7:12, 5:9] = from_pixels[3:8, 2:6]
    device.submit(device.record().copy(source, target, (2, 3, 4, 5), at=(5, 7)))
    assert_images_equal(target.read(), expected)
    device.submit(device.record().copy(source, target))
    expected[:12, :16] = from_pixels
    assert_images_equal(target.read(), expected)


def test_a_nearest_blit_repeats_and_mirrors_pixels(device: vks.Device) -> None:
    source, pixels = filled(device, 4)
    target = owned(device, 32, 24)
    device.submit(device.record().blit(source, target, filter="nearest"))
    assert_images_equal(target.read(), pixels.repeat(2, 0).repeat(2, 1))
    same = owned(device)
    device.submit(device.record().blit(source, same, (16, 0, -16, 12), filter="nearest"))
    assert_images_equal(same.read(), pixels[:, ::-1])
    device.submit(device.record().blit(source, same, None, (0, 12, 16, -12), filter="nearest"))
    assert_images_equal(same.read(), pixels[::-1])


def test_a_linear_blit_of_a_ramp_is_a_ramp(device: vks.Device) -> None:
    source, target = owned(device, 4, 4), owned(device, 8, 4)
    ramp = np.zeros((4, 4, 4), np.uint8)
    ramp[..., 0] = [0, 80, 160, 240]
    source.write(ramp)
    device.submit(device.record().blit(source, target))
    expected = np.zeros((4, 8, 4), np.uint8)
    expected[..., 0] = [0, 20, 60, 100, 140, 180, 220, 240]  # texel centres, clamped at the edges
    assert_images_close(target.read(), expected, 2)


def test_a_blit_converts_formats(device: vks.Device) -> None:
    source, pixels = filled(device, 5)
    target = owned(device, name="bgra8unorm")
    device.submit(device.record().blit(source, target, filter="nearest"))
    assert_images_equal(target.read(), pixels[..., [2, 1, 0, 3]])


@pytest.mark.parametrize("opacity", [1.0, 0.4, 0.0])
def test_composite_is_premultiplied_over(device: vks.Device, opacity: float) -> None:
    source, over = filled(device, 6)
    target, under = filled(device, 7)
    device.submit(device.record().composite(source, target, at=(3, -2), opacity=opacity))
    expected = under.astype(np.float64)
    part = over[2:12, 0:13] * opacity
    expected[0:10, 3:16] = part + expected[0:10, 3:16] * (1 - part[..., 3:] / 255)
    assert_images_close(target.read(), np.round(expected).astype(np.uint8), 2)


def as_linear(codes: np.ndarray) -> np.ndarray:
    """sRGB codes, 0 to 255, as light, 0 to 1; alpha as it is."""
    value = codes / 255
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.concatenate([light[..., :3], value[..., 3:]], 2)


def as_codes(light: np.ndarray) -> np.ndarray:
    value = np.clip(light, 0, 1)
    codes = np.where(value <= 0.0031308, value * 12.92, 1.055 * value ** (1 / 2.4) - 0.055)
    return np.round(255 * np.concatenate([codes[..., :3], value[..., 3:]], 2)).astype(np.uint8)


def over(source: np.ndarray, target: np.ndarray, names: tuple[str, str], opacity: float, alpha: str) -> np.ndarray:
    """What composite() is to make of two pictures of those formats, in 8 bits."""
    top = as_linear(source) if names[0].endswith("srgb") else source / 255
    under = as_linear(target) if names[1].endswith("srgb") else target / 255
    if alpha == "straight":
        top = np.concatenate([top[..., :3] * top[..., 3:], top[..., 3:]], 2)
    mixed = top * opacity + under * (1 - top[..., 3:] * opacity)
    return as_codes(mixed) if names[1].endswith("srgb") else np.round(255 * np.clip(mixed, 0, 1)).astype(np.uint8)


@pytest.mark.parametrize("opacity", [1.0, 0.4])
@pytest.mark.parametrize("alpha", ["premultiplied", "straight"])
@pytest.mark.parametrize("names", list(itertools.product(("rgba8unorm", "rgba8unorm-srgb"), repeat=2)), ids="-".join)
def test_composite_takes_premultiplied_and_straight_colours_in_light_where_formats_have_it(
    device: vks.Device, names: tuple[str, str], alpha: str, opacity: float
) -> None:
    dice = np.random.default_rng(12)
    top, under = (dice.integers(0, 256, (32, 64, 4), np.uint8) for _ in range(2))
    top[:4, :, 3], top[4:8, :, 3] = 0, 255
    if alpha == "premultiplied":
        top[..., :3] = np.minimum(top[..., :3], top[..., 3:])
    source, target = (owned(device, 64, 32, name) for name in names)
    source.write(top)
    target.write(under)
    device.submit(device.record().composite(source, target, opacity=opacity, alpha=alpha))
    assert_images_close(target.read(), over(top, under, names, opacity, alpha), 1)


def test_straight_colours_without_alpha_leave_the_target_as_it_is_and_opaque_ones_replace_it(
    device: vks.Device,
) -> None:
    source, pixels = filled(device, 6)
    target, expected = filled(device, 7)
    pixels[..., 3] = np.where(np.arange(16) < 8, 0, 255)
    source.write(pixels)
    device.submit(device.record().composite(source, target, alpha="straight"))
    expected[:, 8:] = pixels[:, 8:]
    assert_images_equal(target.read(), expected)


def test_triangles_cover_the_half_that_they_should(device: vks.Device) -> None:
    surface = owned(device, 64, 64)
    lower_left = [(-1, -1, *RED), (-1, 1, *RED), (1, 1, *RED)]  # y points down
    device.submit(device.record().clear(surface, CLEAR).draw_triangles(surface, lower_left))
    pixels = surface.read()
    y, x = np.mgrid[0:64, 0:64]
    assert (pixels[x < y] == (255, 0, 0, 255)).all()
    assert (pixels[x > y] == 0).all()


def test_triangles_blend_over_earlier_ones(device: vks.Device) -> None:
    surface = owned(device, 8, 8)
    everything = [(-1, -1), (3, -1), (-1, 3)]
    half_green = (0, 0.5, 0, 0.5)
    vertices = [[(*p, *colour) for p in everything] for colour in (RED, half_green)]
    device.submit(device.record().draw_triangles(surface, vertices))
    assert_images_close(surface.read(), np.full((8, 8, 4), (128, 128, 0, 255), np.uint8), 2)


@pytest.mark.parametrize("layout", [4, 6, 10])
def test_a_texture_is_drawn_upright_in_each_vertex_layout(device: vks.Device, layout: int) -> None:
    texture, pixels = filled(device, 8)
    texture.write(pixels | np.array([0, 0, 0, 255], np.uint8))
    target = owned(device)
    white = (1, 1, 1, 1)
    rows = {
        4: lambda x, y, u, v: (x, y, u, v),
        6: lambda x, y, u, v: (2 * x, 2 * y, 0, 2, u, v),  # w = 2: the divide must happen
        10: lambda x, y, u, v: (x, y, 0, 1, *white, u, v),
    }[layout]
    quad = [(-1, -1, 0, 0), (1, -1, 1, 0), (1, 1, 1, 1), (-1, -1, 0, 0), (1, 1, 1, 1), (-1, 1, 0, 1)]
    vertices = np.array([rows(*corner) for corner in quad], np.float32)
    device.submit(device.record().clear(target, CLEAR).draw_triangles(target, vertices, texture, filter="nearest"))
    assert_images_equal(target.read(), texture.read())


def test_vertices_may_come_as_triangles_and_in_other_number_types(device: vks.Device) -> None:
    surface = owned(device, 8, 8)
    vertices = np.array([[[-1, -1, 0, 1, *RED], [3, -1, 0, 1, *RED], [-1, 3, 0, 1, *RED]]], np.float64)
    device.submit(device.record().draw_triangles(surface, vertices))
    assert (surface.read() == (255, 0, 0, 255)).all()


@pytest.mark.parametrize(
    "make",
    [
        tuple,
        lambda rows: [list(row) for row in rows],
        lambda rows: [rows[:3], tuple(rows[3:])],
        lambda rows: ((rows[0], rows[1], rows[2]), [*rows[3:]]),
        lambda rows: np.array(rows, np.float32),
        lambda rows: np.array(rows, np.float64).reshape(2, 3, 6),
        lambda rows: np.array(rows, np.float32)[::1, ::-1][:, ::-1],
        lambda rows: [tuple(map(np.float32, row)) for row in rows],
        lambda rows: np.array(rows, np.float32).data,
    ],
)
def test_vertices_of_every_kind_draw_the_same(device: vks.Device, make: Callable[[list[Any]], Any]) -> None:
    surface = owned(device)
    rows = [
        (-1, -1, *RED),
        (0, -1, *RED),
        (-1, 0, *RED),
        (0, 0, 0, 1.0, 0, 1),
        (1, 0, 0, 1.0, 0, 1),
        (0, 1, 0, 1, 0, 1),
    ]
    device.submit(device.record().clear(surface, CLEAR).draw_triangles(surface, make(rows)))
    pixels = surface.read()
    assert pixels[1, 1].tolist() == [255, 0, 0, 255]
    assert pixels[7, 9].tolist() == [0, 255, 0, 255]
    assert pixels[10, 2].tolist() == [0, 0, 0, 0]


def test_commands_run_in_order_and_lists_can_be_submitted_again(device: vks.Device) -> None:
    surface, other = owned(device), owned(device)
    paint = device.record().clear(surface, RED).fill_rect(surface, (0, 0, 8, 12), (0, 0, 1, 1)).copy(surface, other)
    assert len(paint) == 3
    for _ in range(3):
        device.submit(paint, device.record().clear(surface, CLEAR))
        pixels = other.read()
        assert (pixels[:, :8] == (0, 0, 255, 255)).all()
        assert (pixels[:, 8:] == (255, 0, 0, 255)).all()
        assert not surface.read().any()


def test_a_list_can_be_recorded_on_after_it_was_submitted(device: vks.Device) -> None:
    surface = owned(device)
    commands = device.record().clear(surface, RED)
    device.submit(commands)
    assert commands._is_compiled
    commands.fill_rect(surface, (0, 0, 1, 1), (0, 1, 0, 1))
    assert not commands._is_compiled
    device.submit(commands)
    assert surface.read()[0, 0].tolist() == [0, 255, 0, 255]


def test_an_empty_list_may_be_submitted(device: vks.Device) -> None:
    fence = device.create_fence()
    device.submit(device.record(), signals=fence)
    fence.wait(1, 5)


def test_views_stand_for_their_surfaces(device: vks.Device) -> None:
    one, two = device.create_surface(8, 8), device.create_surface(8, 8)
    with one.access() as source, two.access() as target:
        device.submit(device.record().clear(source, RED).copy(source, target))
        assert (two.read() == (255, 0, 0, 255)).all()


# ---- owning ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K21", "K31")
def test_submitting_work_on_a_surface_that_is_not_owned_is_refused_and_changes_nothing(device: vks.Device) -> None:
    surface, fence = device.create_surface(8, 8), device.create_fence()
    commands = device.record().clear(surface, RED)
    with pytest.raises(NotOwnerError, match=r"with surface\.access\("):
        device.submit(commands, signals=fence)
    assert fence.queued_value == 0
    with surface.access():
        assert not surface.read().any()


@pytest.mark.rule("K21")
def test_work_on_an_unowned_discard_surface_vanishes_and_reads_zeros(device: vks.Device) -> None:
    source, target = device.create_surface(8, 8, unowned="discard"), device.create_surface(8, 8, unowned="discard")
    fence = device.create_fence()
    with source.access():
        source.write(np.full((8, 8, 4), 200, np.uint8))
    mine = owned(device, 8, 8)
    mine.write(np.full((8, 8, 4), 50, np.uint8))
    paint = device.record().clear(target, RED).copy(source, mine)
    device.submit(paint, signals=fence)
    fence.wait(1, 5)
    assert not mine.read().any()
    with target.access(), source.access():
        assert not target.read().any()
        device.submit(paint)
        assert (target.read() == (255, 0, 0, 255)).all()
        assert (mine.read() == 200).all()


# ---- what they refuse --------------------------------------------------------------------------------------------


def vertices_with(value: float) -> list[list[list[float]]]:
    """Two triangles, the second with `value` as the last of its second vertex."""
    vertices = [[[0.0] * 6 for _ in range(3)] for _ in range(2)]
    vertices[1][1][5] = value
    return vertices


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (lambda c, a, b: c.clear(a, (1, 2, 3)), ValueError, "colour has 3 components"),
        (lambda c, a, b: c.clear(a, "red!"), TypeError, "colour must be four floats"),
        (lambda c, a, b: c.clear(a, (0, 0, 0, float("nan"))), ValueError, "colour: alpha is nan"),
        (lambda c, a, b: c.clear(a, (0, float("-inf"), 0, 1)), ValueError, "colour: green is -inf; allowed are"),
        (lambda c, a, b: c.clear(a, (10**400, 0, 0, 1)), ValueError, "colour: red is inf"),
        (lambda c, a, b: c.clear(a, (0, 0, 1e39, 1)), ValueError, r"colour: blue is 1e\+39"),
        (lambda c, a, b: c.clear(5, RED), TypeError, "target must be a Surface or a View, not int"),
        (lambda c, a, b: c.fill_rect(a, (0, 0, -1, 1), RED), ValueError, "rect is .*must not be negative"),
        (lambda c, a, b: c.fill_rect(a, (0, 0, 1), RED), ValueError, r"rect is .*\(x, y, width, height\)"),
        (lambda c, a, b: c.fill_rect(a, (0.5, 0, 1, 1), RED), TypeError, "rect: x must be an integer"),
        (lambda c, a, b: c.fill_rect(a, (2**31, 0, 1, 1), RED), ValueError, "rect: x is 2147483648"),
        (lambda c, a, b: c.fill_rect(a, 5, RED), TypeError, "rect must be"),
        (lambda c, a, b: c.copy(a, a), ValueError, "source and target are the same surface"),
        (lambda c, a, b: c.copy(a, b, (0, 0, 17, 2)), ValueError, "source_rect covers x 0 to 17.*source of 16x12"),
        (lambda c, a, b: c.copy(a, b, at=(1, 0)), ValueError, "at covers x 1 to 17.*target of 16x12"),
        (lambda c, a, b: c.copy(a, b, (0, 0, -2, 2)), ValueError, "must not be negative"),
        (lambda c, a, b: c.copy(a, b, (-1, 0, 2, 2)), ValueError, "source_rect covers x -1 to 1"),
        (lambda c, a, b: c.blit(a, b, filter="cubic"), ValueError, "filter is 'cubic'"),
        (lambda c, a, b: c.blit(a, b, (0, 0, -1, 1)), ValueError, "source_rect covers x -1 to 0"),
        (lambda c, a, b: c.blit(a, b, None, (0, 0, 16, 13)), ValueError, "target_rect covers .*y 0 to 13"),
        (lambda c, a, b: c.composite(a, b, opacity=1.5), ValueError, "opacity is 1.5; allowed is 0 to 1"),
        (lambda c, a, b: c.composite(a, b, opacity=float("nan")), ValueError, "opacity is nan"),
        (lambda c, a, b: c.composite(a, b, opacity="1"), TypeError, "opacity must be a number, not str"),
        (lambda c, a, b: c.composite(a, b, at=(0,)), ValueError, r"at is \(0,\)"),
        (lambda c, a, b: c.composite(a, b, alpha="none"), ValueError, "alpha is 'none'.*premultiplied.*straight"),
        (lambda c, a, b: c.draw_triangles(a, np.zeros((4, 6))), ValueError, r"shape \(4, 6\)"),
        (lambda c, a, b: c.draw_triangles(a, np.zeros((3, 7))), ValueError, "K one of 6, 8"),
        (lambda c, a, b: c.draw_triangles(a, np.zeros((3, 8)), b), ValueError, "K one of 4, 6, 10"),
        (lambda c, a, b: c.draw_triangles(a, np.zeros((1, 2, 3, 4))), ValueError, "shape"),
        (lambda c, a, b: c.draw_triangles(a, "abc"), TypeError, "vertices must be an array of numbers, not str"),
        (lambda c, a, b: c.draw_triangles(a, vertices_with(float("nan"))), ValueError, "value 5 of vertex 4 is nan"),
        (lambda c, a, b: c.draw_triangles(a, vertices_with(-1e39)), ValueError, "value 5 of vertex 4 is -inf; allowed"),
        (lambda c, a, b: c.draw_triangles(a, vertices_with(10**400)), ValueError, "vertices hold an integer"),
        (lambda c, a, b: c.draw_triangles(a, np.zeros((3, 4)), a), ValueError, "texture and target are the same"),
        (lambda c, a, b: c.draw_triangles(a, np.zeros((3, 4)), b, "cubic"), ValueError, "filter"),
    ],
)
def test_wrong_arguments_are_refused_by_name_and_record_nothing(
    device: vks.Device,
    record: Callable[[vks.CommandList, vks.Surface, vks.Surface], object],
    error: type[Exception],
    text: str,
) -> None:
    one, two = device.create_surface(16, 12), device.create_surface(16, 12)
    commands = device.record()
    with pytest.raises(error, match=text):
        record(commands, one, two)
    assert len(commands) == 0


def test_copy_between_formats_is_refused_and_names_blit(device: vks.Device) -> None:
    one, two = device.create_surface(8, 8), device.create_surface(8, 8, "bgra8unorm")
    with pytest.raises(ValueError, match=r"rgba8unorm, target bgra8unorm.*blit\(\)"):
        device.record().copy(one, two)


def test_what_has_no_area_is_left_out(device: vks.Device) -> None:
    one, two = device.create_surface(8, 8), device.create_surface(8, 8)
    commands = device.record()
    commands.fill_rect(one, (9, 0, 4, 4), RED).copy(one, two, (0, 0, 0, 8)).blit(one, two, (0, 0, 0, 8))
    commands.composite(one, two, at=(8, 0)).composite(one, two, at=(0, -8)).draw_triangles(one, np.zeros((0, 6)))
    assert len(commands) == 0


def test_surfaces_of_another_device_must_be_opened_first(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    with pytest.raises(DeviceMismatchError, match=r"open_surface\(surface\.export\(\)\)"):
        two.record().clear(surface, RED)
    commands = one.record().clear(surface, RED)
    with surface.access(), pytest.raises(DeviceMismatchError, match=r"commands\[0\].*record\(\)"):
        two.submit(commands)


def test_closed_surfaces_and_lists_are_refused(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    commands = device.record().clear(surface, RED)
    surface.close()
    with pytest.raises(ClosedError, match="target is closed"):
        device.record().clear(surface, RED)
    with pytest.raises((ClosedError, NotOwnerError)):
        device.submit(commands)
    other = owned(device)
    with device.record().clear(other, RED) as closed:
        pass
    closed.close()
    assert closed.is_closed
    assert "closed" in repr(closed)
    with pytest.raises(ClosedError):
        closed.clear(other, RED)
    with pytest.raises(ClosedError):
        device.submit(closed)


def test_a_surface_without_the_usage_is_refused_with_what_to_write(device: vks.Device) -> None:
    surface = device.create_surface(8, 8, usage=("copy",))
    with pytest.raises(InvalidCallError, match=r"needs 'render': create_surface\(\.\.\., usage="):
        device.record().fill_rect(surface, (0, 0, 1, 1), RED)


def test_the_repr_tells_how_much_was_recorded(device: vks.Device) -> None:
    surface = owned(device)
    commands = device.record()
    assert commands
    assert "0 operations" in repr(commands)
    device.submit(commands.clear(surface, RED))
    assert "1 operations, compiled" in repr(commands)


@pytest.mark.no_driver
@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have no __buffer__ before Python 3.12")
def test_ctrl_c_while_an_object_gives_its_vertices_is_raised(device: vks.Device) -> None:
    class Rows:
        def __buffer__(self, flags: int) -> memoryview:
            raise KeyboardInterrupt

    with device.create_surface(8, 8) as surface, pytest.raises(KeyboardInterrupt):
        device.record().draw_triangles(surface, Rows())
