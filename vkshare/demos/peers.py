"""How the demo's processes meet: the renderer makes the surface and sends it, the two others open it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import vkshare
from vkshare.demos.party import PATIENCE, listening

_READY = b"ready"


def introduce(surface: vkshare.Surface, links: list[socket.socket]) -> None:
    """Sends the surface over each link, and returns when it is open everywhere."""
    with surface.export() as descriptor:
        for link in links:
            link.send(surface.device.adapter.uuid)
            descriptor.send(link, PATIENCE)
    for link in links:
        _expect(link, _READY)


def wait_until_gone(links: list[socket.socket]) -> None:
    """Returns when the others have closed the surface: its memory needs one handle that stays."""
    for link in links:
        _expect(link, b"")


@contextmanager
def opened(link: socket.socket, name: str) -> Iterator[tuple[vkshare.Device, vkshare.Surface]]:
    """The surface that the renderer sends, open on a device of one's own on the same adapter."""
    uuid = _receive(link)
    if len(uuid) != 16:
        raise ConnectionError("the renderer is gone")
    with vkshare.open(uuid, name=name) as device:
        with listening():
            descriptor = vkshare.SurfaceDescriptor.recv(link, PATIENCE)
        with descriptor:
            surface = device.open_surface(descriptor)
        with surface:
            link.send(_READY)
            yield device, surface
    link.close()


def _expect(link: socket.socket, message: bytes) -> None:
    came = _receive(link)
    if came != message:
        raise ConnectionError(f"another process of the demo said {came!r}, expected was {message!r}")


def _receive(link: socket.socket) -> bytes:
    """A short message; b"" when the other end is closed."""
    try:
        with listening():
            return link.recv(16)
    except TimeoutError:
        raise TimeoutError(f"another process of the demo was silent for {PATIENCE:.0f} s") from None
