"""What does a list that is recorded anew for each frame cost, against C that records the same Vulkan calls?"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import compiler, devices
from benchmarks.measure import Timed, take_turns, timed
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.real_submit import drained, seconds_of, timeline
from benchmarks.report import OVER_C, Must, Row, row

if TYPE_CHECKING:
    from vkshare import Device, Surface

_SIZE = 64, 64
_TURN = 2e-4  # seconds: a software driver's threads seldom interrupt so short a turn
_IN_FLIGHT = 32  # frames between two waits: fewer than C's ring has
_RING, _MOST = 64, 1024  # of c/record.c
_MANY = 100  # draws
_CLEAR = (0.0, 0.0, 0.0, 1.0)
_TRIANGLE = np.array(
    [(-0.9, -0.9, 1, 0, 0, 1), (-0.8, -0.9, 1, 0, 0, 1), (-0.9, -0.8, 1, 0, 0, 1)], np.float32
)  # small: the driver's own work is little


def run(plan: Plan) -> list[Row]:
    """For every Vulkan adapter: a clear with one draw, and with many."""
    import vkshare

    rows = []
    for device in devices.opened(vkshare.adapters("vulkan")):
        with device.create_surface(*_SIZE) as surface:
            surface.acquire()
            for place in alone(plan):
                rows += _rows(device, surface, place.name, plan)
            surface.release()
    return rows


def _rows(device: Device, surface: Surface, place: str, plan: Plan) -> list[Row]:
    name = device.adapter.name
    plan.progress(f"recording on {name}, {place}")
    with contextlib.closing(_Queue(device, surface)) as queue:
        ways = {
            "ours": _ours(device, surface, 1),
            "c": queue.c(1),
            "ours, many": _ours(device, surface, _MANY),
            "c, many": queue.c(_MANY),
        }
        samples = take_turns({way: queue.drained(each) for way, each in ways.items()}, 2 * plan.seconds, _TURN)
    is_gpu = device.adapter.kind == "gpu"  # a software driver runs beside its caller: its figures are no targets
    one, many = (Must(8e-6), Must(2e-6)) if is_gpu else (None, None)
    of_one = {way: samples[way] for way in ("ours", "c")}
    of_many = {way: [sample / _MANY for sample in samples[f"{way}, many"]] for way in ("ours", "c")}
    return [
        row(f"submit(record().clear().draw_triangles()) on {name}", place, of_one, one, OVER_C),
        row(f"a draw of {_MANY} in such a list on {name}", place, of_many, many, OVER_C),
    ]


def _ours(device: Device, surface: Surface, draws: int) -> Timed:
    @timed
    def loop(n: int) -> None:
        for _ in range(n):
            commands = device.record().clear(surface, _CLEAR)
            for _ in range(draws):
                commands.draw_triangles(surface, _TRIANGLE)
            device.submit(commands)

    return loop


class _Target(ctypes.Structure):
    """target of c/record.c."""

    _handles = ("device", "queue", "view", "pipeline", "vertices", "mapped", "timeline")
    _numbers = ("family", "width", "height", "to_host")
    _fields_ = (*((name, ctypes.c_uint64) for name in _handles), *((name, ctypes.c_uint32) for name in _numbers))


class _Queue:
    """C's objects beside ours, on the same device. Only one of the two uses the queue at a time."""

    def __init__(self, device: Device, surface: Surface) -> None:
        from vkshare.backends.vulkan.api import VK, address
        from vkshare.backends.vulkan.memory import host_buffer
        from vkshare.backends.vulkan.objects import Objects
        from vkshare.backends.vulkan.pipelines import COLOURED, VERTEX_SIZE

        _ours(device, surface, 1)(1)  # makes the pipeline
        backend: Any = device._backend
        self._context = context = backend.context
        self._objects = Objects(context)
        size = _RING * _MOST * 3 * VERTEX_SIZE
        vertices, memory = host_buffer(self._objects, size, VK.BUFFER_USAGE_VERTEX_BUFFER_BIT)
        target = _Target(
            device=address(context.device),
            queue=address(context.queue),
            view=surface.image_view,
            pipeline=address(backend._pipelines.get(COLOURED, surface.spec.format.vk_format)),
            vertices=address(vertices),
            mapped=memory.address,
            timeline=timeline(self._objects),
            family=context.queue_family,
            width=surface.width,
            height=surface.height,
            to_host=surface.is_host_visible,
        )
        library = compiler.library("record.c")
        pointer = ctypes.c_void_p
        opened = compiler.function(library, "recorder_open", pointer, pointer, returns=pointer)
        self._close = compiler.function(library, "recorder_close", pointer, returns=None)
        self._time = compiler.function(library, "time_recorded", pointer, pointer, ctypes.c_uint32, ctypes.c_long)
        self._recorder = opened(backend.native_handles()["get_device_proc_addr"], ctypes.addressof(target))
        if not self._recorder:
            self._objects.destroy()
            raise RuntimeError("C could not make its command buffers")

    def c(self, draws: int) -> Timed:
        """C's loop."""
        return lambda n: seconds_of(self._time(self._recorder, _TRIANGLE.ctypes.data, draws, n))

    def drained(self, timed: Timed) -> Timed:
        """With waits."""
        return drained(self._context, timed, _IN_FLIGHT)

    def close(self) -> None:
        """Frees what was made; nothing runs any more."""
        self._close(self._recorder)
        self._objects.destroy()
