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

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = [*_public.objects]
__getattr__, __dir__ = _public.load, _public.names
