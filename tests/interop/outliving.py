"""A child of test_host.py: takes everything that a View gives, ends the rest in several orders, and uses it all after.

Arguments: backend, and the adapter's UUID in hexadecimal. Prints "alive" last; what is kept, is kept until exit.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import vkshare as vks

KEPT: list[Any] = []  # at exit, too


def create(device: vks.Device, format: str) -> vks.Surface:
    try:
        return device.create_surface(64, 64, format, tiling="linear")
    except vks.UnsupportedError:
        return device.create_surface(64, 64, format, tiling="linear", usage=("sample", "copy"))


def take(view: vks.View) -> list[Callable[[], object]]:
    """Uses, each of which holds what the view gave and nothing else."""
    array, memory, tensor, capsule = view.array, memoryview(view), np.from_dlpack(view), view.__dlpack__()
    uses: list[Callable[[], object]] = [
        lambda: array.fill(array[0, 0, 0]),
        lambda: memory[63, 63, 0],
        lambda: memory.tobytes(),
        lambda: tensor.sum(),
        lambda: repr(capsule),
    ]
    with contextlib.suppress(ImportError, vks.UnsupportedError):
        from PIL import ImageDraw

        draw = ImageDraw.Draw(view.pillow())
        uses.append(lambda: draw.rectangle((0, 0, 63, 63), fill=1))
    with contextlib.suppress(ImportError, OSError, vks.UnsupportedError):
        import cairocffi

        context = cairocffi.Context(view.cairo())
        uses.append(lambda: refused(context.paint, cairocffi.CairoError))
    with contextlib.suppress(vks.UnsupportedError):
        canvas, target = view.skia().getCanvas(), view.skia()
        uses.append(lambda: canvas.clear(0xFFFFFFFF))
        uses.append(lambda: target.makeImageSnapshot().tobytes())
    return uses


def refused(call: Callable[[], object], error: type[Exception]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{call} was not refused")


def close_in_order(surface: vks.Surface, device: vks.Device) -> None:
    surface.close()
    device.close()


def close_the_device_first(surface: vks.Surface, device: vks.Device) -> None:
    device.close()
    surface.close()


def drop_both(surface: vks.Surface, device: vks.Device) -> None:
    """Their last references go when this returns."""


def main(backend: str, adapter: str) -> None:
    warnings.simplefilter("ignore", ResourceWarning)
    for end in (close_in_order, close_the_device_first, drop_both):
        device = vks.open(uuid.UUID(hex=adapter), backend=backend)
        for format in ("rgba8unorm", "bgra8unorm"):
            surface = create(device, format)
            with surface.access() as view:
                uses = take(view)
            if format == "rgba8unorm":
                surface.close()
                gc.collect()
                for use in uses:
                    use()
                KEPT.extend(uses)
        with surface.access() as view:  # again, so that the device ends with uses of an open surface
            uses += take(view)
        del view
        end(surface, device)
        del surface, device
        gc.collect()
        for use in uses:
            use()
        KEPT.extend(uses)
    surface = create(vks.open(uuid.UUID(hex=adapter), backend=backend), "rgba8unorm")
    with contextlib.suppress(vks.ClosedError), surface.access() as view:  # which cannot release it any more
        uses = take(view)
        surface.close()
        refused(lambda: view.array, vks.ClosedError)
        for use in uses[:6]:  # of those that end with the access, too
            use()
    while KEPT:  # one by one
        KEPT.pop()()
        gc.collect()
    KEPT.extend(uses)  # are there when the interpreter ends
    print("alive")


if __name__ == "__main__":
    main(*sys.argv[1:])
