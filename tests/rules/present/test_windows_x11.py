"""Swapchains on real X11 windows, under Xvfb and openbox: what is on the screen, resizes, minimising, two at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.private_displays import XDisplay, wait_for
from support.random_pictures import as_rgba, assert_on_screen, paint, show

import vkshare as vks
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.private_displays", "support.present_policies"]
pytestmark = [pytest.mark.slow]

WIDTH, HEIGHT = 96, 64


@pytest.fixture
def window(x11: XDisplay) -> Iterator[vks.Window]:
    """A window that is on the screen."""
    with vks.Window(WIDTH, HEIGHT, "under test") as made:
        wait_until_shown(x11, made)
        yield made


@pytest.fixture
def swapchain(device: vks.Device, window: vks.Window, fences: bool | None) -> Iterator[vks.Swapchain]:
    with device.create_swapchain(window, present_fences=fences) as made:
        yield made


def wait_until_shown(x11: XDisplay, window: vks.Window) -> None:
    wait_for(lambda: x11.state(window.native_window) == "normal", "the window is managed")
    wait_for(lambda: x11._is_viewable(window.native_window), "the window is shown")
    window.poll(0.02)


def poll_until(window: vks.Window, size: tuple[int, int]) -> None:
    wait_for(lambda: window.poll(0.02) is not None and window.framebuffer_size == size, f"the window is {size}")


def looks_like(x11: XDisplay, window: vks.Window, picture: np.ndarray) -> None:
    assert_on_screen(lambda: x11.picture(window.native_window), picture)


# ---- pictures ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A24", "A22")
def test_each_of_several_frames_is_on_the_screen_to_the_bit(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    assert swapchain.extent == (WIDTH, HEIGHT)
    for seed in range(8):
        looks_like(x11, window, show(swapchain, seed))
    assert swapchain.statistics().frames == 8
    assert swapchain.statistics().lost_frames == 0


@pytest.mark.rule("A24")
def test_prepared_frames_are_on_the_screen_and_are_recorded_again_after_a_resize(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    clear = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0.2, 0, 1)))
    for size in ((WIDTH, HEIGHT), (120, 80)):
        x11.resize(window.native_window, *size)
        poll_until(window, size)
        for _ in range(5):
            swapchain.present_prepared(clear)
        looks_like(x11, window, np.full((*size[::-1], 4), (255, 51, 0, 255), np.uint8))


@pytest.mark.rule("A25", "A24")
def test_capture_is_the_picture_on_the_screen(device: vks.Device, window: vks.Window, x11: XDisplay) -> None:
    with device.create_swapchain(window, capture=True) as swapchain:
        with pytest.raises(vks.InvalidCallError, match="nothing was presented"):
            swapchain.capture()
        for seed, size in enumerate([(WIDTH, HEIGHT), (WIDTH, HEIGHT), (70, 90)]):
            x11.resize(window.native_window, *size)
            poll_until(window, size)
            picture = show(swapchain, seed)
            looks_like(x11, window, picture)
            assert_images_equal(as_rgba(swapchain.capture(), swapchain.format), picture)


@pytest.mark.rule("A25")
def test_capture_of_a_window_whose_frames_are_not_kept_says_what_to_do(device: vks.Device, window: vks.Window) -> None:
    with device.create_swapchain(window) as swapchain:
        show(swapchain, 0)
        if device.backend == "cpu":
            assert swapchain.capture().shape == (HEIGHT, WIDTH, 4)  # a ring remembers what it shows
        else:
            with pytest.raises(vks.InvalidCallError, match="capture=True"):
                swapchain.capture()


@pytest.mark.rule("A20")
def test_a_dropped_frame_is_not_shown_and_the_next_one_is(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    first = show(swapchain, 1)
    looks_like(x11, window, first)
    for seed in range(2, 8):
        frame = swapchain.acquire(10)
        paint(frame, seed)
        frame.close()
    window.poll(0.1)
    looks_like(x11, window, first)
    looks_like(x11, window, show(swapchain, 9))


# ---- resizes -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A24", "A22")
def test_a_window_that_is_resized_from_outside_is_followed(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    for seed, size in enumerate([(200, 150), (33, 47), (300, 20), (WIDTH, HEIGHT)]):
        x11.resize(window.native_window, *size)
        poll_until(window, size)
        picture = show(swapchain, seed)
        assert picture.shape[:2] == size[::-1]
        assert swapchain.extent == size
        looks_like(x11, window, picture)


@pytest.mark.rule("A24")
def test_a_window_that_resizes_itself_is_followed(swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay) -> None:
    for seed, size in enumerate([(111, 77), (50, 120)]):
        window.resize(*size)
        poll_until(window, size)
        picture = show(swapchain, seed)
        assert picture.shape[:2] == size[::-1]
        looks_like(x11, window, picture)


@pytest.mark.rule("A24", "A9")
def test_a_window_that_has_its_size_when_resize_returns_is_followed_without_a_poll(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    for size in [(111, 77), (50, 120)]:
        x11.resize(window.native_window, *size)  # the window manager takes its time: by now it has been asked
        window.resize(*size)
        with swapchain.frame(timeout=30) as frame:
            assert (frame.width, frame.height) == size
    assert swapchain.statistics().lost_frames == 0


@pytest.mark.rule("A6", "A9", "A15")
def test_a_window_that_is_resized_while_each_frame_is_out_costs_these_frames_at_most(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    for step in range(3 * swapchain.statistics().retired_limit):
        with swapchain.frame(timeout=30) as frame:
            paint(frame, step)
            x11.resize(window.native_window, 40 + step, 90 - step)
        window.poll()
        reported = swapchain.statistics()
        assert reported.swapchains <= reported.retired_limit + 1
    poll_until(window, (40 + step, 90 - step))
    looks_like(x11, window, show(swapchain, 1))


@pytest.mark.rule("A9", "A15")
def test_the_frame_after_one_that_was_out_during_a_resize_has_the_new_size(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    for seed, size in enumerate([(150, 100), (60, 40), (200, 30)]):
        with swapchain.frame() as frame:
            paint(frame, seed)
            x11.resize(window.native_window, *size)
        poll_until(window, size)
        picture = show(swapchain, 50 + seed)
        assert picture.shape[:2] == size[::-1]
        looks_like(x11, window, picture)


@pytest.mark.rule("A9")
def test_a_resize_that_nobody_polls_for_is_no_error(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    show(swapchain, 0)
    x11.resize(window.native_window, 130, 70)
    for seed in range(10):  # neither errors nor messages of the validation layer
        show(swapchain, seed)
    assert swapchain.extent in ((WIDTH, HEIGHT), (130, 70))  # not every driver tells
    poll_until(window, (130, 70))
    looks_like(x11, window, show(swapchain, 20))


@pytest.mark.rule("A6", "A22")
def test_a_storm_of_resizes_with_frames_in_between_stays_within_its_bounds(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    random = np.random.default_rng(7)
    size = (WIDTH, HEIGHT)
    for step in range(60):
        size = int(random.integers(20, 200)), int(random.integers(20, 200))
        for _ in range(int(random.integers(0, 4))):  # nothing is drawn in between: the layer asks for the size itself,
            x11.resize(window.native_window, *random.integers(20, 200, 2).tolist(), wait=False)
        x11.resize(window.native_window, *size)  # and takes one that has changed since for a mistake of ours
        window.poll()
        for _ in range(int(random.integers(0, 3))):
            show(swapchain, step)
        reported = swapchain.statistics()
        assert reported.swapchains <= reported.retired_limit + 1
        assert reported.most_alive <= reported.retired_limit + 1
    poll_until(window, size)
    looks_like(x11, window, show(swapchain, 99))
    for seed in range(3 * swapchain.image_count):
        show(swapchain, seed)
    reported = swapchain.statistics()
    assert reported.swapchains <= 2
    assert reported.semaphores <= (reported.retired_limit + 1) * (2 * reported.image_count + 2)
    assert reported.quarantined == 0


# ---- minimised -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("A14")
def test_a_minimised_window_goes_on_and_its_pictures_come_back(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    looks_like(x11, window, show(swapchain, 0))
    x11.iconify(window.native_window)  # asserts that it is
    wait_for(lambda: window.poll(0.02) is not None and window.is_minimized, "the window knows that it is minimised")
    for seed in range(20):
        show(swapchain, seed)
    assert window.framebuffer_size == (WIDTH, HEIGHT)  # X11 keeps it
    x11.restore(window.native_window)
    wait_for(lambda: window.poll(0.02) is not None and not window.is_minimized, "the window knows that it is back")
    for seed in (30, 31):
        looks_like(x11, window, show(swapchain, seed))


@pytest.mark.rule("A14")
def test_a_window_without_pixels_burns_no_cpu_and_comes_back(
    device: vks.Device, window: vks.Window, x11: XDisplay
) -> None:
    if device.backend == "vulkan":
        pytest.skip("X11 has no windows of 0x0, and the driver asks X11: tests/faults have them")
    with device.create_swapchain(window) as swapchain:
        swapchain._follow(0, 0)  # what a window system that has them would tell
        start, used = time.perf_counter(), time.process_time()
        for seed in range(10):
            with swapchain.frame() as frame:
                assert frame.is_hidden
                paint(frame, seed)
        assert time.process_time() - used < 0.7 * (time.perf_counter() - start)
        swapchain._follow(*window.framebuffer_size)
        looks_like(x11, window, show(swapchain, 3))


# ---- the window is closed ------------------------------------------------------------------------------------------


@pytest.mark.rule("A20", "A22")
def test_a_window_that_is_closed_while_a_frame_is_out_closes_the_swapchain_first(
    swapchain: vks.Swapchain, window: vks.Window
) -> None:
    device = swapchain.device
    show(swapchain, 0)
    frame = swapchain.acquire(10)
    paint(frame, 1)
    window.close()
    assert swapchain.is_closed
    for call in (
        lambda: swapchain.present(frame),
        lambda: swapchain.acquire(1),
        lambda: swapchain.frame().__enter__(),
        lambda: swapchain.resize(10, 10),
        lambda: swapchain.capture(),
        lambda: frame.view,
    ):
        with pytest.raises(vks.ClosedError):
            call()
    assert "closed" in repr(swapchain)
    frame.close()
    swapchain.close()
    _still_draws(device)


@pytest.mark.rule("A20")
def test_a_window_that_is_closed_inside_the_block_of_a_frame_is_a_closed_error_at_its_end(
    swapchain: vks.Swapchain, window: vks.Window
) -> None:
    def draw() -> None:
        with swapchain.frame() as frame:
            paint(frame, 1)
            window.close()

    with pytest.raises(vks.ClosedError):
        draw()
    _still_draws(swapchain.device)


@pytest.mark.rule("A20")
def test_an_error_in_the_block_of_a_frame_whose_window_is_closed_is_the_blocks_own(
    swapchain: vks.Swapchain, window: vks.Window
) -> None:
    def draw() -> None:
        with swapchain.frame():
            window.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        draw()


def test_a_window_that_is_closed_while_another_thread_draws_ends_that_thread_with_a_clean_error(
    swapchain: vks.Swapchain, window: vks.Window
) -> None:
    errors: list[BaseException] = []

    def draw() -> None:
        try:
            while True:
                show(swapchain, 1)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=draw)
    thread.start()
    wait_for(lambda: swapchain.statistics().frames > 5, "it draws")
    window.close()
    thread.join(20)
    assert not thread.is_alive()
    # In the middle of its drawing, it is told that the frame is not its own any more.
    assert isinstance(errors[0], (vks.ClosedError, vks.InvalidCallError)), errors
    _still_draws(swapchain.device)


def _still_draws(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface:
        with surface.access() as view:
            device.submit(device.record().clear(view, (0, 1, 0, 1)))
        with surface.access():
            assert (surface.read() == (0, 255, 0, 255)).all()


# ---- several windows, several devices, several swapchains ----------------------------------------------------------


@pytest.mark.rule("A24")
def test_two_windows_are_drawn_at_two_rates_by_one_device(
    device: vks.Device, x11: XDisplay, fences: bool | None
) -> None:
    with vks.Window(80, 60, "left") as left, vks.Window(60, 80, "right") as right:
        for number, window in enumerate((left, right)):
            wait_until_shown(x11, window)
            x11.move(window.native_window, 10 + 300 * number, 10)
        with (
            device.create_swapchain(left, present_fences=fences) as fast,
            device.create_swapchain(right, present_fences=fences) as slow,
        ):
            last = [np.empty(0)]
            for step in range(60):
                quick = show(fast, step)
                if step % 7 == 0:
                    last = [show(slow, 1000 + step)]
                    looks_like(x11, right, last[0])
                if step % 10 == 0:
                    looks_like(x11, left, quick)
                left.poll()
            looks_like(x11, left, quick)
            looks_like(x11, right, last[0])
            assert (fast.statistics().frames, slow.statistics().frames) == (60, 9)


@pytest.mark.rule("A24")
def test_two_windows_are_drawn_by_two_threads_at_once(device: vks.Device, x11: XDisplay, fences: bool | None) -> None:
    with vks.Window(80, 60, "left") as left, vks.Window(60, 80, "right") as right:
        for number, window in enumerate((left, right)):
            wait_until_shown(x11, window)
            x11.move(window.native_window, 10 + 300 * number, 10)
        with (
            device.create_swapchain(left, present_fences=fences) as fast,
            device.create_swapchain(right, present_fences=fences) as slow,
        ):
            shown: dict[str, Any] = {}

            def draw(name: str, swapchain: vks.Swapchain, pause: float, frames: int) -> None:
                for step in range(frames):
                    shown[name] = show(swapchain, hash((name, step)) & 0xFFFF)
                    time.sleep(pause)

            threads = [
                threading.Thread(target=draw, args=("left", fast, 0.0, 80)),
                threading.Thread(target=draw, args=("right", slow, 0.02, 20)),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    left.poll(0.02)
            looks_like(x11, left, shown["left"])
            looks_like(x11, right, shown["right"])


@pytest.mark.rule("A24")
def test_a_window_moves_from_one_device_to_another_and_its_picture_with_it(
    vks_open: Callable[..., vks.Device], window: vks.Window, x11: XDisplay
) -> None:
    first, second = vks_open(name="first"), vks_open(name="second")
    with first.create_swapchain(window) as swapchain:
        looks_like(x11, window, show(swapchain, 1))
        frame = swapchain.acquire(10)  # is out when the swapchain is closed
        paint(frame, 2)
    picture = first.create_surface(WIDTH, HEIGHT)
    with picture.access() as view:
        first.submit(first.record().clear(view, (0.2, 0.4, 0.6, 1)).fill_rect(view, (5, 5, 20, 30), (1, 1, 0, 1)))
    with picture.export() as descriptor:
        taken = second.open_surface(descriptor)
    expected = np.full((HEIGHT, WIDTH, 4), (51, 102, 153, 255), np.uint8)
    expected[5:35, 5:25] = (255, 255, 0, 255)
    with second.create_swapchain(window) as swapchain:
        with taken.access() as view, swapchain.frame() as frame:
            second.submit(second.record().blit(view, frame.view))
        looks_like(x11, window, expected)
        looks_like(x11, window, show(swapchain, 3))
    with first.create_swapchain(window) as swapchain:  # and back
        looks_like(x11, window, show(swapchain, 4))
    picture.close()
    taken.close()


@pytest.mark.rule("A9", "A24")
def test_a_swapchain_moves_to_another_window_and_leaves_the_first_alone(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    looks_like(x11, window, show(swapchain, 1))
    with vks.Window(70, 90, "another") as another:
        wait_until_shown(x11, another)
        x11.move(another.native_window, 400, 10)
        frame = swapchain.acquire(10)
        swapchain.retarget(another)
        with pytest.raises(vks.InvalidCallError):
            swapchain.present(frame)
        for seed in range(4):
            looks_like(x11, another, show(swapchain, seed))
        x11.resize(window.native_window, 150, 20)  # none of its business
        poll_until(window, (150, 20))
        show(swapchain, 5)
        assert swapchain.extent == (70, 90)
        window.close()
        x11.resize(another.native_window, 33, 44)
        poll_until(another, (33, 44))
        looks_like(x11, another, show(swapchain, 6))
    assert swapchain.is_closed


@pytest.mark.rule("A24")
def test_a_window_moves_between_vulkan_and_the_cpu(device: vks.Device, window: vks.Window, x11: XDisplay) -> None:
    if device.backend == "cpu":
        pytest.skip("the runs on Vulkan's drivers have both")
    with vks.open(backend="cpu") as processor:
        for seed, drawer in enumerate((device, processor, device, processor)):
            with drawer.create_swapchain(window) as swapchain:
                looks_like(x11, window, show(swapchain, seed))


@pytest.mark.rule("A24")
def test_a_second_swapchain_on_a_window_is_refused_or_works_and_the_first_goes_on(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    looks_like(x11, window, show(swapchain, 1))
    made, refusal = _tried(lambda: swapchain.device.create_swapchain(window))
    assert refusal is None or getattr(refusal, "result_name", "") == "VK_ERROR_NATIVE_WINDOW_IN_USE_KHR"
    if made is not None:
        with made as second:
            looks_like(x11, window, show(second, 2))
            looks_like(x11, window, show(swapchain, 3))
            looks_like(x11, window, show(second, 4))
    looks_like(x11, window, show(swapchain, 5))


# ---- present modes -------------------------------------------------------------------------------------------------

MODES = ("fifo", "fifo_relaxed", "mailbox", "immediate")


def _tried(call: Callable[[], Any]) -> tuple[Any, vks.VkshareError | None]:
    """(what it returned, what it raised)."""
    try:
        return call(), None
    except vks.VkshareError as error:
        return None, error


def _modes(choose: Callable[[str], object]) -> list[str]:
    """The modes that `choose` takes; the others it has to refuse with a list of those."""
    refusals = {mode: _tried(lambda mode=mode: choose(mode))[1] for mode in MODES}  # type: ignore[misc]
    found = [mode for mode, refusal in refusals.items() if refusal is None]
    for refusal in filter(None, refusals.values()):
        assert isinstance(refusal, vks.UnsupportedError)
        assert refusal.why == f"it has {', '.join(sorted(found))}"
    return found


@pytest.mark.rule("A24")
def test_each_present_mode_of_the_window_shows_and_others_are_refused_with_what_there_is(
    device: vks.Device, window: vks.Window, x11: XDisplay
) -> None:
    modes = _modes(lambda mode: device.create_swapchain(window, present_mode=mode).close())
    assert "fifo" in modes  # every surface has it
    for seed, mode in enumerate(modes):
        with device.create_swapchain(window, present_mode=mode) as swapchain:
            assert swapchain.present_mode == mode
            for step in range(4):
                picture = show(swapchain, 10 * seed + step)
            looks_like(x11, window, picture)


@pytest.mark.rule("A13")
def test_the_present_mode_changes_while_frames_go_on(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    modes = _modes(lambda mode: setattr(swapchain, "present_mode", mode))
    assert swapchain.present_mode == modes[-1]
    for seed, mode in enumerate([*modes, *reversed(modes)]):
        frame = swapchain.acquire(10)  # a change while a frame is out, too
        swapchain.present_mode = mode
        assert swapchain.present_mode == mode
        picture = paint(frame, seed)
        swapchain.present(frame)
        looks_like(x11, window, picture)
        looks_like(x11, window, show(swapchain, 50 + seed))
    reported = swapchain.statistics()
    assert reported.swapchains <= reported.retired_limit + 1
    with pytest.raises(ValueError, match="present_mode"):
        swapchain.present_mode = "vsync"


# ---- bad input -----------------------------------------------------------------------------------------------------


def test_a_closed_window_is_no_target(device: vks.Device, x11: XDisplay) -> None:
    window = vks.Window(WIDTH, HEIGHT)
    window.close()
    with pytest.raises(vks.ClosedError, match="Window was closed"):
        device.create_swapchain(window)


@pytest.mark.parametrize("target", ["window", 1.5, (64, 64), object(), b"", [1]])
def test_a_target_of_another_kind_is_a_type_error_that_lists_the_kinds(device: vks.Device, target: Any) -> None:
    with pytest.raises(TypeError, match=r"target must be a vkshare\.Window, a vkshare\.Headless"):
        device.create_swapchain(target)


def test_a_null_handle_is_no_target(device: vks.Device) -> None:
    with pytest.raises(ValueError, match="target"):
        device.create_swapchain(0)


def test_resize_is_refused_for_windows(swapchain: vks.Swapchain, window: vks.Window) -> None:
    with pytest.raises(vks.InvalidCallError, match="resize that"):
        swapchain.resize(10, 10)


def test_a_frame_is_presented_once_and_by_its_own_swapchain(device: vks.Device, x11: XDisplay) -> None:
    with (
        vks.Window(64, 64, "one") as one,
        vks.Window(64, 64, "two") as two,
        device.create_swapchain(one) as first,
        device.create_swapchain(two) as second,
    ):
        frame = first.acquire(10)
        paint(frame, 1)
        with pytest.raises((vks.InvalidCallError, ValueError)):
            second.present(frame)
        first.present(frame)
        with pytest.raises(vks.InvalidCallError, match="presented"):
            first.present(frame)
        with pytest.raises(vks.InvalidCallError):
            device.submit(device.record().clear(frame.view, (0, 0, 0, 1)))
        show(second, 2)


def test_a_frame_of_before_a_resize_cannot_be_presented_and_says_so(
    swapchain: vks.Swapchain, window: vks.Window, x11: XDisplay
) -> None:
    frame = swapchain.acquire(10)
    x11.resize(window.native_window, 140, 90)
    poll_until(window, (140, 90))
    looks_like(x11, window, show(swapchain, 1))  # acquires anew
    with pytest.raises(vks.InvalidCallError, match="resize"):
        swapchain.present(frame)
    looks_like(x11, window, show(swapchain, 2))


def test_when_all_images_are_out_acquire_says_so_or_times_out(swapchain: vks.Swapchain) -> None:
    frames: list[Any] = []

    def take_all() -> None:
        while True:
            frames.append(swapchain.acquire(0.2))

    with pytest.raises(TimeoutError):
        take_all()
    assert 1 <= len(frames) <= swapchain.image_count
    for frame in frames:
        paint(frame, 1)
        swapchain.present(frame)
    show(swapchain, 2)


def test_a_swapchain_closed_before_its_window_leaves_the_window(
    device: vks.Device, window: vks.Window, x11: XDisplay
) -> None:
    for seed in range(3):
        with device.create_swapchain(window) as swapchain:
            looks_like(x11, window, show(swapchain, seed))
        assert window.statistics().dependents == 0
    assert not window.is_closed
    window.poll()


def test_a_device_that_is_closed_first_closes_its_swapchains(
    vks_open: Callable[..., vks.Device], window: vks.Window, x11: XDisplay
) -> None:
    device = vks_open()
    swapchain = device.create_swapchain(window)
    frame = swapchain.acquire(10)
    device.close()
    for call in (lambda: swapchain.present(frame), lambda: swapchain.acquire(1), lambda: frame.view):
        with pytest.raises(vks.ClosedError):
            call()
    swapchain.close()
    x11.resize(window.native_window, 120, 70)
    poll_until(window, (120, 70))  # no swapchain follows any more
    with vks_open().create_swapchain(window) as again:
        looks_like(x11, window, show(again, 1))
