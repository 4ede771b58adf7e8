"""The third process: reads each frame, checks what is in it, and writes a picture of the last."""

from __future__ import annotations

from typing import Any

import vkshare
from vkshare.demos import peers, pictures
from vkshare.demos.inspection import Inspector
from vkshare.demos.layout import Layout
from vkshare.demos.party import Party, owned

_TOLD = 5  # frames whose faults are listed; all are counted


def run(party: Party) -> dict[str, Any]:
    """Checks all frames; returns this process's part of the report."""
    options = party.options
    inspector = Inspector(Layout(options.width, options.height))
    faults: list[str] = []
    faulty = 0
    with peers.opened(party.links[0], "demo checker") as (device, surface):
        copies = options.force_copy or not surface.is_host_visible
        for frame in range(options.frames):
            with party.turn(surface, frame, writable=False) as view:
                found = inspector.faults(frame, _pixels(view, copies))
            faulty += bool(found)
            if found and faulty <= _TOLD:
                faults.append(f"frame {frame}: {'; '.join(found)}")
            party.tell(frame=frame)
        copied = device.statistics().copied_bytes
        if options.output is not None:
            with owned(surface, 0, 0, writable=False) as view:
                pictures.save(_pixels(view, copies), options.output)
        return {"copied": copied, "faulty": faulty, "faults": faults}


def _pixels(view: vkshare.View, copies: bool) -> Any:
    """(H, W, 4) uint8: the memory itself where it can be mapped."""
    return view.surface.read() if copies else view.array
