"""What do a submit and a list recorded anew cost on a real driver, against C that makes the same Vulkan calls?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import vkshare
from benchmarks import compiler, devices
from benchmarks.c_swapchain import CDevice
from benchmarks.compiler import ffi, seconds
from benchmarks.measure import Contenders, Timed, counted, drained, timed
from benchmarks.plan import Plan

_IN_FLIGHT = 256  # submits between two waits: no queue is ever full
_FRAMES_IN_FLIGHT = 32  # the same of recorded frames: fewer than C's ring has
_TURN = 2e-4  # seconds: a software driver's threads seldom interrupt so short a turn
_MANY = 100  # draws
_CLEAR = (0.0, 0.0, 0.0, 1.0)
_TRIANGLE = np.array(
    [(-0.9, -0.9, 1, 0, 0, 1), (-0.8, -0.9, 1, 0, 0, 1), (-0.9, -0.8, 1, 0, 0, 1)], np.float32
)  # small: the driver's own work is little


def run(plan: Plan) -> None:
    """For every Vulkan adapter. Targets stand for GPUs only: a software driver runs beside its caller."""
    for row in (_submits, _recorded):
        for device in devices.opened(vkshare.adapters("vulkan")):
            for _ in plan.alone():
                with _objects(device) as objects:
                    row(plan, device, objects, is_gpu=device.adapter.kind == "gpu")
    if not vkshare.adapters("vulkan"):
        plan.note("submit on a real driver: there is no Vulkan driver here")


@contextlib.contextmanager
def _objects(device: Any) -> Iterator[Any]:
    """For Vulkan objects beside the device's own, on its queue. Only one of ours and C uses the queue at a time."""
    from vkshare.backends.vulkan.objects import Objects

    context = device._backend.context
    objects = Objects(context)
    try:
        yield objects
    finally:
        device.wait_idle()
        context.vk.vkQueueWaitIdle(context.queue)
        device._reap()
        objects.destroy()


def _timeline(objects: Any) -> int:
    """The handle of a new timeline semaphore."""
    from vkshare.backends.vulkan.api import VK, address, new

    kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE)
    return address(objects.make("vkCreateSemaphore", new("VkSemaphoreCreateInfo", pNext=kind)))


def _submits(plan: Plan, device: vkshare.Device, objects: Any, *, is_gpu: bool) -> None:
    """Both give the same command buffer to the same queue."""
    from vkshare.backends.vulkan import barriers
    from vkshare.backends.vulkan.api import address

    context = objects.context
    buffer = address(objects.record(lambda commands: barriers.everything(context.vk, commands), name="bench"))
    semaphores = [_timeline(objects)]
    submit = address(context.vk.pointer("vkQueueSubmit2")), address(context.queue), buffer
    time_submits = compiler.library("calls.c").time_submits
    last = 0

    def c(n: int) -> float:
        nonlocal last
        first, last = last + 1, last + n
        return seconds(time_submits(*submit, semaphores, 1, first, n))

    commands = device.record()
    commands._set_vulkan(buffer, (), lambda: None)
    ways = {"ours": counted("device.submit(commands)", device=device, commands=commands), "c": c}
    drained = _drained(objects, ways, _IN_FLIGHT)
    plan.race(f"submit(c) on {device.adapter.name}", drained, most=1.1 if is_gpu else None, turn=2e-3)
    device.wait_idle()
    commands._reset()


def _drained(objects: Any, ways: Contenders, most: int) -> Contenders:
    context = objects.context
    return {name: drained(way, lambda: context.vk.vkQueueWaitIdle(context.queue), most) for name, way in ways.items()}


def _recorded(plan: Plan, device: vkshare.Device, objects: Any, *, is_gpu: bool) -> None:
    """A clear with one draw, and with many."""
    name = device.adapter.name
    with device.create_surface(64, 64) as surface:
        surface.acquire()
        _ours(surface, 1)(1)  # makes the pipeline
        c = _recorder(surface, objects)
        ways = {"ours": _ours(surface, 1), "c": c(1), "ours, many": _ours(surface, _MANY), "c, many": c(_MANY)}
        samples = plan.turns(f"recording on {name}", _drained(objects, ways, _FRAMES_IN_FLIGHT), _TURN, times=2)
        surface.release()
    one, many = (8e-6, 2e-6) if is_gpu else (None, None)
    of_one = {way: samples[way] for way in ("ours", "c")}
    of_many = {way: [sample / _MANY for sample in samples[f"{way}, many"]] for way in ("ours", "c")}
    plan.compare(f"submit(record().clear().draw_triangles()) on {name}", of_one, most=one, over_c=True)
    plan.compare(f"a draw of {_MANY} in such a list on {name}", of_many, most=many, over_c=True)


def _ours(surface: vkshare.Surface, draws: int) -> Timed:
    device = surface.device

    @timed
    def loop(n: int) -> None:
        for _ in range(n):
            commands = device.record().clear(surface, _CLEAR)
            for _ in range(draws):
                commands.draw_triangles(surface, _TRIANGLE)
            device.submit(commands)

    return loop


def _recorder(surface: Any, objects: Any) -> Callable[[int], Timed]:
    """C's loop, by the number of draws."""
    from vkshare.backends.vulkan.api import VK, address, new
    from vkshare.backends.vulkan.api import ffi as vulkan_ffi
    from vkshare.backends.vulkan.memory import host_buffer
    from vkshare.backends.vulkan.pipelines import COLOURED, VERTEX_SIZE

    lib, context, backend = compiler.library("record.c"), objects.context, surface.device._backend
    resettable, family = VK.COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, context.queue_family
    info = new("VkCommandPoolCreateInfo", flags=resettable, queueFamilyIndex=family)
    pool, buffers = objects.make("vkCreateCommandPool", info), vulkan_ffi.new("VkCommandBuffer[]", lib.FRAMES)
    info = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=lib.FRAMES)
    context.vk.vkAllocateCommandBuffers(context.device, info, buffers)
    size = lib.FRAMES * lib.TRIANGLES * 3 * VERTEX_SIZE
    vertices, memory = host_buffer(objects, size, VK.BUFFER_USAGE_VERTEX_BUFFER_BIT)
    gpu = CDevice.of(surface.device)
    pipeline = address(backend._pipelines.get(COLOURED, surface.spec.format.vk_format))
    target = {"gpu": gpu.pointer, "commands": list(map(address, buffers)), "timeline": _timeline(objects)}
    target |= {"view": surface.image_view, "pipeline": pipeline, "vertices": address(vertices)}
    target |= {"mapped": ffi.cast("float *", memory.address), "to_host": surface.is_host_visible}
    target |= {"width": surface.width, "height": surface.height}
    recording, triangle = ffi.new("recording *", target), ffi.from_buffer("float[]", _TRIANGLE)

    def loop(draws: int, n: int, _kept: CDevice = gpu) -> float:
        return seconds(lib.time_recorded(recording, triangle, draws, n))

    return lambda draws: partial(loop, draws)
