"""Swapchains and displays of the C library alone; examples/c_window has a program that draws their frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.c_library import RGBA8, SECOND, Library
from support.fd_counts import open_fds

import vkshare as vks

pytestmark = pytest.mark.driver_dependent

FIFO = 2  # VK_PRESENT_MODE_FIFO_KHR
NO_FORMAT = 7  # r32float, which no window has


@pytest.fixture
def window(library: Library, device: vks.Device, here: Any) -> Iterator[int]:
    """A headless VkSurfaceKHR on the instance of the C library's own device."""
    if device.backend == "cpu":
        pytest.skip("the CPU backend has no VkSurfaceKHR")
    ffi, gpu = library.ffi, library.make("device_get_vulkan", "vks_vulkan_device", here)
    load = ffi.cast("void *(*)(void *, const char *)", gpu.get)
    create = ffi.cast("int (*)(void *, void *, void *, uint64_t *)", load(gpu.instance, b"vkCreateHeadlessSurfaceEXT"))
    if not create:
        pytest.skip("this driver has no VK_EXT_headless_surface")
    info, made = ffi.new("uint64_t[3]", [1000256000, 0, 0]), ffi.new("uint64_t *")
    assert create(gpu.instance, info, ffi.NULL, made) == 0
    yield made[0]
    destroy = ffi.cast("void (*)(void *, uint64_t, void *)", load(gpu.instance, b"vkDestroySurfaceKHR"))
    destroy(gpu.instance, made[0], ffi.NULL)


def info(library: Library, surface: int, **numbers: int) -> Any:
    usual = {"width": 40, "height": 30, "present_mode": FIFO, "sizes_itself": True, "surface": surface}
    return library.ffi.new("vks_window_info *", usual | numbers)


@pytest.fixture
def swapchain(library: Library, here: Any, window: int) -> Iterator[Any]:
    made = library.make("swapchain_open", "vks_swapchain *", here, info(library, window))
    yield made
    library.swapchain_close(made)
    library.swapchain_unref(made)


@pytest.mark.rule("C4")
def test_frames_have_images_and_surfaces_until_they_are_presented(library: Library, here: Any, swapchain: Any) -> None:
    ffi = library.ffi
    for turn in range(6):
        frame, image = ffi.new("vks_frame *"), ffi.new("vks_frame_image *")
        assert library.swapchain_acquire(swapchain, library.deadline(), frame) == "OK", library.error
        assert library.swapchain_image(swapchain, frame.index, frame.generation, image) == "OK"
        assert image.image
        assert (image.width, image.height) == ((40, 30) if turn < 3 else (24, 16))
        surface = library.make("swapchain_surface", "vks_surface *", swapchain, frame)
        again = library.make("swapchain_surface", "vks_surface *", swapchain, frame)
        assert surface == again
        assert library.surface_is_owned(surface)
        assert library.swapchain_present(swapchain, frame, library.deadline()) == "OK", library.error
        assert not library.surface_is_owned(surface)
        assert library.swapchain_surface(swapchain, frame, ffi.new("vks_surface **")) == "BAD_CALL"
        library.surface_unref(surface)
        library.surface_unref(again)
        if turn == 2:
            assert library.swapchain_resize(swapchain, 24, 16) == "OK"


@pytest.mark.rule("C4", "A20")
def test_a_frame_that_is_dropped_comes_again(library: Library, swapchain: Any) -> None:
    frames = [library.ffi.new("vks_frame *") for _ in range(2)]
    for frame in frames:
        assert library.swapchain_acquire(swapchain, library.deadline(), frame) == "OK", library.error
        assert library.swapchain_drop(swapchain, frame) == "OK"
    assert frames[0].index == frames[1].index


@pytest.mark.rule("C4")
def test_what_a_surface_does_not_have_is_refused_by_name(library: Library, here: Any, window: int) -> None:
    out = library.ffi.new("vks_swapchain **")
    before = open_fds()
    for numbers, status, text in (
        ({"surface": 0}, "BAD_VALUE", "VK_NULL_HANDLE"),
        ({"format": NO_FORMAT}, "UNSUPPORTED", f"no format {NO_FORMAT}"),
        ({"present_mode": 99}, "UNSUPPORTED", "no VkPresentModeKHR 99"),
        ({"image_count": 17}, "BAD_VALUE", "image_count is 17"),
        ({"frames_in_flight": 17}, "BAD_VALUE", "frames_in_flight 17"),
    ):
        assert library.swapchain_open(here, info(library, **{"surface": window} | numbers), out) == status
        assert text in library.error, library.error
    assert open_fds() == before


def test_a_format_that_the_surface_has_is_taken(library: Library, here: Any, window: int) -> None:
    out = library.ffi.new("vks_swapchain **")
    assert library.swapchain_open(here, info(library, window, format=RGBA8), out) in ("OK", "UNSUPPORTED")
    if out[0]:
        library.swapchain_close(out[0])
        library.swapchain_unref(out[0])


@pytest.mark.rule("C4")
def test_a_device_without_a_window_system_is_refused(library: Library, device: vks.Device, here: Any) -> None:
    if device.backend == "vulkan":
        pytest.skip("the CPU backend has none")
    out = library.ffi.new("vks_swapchain **")
    assert library.swapchain_open(here, info(library, 1), out) == "UNSUPPORTED"
    assert "vks_device_open_vulkan()" in library.error


@pytest.mark.rule("C4", "V9")
def test_an_interval_that_no_display_has_is_refused(library: Library) -> None:
    made = library.make("display_create", "vks_display *", (SECOND, 60), False)
    for numerator, denominator in ((0, 1), (999, 1), (101 * SECOND, 1), (SECOND, 0)):
        out = library.ffi.new("vks_display **")
        assert library.display_create((numerator, denominator), False, out) == "BAD_VALUE"
        assert library.display_set_interval(made, (numerator, denominator), False) == "BAD_VALUE"
    library.display_shutdown(made)
    library.display_unref(made)
