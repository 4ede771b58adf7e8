"""Video files: their frames as surfaces, and surfaces as their frames.

    with vks.video.open("clip.mp4", device) as clip:
        for frame in clip:
            device.submit(device.record().composite(frame.surface, target))

docs/video.md shows it in use.
"""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = [*_public.objects]
__getattr__, __dir__ = _public.load, _public.names
