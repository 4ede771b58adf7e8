"""Foreign memory and images as surfaces of the C library: Python is the party that allocated them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from support.c_library import LINEAR, OPTIMAL, Library, image_info, view
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


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
