"""Host memory beside an image or a buffer that the CPU cannot see, and the copy between the two."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkshare.backends.base import ImageSpec
from vkshare.backends.vulkan import barriers, support
from vkshare.backends.vulkan.api import VK, address, ffi
from vkshare.backends.vulkan.buffers import VulkanBuffer
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import AnyImage
from vkshare.backends.vulkan.memory import host_buffer
from vkshare.backends.vulkan.objects import Objects
from vkshare.util.closing import on_error


class VulkanStage:
    """A host-visible buffer of tightly packed rows, and the commands that copy it to or from the whole memory.

    Stage of backends/base.py.
    """

    relayed = b""

    def __init__(self, context: Context, nbytes: int, resource: AnyImage | VulkanBuffer, *, upload: bool) -> None:
        spec = resource.spec
        needed = spec.nbytes
        if nbytes != needed:
            raise ValueError(f"nbytes is {nbytes}; a {spec} takes {needed}")
        self._context = context
        self._objects = Objects(context, self._forget)
        with on_error(self.destroy):
            usage = VK.BUFFER_USAGE_TRANSFER_SRC_BIT if upload else VK.BUFFER_USAGE_TRANSFER_DST_BIT
            self._buffer, memory = host_buffer(self._objects, nbytes, usage)
            self.data = memory.map()[:nbytes]
            # Queues that only copy take no depth (VUID-vkCmdCopyBufferToImage-commandBuffer-07739).
            is_buffer = isinstance(resource, VulkanBuffer)
            # They take offsets in buffers that are multiples of 4 alone (07737), and planes have others.
            draws = isinstance(spec, ImageSpec) and (spec.format.is_depth or spec.format.is_planar)
            families = resource.queue_families[:1] if draws else resource.queue_families
            with resource.pinned():
                name = "upload" if upload else "read back"
                copy: Any = partial(self._copy_bytes if is_buffer else self._copy, resource, upload=upload)
                commands = [self._objects.record(copy, name=name, family=family) for family in families]
        self.command_buffer, self.transfer_buffer = (*map(address, commands), 0)[:2]

    def _copy(self, image: Any, commands: Any, *, upload: bool) -> None:
        image.check_open()
        vk, general = self._context.vk, VK.IMAGE_LAYOUT_GENERAL
        layer = barriers.ONE_LAYER | {"aspectMask": support.aspect(image.spec.format)}
        shown = [image.handle] if image.is_presentable else []
        barriers.begin(vk, commands, shown)
        offset = 0
        for handle, spec in zip(image.handles, image.spec.planes(), strict=True):
            extent = {"width": spec.width, "height": spec.height, "depth": 1}
            fields = {"bufferOffset": offset, "imageSubresource": layer, "imageExtent": extent}
            region = ffi.new("VkBufferImageCopy *", fields)
            offset += spec.nbytes
            if upload:
                vk.vkCmdCopyBufferToImage(commands, self._buffer, handle, general, 1, region)
            else:
                vk.vkCmdCopyImageToBuffer(commands, handle, general, self._buffer, 1, region)
        barriers.end(vk, commands, shown, to_host=not upload or image.is_mappable)

    def _copy_bytes(self, buffer: Any, commands: Any, *, upload: bool) -> None:
        buffer.check_open()
        vk = self._context.vk
        region = ffi.new("VkBufferCopy *", {"size": buffer.spec.nbytes})
        pair = (self._buffer, buffer.handle) if upload else (buffer.handle, self._buffer)
        barriers.begin(vk, commands, [])
        vk.vkCmdCopyBuffer(commands, *pair, 1, region)
        barriers.end(vk, commands, [], to_host=not upload or buffer.is_mappable)

    def destroy(self) -> None:
        """Frees buffer and commands: the copy has run, or never will. Idempotent."""
        self._objects.destroy()

    def _forget(self) -> None:
        self.data = memoryview(b"")
        self.command_buffer = self.transfer_buffer = 0
