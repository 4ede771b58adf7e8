"""Surface queues whose ends are on devices here or in peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import vkshare as vks
from support import access_patterns
from support.peer_processes import Remote
from vkshare.errors import AbandonedError, ClosedError


def open_queue(device: Any, descriptor: Any) -> Any:
    """Where the device lives."""
    return vks.SurfaceQueue.open(device, descriptor)


def open_receiver(device: Any, descriptor: Any) -> Any:
    """Where the device lives."""
    return vks.open_receiver(device, descriptor)


def queue_at(device: Any, queue: Any) -> Any:
    """The queue as the device's process has it."""
    if not isinstance(device, Remote):
        return queue
    with queue.export() as descriptor:
        return device._peer.run(open_queue, device, descriptor)


def producer_of(queue: Any, device: Any) -> Any:
    return queue_at(device, queue).open_producer(device)


def consumer_of(queue: Any, device: Any) -> Any:
    return queue_at(device, queue).open_consumer(device)


class Loop:
    """Two devices and two queues: `maker` draws what it takes from the root, `viewer` looks and gives it back."""

    def __init__(self, maker: Any, viewer: Any, *, clone_metadata: int = 64, **options: Any) -> None:
        """`options`: those of SurfaceQueue; with `nbytes` those of SurfaceQueue.of_buffers()."""
        if "nbytes" in options:
            self.root = cast("vks.SurfaceQueue", vks.SurfaceQueue.of_buffers(maker, **options))
        else:
            self.root = vks.SurfaceQueue(maker, **{"width": 16, "height": 12, "count": 3, **options})
        self.clone = self.root.clone(clone_metadata, options.get("single_threaded", False))
        self.free = self.root.open_consumer(maker)
        self.out = self.clone.open_producer(maker)
        self.back = producer_of(self.root, viewer)
        self.seen = consumer_of(self.clone, viewer)

    def close(self) -> None:
        self.clone.close()
        self.root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def send(loop: Loop, number: int, metadata: bytes = b"", wait: Any = True) -> bool:
    """One frame from the maker."""
    surface, _ = loop.free.dequeue(30)
    access_patterns.clear(surface, number)
    return bool(loop.out.enqueue(surface, metadata, wait))


def look(surface: Any, number: int) -> bool:
    """Where the surface lives."""
    return access_patterns.is_clear(surface.read(), number)


def send_at_last(sender: Any, number: int, draw: Callable[[Any, int], object] = access_patterns.clear) -> None:
    """One frame of a pipe. The receiver before may be gone since, which is reported once."""
    for _ in range(8):
        try:
            with sender.frame(b"%d" % number, 10) as frame:
                draw(frame.surface, number)
            return
        except (ClosedError, AbandonedError):
            pass
    raise AssertionError("the end of a receiver is reported to the sender again and again")
