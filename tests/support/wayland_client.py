"""A program for Wayland tests: shows a vks.Window filled with one colour, through wl_shm, and prints its events.

    python -m support.wayland_client TITLE WIDTH HEIGHT RED GREEN BLUE

Windows of Wayland are on the screen once they have a picture, so there is no testing them without one; this takes the
shortest way to it, without Vulkan. Ends when the window is asked to close, or after 20 seconds.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

import vkshare as vks

_Global = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32
)  # fmt: skip
_GlobalRemove = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
_XRGB8888 = 1

# Requests by their numbers in wayland.xml.
_GET_REGISTRY, _BIND, _CREATE_POOL, _CREATE_BUFFER, _ATTACH, _DAMAGE, _COMMIT = 1, 0, 0, 0, 1, 2, 6


class Painter:
    """Fills a wl_surface with a colour."""

    def __init__(self, display: int, surface: int) -> None:
        self._client = ctypes.CDLL("libwayland-client.so.0")
        self._client.wl_proxy_marshal_flags.restype = ctypes.c_void_p
        self._display, self._surface = display, surface
        self._shm = self._bind_shm()

    def fill(self, width: int, height: int, colour: tuple[int, int, int]) -> None:
        pixel = bytes([colour[2], colour[1], colour[0], 255])
        fd = os.memfd_create("picture")
        os.write(fd, pixel * (width * height))
        pool = self._make(self._shm, _CREATE_POOL, "wl_shm_pool", None, fd, 4 * width * height)
        shape = (0, width, height, 4 * width, _XRGB8888)
        buffer = self._make(pool, _CREATE_BUFFER, "wl_buffer", None, *shape)
        self._tell(self._surface, _ATTACH, ctypes.c_void_p(buffer), 0, 0)
        self._tell(self._surface, _DAMAGE, 0, 0, width, height)
        self._tell(self._surface, _COMMIT)
        self._client.wl_display_flush(ctypes.c_void_p(self._display))
        os.close(fd)

    def _bind_shm(self) -> int:
        names: dict[bytes, int] = {}

        def on_global(data: int, registry: int, name: int, interface: bytes, version: int) -> None:
            names[interface] = name

        registry = self._make(self._display, _GET_REGISTRY, "wl_registry", None)
        listeners = (_Global(on_global), _GlobalRemove(lambda data, registry, name: None))
        table = (ctypes.c_void_p * 2)(*[ctypes.cast(listener, ctypes.c_void_p) for listener in listeners])
        self._client.wl_proxy_add_listener(ctypes.c_void_p(registry), table, None)
        self._client.wl_display_roundtrip(ctypes.c_void_p(self._display))
        self._listeners = (listeners, table)
        return self._make(registry, _BIND, "wl_shm", names[b"wl_shm"], b"wl_shm", 1, None)

    def _make(self, proxy: int, request: int, interface: str, *arguments: Any) -> int:
        described = ctypes.byref(ctypes.c_char.in_dll(self._client, f"{interface}_interface"))
        return int(self._client.wl_proxy_marshal_flags(ctypes.c_void_p(proxy), request, described, 1, 0, *arguments))

    def _tell(self, proxy: int, request: int, *arguments: Any) -> None:
        self._client.wl_proxy_marshal_flags(ctypes.c_void_p(proxy), request, None, 1, 0, *arguments)


def main(title: str, *numbers: str) -> None:
    width, height, red, green, blue = map(int, numbers)
    with vks.Window(width, height, title) as window:
        window.poll(0.1)  # the compositor wants its first configure answered before a picture comes
        painter = Painter(window.native_display, window.native_window)
        painter.fill(*window.framebuffer_size, (red, green, blue))
        end = time.monotonic() + 20
        while not window.should_close and time.monotonic() < end:
            for event in window.poll(0.1):
                print(event, flush=True)
                if event.event_type == "resize":
                    painter.fill(*window.framebuffer_size, (red, green, blue))


if __name__ == "__main__":
    main(*sys.argv[1:])
