"""What does a list that is recorded anew for each frame cost, against C that records the same Vulkan calls?"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import compiler, loops
from benchmarks.measure import Contender, Samples, Spread, Timed, differences, take_turns, timed
from benchmarks.placement import alone, placed
from benchmarks.plan import Plan
from benchmarks.report import OVER_C, Must, Row

if TYPE_CHECKING:
    from vkshare import Adapter, Device, Surface

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
    for adapter in vkshare.adapters("vulkan"):
        with vkshare.open(adapter, validation=False, name="bench") as device, device.create_surface(*_SIZE) as surface:
            surface.acquire()
            for place in alone(plan.pinned_only):
                with placed(place):
                    rows += _rows(adapter, device, surface, place.name, plan)
            surface.release()
    return rows


def _rows(adapter: Adapter, device: Device, surface: Surface, place: str, plan: Plan) -> list[Row]:
    plan.progress(f"recording on {adapter.name}, {place}")
    queue = _Queue(device, surface)
    try:
        samples = take_turns(
            [
                Contender("ours", queue.drained(_ours(device, surface, 1)), batch=_TURN),
                Contender("c", queue.drained(queue.c(1)), batch=_TURN),
                Contender("ours, many", queue.drained(_ours(device, surface, _MANY)), batch=_TURN),
                Contender("c, many", queue.drained(queue.c(_MANY)), batch=_TURN),
            ],
            2 * plan.seconds,
        )
    finally:
        queue.close()
    is_gpu = adapter.kind == "gpu"  # a software driver runs beside its caller: its figures are no targets
    one, many = (Must(8e-6), Must(2e-6)) if is_gpu else (None, None)
    ours, c = ([sample / _MANY for sample in samples[name]] for name in ("ours, many", "c, many"))
    return [
        _row(f"submit(record().clear().draw_triangles()) on {adapter.name}", place, samples["ours"], samples["c"], one),
        _row(f"a draw of {_MANY} in such a list on {adapter.name}", place, ours, c, many),
    ]


def _row(what: str, place: str, ours: Samples, theirs: Samples, must: Must | None) -> Row:
    figure = differences(ours, theirs)
    return Row(what, place, Spread.of(ours), Spread.of(theirs), OVER_C, figure, must)


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

    _fields_ = (
        *(
            (name, ctypes.c_uint64)
            for name in ("device", "queue", "view", "pipeline", "vertices", "mapped", "timeline")
        ),
        *((name, ctypes.c_uint32) for name in ("family", "width", "height", "to_host")),
    )


class _Queue:
    """C's objects beside ours, on the same device. Only one of the two uses the queue at a time."""

    def __init__(self, device: Device, surface: Surface) -> None:
        from vkshare.backends.vulkan.api import VK, address, new
        from vkshare.backends.vulkan.memory import host_buffer
        from vkshare.backends.vulkan.objects import Objects
        from vkshare.backends.vulkan.pipelines import COLOURED, VERTEX_SIZE

        _ours(device, surface, 1)(1)  # makes the pipeline
        backend: Any = device._backend
        self._context = context = backend.context
        self._objects = Objects(context)
        vertices, memory = host_buffer(
            self._objects, _RING * _MOST * 3 * VERTEX_SIZE, VK.BUFFER_USAGE_VERTEX_BUFFER_BIT
        )
        kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE)
        target = _Target(
            device=address(context.device),
            queue=address(context.queue),
            view=surface.image_view,
            pipeline=address(backend._pipelines.get(COLOURED, surface.spec.format.vk_format)),
            vertices=address(vertices),
            mapped=memory.address,
            timeline=address(self._objects.make("vkCreateSemaphore", new("VkSemaphoreCreateInfo", pNext=kind))),
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

        def loop(n: int) -> float:
            seconds: float = self._time(self._recorder, _TRIANGLE.ctypes.data, draws, n)
            if seconds < 0:
                raise RuntimeError(f"a Vulkan call of C's failed with {seconds:.0f}")
            return seconds

        return loop

    def drained(self, timed: Timed) -> Timed:
        """The same with what was submitted waited for every so often, outside of the time."""
        return loops.drained(timed, _IN_FLIGHT, lambda: self._context.vk.vkQueueWaitIdle(self._context.queue))

    def close(self) -> None:
        """Frees what was made; nothing runs any more."""
        self._close(self._recorder)
        self._objects.destroy()
