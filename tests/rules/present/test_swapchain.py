"""Swapchains on headless targets: what is shown, in what order, and how many frames may be under way."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np
import pytest
from support import headless_swapchains
from support.headless_swapchains import (
    HEIGHT,
    WIDTH,
    clearing,
    create,
    expected,
    filling,
    random_filling,
    show,
    take_all,
)
from support.peer_processes import later
from support.run_volumes import seeded, unhurried
from support.time_limits import at_least
from support.tree_paths import ROOT

import vkshare as vks
from vkshare.errors import ClosedError, InvalidCallError, NotOwnerError, UnsupportedError
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    unhurried,
]

Open = Callable[..., vks.Device]
Create = Callable[..., vks.Swapchain]


@pytest.fixture(scope="module")
def vks_device(vks_adapter: vks.Adapter) -> Iterator[vks.Device]:
    """One for all tests here, which leave it as it was: opening it takes longer than most of them."""
    with vks.open(vks_adapter, name="test") as device:
        yield device


@pytest.fixture(params=["by_fences", "by_acquires"])
def make(request: pytest.FixtureRequest, vks_device: vks.Device) -> Create:
    """Creates a swapchain by one of the two policies; present fences are skipped where the driver has none."""
    fences = request.param == "by_fences"
    return lambda *size, **options: create(vks_device, *size, fences=fences, **options)


# ---- what it is ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A24")
def test_a_swapchain_tells_what_it_is(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        assert isinstance(swapchain, vks.Swapchain)
        assert swapchain.device is vks_device
        assert swapchain.extent == (WIDTH, HEIGHT)
        assert swapchain.image_count >= 3
        assert swapchain.format in ("rgba8unorm", "bgra8unorm")
        assert swapchain.color_space == "srgb-nonlinear"
        assert swapchain.present_mode == "fifo"
        assert not swapchain.is_closed
        images = swapchain.image_count
        assert repr(swapchain) == f"<vkshare.Swapchain 61x35 {swapchain.format}, {images} images, fifo>"
        statistics = swapchain.statistics()
        assert (statistics.frames, statistics.swapchains, statistics.retired, statistics.history) == (0, 1, 0, 0)
        assert (statistics.retired_limit, statistics.image_count) == (4, images)
    assert swapchain.is_closed
    assert repr(swapchain) == "<vkshare.Swapchain closed>"


def test_every_option_is_taken(vks_device: vks.Device) -> None:
    swapchain = vks_device.create_swapchain(
        vks.Headless(17, 9),
        image_count=5,
        present_mode="fifo",
        format="bgra8unorm",
        frames_in_flight=3,
        retired_limit=2,
        present_fences=False,
        capture=True,
    )
    with swapchain:
        assert swapchain.extent == (17, 9)
        assert swapchain.image_count >= 5
        assert swapchain.format == "bgra8unorm"
        assert not swapchain.statistics().by_fences
        assert swapchain.statistics().retired_limit == 2
        show(swapchain, clearing(1, 2, 3))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(1, 2, 3)))


@pytest.mark.rule("A14")
@pytest.mark.parametrize("wanted", [1, 2, 16])
def test_image_counts_are_clamped_to_what_the_target_allows(make: Create, wanted: int) -> None:
    with make(8, 8, image_count=wanted) as swapchain:
        assert 1 <= swapchain.image_count <= 16
        assert swapchain.image_count >= wanted
        for turn in range(2 * swapchain.image_count):
            show(swapchain, clearing(turn))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn)))


@pytest.mark.rule("A14")
def test_extents_are_clamped_to_what_the_target_allows(vks_device: vks.Device) -> None:
    limit = vks_device.capabilities.max_dimension
    for size in ((1, limit), (limit, 1), (1, 1)):
        with create(vks_device, *size) as swapchain:
            width, height = swapchain.extent
            assert min(width, height) == 1
            assert max(width, height) <= limit
            show(swapchain, clearing(7, 8, 9))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(7, 8, 9)))


@pytest.mark.rule("A14")
def test_extent_tells_the_size_that_the_target_allows(vks_device: vks.Device) -> None:
    limit = vks_device.capabilities.max_dimension
    with create(vks_device, 8, 8) as swapchain:
        swapchain.resize(limit, 1)
        assert swapchain.extent == (8, 8)  # until the next acquire()
        with swapchain.frame(timeout=30) as frame:
            assert swapchain.extent == (frame.width, frame.height) == (frame.view.shape[1], 1)
            assert frame.width <= limit
            if vks_device.adapter.name.startswith("SwiftShader"):
                assert frame.width == 3840


def test_sizes_beyond_what_the_device_can_are_refused(vks_device: vks.Device) -> None:
    limit = vks_device.capabilities.max_dimension
    for size, name in (((limit + 1, 1), "width"), ((1, limit + 1), "height"), ((1, 2**31 - 1), "height")):
        with pytest.raises(ValueError, match=name):
            vks_device.create_swapchain(vks.Headless(*size))
        with create(vks_device) as swapchain:
            with pytest.raises(ValueError, match=name):
                swapchain.resize(*size)
            show(swapchain, clearing(1))
            assert swapchain.extent == (WIDTH, HEIGHT)


def test_every_format_is_shown_or_refused_with_those_that_are(vks_device: vks.Device) -> None:
    shown = []
    for name in ("r8unorm", "rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "rgb10a2unorm", "rgba16float"):
        try:
            swapchain = create(vks_device, format=name)
        except UnsupportedError as error:
            reported = str(error)
            assert name in reported
            assert "8unorm" in reported.replace(name, "")
            continue
        with swapchain:
            assert swapchain.format == name
            drawings = clearing(200, 100, 50), filling((3, 4, 20, 10), (1, 0, 0, 1))
            show(swapchain, *drawings)
            assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))
            shown.append(name)
    assert shown


@pytest.mark.rule("A7")
def test_present_fences_are_used_where_they_are_and_refused_where_not(vks_device: vks.Device) -> None:
    with create(vks_device, fences=None) as swapchain:
        best = swapchain.statistics().by_fences
    with create(vks_device, fences=False) as swapchain:
        assert not swapchain.statistics().by_fences
        assert swapchain.statistics().fences == 0
    if best:
        with create(vks_device, fences=True) as swapchain:
            assert swapchain.statistics().by_fences
            show(swapchain, clearing(1))
            assert swapchain.statistics().fences
    else:
        with pytest.raises(UnsupportedError, match="present_fences=True") as refused:
            vks_device.create_swapchain(vks.Headless(8, 8), present_fences=True)
        assert "VK_EXT_swapchain_maintenance1" in refused.value.why or "ring" in refused.value.why


# ---- the loop --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A25")
def test_the_three_calls_show_a_frame(make: Create) -> None:
    with make() as swapchain:
        for turn in range(10):
            frame = swapchain.acquire()
            assert isinstance(frame, vks.Frame)
            assert (frame.width, frame.height) == swapchain.extent
            assert 0 <= frame.index < swapchain.image_count
            assert not frame.is_closed
            assert not frame.is_hidden
            assert frame.swapchain is swapchain
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (turn / 255, 0, 1, 1)))
            assert swapchain.present(frame) is None
            assert frame.is_closed
            assert swapchain.statistics().frames == turn + 1
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(9, 0, 255)))


def test_a_frame_tells_what_it_is(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        frame = swapchain.acquire(5)
        assert repr(frame) == f"<vkshare.Frame 61x35, image {frame.index}>"
        assert frame.view.shape[:2] == (HEIGHT, WIDTH)
        assert frame.view is frame.view
        assert frame.view.surface.is_owned
        frame.close()
        frame.close()
        assert frame.is_closed
        assert repr(frame) == "<vkshare.Frame 61x35, closed>"


def test_a_block_presents_at_its_end(make: Create) -> None:
    with make() as swapchain:
        with swapchain.frame() as frame:
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
            assert swapchain.statistics().frames == 0
        assert frame.is_closed
        assert swapchain.statistics().frames == 1
        with swapchain.frame() as frame:
            swapchain.present(frame)  # by itself
        with swapchain.frame() as frame:
            frame.close()
        assert swapchain.statistics().frames == 2


def test_prepared_commands_are_recorded_once_an_image_and_again_after_a_resize(make: Create) -> None:
    recorded: list[tuple[int, int]] = []

    def record(commands: vks.CommandList, view: vks.View) -> None:
        assert len(commands) == 0
        recorded.append((view.surface.width, view.surface.height))
        commands.clear(view, (0, 1, 0, 1)).fill_rect(view, (1, 1, 3, 3), (1, 0, 1, 1))

    drawings = clearing(0, 255, 0), filling((1, 1, 3, 3), (1, 0, 1, 1))
    with make(32, 16) as swapchain:
        prepared = swapchain.prepare(record)
        assert "Prepared" in repr(prepared)
        for _ in range(20):
            swapchain.present_prepared(prepared)
        assert 0 < len(recorded) <= swapchain.image_count
        assert set(recorded) == {(32, 16)}
        assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))
        recorded.clear()
        swapchain.resize(16, 40)
        for _ in range(20):
            swapchain.present_prepared(prepared)
        assert 0 < len(recorded) <= swapchain.image_count
        assert set(recorded) == {(16, 40)}
        assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))
        recorded.clear()
        prepared.reset()
        swapchain.present_prepared(prepared)
        assert len(recorded) == 1


def test_a_frame_of_prepared_commands_warns_and_presents_them(make: Create) -> None:
    with make() as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))
        with pytest.warns(DeprecationWarning, match=r"call swapchain\.present_prepared\(prepared\)") as warned:
            assert swapchain.frame(prepared, timeout=30) is None
        assert warned[0].filename == __file__
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))


def test_two_prepared_take_turns_with_frames_drawn_by_hand(make: Create) -> None:
    with make() as swapchain:
        red = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))
        blue = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 0, 1, 1)))
        for _ in range(5):
            swapchain.present_prepared(red)
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))
            swapchain.present_prepared(blue)
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, 255)))
            show(swapchain, clearing(0, 9))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 9)))


# ---- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A25")
def test_random_rectangles_in_many_submissions_a_frame_are_shown_exactly(make: Create) -> None:
    dice = seeded()
    with make() as swapchain:
        for _ in range(12):
            drawings = [clearing(dice.randrange(256))]
            drawings += [random_filling(dice, WIDTH, HEIGHT) for _ in range(dice.choice((0, 1, 2, 5, 7, 8, 9, 20)))]
            show(swapchain, *drawings)
            assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))


@pytest.mark.rule("A1", "A6")
def test_a_hundred_submissions_to_one_frame_keep_the_semaphores_few(make: Create) -> None:
    with make() as swapchain:
        for _ in range(6):
            show(swapchain, clearing(0), *[filling((n % WIDTH, n // WIDTH, 1, 1), (1, 1, 1, 1)) for n in range(100)])
        drawings = clearing(0), filling((0, 0, WIDTH, 1), (1, 1, 1, 1)), filling((0, 1, 100 - WIDTH, 1), (1, 1, 1, 1))
        assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))
        # A present waits for 8 at most: these, the acquires' and the pool's spares.
        assert swapchain.statistics().semaphores <= 12 * swapchain.image_count


def test_several_lists_in_one_submission_draw_in_order(make: Create) -> None:
    with make() as swapchain, swapchain.frame() as frame:
        device = swapchain.device
        lists = [device.record().fill_rect(frame.view, (0, 0, 40 - n, 30 - n), (n / 255, 0, 0, 1)) for n in range(12)]
        device.submit(device.record().clear(frame.view, (0, 0, 0, 1)), *lists)
        swapchain.present(frame)
        drawings = [filling((0, 0, 40 - n, 30 - n), (n / 255, 0, 0, 1)) for n in range(12)]
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0), *drawings))


@pytest.mark.rule("A20", "A25")
def test_frames_that_nobody_drew_are_presented_all_the_same(make: Create) -> None:
    with make() as swapchain:
        for turn in range(3 * swapchain.image_count):
            if turn % 3 == 0:
                show(swapchain, clearing(turn, 2, 3))
            else:
                swapchain.present(swapchain.acquire(5))
        show(swapchain, clearing(4, 5, 6))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(4, 5, 6)))
        assert swapchain.statistics().acquired == 0


def test_triangles_are_shown_exactly(make: Create) -> None:
    dice = np.random.default_rng(seeded().getrandbits(32))
    vertices = dice.uniform(0, 1, (30, 6)).astype(np.float32)
    vertices[:, :2] = vertices[:, :2] * 2.4 - 1.2
    vertices[:, 2:5] *= vertices[:, 5:]
    with make() as swapchain:
        drawings = clearing(10, 20, 30), lambda commands, target: commands.draw_triangles(target, vertices)
        show(swapchain, *drawings)
        assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))


def test_shared_surfaces_are_composited_copied_and_blitted_into_frames(make: Create, vks_open: Open) -> None:
    other = vks_open()
    with make() as swapchain:
        theirs = other.create_surface(24, 20, swapchain.format)
        with theirs.access(release=1) as view:
            other.submit(other.record().clear(view, (0.2, 0.4, 0, 0.6)).fill_rect(view, (2, 3, 9, 8), (0, 0, 1, 1)))
        with theirs.export() as descriptor:
            mine = swapchain.device.open_surface(descriptor)
        drawings: tuple[headless_swapchains.Drawing, ...] = (
            clearing(200, 100, 50),
            lambda commands, target: commands.composite(mine, target, (-3, 4), 0.75),
            lambda commands, target: commands.copy(mine, target, (1, 2, 10, 12), (30, 20)),
            lambda commands, target: commands.blit(mine, target, (0, 0, 24, 20), (61, 0, -33, 19), "nearest"),
        )
        with mine.access(acquire=1, release=1):
            show(swapchain, *drawings)
            assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))
        with theirs.access(acquire=1, release=1):
            pass


def test_a_frame_is_a_source_too(make: Create) -> None:
    with make() as swapchain:
        device = swapchain.device
        with device.create_surface(WIDTH, HEIGHT, swapchain.format) as other, other.access() as kept:
            with swapchain.frame() as frame:
                device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
                device.submit(device.record().copy(frame.view, kept))
                device.submit(device.record().clear(frame.view, (0, 0, 1, 1)))
            assert_images_equal(other.read(), expected(swapchain, clearing(255)))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, 255)))


def test_frames_are_written_and_read_by_the_cpu(make: Create) -> None:
    with make() as swapchain:
        for turn in range(2 * swapchain.image_count):
            picture = np.random.default_rng(turn).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
            with swapchain.frame() as frame:
                frame.view.surface.write(picture)
                assert_images_equal(frame.view.surface.read(), picture)
            assert_images_equal(swapchain.capture(), picture)


@pytest.mark.rule("A25")
@pytest.mark.parametrize("keep", [False, True], ids=["as_shown", "kept"])
def test_capture_gives_a_copy_of_the_last_presented_frame(make: Create, keep: bool) -> None:
    with make(capture=keep) as swapchain:
        with pytest.raises(InvalidCallError, match="nothing was presented"):
            swapchain.capture()
        show(swapchain, clearing(1, 2, 3))
        first = swapchain.capture()
        first[:] = 0
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(1, 2, 3)))
        with swapchain.frame() as frame:
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 1, 1, 1)))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(1, 2, 3)))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255, 255, 255)))
        swapchain.resize(9, 30)
        show(swapchain, clearing(5))
        assert swapchain.capture().shape == (30, 9, 4)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(5)))


@pytest.mark.rule("A25")
def test_capture_of_a_headless_target_needs_no_frame_to_be_back(make: Create) -> None:
    with make(8, 8) as swapchain:
        for turn in range(3 * swapchain.image_count):
            show(swapchain, clearing(turn))
            frames = [swapchain.acquire(10) for _ in range(turn % swapchain.image_count)]
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn)))
            for frame in frames:
                swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 1, 1, 1)))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn)))
            for frame in frames:
                frame.close()
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn)))
        assert swapchain.statistics().acquired == 0


@pytest.mark.rule("A6", "A25")
def test_an_image_that_is_kept_for_capture_holds_up_no_resize(make: Create) -> None:
    with make(8, 8, retired_limit=1) as swapchain:
        for turn in range(12):
            for _ in range(1 + turn % 3):
                show(swapchain, clearing(turn))
            frame = swapchain.acquire(10)
            if turn % 2:
                frame.close()
            swapchain.resize(9 + turn, 8)
            show(swapchain, clearing(turn))
            assert swapchain.extent == (9 + turn, 8)
        assert swapchain.statistics().given_up == 0


@pytest.mark.rule("A25")
@pytest.mark.parametrize("images", [1, 3])
def test_capture_never_gives_what_was_drawn_and_dropped(make: Create, images: int) -> None:
    with make(8, 8, image_count=images) as swapchain:
        show(swapchain, clearing(1, 2, 3))
        frames = take_all(swapchain)
        for frame in frames:
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 1, 1, 1)))
        for frame in frames:
            frame.close()
        try:
            shown = swapchain.capture()
        except InvalidCallError:
            return  # it is gone, and it says so
        assert_images_equal(shown, expected(swapchain, clearing(1, 2, 3)))


def test_capture_while_all_frames_are_out_ends(make: Create) -> None:
    with make(8, 8, image_count=2) as swapchain:
        show(swapchain, clearing(1, 2, 3))
        frames = take_all(swapchain)
        try:
            shown = swapchain.capture()
        except InvalidCallError:
            shown = expected(swapchain, clearing(1, 2, 3))
        assert_images_equal(shown, expected(swapchain, clearing(1, 2, 3)))
        for frame in frames:
            frame.close()
        show(swapchain, clearing(4))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(4)))


# ---- frames in flight ------------------------------------------------------------------------------------------------


@pytest.mark.rule("A10")
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_the_work_of_a_frame_is_done_when_as_many_as_may_be_in_flight_came_after_it(make: Create, bound: int) -> None:
    submissions: list[vks.Submission] = []
    with make(256, 256, frames_in_flight=bound, image_count=6) as swapchain:
        device = swapchain.device
        for turn in range(20):
            frame = swapchain.acquire(30)
            if turn >= bound:
                assert submissions[turn - bound].is_done()
            commands = device.record()
            for n in range(40):
                commands.fill_rect(frame.view, (0, 0, 256, 256 - n), (1, 0, 0, 1))
            submissions.append(device.submit(commands))
            swapchain.present(frame)
        assert swapchain.statistics().acquire_waits <= 20


@pytest.mark.rule("A10")
def test_one_frame_in_flight_waits_and_tells(vks_device: vks.Device) -> None:
    with create(vks_device, 512, 512, frames_in_flight=1, image_count=4) as swapchain:
        fills = [filling((0, 0, 512, 512), (0, n / 20, 0, 1)) for n in range(20)]
        for more in range(
            8 if headless_swapchains.is_ring(swapchain) else 1
        ):  # what outlasts a present is the driver's affair
            for _ in range(4):
                show(swapchain, *fills * 2**more)
            if swapchain.statistics().acquire_waits:
                break
        if headless_swapchains.is_ring(swapchain):  # drivers without a GPU finish the work in present()
            assert swapchain.statistics().acquire_waits >= 1


@pytest.mark.rule("A30")
@pytest.mark.parametrize("end", ["resize", "resize after a drop", "close"])
def test_a_draw_that_is_held_ends_with_the_image_that_it_would_draw(make: Create, vks_open: Open, end: str) -> None:
    # Else it would run later, on an image that is destroyed by then.
    swapchain = make()
    device = swapchain.device
    other = vks_open()
    gate = other.create_fence()
    with gate.export() as descriptor:
        opened = device.open_fence(descriptor)
    frame = swapchain.acquire(10)
    held = device.submit(device.record().clear(frame.view, (1, 0, 0, 1)), waits=(opened, 1))
    assert held.is_held
    if end == "resize after a drop":
        frame.close()
    if end == "close":
        swapchain.close()
    else:
        swapchain.resize(WIDTH // 2, HEIGHT // 2)
        show(swapchain, clearing(0, 255))
    with pytest.raises(ClosedError):
        held.wait(10)
    if end != "close":
        for _ in range(8):  # the retired swapchain is destroyed
            show(swapchain, clearing(0, 255))
    gate.signal(1)
    device.wait_idle(10)


@pytest.mark.rule("A10", "A21")
def test_a_present_waits_for_work_of_its_frame_that_is_held(make: Create, vks_open: Open) -> None:
    gate = vks_open().create_fence()
    with make() as swapchain:
        device = swapchain.device
        with gate.export() as descriptor:
            follower = device.open_fence(descriptor)
        frame = swapchain.acquire(5)
        device.submit(device.record().clear(frame.view, (1, 0, 0, 1)), waits=(follower, 1))
        presents = later(swapchain.present, frame)
        assert not presents.done(0.1)
        gate.signal(1)
        presents.result(30)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))


# ---- present modes ---------------------------------------------------------------------------------------------------


def _modes(swapchain: vks.Swapchain) -> list[str]:
    found = []
    for mode in ("immediate", "mailbox", "fifo_relaxed", "fifo"):
        try:
            swapchain.present_mode = mode
        except UnsupportedError as error:
            reported = error.why
            assert "fifo" in reported
        else:
            found.append(mode)
    return found


@pytest.mark.rule("A13")
def test_the_present_mode_changes_with_a_new_swapchain_at_most(make: Create) -> None:
    with make() as swapchain:
        modes = _modes(swapchain)
        assert modes[-1] == swapchain.present_mode == "fifo"
        for turn, mode in enumerate(modes * 3):
            show(swapchain, clearing(turn))
            before = swapchain.statistics().recreated
            swapchain.present_mode = mode
            assert swapchain.present_mode == mode
            show(swapchain, clearing(turn, 1))
            assert swapchain.statistics().recreated - before in (0, 1)
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(turn, 1)))
            assert mode in repr(swapchain)
        assert swapchain.statistics().most_alive <= 5
        before = swapchain.statistics().recreated
        swapchain.present_mode = swapchain.present_mode
        show(swapchain, clearing(1))
        assert swapchain.statistics().recreated == before


@pytest.mark.rule("A13")
def test_without_present_fences_another_mode_takes_one_new_swapchain(vks_device: vks.Device) -> None:
    with create(vks_device, fences=False) as swapchain:
        if headless_swapchains.is_ring(swapchain) or len(_modes(swapchain)) < 2:
            pytest.skip("a ring has no modes, or the driver has one only")
        show(swapchain, clearing(1))
        swapchain.present_mode = "mailbox"
        show(swapchain, clearing(2))
        show(swapchain, clearing(3))
        assert swapchain.statistics().recreated == 1


@pytest.mark.parametrize("mode", ["fifo", "fifo_relaxed", "mailbox", "immediate"])
def test_each_present_mode_shows_frames_or_is_refused(vks_device: vks.Device, mode: str) -> None:
    try:
        swapchain = create(vks_device, present_mode=mode)
    except UnsupportedError as error:
        reported = error.why
        assert "fifo" in reported
        return
    with swapchain:
        assert swapchain.present_mode == mode
        for turn in range(10):
            show(swapchain, clearing(turn))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(9)))


# ---- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A14")
def test_a_resize_takes_hold_with_the_next_acquire(make: Create) -> None:
    with make() as swapchain:
        show(swapchain, clearing(1))
        for width, height in ((1, 1), (200, 3), (3, 200), (61, 35)):
            swapchain.resize(width, height)
            frame = swapchain.acquire(5)
            assert (frame.width, frame.height) == swapchain.extent == (width, height)
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (0, 0, width / 255, 1)))
            swapchain.present(frame)
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, width)))
        assert swapchain.statistics().recreated == 4


def test_a_resize_to_the_same_size_recreates_nothing(make: Create) -> None:
    with make() as swapchain:
        show(swapchain, clearing(1))
        swapchain.resize(5, 5)
        swapchain.resize(WIDTH, HEIGHT)
        show(swapchain, clearing(2))
        assert swapchain.statistics().recreated == 0
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(2)))


def test_of_many_resizes_without_an_acquire_only_the_last_counts(make: Create) -> None:
    with make() as swapchain:
        for n in range(1, 100):
            swapchain.resize(n, 200 - n)
        show(swapchain, clearing(1))
        assert swapchain.extent == (99, 101)
        assert swapchain.statistics().recreated == 1


@pytest.mark.rule("A14")
def test_a_target_without_pixels_gives_hidden_frames_and_comes_back(make: Create) -> None:
    with make() as swapchain:
        show(swapchain, clearing(1, 2, 3))
        swapchain._follow(0, 0)  # as a window that is minimised does
        frames = swapchain.statistics().frames
        cpu = time.process_time()
        with at_least(0.1):  # it waits a little
            for _ in range(5):
                frame = swapchain.acquire(10)
                assert frame.is_hidden
                assert "hidden" in repr(frame)
                assert (frame.width, frame.height) == frame.view.shape[1::-1] == (1, 1)
                swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 1, 1, 1)))
                swapchain.present(frame)
                assert frame.is_closed
        assert time.process_time() - cpu < 1
        assert swapchain.statistics().frames == frames
        swapchain._follow(20, 10)
        frame = swapchain.acquire(10)
        assert not frame.is_hidden
        frame.close()
        show(swapchain, clearing(4, 5, 6))
        assert swapchain.extent == (20, 10)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(4, 5, 6)))


@pytest.mark.rule("A14")
@pytest.mark.parametrize("size", [(0, 0), (0, 10), (10, 0)])
def test_a_hidden_target_of_the_old_size_again_shows_on_as_before(make: Create, size: tuple[int, int]) -> None:
    with make() as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
        swapchain.present_prepared(prepared)
        swapchain._follow(*size)
        swapchain.present_prepared(prepared)
        with swapchain.frame() as frame:
            assert frame.is_hidden
            assert swapchain.acquire(0).is_hidden  # as many as one likes
        swapchain._follow(WIDTH, HEIGHT)
        swapchain.present_prepared(prepared)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255, 0)))
        assert swapchain.statistics().recreated == 0


def test_a_frame_that_is_out_while_its_target_is_hidden_is_presented(make: Create) -> None:
    with make() as swapchain:
        frame = swapchain.acquire(5)
        swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
        swapchain._follow(0, 0)
        assert swapchain.acquire(5).is_hidden
        swapchain.present(frame)
        swapchain._follow(WIDTH, HEIGHT)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))


def test_another_target_is_shown_on_by_retarget(make: Create) -> None:
    with make() as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
        swapchain.present_prepared(prepared)
        lost = swapchain.acquire(5)
        swapchain.retarget(vks.Headless(20, 10))
        swapchain.present_prepared(prepared)
        assert swapchain.extent == (20, 10)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255, 0)))
        with pytest.raises(InvalidCallError, match="acquire"):
            swapchain.present(lost)
        for n in range(3):
            swapchain.retarget(vks.Headless(5 + n, 6))
            show(swapchain, clearing(n))
            assert_images_equal(swapchain.capture(), expected(swapchain, clearing(n)))


# ---- frames that are not presented -----------------------------------------------------------------------------------


def _close(swapchain: vks.Swapchain, drawing: bool) -> None:
    frame = swapchain.acquire(5)
    if drawing:
        swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
    frame.close()


def _forget(swapchain: vks.Swapchain, drawing: bool) -> None:
    frame = swapchain.acquire(5)
    if drawing:
        swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
    del frame


def _raise(swapchain: vks.Swapchain, drawing: bool) -> None:
    def half(frame: vks.Frame) -> NoReturn:
        if drawing:
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
        raise KeyError("half a frame")

    with pytest.raises(KeyError), swapchain.frame() as frame:
        half(frame)


def _raise_in_record(swapchain: vks.Swapchain, drawing: bool) -> None:
    def record(commands: vks.CommandList, view: vks.View) -> None:
        if drawing:
            swapchain.device.submit(swapchain.device.record().clear(view, (1, 0, 0, 1)))
        raise KeyError("half a frame")

    with pytest.raises(KeyError):
        swapchain.present_prepared(swapchain.prepare(record))


def _resize(swapchain: vks.Swapchain, drawing: bool) -> None:
    frame = swapchain.acquire(5)
    if drawing:
        swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
    swapchain.resize(*reversed(swapchain.extent))
    swapchain.present(swapchain.acquire(5))


DROPS = {"closed": _close, "forgotten": _forget, "raised": _raise, "raised_in_record": _raise_in_record}


@pytest.mark.rule("A20")
@pytest.mark.parametrize("drawing", [False, True], ids=["untouched", "drawn"])
@pytest.mark.parametrize("way", [*DROPS, "resized"])
def test_a_dropped_frame_leaks_nothing(make: Create, way: str, drawing: bool) -> None:
    drop = {**DROPS, "resized": _resize}[way]
    with make(24, 20) as swapchain:
        device = swapchain.device

        def turn() -> tuple[int, ...]:
            for n in range(2 * swapchain.image_count):
                drop(swapchain, drawing)
                show(swapchain, clearing(n))
            device.wait_idle(30)
            s = swapchain.statistics()
            return s.semaphores, s.fences, s.swapchains, s.history

        for _ in range(4):
            turn()
        gc.collect()
        most = max(turn() for _ in range(3))
        bound = 4 * swapchain.image_count + 4
        for _ in range(6):
            now = turn()
            assert now[0] <= max(most[0], bound)
            assert max(now[1], now[2]) <= bound
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(2 * swapchain.image_count - 1)))
    last = swapchain.statistics()
    assert (last.semaphores, last.fences, last.swapchains) == (0, 0, 0)


@pytest.mark.rule("A20")
def test_a_dropped_frame_comes_again_with_what_was_drawn(make: Create) -> None:
    with make() as swapchain:
        frame = swapchain.acquire(5)
        swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
        index = frame.index
        frame.close()
        frame = swapchain.acquire(5)
        assert frame.index == index
        swapchain.device.submit(swapchain.device.record().fill_rect(frame.view, (5, 5, 5, 5), (0, 1, 0, 1)))
        swapchain.present(frame)
        drawings = clearing(255), filling((5, 5, 5, 5), (0, 1, 0, 1))
        assert_images_equal(swapchain.capture(), expected(swapchain, *drawings))


@pytest.mark.rule("A20")
def test_a_dropped_frame_is_not_counted_as_out(make: Create) -> None:
    with make() as swapchain:
        frame = swapchain.acquire(5)
        assert swapchain.statistics().acquired == 1
        frame.close()
        assert swapchain.statistics().acquired == 0


@pytest.mark.rule("A20")
def test_a_dropped_frame_refuses_its_view_to_submissions(make: Create) -> None:
    with make() as swapchain:
        frame = swapchain.acquire(5)
        view = frame.view
        frame.close()
        with pytest.raises(NotOwnerError):
            swapchain.device.submit(swapchain.device.record().clear(view, (1, 0, 0, 1)))


@pytest.mark.rule("A20")
@pytest.mark.parametrize("drawing", [False, True], ids=["untouched", "drawn"])
def test_frames_that_are_out_at_close_leak_nothing(make: Create, drawing: bool) -> None:
    with make() as swapchain:
        show(swapchain, clearing(1))
        frames = take_all(swapchain)
        for frame in frames if drawing else ():
            swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
    last = swapchain.statistics()
    assert (last.semaphores, last.fences, last.swapchains) == (0, 0, 0)
    for frame in frames:
        frame.close()


@pytest.mark.rule("A20")
def test_all_images_can_be_out_at_once_and_presented_in_any_order(make: Create) -> None:
    dice = seeded()
    with make(image_count=5) as swapchain:
        for _ in range(5):
            frames = take_all(swapchain)
            assert len(frames) >= swapchain.image_count - 1
            assert len({frame.index for frame in frames}) == len(frames)
            dice.shuffle(frames)
            for n, frame in enumerate(frames):
                swapchain.device.submit(swapchain.device.record().clear(frame.view, (n / 255, 0, 0, 1)))
            dice.shuffle(frames)
            for n, frame in enumerate(frames):
                if n % 3 == 2:
                    frame.close()
                else:
                    swapchain.present(frame)
        show(swapchain, clearing(77))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(77)))


# ---- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A21")
@pytest.mark.parametrize("shown", [False, True], ids=["fresh", "shown"])
def test_an_acquire_with_all_images_out_times_out_or_says_so(make: Create, shown: bool) -> None:
    with make(8, 8) as swapchain:
        if shown:
            show(swapchain, clearing(1))
        frames = take_all(swapchain)
        for timeout in (0, 0.05):
            with at_least(timeout), pytest.raises(TimeoutError, match=r"Swapchain.acquire"):
                swapchain.acquire(timeout)
        waits = later(swapchain.acquire)
        if not waits.done(5):
            frames.pop().close()  # the thread must end
        with pytest.raises(InvalidCallError, match="images are acquired"):
            waits.result(5)
        with pytest.raises(TimeoutError):
            swapchain.frame(timeout=0.01).__enter__()
        swapchain.present(frames.pop())
        frames.clear()
        swapchain.present(swapchain.acquire(5))


@pytest.mark.rule("A21")
def test_an_acquire_that_waits_goes_on_when_a_frame_comes_back(make: Create) -> None:
    for end in ("present", "close"):
        with make(8, 8) as swapchain:
            frames = take_all(swapchain)
            waits = later(swapchain.acquire, 30)
            assert not waits.done(0.05)
            if end == "present":
                swapchain.present(frames.pop(0))
                if headless_swapchains.is_ring(swapchain):  # it shows that one until another is presented
                    swapchain.present(frames.pop(0))
            else:
                frames.pop(0).close()
            waits.result(30).close()


@pytest.mark.rule("A21")
def test_the_timeout_of_a_frame_in_one_call_counts(make: Create) -> None:
    with make(8, 8) as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1)))
        frames = take_all(swapchain)
        with pytest.raises(TimeoutError):
            swapchain.present_prepared(prepared, timeout=0.05)
        with pytest.raises(TypeError):
            swapchain.present_prepared(prepared, timeout="soon")  # type: ignore[arg-type]
        frames.clear()
        swapchain.present_prepared(prepared, timeout=5)


class _Interrupt:
    """Sends SIGINT to this process a little after the block has begun."""

    def __enter__(self) -> None:
        self._thread = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()


@pytest.mark.rule("X8", "A21")
def test_ctrl_c_ends_an_acquire_that_waits(make: Create) -> None:
    with make(8, 8) as swapchain:
        frames = take_all(swapchain)
        before = swapchain.statistics()
        with pytest.raises(KeyboardInterrupt), _Interrupt():
            swapchain.acquire(60)
        assert swapchain.statistics().acquired == before.acquired
        for frame in frames:
            swapchain.present(frame)
        show(swapchain, clearing(3))
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(3)))


@pytest.mark.rule("X8", "A21")
def test_ctrl_c_ends_a_present_that_waits_for_held_work(make: Create, vks_open: Open) -> None:
    gate = vks_open().create_fence()
    with make(8, 8) as swapchain:
        device = swapchain.device
        with gate.export() as descriptor:
            follower = device.open_fence(descriptor)
        frame = swapchain.acquire(5)
        device.submit(device.record().clear(frame.view, (1, 0, 0, 1)), waits=(follower, 1))
        with pytest.raises(KeyboardInterrupt), _Interrupt():
            swapchain.present(frame)
        assert not frame.is_closed
        gate.signal(1)
        swapchain.present(frame)
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))


# ---- what the source may not say -------------------------------------------------------------------------------------


@pytest.mark.rule("A17", "A6", "A10")
def test_nothing_waits_for_the_device_or_its_queue_to_idle() -> None:
    sources = [
        *ROOT.glob("native/present/*.[ch]"),
        *ROOT.glob("native/python/*.[ch]"),
        *ROOT.glob("vkshare/present/*.py"),
        *ROOT.glob("vkshare/window/*.py"),
    ]
    if not (ROOT / "native" / "present").is_dir():
        pytest.skip("an installed wheel is tested here, without the source tree")
    assert len(sources) > 10
    for source in sources:
        assert not re.search(r"(Device|Queue)WaitIdle", source.read_text()), source


@pytest.mark.rule("A21")
def test_no_wait_of_the_driver_is_without_end() -> None:
    if not (ROOT / "native" / "present").is_dir():
        pytest.skip("an installed wheel is tested here, without the source tree")
    for source in ROOT.glob("native/present/*.c"):
        for call in re.findall(
            r"(?:AcquireNextImageKHR|WaitForFences|WaitSemaphores)\((?:[^;]*)\)", source.read_text()
        ):
            assert not re.search("UINT64_MAX|VKS_FOREVER", call), (source, call)


def test_the_names_are_exported() -> None:
    for name in ("Headless", "Swapchain", "Frame", "SurfaceLostError"):
        assert name in vars(vks)["__all__"]
        assert getattr(vks, name).__module__.startswith("vkshare")
