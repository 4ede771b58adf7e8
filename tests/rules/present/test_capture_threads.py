"""Swapchain.capture() of headless targets beside threads that draw, present and resize."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.headless_swapchains import clearing, create, expected, show
from support.peer_processes import later
from support.run_volumes import rounds, unhurried

import vkshare as vks
from vkshare.errors import InvalidCallError
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.present_policies"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried]

POLICIES = pytest.mark.parametrize("fences", [True, False], ids=["by_fences", "by_acquires"])


def _while_it_is_read(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Calls `meanwhile` once, between the moment in which a capture has its image and the moment in which it reads."""
    read, calls = vks.Surface.read, [meanwhile]

    def reading(surface: vks.Surface, *arguments: Any) -> Any:
        if calls:
            calls.pop()()
        return read(surface, *arguments)

    monkeypatch.setattr(vks.Surface, "read", reading)


@pytest.mark.rule("A25")
@POLICIES
@pytest.mark.parametrize("images", [2, 3])
def test_frames_that_are_presented_while_an_image_is_captured_are_shown_after_it(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch, fences: bool, images: int
) -> None:
    with create(vks_device, 8, 8, fences=fences, image_count=images) as swapchain:
        show(swapchain, clearing(1))
        one, two = expected(swapchain, clearing(1)), expected(swapchain, clearing(2))
        count = 1 if swapchain.image_count == 2 else 3 * images  # the next one would wait for the captured image

        def present() -> None:
            for _ in range(count):
                show(swapchain, clearing(2))

        _while_it_is_read(monkeypatch, present)
        assert_images_equal(swapchain.capture(), one)
        assert_images_equal(swapchain.capture(), two)
        assert swapchain.statistics().frames == 1 + count


@pytest.mark.rule("A25")
@POLICIES
def test_an_image_that_is_captured_is_no_frame_that_is_out(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch, fences: bool
) -> None:
    with create(vks_device, 8, 8, fences=fences) as swapchain:
        show(swapchain, clearing(1))
        frames: list[vks.Frame] = []
        _while_it_is_read(monkeypatch, lambda: frames.append(swapchain.acquire()))
        assert (swapchain.capture() == expected(swapchain, clearing(1))).all()
        assert swapchain.statistics().acquired == 1
        swapchain.present(frames.pop())
        assert swapchain.statistics().acquired == 0


@pytest.mark.rule("A25")
@POLICIES
def test_a_resize_while_an_image_is_captured_gives_what_is_shown_after_it(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch, fences: bool
) -> None:
    with create(vks_device, 8, 8, fences=fences) as swapchain:
        show(swapchain, clearing(1))

        def resize() -> None:
            swapchain.resize(9, 9)
            show(swapchain, clearing(2))

        two = expected(swapchain, clearing(2), size=(9, 9))
        _while_it_is_read(monkeypatch, resize)
        assert_images_equal(swapchain.capture(), two)


@pytest.mark.rule("A25")
@POLICIES
def test_a_capture_right_after_a_resize_waits_for_the_frame_that_another_thread_draws(
    vks_device: vks.Device, fences: bool
) -> None:
    with create(vks_device, 8, 8, fences=fences) as swapchain:
        show(swapchain, clearing(1))
        swapchain.resize(9, 9)
        frame = swapchain.acquire(30)
        capture = later(swapchain.capture)
        assert not capture.done(0.02)
        vks_device.submit(vks_device.record().clear(frame.view, (1, 1, 1, 1)))
        swapchain.present(frame)
        assert_images_equal(capture.result(30), expected(swapchain, clearing(255, 255, 255)))


@pytest.mark.rule("A25")
@POLICIES
@pytest.mark.parametrize("keep", [False, True], ids=["as_shown", "kept"])
@pytest.mark.parametrize("resizes", [False, True], ids=["one_size", "resized"])
def test_captures_beside_a_drawing_thread_give_whole_frames_and_disturb_none(
    vks_device: vks.Device, fences: bool, keep: bool, resizes: bool
) -> None:
    count = rounds(20_000, 300)
    with create(vks_device, 16, 12, fences=fences, capture=keep) as swapchain:
        show(swapchain, clearing(0))
        is_over = threading.Event()

        def draw() -> None:
            try:
                for turn in range(count):
                    if resizes and turn % 10 == 0:
                        swapchain.resize(16 + turn // 10 % 7, 12)
                    show(swapchain, clearing(turn % 256))
            finally:
                is_over.set()

        def capture() -> None:
            while True:
                was_over = is_over.is_set()
                picture = swapchain.capture()
                assert (picture == picture[0, 0]).all()
                if was_over:
                    return

        drawing, *capturing = later(draw), later(capture), later(capture)
        drawing.result(300)
        for captures in capturing:
            captures.result(300)
        assert swapchain.statistics().frames == 1 + count
        assert swapchain.statistics().acquired == 0
        assert_images_equal(swapchain.capture(), expected(swapchain, clearing((count - 1) % 256)))


@pytest.mark.rule("A25")
@pytest.mark.parametrize("size", [(8, 8), (9, 9)], ids=["of_its_size", "resized"])
def test_a_copy_that_is_read_is_not_copied_to_nor_closed(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    with create(vks_device, 8, 8, capture=True) as swapchain:
        show(swapchain, clearing(1))
        one, two = expected(swapchain, clearing(1)), expected(swapchain, clearing(2), size=size)

        def present() -> None:
            swapchain.resize(*size)
            show(swapchain, clearing(2))

        _while_it_is_read(monkeypatch, present)
        assert_images_equal(swapchain.capture(), one)
        assert_images_equal(swapchain.capture(), two)


def test_nothing_is_captured_before_the_first_frame_however_many_are_out(vks_device: vks.Device) -> None:
    with create(vks_device, 8, 8) as swapchain:
        frame = swapchain.acquire(30)
        with pytest.raises(InvalidCallError, match="nothing was presented"):
            swapchain.capture()
        swapchain.present(frame)
        assert np.shape(swapchain.capture()) == (8, 8, 4)
