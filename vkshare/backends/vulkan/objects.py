"""Owners of Vulkan objects: each object is destroyed once, with its owner or at the latest with the device.

Also after Ctrl-C, which Python hears between any two calls: between a driver's call and the
assignment of what it made, or between a destruction and the note that it was done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from vkshare.backends.drawing import Recorder
from vkshare.backends.vulkan.api import NULL, VK, Struct, ffi, make_into, new

if TYPE_CHECKING:
    from vkshare.backends.vulkan.context import Context


class Objects:
    """The Vulkan objects of one owner. Not thread-safe, but for destroy(), which takes the context's lock.

    The end of an object is registered before the driver creates it. An end is an iterator whose
    first step is the call that destroys: a next() in C, which no signal handler comes between, and
    that does nothing the second time.
    """

    def __init__(self, context: Context, then: Callable[[], None] | None = None) -> None:
        """`then` is called when they have been destroyed, under the lock; like destroy(), perhaps more than once."""
        self.context = context
        self._then = then or _nothing
        self._ends: list[Iterator[None]] = []  # in the order of making
        self._recorder: Recorder | None = None  # its end needs it
        self._last: list[Iterator[None]] = []  # of memory, which goes after what is bound to it
        context.note(self)

    def make(self, name: str, *arguments: Any) -> Any:
        """Has the driver make an object: ``make("vkCreateImage", info)``; returns its handle. VulkanError.

        `arguments` are those between the VkDevice and the allocator.
        """
        vk, device = self.context.vk, self.context.device
        create = getattr(vk, name)
        out = ffi.new(create.parameters[-1])
        destroy = getattr(vk, _DESTROY.get(name) or name.replace("Create", "Destroy")).pointer
        ends = self._last if name == "vkAllocateMemory" else self._ends
        ends.append(map(destroy, (device,), map(itemgetter(0), (out,)), (NULL,)))
        make_into(out, create, device, *arguments, None)
        return out[0]

    def record(
        self, write: Callable[[Any], None], *, name: str = "", once: bool = False, family: int | None = None
    ) -> Any:
        """A VkCommandBuffer for queues of that family (None: graphics) that `write(command_buffer)` has filled.

        It may be pending several times at once, unless made for use once. Holds the context's lock.
        """
        context = self.context
        vk, device = context.vk, context.device
        with context.lock:
            pool = context.pool(family)
            info = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
            out = ffi.new("VkCommandBuffer *")
            self._ends.append(map(vk.vkFreeCommandBuffers.pointer, (device,), (pool,), (1,), (out,)))
            vk.vkAllocateCommandBuffers(device, info, out)  # NULL where it fails, and that is nothing to free
            vk.vkBeginCommandBuffer(out[0], _begin_info(once))
            write(out[0])
            vk.vkEndCommandBuffer(out[0])
        context.name(VK.OBJECT_TYPE_COMMAND_BUFFER, out[0], name)
        return out[0]

    def close_with(self, fd: int) -> None:
        """Has an fd closed with the objects."""
        self._ends.append(map(os.close, (fd,)))

    def close_recorder_with(self, recorder: Recorder) -> None:
        """Has a Recorder closed with the objects."""
        self._recorder = recorder
        self._ends.append(recorder.end())

    def destroy(self) -> None:
        """Destroys all, the newest first, memory last. Nothing runs on them. Idempotent; an interrupted one goes on."""
        with self.context.lock:
            for end in reversed(self._last + self._ends):
                next(end, None)
            self._then()
            self._then = _nothing  # else an owner and its objects would keep each other
            self.context.forget(self)


_DESTROY = {"vkAllocateMemory": "vkFreeMemory", "vkCreateGraphicsPipelines": "vkDestroyPipeline"}


def _nothing() -> None:
    pass


@cache
def _begin_info(once: bool) -> Struct:
    usage = VK.COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT if once else VK.COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
    return new("VkCommandBufferBeginInfo", flags=usage)
