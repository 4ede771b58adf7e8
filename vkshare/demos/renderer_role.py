"""The first process: makes the surface, and draws the scene into it with device commands."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import vkshare
from vkshare.demos import choice, peers
from vkshare.demos.layout import Layout
from vkshare.demos.painter import Painter
from vkshare.demos.party import Party


def run(party: Party) -> dict[str, Any]:
    """Draws all frames; returns this process's part of the report."""
    options = party.options
    layout = Layout(options.width, options.height)
    adapter, why = choice.choose(options)
    with ExitStack() as stack:
        device = stack.enter_context(vkshare.open(adapter, name="demo renderer"))
        surface = stack.enter_context(device.create_surface(layout.width, layout.height, "rgba8unorm"))
        painter = stack.enter_context(Painter(device, layout, image=options.image))
        party.tell(adapter=adapter.name)
        peers.introduce(surface, party.links)
        before = device.statistics().copied_bytes
        for frame in range(options.frames):
            commands = painter.record(surface, frame, frame / options.frames)  # while others own the surface
            with party.turn(surface, frame):
                device.submit(commands)
        copied = device.statistics().copied_bytes - before
        peers.wait_until_gone(party.links)
        return {
            "adapter": {name: getattr(adapter, name) for name in ("name", "kind", "backend", "driver")},
            "why": why,
            "tiling": surface.tiling,
            "format": surface.format,
            "setup_copied": before,
            "copied": copied,
        }
