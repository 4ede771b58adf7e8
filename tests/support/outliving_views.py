"""A child of test_host.py: takes what a View gives, ends all the rest in several orders, and uses it after.

Each thing is taken alone, from a surface of its own: nothing else may keep its memory. Arguments: backend, and the
adapter's UUID in hexadecimal. Prints "alive" last; what is kept, is kept until the interpreter ends.
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

Use = Callable[[], object]
KEPT: list[Use] = []
SIDE = 300  # pixels: more than a page, and more than what an allocator keeps


def an_array(view: vks.View) -> Use:
    array = view.array
    return lambda: array.fill(array[-1, -1, 0])


def a_memoryview(view: vks.View) -> Use:
    memory = memoryview(view)
    return lambda: memory.tobytes()


def a_tensor(view: vks.View) -> Use:
    tensor = np.from_dlpack(view)
    return lambda: tensor.sum()


def a_capsule(view: vks.View) -> Use:
    """Nobody ever takes what is in it."""
    capsule = view.__dlpack__(max_version=(1, 0))
    return lambda: repr(capsule)


def a_pillow_drawing(view: vks.View) -> Use:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(view.pillow())
    return lambda: draw.rectangle((0, 0, SIDE, SIDE), fill=1)


def a_cairo_context(view: vks.View) -> Use:
    import cairocffi

    context = cairocffi.Context(view.cairo())
    return lambda: refused(context.paint, cairocffi.CairoError)


def a_skia_surface(view: vks.View) -> Use:
    surface = view.skia()
    return lambda: surface.makeImageSnapshot().tobytes()


def a_skia_canvas(view: vks.View) -> Use:
    import skia

    canvas, read = view.skia().getCanvas(), np.empty((SIDE, SIDE, 4), np.uint8)
    info = skia.ImageInfo.MakeN32Premul(SIDE, SIDE)

    def use() -> None:
        canvas.clear(0xFFFFFFFF)
        assert canvas.readPixels(info, read, 4 * SIDE, 0, 0)

    return use


KINDS = {
    an_array: "rgba8unorm",
    a_memoryview: "rgba8unorm",
    a_tensor: "rgba8unorm",
    a_capsule: "rgba8unorm",
    a_pillow_drawing: "rgba8unorm",
    a_cairo_context: "bgra8unorm",
    a_skia_surface: "rgba8unorm",
    a_skia_canvas: "rgba8unorm",
}


def taken(device: vks.Device, kind: Any, *, close: bool) -> Use | None:
    """None where the library is not installed. The surface is closed, or its last reference goes."""
    surface = device.create_surface(SIDE, SIDE, KINDS[kind], tiling="linear", usage=("sample", "copy"))
    use = None
    with surface.access() as view, contextlib.suppress(ImportError, OSError, vks.UnsupportedError):
        use = kind(view)
    if close:
        surface.close()
    return use


def refused(call: Use, error: type[Exception]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{call} was not refused")


def main(backend: str, adapter: str) -> None:
    warnings.simplefilter("ignore", ResourceWarning)
    used = set()
    for closes_surface in (True, False):
        for closes_device in (True, False):
            device: Any = vks.open(uuid.UUID(hex=adapter), backend=backend)
            uses = {kind: taken(device, kind, close=closes_surface) for kind in KINDS}
            gc.collect()
            for use in filter(None, uses.values()):
                use()  # the surface is gone
            if closes_device:
                device.close()
            device = None
            gc.collect()
            for kind, late in uses.items():
                if late is not None:
                    late()  # the device is gone
                    used.add(kind.__name__)
                    KEPT.append(late)
            del uses, use
    device = vks.open(uuid.UUID(hex=adapter), backend=backend)
    surface = device.create_surface(SIDE, SIDE, tiling="linear", usage=("sample", "copy"))
    with contextlib.suppress(vks.ClosedError), surface.access() as view:  # which cannot release it any more
        use = an_array(view)
        surface.close()
        refused(lambda: view.array, vks.ClosedError)
        use()
    for each in KEPT[::2]:  # half of them go now, one by one
        KEPT.remove(each)
        each()
        del each
    gc.collect()
    print("alive after", *sorted(used))


if __name__ == "__main__":
    main(*sys.argv[1:])
