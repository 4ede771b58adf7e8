"""How frames go between processes today: pickled through a queue, copied through shared memory, loaned by iceoryx2."""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from benchmarks.measure import Timed, warmed_up
from benchmarks.plan import Plan
from vkshare.util.closing import Scoped

_SLOTS = 3  # as many as our ring has


class Channels(Scoped):
    """The objects that both processes share. The producer makes them; the consumer gets them by pickle at its start."""

    def __init__(self, width: int, height: int, has_iceoryx2: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._shape = (height, width, 4)
        self._size = 4 * width * height
        self._queue = context.Queue(_SLOTS)
        self._free, self._filled = context.Semaphore(_SLOTS), context.Semaphore(0)
        self._memory = SharedMemory(create=True, size=_SLOTS * self._size)
        self._service = f"vkshare/benchmarks/{os.getpid()}" if has_iceoryx2 else None

    # The first frames find empty buffers and sleeping threads: some go before.

    def producers(self) -> dict[str, Timed]:
        """By name; each passes n frames on."""
        sides: dict[str, Callable[[int], None]] = {"mp.Queue": self._put, "shared_memory": self._copy_in}
        if self._service is not None:
            sides["iceoryx2"] = _publish(_service(self._service), self._size)
        return {name: warmed_up(side, 2 * _SLOTS) for name, side in sides.items()}

    def consumers(self) -> dict[str, Timed]:
        """By name; each takes n frames and returns the seconds."""
        sides: dict[str, Callable[[int], None]] = {"mp.Queue": self._get, "shared_memory": self._copy_out}
        if self._service is not None:
            sides["iceoryx2"] = _subscribe(_service(self._service))
        return {name: warmed_up(side, 2 * _SLOTS) for name, side in sides.items()}

    def close(self) -> None:
        """For the producer."""
        self._queue.close()
        self._memory.close()
        self._memory.unlink()

    def _put(self, n: int) -> None:
        frame = np.zeros(self._shape, np.uint8)
        for _ in range(n):
            self._queue.put(frame)

    def _get(self, n: int) -> None:
        for _ in range(n):
            self._queue.get()

    def _slot(self, i: int) -> np.ndarray[Any, Any]:
        return np.ndarray(self._shape, np.uint8, self._memory.buf, (i % _SLOTS) * self._size)

    def _copy_in(self, n: int) -> None:
        frame = np.zeros(self._shape, np.uint8)
        for i in range(n):
            self._free.acquire()
            self._slot(i)[...] = frame
            self._filled.release()

    def _copy_out(self, n: int) -> None:
        frame = np.zeros(self._shape, np.uint8)
        for i in range(n):
            self._filled.acquire()
            frame[...] = self._slot(i)
            self._free.release()


def channels(width: int, height: int, plan: Plan) -> Channels:
    """For frames of four bytes a pixel."""
    has_iceoryx2 = importlib.util.find_spec("iceoryx2") is not None
    if not has_iceoryx2:
        plan.note("iceoryx2 is not installed")
    return Channels(width, height, has_iceoryx2)


# ---- iceoryx2: frames are loaned, not copied, and no pixel is touched -----------------------------------------------


def _service(name: str) -> Any:
    import iceoryx2 as iox2

    iox2.set_log_level(iox2.LogLevel.Error)
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    builder = node.service_builder(iox2.ServiceName.new(name)).publish_subscribe(iox2.Slice[ctypes.c_uint8])
    return node, builder.enable_safe_overflow(False).subscriber_max_buffer_size(_SLOTS).open_or_create()


def _publish(service: Any, size: int) -> Callable[[int], None]:
    import iceoryx2 as iox2

    builder = service[1].publisher_builder().initial_max_slice_len(size)
    publisher = builder.backpressure_strategy(iox2.BackpressureStrategy.RetryUntilDelivered).create()

    def side(n: int, _kept: Any = service) -> None:
        for _ in range(n):
            publisher.loan_slice_uninit(size).assume_init().send()

    return side


def _subscribe(service: Any) -> Callable[[int], None]:
    subscriber = service[1].subscriber_builder().create()

    def side(n: int, _kept: Any = service) -> None:
        while n:
            sample = subscriber.receive()
            if sample is not None:
                sample.delete()
                n -= 1

    return side
