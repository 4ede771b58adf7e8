"""A mirror of the C library between two GPUs: the CPU copies, and the pixels go there and back."""

from __future__ import annotations

import socket
from collections.abc import Callable

import numpy as np
import pytest
from support.c_library import Library

import vkshare as vks
from vkshare.errors import AbandonedError

pytestmark = [pytest.mark.vks_gpu, pytest.mark.rule("C4", "G1", "G2")]

WIDTH, HEIGHT = 640, 360


@pytest.mark.parametrize("tiling", ["optimal", "linear"])
def test_pixels_go_to_the_other_gpu_and_back(gpu: Callable[..., vks.Device], tiling: str) -> None:
    device = gpu()
    others = [each for each in vks.adapters("vulkan") if each.kind == "gpu" and each != device.adapter]
    if not others:
        pytest.skip("needs two GPUs")
    library = Library()
    uuids = [
        library.ffi.new("uint8_t[16]", uuid)
        for uuid in (others[0].capabilities.device_uuid, others[0].capabilities.driver_uuid)
    ]
    name = library.ffi.new("char[]", b"the other GPU")
    info = library.ffi.new("vks_open_info *", {"name": name, "device_uuid": uuids[0], "driver_uuid": uuids[1]})
    there = library.make("device_open_vulkan", "vks_device *", info)
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other, device.create_surface(WIDTH, HEIGHT, tiling=tiling, usage=("copy",)) as home:
        with home.export() as descriptor:
            descriptor.send(one)
        found = library.make("surface_descriptor_recv", "vks_surface_descriptor", other.fileno(), library.deadline())
        mirror = library.make("device_mirror", "vks_mirror *", there, found)
        library.surface_descriptor_close(found)
        for seed in range(5):
            written = np.random.default_rng(seed).integers(0, 256, home.shape, np.uint8)
            with home.access(timeout=10):
                home.write(written)
            assert library.mirror_acquire(mirror, 0, library.deadline()) == "OK", library.error
            assert library.mirror_release(mirror, 0, library.ffi.NULL, library.deadline()) == "OK", library.error
            with home.access(timeout=10, writable=False):
                assert (home.read() == written).all()
        counted = library.ffi.new("vks_mirror_statistics *")
        library.mirror_get_statistics(mirror, counted)
        nbytes = WIDTH * HEIGHT * 4
        assert (counted.pulls, counted.pushed_bytes) == (5, 5 * nbytes)
        assert library.mirror_acquire(mirror, 0, library.deadline()) == "OK"
        library.mirror_close(mirror)
        with pytest.raises(AbandonedError):
            home.acquire(0, 10)
        library.mirror_unref(mirror)
    library.device_shutdown(there)
    library.device_unref(there)
