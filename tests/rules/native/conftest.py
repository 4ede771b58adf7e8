"""Devices that the C library opens, and a connection between the two parties."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.c_library import Library, image_info

import vkshare as vks


@pytest.fixture(scope="module")
def library() -> Library:
    return Library()


@pytest.fixture
def here(library: Library, device: vks.Device) -> Iterator[Any]:
    """A device that C opens, on the adapter of this run."""
    name = library.ffi.new("char[]", b"C's own")
    if device.backend == "cpu":
        made = library.make("device_create", "vks_device *", library.ffi.new("vks_device_info *", {"name": name}))
    else:
        uuids = [
            library.ffi.new("uint8_t[16]", uuid)
            for uuid in (device.capabilities.device_uuid, device.capabilities.driver_uuid)
        ]
        info = library.ffi.new("vks_open_info *", {"name": name, "device_uuid": uuids[0], "driver_uuid": uuids[1]})
        made = library.make("device_open_vulkan", "vks_device *", info)
    yield made
    library.device_shutdown(made)
    library.device_unref(made)


@pytest.fixture
def create(library: Library, here: Any) -> Iterator[Callable[..., Any]]:
    """Makes surfaces in C, which are closed in the end: ``create(width, height, tiling=LINEAR)``."""
    made: list[Any] = []

    def one_more(width: int, height: int, **numbers: Any) -> Any:
        info = image_info(library, width=width, height=height, **numbers)
        made.append(library.make("surface_create_image", "vks_surface *", here, info))
        return made[-1]

    yield one_more
    for surface in made:
        library.surface_close(surface)
        library.surface_unref(surface)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, two:
        yield one, two
