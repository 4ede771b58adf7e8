"""What a party does in its turn with a surface, here or in a peer: it tells the pixels that it found, leaves others."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkshare as vks

Pixels = np.ndarray[Any, Any]
PATIENCE = 30.0  # seconds


def by_commands(surface: vks.Surface, acquire: int, release: int, pixels: Pixels) -> Pixels:
    """By a queue of Vulkan's, or the CPU backend's rasteriser: copies from and to surfaces of the party's own."""
    device = surface.device
    with (
        device.create_surface(surface.width, surface.height, usage=("copy",)) as found,
        device.create_surface(surface.width, surface.height, usage=("copy",)) as left,
    ):
        found.acquire()
        left.acquire()
        left.write(pixels)
        with surface.access(acquire, release, PATIENCE) as view:
            device.submit(device.record().copy(view, found).copy(left, view))
        return found.read()


def by_the_cpu(surface: vks.Surface, acquire: int, release: int, pixels: Pixels) -> Pixels:
    """Through View.array."""
    with surface.access(acquire, release, PATIENCE) as view:
        array = view.array
        found = array.copy()
        array[:] = pixels
    return found


def by_opengl(surface: vks.Surface, acquire: int, release: int, pixels: Pixels) -> Pixels:
    """In the context that is current."""
    from support import gl_peer

    with vks.interop.gl.open(surface) as shared:
        gl = gl_peer.functions()
        with shared.access(acquire, release, PATIENCE) as view:
            found = gl_peer.read(gl, view)
            gl_peer.write(gl, view, pixels)
        assert shared.statistics().copied_bytes == 0
    return found


def by_cuda(surface: vks.Surface, acquire: int, release: int, pixels: Pixels) -> Pixels:
    """In the legacy default stream."""
    from support import cuda_peer

    with vks.interop.cuda.open(surface) as shared:
        with shared.access(acquire, release, PATIENCE) as view:
            found = cuda_peer.read(shared, view)
            cuda_peer.write(shared, view, pixels)
        assert shared.statistics().copied_bytes == 0
    return found
