"""A host and a viewer in this process, and the pictures that a remote device and a local one draw alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import vkshare as vks
from vkshare.formats import FORMATS
from vkshare.testing.link import LinkProxy

TOKEN = "a token of the tests"
WAIT = 60.0  # seconds; it ends hangs alone


class Ends:
    """Both ends. `link` is the proxy between them; None: there is none."""

    def __init__(self, stack: ExitStack, device: vks.Device, **link: Any) -> None:
        self.host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN))
        address = self.host.address
        self.link = stack.enter_context(LinkProxy(address, seed=1, **link)) if link else None
        address = self.link.address if self.link is not None else address
        self.viewer = stack.enter_context(vks.remote.Viewer(address, token=TOKEN, device=device, headless=True))

    def open(self, name: str = "") -> vks.Device:
        return self.host.open(WAIT, name=name)

    def sent(self) -> tuple[int, int]:
        """Messages and bytes that the host has given the link, without keep-alives."""
        outbox = self.host.statistics().outbox
        return outbox.messages, outbox.nbytes

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Meanwhile the viewer shows its windows, as its main thread does."""
        thread = threading.Thread(target=self.viewer.run)
        thread.start()
        try:
            yield
        finally:
            self.viewer.stop()
            thread.join()


def random_pixels(surface: vks.Surface, seed: int) -> np.ndarray:
    """Pixels of any format: floats are 0 to 1."""
    random = np.random.default_rng(seed)
    dtype = surface.spec.format.numpy_dtype
    if dtype.kind == "f":
        return random.random(surface.shape).astype(dtype)
    return random.integers(0, np.iinfo(dtype.str).max, surface.shape, dtype, endpoint=True)


TRIANGLE = np.array(
    [[-0.7, -0.6, 1, 0, 0, 1], [0.8, -0.3, 0, 1, 0, 0.5], [-0.1, 0.9, 0, 0, 1, 1]],
    np.float32,
)
TEXTURED = np.array(
    [
        [-0.9, -0.9, 0, 1, 1, 1, 1, 0.5, 0, 0],
        [0.9, -0.9, 0, 1, 1, 0.5, 1, 1, 1, 0],
        [0.2, 0.7, 0, 1, 1, 1, 1, 1, 0.5, 1],
    ],
    np.float32,
)


def draw(device: vks.Device, format: str) -> np.ndarray:
    """Every command that the format has, on surfaces of the device; returns the pixels."""
    kind = FORMATS[format]
    with device.create_surface(67, 45, format) as target, device.create_surface(31, 23, format) as source:  # noqa: SIM117
        with target.access() as to, source.access() as from_:
            source.write(random_pixels(source, 1))
            list_ = device.record().clear(to, 0.5 if kind.is_depth else (0.25, 0.5, 0.75, 1))
            list_.copy(from_, to, (1, 2, 20, 11), (5, 7))
            if not kind.is_depth:
                list_.fill_rect(to, (40, 3, 9, 30), (1, 0.5, 0.125, 0.5))
            if not kind.is_depth and not kind.is_integer:
                list_.blit(from_, to, None, (64, 40, -30, -12), "nearest").blit(
                    from_, to, (0, 0, 9, 9), (2, 20, 25, 20)
                )
                list_.composite(from_, to, (30, 20), 0.75).composite(from_, to, (-4, -5), 0.5, "straight")
                list_.draw_triangles(to, TRIANGLE).draw_triangles(to, TEXTURED, from_, "nearest")
            device.submit(list_)
            return target.read()
