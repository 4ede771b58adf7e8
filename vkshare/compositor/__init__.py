"""The compositor: shows many clients' pictures in one window, and composites at the display's ticks
(rules R18, R19).

    compositor = vks.compositor.Compositor(device, vks.Window(1280, 720))
    window = compositor.open_window(descriptor, at=(40, 40))  # of a pipe, or of a surface

As a server process, with vkshare.server; its clients use `Desktop`:

    service = vks.compositor.Service([compositor])
    server = vks.server.RenderServer(device, kinds=service.kinds)

    with vks.compositor.Desktop(name="clock") as desktop:  # in the client's process
        window = desktop.open_window(320, 200)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Lazy imports: a client does not need the compositor, and an in-process compositor does not need
# vkshare.server.
_HOME = {
    "ClientWindow": "vkshare.compositor.window",
    "Compositor": "vkshare.compositor.compositor",
    "CompositorStatistics": "vkshare.compositor.compositor",
    "Desktop": "vkshare.compositor.desktop",
    "RemoteWindow": "vkshare.compositor.desktop",
    "Service": "vkshare.compositor.service",
    "WindowStatistics": "vkshare.compositor.window",
}

__all__ = [
    "ClientWindow",
    "Compositor",
    "CompositorStatistics",
    "Desktop",
    "RemoteWindow",
    "Service",
    "WindowStatistics",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vkshare.compositor' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from vkshare.compositor.compositor import Compositor as Compositor
    from vkshare.compositor.compositor import CompositorStatistics as CompositorStatistics
    from vkshare.compositor.desktop import Desktop as Desktop
    from vkshare.compositor.desktop import RemoteWindow as RemoteWindow
    from vkshare.compositor.service import Service as Service
    from vkshare.compositor.window import ClientWindow as ClientWindow
    from vkshare.compositor.window import WindowStatistics as WindowStatistics
