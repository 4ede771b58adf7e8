"""What does an engine's memory or image cost as a surface, once, beside plain C that makes the same Vulkan calls?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import vkshare
from benchmarks import compiler, devices
from benchmarks.c_swapchain import CDevice
from benchmarks.compiler import seconds
from benchmarks.measure import repeated
from benchmarks.plan import Plan

WIDTH, HEIGHT = 1920, 1080


def rows(plan: Plan) -> None:
    """On the best Vulkan device. The figure's sides both end what they made."""
    for device in devices.opened(vkshare.adapters("vulkan")[:1]):
        with contextlib.ExitStack() as stack:
            ours = {"import_memory": _importing(stack, device), "adopt_image": _adopting(stack, device)}
            for name, contenders in ours.items():
                plan.race(f"{name} of {WIDTH}x{HEIGHT}, and its end", contenders, turn=10e-3, most=1.2)


@contextlib.contextmanager
def _memory(device: vkshare.Device) -> Iterator[tuple[Any, Any]]:
    with device.create_surface(WIDTH, HEIGHT, tiling="optimal", usage=("render", "sample", "copy")) as surface:
        with surface.export():  # its image is released to other parties
            memory = surface._open_image().export()
        try:
            yield surface, memory
        finally:
            os.close(memory.fd)


def _importing(stack: contextlib.ExitStack, device: vkshare.Device) -> dict[str, Any]:
    surface, memory = stack.enter_context(_memory(device))
    like = {"width": WIDTH, "height": HEIGHT, "format": surface.format, "usage": surface.usage, "size": memory.size}
    lib, gpu = compiler.library("gpu.c", "imports.c"), CDevice.of(device)
    is_shared = device.capabilities.export_timelines

    def ours() -> None:
        device.import_memory(os.dup(memory.fd), dedicated=memory.dedicated, **like).close()

    def c(n: int) -> float:
        return seconds(lib.time_imports(gpu.pointer, memory.fd, WIDTH, HEIGHT, memory.dedicated, is_shared, n))

    return {"ours": repeated(ours), "c": c}


def _adopting(stack: contextlib.ExitStack, device: vkshare.Device) -> dict[str, Any]:
    lib, gpu = compiler.library("gpu.c", "imports.c"), CDevice.of(device)
    image = lib.make_image(gpu.pointer, WIDTH, HEIGHT, False)
    memory = lib.make_memory(gpu.pointer, image)
    stack.callback(lib.end_image, gpu.pointer, image, memory)
    is_shared = device.capabilities.export_timelines

    def ours() -> None:
        device.adopt_image(image, width=WIDTH, height=HEIGHT, format="rgba8unorm", layout="undefined").close()

    return {"ours": repeated(ours), "c": lambda n: seconds(lib.time_adoptions(gpu.pointer, image, is_shared, n))}
