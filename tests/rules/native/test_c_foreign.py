"""Foreign memory and images as surfaces of the C library: Python is the party that allocated them."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.c_library import D32_FLOAT, LINEAR, OPTIMAL, Library, image_info, view
from support.fd_counts import open_fds

import vkshare as vks
from vkshare.testing import assert_images_equal
from vkshare.util import fd_ops

pytestmark = pytest.mark.driver_dependent


def import_info(library: Library, surface: vks.Surface, **numbers: Any) -> tuple[int, Any]:
    """The memory of a surface of Python's, as another API would give it, and what it says of it."""
    fd_ops.close_all(surface._export())  # its image is released to other parties
    memory = surface._open_image().export()
    tiling = LINEAR if surface.tiling == "linear" else OPTIMAL
    image = image_info(library, width=surface.width, height=surface.height, tiling=tiling)
    info = library.ffi.new(
        "vks_import_info *", {"size": memory.size, "stride": memory.stride, "is_dedicated": memory.dedicated, **numbers}
    )
    info.image = image[0]
    return memory.fd, info


@pytest.mark.rule("C4", "E3")
def test_c_imports_memory_with_its_contents(device: vks.Device, library: Library, here: Any) -> None:
    tiling = "linear" if "linear" in device.capabilities.tilings else "optimal"
    with device.create_surface(20, 9, tiling=tiling, usage=("copy",)) as theirs:
        pixels = np.random.default_rng(7).integers(0, 256, theirs.shape, np.uint8)
        with theirs.access(0, 0):
            theirs.write(pixels)
        device.wait_idle(10)
        fd, info = import_info(library, theirs)
        made = library.ffi.new("vks_surface **")
        assert library.surface_import_memory(here, info, fd, made) == "OK", library.error
        surface = made[0]
        assert not _is_open(fd)
        if tiling == "linear":
            assert library.surface_acquire(surface, 0, library.deadline()) == "OK"
            seen = view(library, surface, 9, 20)
            assert_images_equal(seen, pixels)
            seen[:] = 7
            assert library.surface_release(surface, 0) == "OK"
            with theirs.access(0, 0):
                assert (theirs.read() == 7).all()
        descriptor = library.make("surface_export_descriptor", "vks_surface_descriptor", surface)
        library.surface_descriptor_close(descriptor)
        library.surface_close(surface)
        library.surface_unref(surface)


@pytest.mark.rule("C4", "E3")
def test_c_leaves_the_fd_alone_where_the_memory_has_no_room(device: vks.Device, library: Library, here: Any) -> None:
    with device.create_surface(20, 9, usage=("copy",)) as theirs:
        fd, info = import_info(library, theirs)
        before = open_fds()
        made = library.ffi.new("vks_surface **")
        for name, value in (("size", 1), ("size", 2**64 - 1), ("offset", 1), ("offset", 2**64 - 1)):
            wrong = library.ffi.new("vks_import_info *", info[0])
            setattr(wrong, name, value)
            assert library.surface_import_memory(here, wrong, fd, made) == "BAD_PAGE", (name, value)
        uuid = library.ffi.new("uint8_t[16]", b"1" * 16)
        info.driver_uuid = uuid
        assert library.surface_import_memory(here, info, fd, made) == "FOREIGN_DEVICE"
        assert open_fds() == before
        os.close(fd)


# ---- an engine's images ----------------------------------------------------------------------------------------------


@pytest.fixture
def engine(device: vks.Device, library: Library, here: Any) -> Iterator[Any]:
    """The Context of an engine on the VkDevice that C opened."""
    if device.backend == "cpu":
        pytest.skip("there are no VkImages on the CPU backend")
    from vkshare.backends import vulkan

    found = library.make("device_get_vulkan", "vks_vulkan_device", here)
    needed = vks.vulkan_requirements()
    backend = vulkan.adopt(
        instance=_number(library, found.instance),
        physical_device=_number(library, found.physical_device),
        device=_number(library, found.device),
        queue=_number(library, found.queue),
        queue_family=found.queue_family,
        api_version=needed.api_version,
        enabled_extensions=needed.device_extensions,
        features=needed.features,
    )
    yield backend.context  # type: ignore[attr-defined, unused-ignore]
    backend.close()


def _number(library: Library, pointer: Any) -> int:
    return int(library.ffi.cast("uintptr_t", pointer))


@pytest.mark.rule("C4", "E2")
@pytest.mark.parametrize("exported", [False, True])
def test_c_adopts_an_engines_image_and_notifies_the_engine_once(
    device: vks.Device,
    library: Library,
    here: Any,
    engine: Any,
    pair: tuple[socket.socket, socket.socket],
    exported: bool,
) -> None:
    from support.engine_images import EngineImage, image_spec, random_pixels

    from vkshare.backends.vulkan.api import VK, address

    layout = VK.IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL
    image = EngineImage(engine, image_spec(), exported=exported)
    image.write(pixels := random_pixels(image.spec), layout)
    calls: list[Any] = []
    on_close = library.ffi.callback("void(void *)", calls.append)
    for turn in range(2):
        info = library.ffi.new("vks_adopt_image_info *")
        info.image = image_info(library, width=33, height=17, tiling=OPTIMAL, usage=7)[0]
        info.handle = library.ffi.cast("void *", image.number)
        info.layout = layout if turn == 0 else VK.IMAGE_LAYOUT_UNDEFINED if not exported else VK.IMAGE_LAYOUT_GENERAL
        info.memory = library.ffi.cast("void *", address(image.memory) if exported else 0)
        info.on_close = on_close
        surface = library.make("surface_adopt_image", "vks_surface *", here, info)
        out = library.ffi.new("vks_surface_descriptor *")
        if exported:
            assert library.surface_export_descriptor(surface, out) == "OK", library.error
            assert library.surface_descriptor_send(pair[0].fileno(), library.deadline(), out) == "OK"
            library.surface_descriptor_close(out)
            with vks.SurfaceDescriptor.recv(pair[1], 10) as descriptor:
                opened = device.open_surface(descriptor)
            with opened.access(0, 1):
                assert_images_equal(opened.read(), pixels)
                pixels = pixels[::-1].copy()
                opened.write(pixels)
                device.wait_idle(10)
            opened.close()
        else:
            assert library.surface_export_descriptor(surface, out) == "UNSUPPORTED"
            assert "pass its VkDeviceMemory" in library.error
        assert library.surface_acquire(surface, int(exported), library.deadline()) == "OK"
        assert library.surface_release(surface, 0) == "OK"
        assert len(calls) == turn
        library.surface_close(surface)
        library.surface_unref(surface)
        assert len(calls) == turn + 1
    assert exported or calls
    image.destroy()


@pytest.mark.rule("C4", "E2", "E6")
def test_c_adopts_depth_from_a_layout_of_depth(
    device: vks.Device, library: Library, here: Any, engine: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    from support.engine_images import EngineImage, image_spec, random_pixels

    from vkshare.backends.vulkan.api import VK, address

    image = EngineImage(engine, image_spec(33, 17, "d32float"))
    image.write(pixels := random_pixels(image.spec), VK.IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL)
    info = library.ffi.new("vks_adopt_image_info *", {"layout": VK.IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL})
    info.image = image_info(library, width=33, height=17, tiling=OPTIMAL, usage=7, format=D32_FLOAT)[0]
    info.handle = library.ffi.cast("void *", image.number)
    info.memory = library.ffi.cast("void *", address(image.memory))
    made = library.ffi.new("vks_surface **")
    assert library.surface_adopt_image(here, info, made) == "BAD_VALUE"
    assert "layout is 2" in library.error
    info.layout = VK.IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL
    surface = library.make("surface_adopt_image", "vks_surface *", here, info)
    out = library.make("surface_export_descriptor", "vks_surface_descriptor", surface)
    assert library.surface_descriptor_send(pair[0].fileno(), library.deadline(), out) == "OK"
    library.surface_descriptor_close(out)
    with vks.SurfaceDescriptor.recv(pair[1], 10) as descriptor:
        opened = device.open_surface(descriptor)
    with opened.access():
        assert_images_equal(opened.read(), pixels)
    opened.close()
    library.surface_close(surface)
    library.surface_unref(surface)
    image.destroy()


@pytest.mark.rule("C4", "E2")
def test_the_shutdown_of_a_device_notifies_the_engine_too(
    device: vks.Device, library: Library, here: Any, engine: Any
) -> None:
    from support.engine_images import EngineImage, image_spec

    image = EngineImage(engine, image_spec())
    calls: list[Any] = []
    on_close = library.ffi.callback("void(void *)", calls.append)
    info = library.ffi.new("vks_adopt_image_info *", {"layout": 0, "on_close": on_close})
    info.image = image_info(library, width=33, height=17, tiling=OPTIMAL, usage=7)[0]
    info.handle = library.ffi.cast("void *", image.number)
    surface = library.make("surface_adopt_image", "vks_surface *", here, info)
    image.destroy()  # nothing uses it, and the VkDevice ends with the shutdown
    engine.close()
    library.device_shutdown(here)
    assert len(calls) == 1
    library.surface_unref(surface)
    assert len(calls) == 1


@pytest.mark.rule("C4", "E2")
def test_c_refuses_what_is_no_image_of_the_device(device: vks.Device, library: Library, here: Any) -> None:
    made = library.ffi.new("vks_surface **")
    good = {"handle": library.ffi.cast("void *", 1), "layout": 1}
    for wrong, status in (({"handle": library.ffi.NULL}, "BAD_VALUE"), ({"layout": 99}, "BAD_VALUE")):
        info = library.ffi.new("vks_adopt_image_info *", {**good, **wrong})
        info.image = image_info(library)[0]
        assert library.surface_adopt_image(here, info, made) == status
    info = library.ffi.new("vks_adopt_image_info *", good)
    info.image = image_info(library, usage=1)[0]
    assert library.surface_adopt_image(here, info, made) == "BAD_VALUE"
    if device.backend == "cpu":
        info.image = image_info(library)[0]
        assert library.surface_adopt_image(here, info, made) == "UNSUPPORTED"


# ---- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C4", "E4")
def test_c_shares_an_array_and_says_when_it_is_free(device: vks.Device, library: Library, here: Any) -> None:
    pages = mmap.mmap(-1, 4096)
    pixels = np.frombuffer(pages, np.uint8).reshape(16, 64, 4)
    pixels[:] = np.arange(4096).reshape(16, 64, 4) % 251
    calls: list[Any] = []
    on_close = library.ffi.callback("void(void *)", calls.append)
    info = library.ffi.new("vks_array_info *", {"stride": 256, "size": 4096, "on_close": on_close})
    info.image = image_info(library, width=64, height=16)[0]
    info.pixels = library.ffi.cast("void *", pixels.ctypes.data)
    made = library.ffi.new("vks_surface **")
    status = library.surface_share_array(here, info, made)
    if status == "UNSUPPORTED":
        assert "host_pointer" not in device.capabilities.surface_memory, library.error
        return
    assert status == "OK", library.error
    assert library.surface_acquire(made[0], 0, library.deadline()) == "OK"
    assert np.shares_memory(view(library, made[0], 16, 64), pixels)
    descriptor = library.ffi.new("vks_surface_descriptor *")
    assert library.surface_export_descriptor(made[0], descriptor) == "UNSUPPORTED"
    assert not calls
    library.surface_close(made[0])
    library.surface_unref(made[0])
    assert len(calls) == 1
    for wrong in ({"size": 4095}, {"stride": 128}, {"pixels": library.ffi.NULL}):
        refused = library.ffi.new("vks_array_info *", info[0])
        for name, value in wrong.items():
            setattr(refused, name, value)
        assert library.surface_share_array(here, refused, made) == "BAD_VALUE", wrong
    refused = library.ffi.new("vks_array_info *", info[0])
    refused.pixels = library.ffi.cast("void *", pixels.ctypes.data + 1)
    assert library.surface_share_array(here, refused, made) == "BAD_VALUE"
    assert len(calls) == 1


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
