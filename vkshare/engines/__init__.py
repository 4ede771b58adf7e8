"""Engines that own their device: their images are surfaces, in turns by the same keys, and keep their own types.

    vks.engines.enable()                            # before the engine makes its Vulkan instance
    device = vks.engines.wgpu.open(wgpu_device)     # a vkshare.Device on wgpu's own VkDevice
    texture = vks.engines.wgpu.texture(surface)     # a wgpu.GPUTexture that is the surface's image

One module an engine; each loads on first use, and its engine with it (``vkshare[engines]``).
"""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = sorted({*_public.modules, *_public.objects})

__getattr__, __dir__ = _public.load, _public.names
