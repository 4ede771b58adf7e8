"""The second process: writes live text over each frame with Pillow, into the surface's own memory where it can."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from vkshare.demos import peers
from vkshare.demos.layer import Clock, Layer
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import Facts, Lettering
from vkshare.demos.party import PATIENCE, Party, listening


def run(party: Party) -> dict[str, Any]:
    """Writes all frames; returns this process's part of the report."""
    options = party.options
    layout = Layout(options.width, options.height)
    with ExitStack() as stack:
        device, surface = stack.enter_context(peers.opened(party.links[0], "demo text"))
        copies = options.force_copy or not surface.is_host_visible
        lettering = Lettering(layout, Facts.of_three_processes(device.adapter.name, options.frames, copies))
        layer = stack.enter_context(Layer(device, layout.text_area)) if copies else None
        clock = Clock()
        for frame in range(options.frames):
            with party.turn(surface, frame) as view:
                seconds, rate = clock.tick()
                if layer is None:
                    lettering.draw(view.pillow(), frame, seconds, rate)
                else:
                    layer.draw(view, lettering.draw, frame, seconds, rate)
        with listening():
            device.wait_idle(PATIENCE)  # closing the layer would cancel what still waits for the renderer's work
        return {"copied": device.statistics().copied_bytes, "copies": copies}
