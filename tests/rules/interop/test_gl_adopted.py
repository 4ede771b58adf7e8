"""An engine's image and imported memory in OpenGL: one memory, whichever API allocated it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support import gl_peer
from support.adopted_devices import Engine

import vkshare as vks
from vkshare.util import fd_ops

pytest_plugins = ["support.adopted_devices", "support.opengl_context"]
pytestmark = [pytest.mark.driver_dependent, pytest.mark.slow, pytest.mark.usefixtures("context")]

Open = Callable[..., vks.Device]


@pytest.fixture
def guest(engine: Engine) -> Iterator[vks.Device]:
    with engine.adopt(name="guest") as device:
        yield device


def both_see_one_memory(surface: vks.Surface) -> np.ndarray[Any, Any]:
    """Vulkan writes and OpenGL reads, and the other way round; returns the last pixels."""
    gl, dice = gl_peer.functions(), np.random.default_rng(5)
    with vks.interop.gl.open(surface) as shared:
        for turn in range(3):
            pixels = gl_peer.random_pixels(surface, dice)
            with surface.access(2 * turn, 2 * turn + 1):
                surface.write(pixels)
            with shared.access(2 * turn + 1, 2 * turn + 2) as view:
                assert gl_peer.read(gl, view).tobytes() == pixels.tobytes()
                pixels = gl_peer.random_pixels(surface, dice)
                gl_peer.write(gl, view, pixels)
        with surface.access(6, 0):
            assert surface.read().tobytes() == pixels.tobytes()
    return pixels


@pytest.mark.rule("E2", "I6")
def test_an_engines_image_is_a_texture_of_opengl(engine: Engine, guest: vks.Device, stack: ExitStack) -> None:
    from support.engine_images import EngineImage, image_spec, random_pixels

    image = EngineImage(engine.context, image_spec(64, 32))
    image.write(random_pixels(image.spec))
    spec = image.spec
    shape: dict[str, Any] = {"width": spec.width, "height": spec.height, "format": spec.format}
    for _ in range(2):  # the second time its pages were replaced before
        with guest.adopt_image(image.handle, memory=image.memory, **shape) as surface:
            pixels = both_see_one_memory(surface)
        guest.wait_idle(10)
        assert image.read().tobytes() == pixels.tobytes()
    guest.close()
    image.destroy()


@pytest.mark.rule("E3", "I6")
def test_imported_memory_is_a_texture_of_opengl(device: vks.Device, vks_open: Open) -> None:
    with vks_open(name="allocates").create_surface(64, 32, tiling="optimal") as theirs:
        fd_ops.close_all(theirs._export())  # its image is released to other parties
        memory = theirs._open_image().export()
        shape = {"width": 64, "height": 32, "format": "rgba8unorm", "dedicated": memory.dedicated}
        options: dict[str, Any] = {**shape, "size": memory.size}
        with device.import_memory(memory.fd, **options) as surface:
            pixels = both_see_one_memory(surface)
        with theirs.access():
            assert theirs.read().tobytes() == pixels.tobytes()
