"""Surfaces in planes, and colours, by the C library alone: Python is the other party."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.c_library import COPY, LINEAR, LINEAR_IN_DEVICE_MEMORY, OPTIMAL, Library, image_info, to_python
from support.pixel_formats import PLANAR

import vkshare as vks
from vkshare.color import BT709, SRGB, Color, from_codes
from vkshare.formats import get

Create = Callable[..., Any]
Pair = tuple[socket.socket, socket.socket]

HDR = Color("bt2020", "pq", "bt2020", "limited", "top-left")
SAMPLE_AND_COPY = COPY | 2


@pytest.fixture(autouse=True)
def _has_planes(device: vks.Device) -> None:
    missing = [name for name in PLANAR if name not in device.capabilities.formats]
    if missing:
        pytest.skip(f"no {missing[0]}: {device.capabilities.reasons[f'format {missing[0]}']}")


def tilings(device: vks.Device) -> list[int]:
    return [LINEAR] if device.backend == "cpu" else [LINEAR, OPTIMAL]


def color_of(library: Library, surface: Any) -> Color:
    numbers = library.make("surface_get_color", "vks_color", surface)
    return from_codes(**{each.name: getattr(numbers, each.name) for each in dataclasses.fields(Color)})


def planes_of(library: Library, surface: Any, name: str) -> list[np.ndarray[Any, Any]]:
    """The planes that C sees; the surface is owned."""
    assert library.surface_cpu_access(surface, library.deadline()) == "OK", library.error
    found = []
    for index, form in enumerate(get(name).planes):
        plane = library.ffi.new("vks_plane *")
        assert library.surface_get_plane(surface, index, plane) == "OK", library.error
        assert plane.format == form.code
        data = library.ffi.buffer(plane.pixels, plane.stride * plane.height)
        rows = np.frombuffer(data, np.uint8).reshape(plane.height, plane.stride)
        codes = rows[:, : plane.width * form.bytes_per_pixel].view(form.numpy_dtype)
        found.append(codes.reshape(plane.height, plane.width, form.channels))
    return found


def noise(surface: vks.Surface, seed: int) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    form = surface.spec.format
    sizes = [form.plane_size(index, surface.width, surface.height) for index in range(len(form.planes))]
    return [
        random.integers(0, 255, (height, width, plane.channels), plane.numpy_dtype)
        for (width, height), plane in zip(sizes, form.planes, strict=True)
    ]


@pytest.mark.rule("Y1", "C4")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_a_surface_in_planes_that_c_makes_is_zero_and_both_sides_see_each_plane(
    device: vks.Device, library: Library, create: Create, pair: Pair, name: str
) -> None:
    for tiling in tilings(device):
        made = create(34, 18, tiling=tiling, format=get(name).code, usage=SAMPLE_AND_COPY, color=HDR.codes)
        with to_python(library, made, pair) as descriptor, device.open_surface(descriptor) as surface:
            assert (surface.format, surface.color, color_of(library, made)) == (name, HDR, HDR)
            written = noise(surface, 0)
            with surface.access(0, 1, 10):
                assert not any(plane.any() for plane in surface.read_planes())
                surface.write_planes(written)
            assert library.surface_acquire(made, 1, library.deadline()) == "OK", library.error
            if tiling == LINEAR:
                seen = planes_of(library, made, name)
                for plane, wanted in zip(seen, written, strict=True):
                    assert (plane == wanted).all()
                    plane[1, 2] = 77
            assert library.surface_release(made, 2) == "OK"
            with surface.access(2, 0, 10):
                for plane, wanted in zip(surface.read_planes(), written, strict=True):
                    assert (plane[0] == wanted[0]).all()
                    assert (plane[1, 2] == (77 if tiling == LINEAR else wanted[1, 2])).all()


@pytest.mark.rule("Y1", "Y2", "C4")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_a_surface_in_planes_that_python_makes_is_opened_in_c(
    device: vks.Device, library: Library, here: Any, pair: Pair, name: str
) -> None:
    with device.create_surface(20, 10, name, tiling="linear", usage=("copy",), color=HDR) as surface:
        written = noise(surface, 0)
        with surface.access(0, 1):
            surface.write_planes(written)
        with surface.export() as descriptor:
            descriptor.send(pair[0])
        got = library.ffi.new("vks_surface_descriptor *")
        assert library.surface_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK"
        opened = library.make("surface_open_image", "vks_surface *", here, got)
        library.surface_descriptor_close(got)
        assert color_of(library, opened) == HDR
        assert library.surface_acquire(opened, 1, library.deadline()) == "OK"
        for plane, wanted in zip(planes_of(library, opened, name), written, strict=True):
            assert (plane == wanted).all()
            plane[:] = 64
        assert library.surface_release(opened, 2) == "OK"
        with surface.access(2, 0, 10):
            assert all((plane == 64).all() for plane in surface.read_planes())
        library.surface_close(opened)
        library.surface_unref(opened)


@pytest.mark.rule("Y1", "C4")
@pytest.mark.driver_dependent
def test_an_engine_gets_a_vkimage_a_plane(device: vks.Device, library: Library, create: Create) -> None:
    made = create(34, 18, tiling=OPTIMAL if device.backend == "vulkan" else LINEAR, format=get("p010").code)
    if device.backend == "cpu":
        image = library.ffi.new("vks_vulkan_image *")
        assert library.surface_get_vulkan_plane(made, 0, image) == "UNSUPPORTED"
        return
    luma, chroma = (library.ffi.new("vks_vulkan_image *") for _ in range(2))
    for plane, image in enumerate((luma, chroma)):
        assert library.surface_get_vulkan_plane(made, plane, image) == "OK", library.error
    assert (luma.format, luma.width, luma.height) == (get("r16unorm").vk_format, 34, 18)
    assert (chroma.format, chroma.width, chroma.height) == (get("rg16unorm").vk_format, 17, 9)
    assert luma.memory == chroma.memory
    assert luma.image != chroma.image
    assert chroma.offset >= luma.offset + 34 * 18 * 2
    assert library.surface_get_vulkan(made, luma) == "UNSUPPORTED"
    assert "p010 has a VkImage a plane: vks_surface_get_vulkan_plane() has them" in library.error
    plain = create(8, 8, tiling=OPTIMAL)
    assert library.surface_get_vulkan_plane(plain, 0, luma) == library.surface_get_vulkan(plain, chroma) == "OK"
    assert luma.image == chroma.image


@pytest.mark.rule("Y1", "C4")
@pytest.mark.driver_dependent
def test_an_engines_barriers_change_the_layout_of_each_plane(
    device: vks.Device, library: Library, here: Any, create: Create, pair: Pair
) -> None:
    """The validation layer knows the layout of each VkImage."""
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    from vkshare.backends.vulkan.api import VK, device_functions, ffi, handle, instance_functions, new

    made = create(16, 8, tiling=OPTIMAL, format=get("i420").code)
    handles = library.make("device_get_vulkan", "vks_vulkan_device", here)
    get_proc, instance, own, queue = (
        int(library.ffi.cast("uintptr_t", each))
        for each in (handles.get, handles.instance, handles.device, handles.queue)
    )
    vk = device_functions(instance_functions(handle("VkInstance", instance), get_proc), handle("VkDevice", own))
    pool_info = new("VkCommandPoolCreateInfo", queueFamilyIndex=handles.queue_family)
    pool = vk.make("vkCreateCommandPool", handle("VkDevice", own), pool_info, None)
    commands = ffi.new("VkCommandBuffer *")
    allocation = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
    vk.vkAllocateCommandBuffers(handle("VkDevice", own), allocation, commands)
    assert library.surface_acquire(made, 0, library.deadline()) == "OK"
    assert library.surface_sync(made, library.deadline(), library.ffi.new("uint64_t[2]"), library.ffi.NULL) == "OK"
    raw = library.ffi.cast("void *", int(ffi.cast("uintptr_t", commands[0])))
    layout = VK.IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
    turn = layout, VK.PIPELINE_STAGE_2_ALL_TRANSFER_BIT, VK.ACCESS_2_TRANSFER_WRITE_BIT
    vk.vkBeginCommandBuffer(commands[0], new("VkCommandBufferBeginInfo"))
    assert library.surface_cmd_acquire(made, raw, *turn) == "OK", library.error
    for plane in range(3):
        found = library.make("surface_get_vulkan_plane", "vks_vulkan_image", made, plane)
        value = ffi.new("VkClearColorValue *", {"float32": [(plane + 1) * 10 / 255] * 4})
        whole = new("VkImageSubresourceRange", aspectMask=VK.IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1)
        vk.vkCmdClearColorImage(commands[0], handle("VkImage", found.image), layout, value, 1, whole)
    assert library.surface_cmd_release(made, raw, *turn) == "OK", library.error
    vk.vkEndCommandBuffer(commands[0])
    submit = new("VkSubmitInfo2", pCommandBufferInfos=[new("VkCommandBufferSubmitInfo", commandBuffer=commands[0])])
    vk.vkQueueSubmit2(handle("VkQueue", queue), 1, submit, ffi.NULL)
    vk.vkQueueWaitIdle(handle("VkQueue", queue))
    assert library.surface_release(made, 1) == "OK"
    with (
        to_python(library, made, pair) as descriptor,
        device.open_surface(descriptor) as surface,
        surface.access(1, 0, 10),
    ):
        assert [np.unique(plane).tolist() for plane in surface.read_planes()] == [[10], [20], [30]]
    vk.vkDestroyCommandPool(handle("VkDevice", own), pool, None)


@pytest.mark.rule("Y2", "C4")
def test_colours_have_defaults_and_wrong_ones_are_refused(
    device: vks.Device, library: Library, here: Any, create: Create, pair: Pair
) -> None:
    assert color_of(library, create(8, 8)) == SRGB
    assert color_of(library, create(8, 8, format=get("nv12").code)) == BT709
    wide = Color("bt2020", "pq", "rgb", "full")
    made = create(8, 8, format=get("rgba16float").code, color=wide.codes)
    with to_python(library, made, pair) as descriptor:
        assert descriptor.spec.color == wide
    out = library.ffi.new("vks_surface **")
    for name, color, words in (
        ("nv12", wide, "the matrix is 0, and a surface of format nv12 has one of Y'CbCr"),
        ("rgba8unorm", HDR, "the matrix is 9, and a surface of format rgba8unorm has components of R, G and B"),
    ):
        info = image_info(library, format=get(name).code, color=color.codes)
        assert library.surface_create_image(here, info, out) == "BAD_VALUE"
        assert words in library.error
    info = image_info(library, color=SRGB.codes | {"primaries": 77})
    assert library.surface_create_image(here, info, out) == "BAD_VALUE"
    assert "unknown colour: primaries 77" in library.error


@pytest.mark.rule("Y1", "C4")
def test_sizes_and_planes_that_are_none_are_refused(
    device: vks.Device, library: Library, here: Any, create: Create
) -> None:
    code, out = get("nv12").code, library.ffi.new("vks_surface **")
    info = image_info(library, width=7, format=code)
    assert library.surface_create_image(here, info, out) == "BAD_VALUE"
    assert "the size is 7x8; nv12 has half as many columns or rows of chroma" in library.error
    plane = library.ffi.new("vks_plane *")
    assert library.surface_get_plane(create(8, 8, format=code), 2, plane) == "BAD_VALUE"
    assert "plane is 2; allowed for nv12 is 0 to 1" in library.error
    assert library.surface_get_plane(create(8, 8), 1, plane) == "BAD_VALUE"
    assert library.surface_get_plane(create(8, 8), 0, plane) == "OK"
    assert (plane.width, plane.height, plane.format) == (8, 8, 3)
    if device.backend == "vulkan":
        info = image_info(library, format=code, tiling=LINEAR_IN_DEVICE_MEMORY)
        assert library.surface_create_image(here, info, out) == "UNSUPPORTED"
        assert "use VKS_LINEAR or VKS_OPTIMAL" in library.error


@pytest.mark.rule("Y1", "E3", "E4")
def test_memory_of_others_has_no_planes(device: vks.Device, library: Library, here: Any) -> None:
    ffi, code = library.ffi, get("nv12").code
    image, out = {"width": 8, "height": 8, "format": code, "usage": COPY}, ffi.new("vks_surface **")
    pixels = ffi.new("uint8_t[4096]")
    for status in (
        library.surface_import_memory(here, ffi.new("vks_import_info *", {"image": image, "size": 4096}), 0, out),
        library.surface_share_array(
            here, ffi.new("vks_array_info *", {"image": image, "pixels": pixels, "stride": 8, "size": 4096}), out
        ),
        library.surface_adopt_image(here, ffi.new("vks_adopt_image_info *", {"image": image}), out),
    ):
        assert status == "UNSUPPORTED"
        assert "vks_surface_create_image() makes such a surface" in library.error


@pytest.mark.rule("Y1", "E7")
@pytest.mark.driver_dependent
def test_tight_rows_of_planes_are_tight_or_refused(device: vks.Device, library: Library, here: Any) -> None:
    step = 2 * device.capabilities.row_alignment
    for width in (step, 34):
        info = image_info(library, width=width, height=2, format=get("i420").code, has_tight_rows=True)
        out = library.ffi.new("vks_surface **")
        status = library.surface_create_image(here, info, out)
        assert width == 34 or status == "OK", library.error
        if status != "OK":
            assert "need no padding" in library.error
            continue
        for index in range(3):
            plane = library.make("surface_get_plane", "vks_plane", out[0], index)
            assert plane.stride == plane.width
        library.surface_close(out[0])
        library.surface_unref(out[0])
