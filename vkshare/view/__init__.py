"""Surfaces, pipes and published names in a browser, and in a file.

    with vks.view.serve("the name", name="what the page says") as server:
        print(server.url)
    with vks.view.record("the name", "out.mp4") as recorder:
        recorder.wait(10)

docs/viewing.md shows it in use.
"""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = [*_public.objects]
__getattr__, __dir__ = _public.load, _public.names
