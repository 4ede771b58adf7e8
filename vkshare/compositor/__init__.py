"""The compositor: shows many clients' pictures in one window, and composites at the display's ticks (rules R18, R19).

    compositor = vks.compositor.Compositor(device, vks.Window(1280, 720))
    window = compositor.open_window(descriptor, at=(40, 40))  # of a pipe, or of a surface

As a server process, with vkshare.server; its clients use `Desktop`:

    service = vks.compositor.Service([compositor])
    server = vks.server.RenderServer(device, kinds=service.kinds)

    with vks.compositor.Desktop(name="clock") as desktop:  # in the client's process
        window = desktop.open_window(320, 200)
"""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = [*_public.objects]
__getattr__, __dir__ = _public.load, _public.names
