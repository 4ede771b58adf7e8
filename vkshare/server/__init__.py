"""A render server draws for other processes on its device, in each client's order.

    with vks.server.RenderServer() as server:          # one process
        server.serve_forever()

    with vks.server.Client(device=device) as client:   # any other process of the same user
        surface = client.create_surface(640, 480)
        client.submit(client.record().clear(surface, (1, 0, 0, 1)), acquire={surface: 0}, release={surface: 1})
        surface.surface.acquire(1)

docs/server.md describes the wire format and the threads.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Client": "vkshare.server.client",
    "RenderServer": "vkshare.server.server",
    "Kind": "vkshare.server.request_types",
    "Route": "vkshare.server.session_state",
}

__all__ = ["Client", "Kind", "RenderServer", "Route"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vkshare.server' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from vkshare.server.client import Client as Client
    from vkshare.server.request_types import Kind as Kind
    from vkshare.server.server import RenderServer as RenderServer
    from vkshare.server.session_state import Route as Route
