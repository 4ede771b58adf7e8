"""Pillow writes into a surface's own memory: nothing is copied."""

from PIL import ImageDraw

import vkshare as vks

with vks.open() as device, device.create_surface(640, 360, "rgba8unorm") as surface:
    with surface.access() as view:
        device.submit(device.record().clear(view, (0.1, 0.1, 0.3, 1)))
        if surface.is_host_visible:
            # Waits for the clear, then draws on the bytes that the GPU, or another process, sees.
            ImageDraw.Draw(view.pillow()).text((20, 20), "no copy", fill="white")
    print(device.statistics().copied_bytes, "bytes copied")
