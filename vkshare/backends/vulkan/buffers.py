"""Buffers: a VkBuffer over memory of its own (rule E5)."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkshare.backends import host_memory
from vkshare.backends.base import BufferSpec, MemoryHandle
from vkshare.backends.drawing import Drawable
from vkshare.backends.vulkan import barriers, imports
from vkshare.backends.vulkan.api import VK, address, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.resource import Resource, make_exportable
from vkshare.errors import UnsupportedError
from vkshare.util import shared_memory
from vkshare.util.closing import on_error


class VulkanBuffer(Resource):
    """A VkBuffer, its memory and its ownership command buffers. BufferMemory of backends/base.py."""

    kind = "buffer"
    _handle_field = "buffer"
    spec: BufferSpec

    def __init__(self, context: Context, spec: BufferSpec, handle_type: int, features: int) -> None:
        self.buffer = 0
        super().__init__(context, spec, handle_type, features)

    def _forget(self) -> None:
        super()._forget()
        self.buffer = 0

    def pixels(self) -> memoryview | None:
        mapped = super().pixels()
        return None if mapped is None else mapped[: self.spec.nbytes]

    def _check_support(self, handle_type: int, features: int) -> bool:
        physical, spec = self.context.physical, self.spec
        if not 1 <= spec.nbytes <= physical.max_buffer:
            raise ValueError(
                f"nbytes is {spec.nbytes}; allowed is 1 to {physical.max_buffer} on {physical.name} ({physical.driver})"
            )
        shared = new("VkExternalBufferProperties")
        asked = new("VkPhysicalDeviceExternalBufferInfo", usage=_usage(spec), handleType=handle_type)
        physical.vk.vkGetPhysicalDeviceExternalBufferProperties(physical.handle, asked, shared)
        found = shared.externalMemoryProperties.externalMemoryFeatures
        if found & features != features:
            raise UnsupportedError(
                f"buffers for {', '.join(sorted(spec.usage))}",
                f"{physical.name} ({physical.driver}) cannot share their memory (features {found:#x}, needed "
                f"{features:#x})",
                "share a linear surface",
            )
        return bool(found & VK.EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT)

    @property
    def _is_for_host(self) -> bool:
        return self.context.physical.is_software  # on a GPU it is for shaders and CUDA

    def _create(self, handle_type: int) -> None:
        external = new("VkExternalMemoryBufferCreateInfo", handleTypes=handle_type)
        info = new(
            "VkBufferCreateInfo", pNext=external, size=_size(self.spec), usage=_usage(self.spec), **self._sharing()
        )
        self.handle = self._objects.make("vkCreateBuffer", info)
        self.buffer = address(self.handle)
        asked = new("VkBufferMemoryRequirementsInfo2", buffer=self.handle)
        self._read_requirements("vkGetBufferMemoryRequirements2", asked)

    def _bind_memory(self) -> None:
        assert self._memory is not None
        vk, device = self.context.vk, self.context.device
        place = {"memory": self._memory.handle, "memoryOffset": self.memory_offset}
        vk.vkBindBufferMemory2(device, 1, new("VkBindBufferMemoryInfo", buffer=self.handle, **place))

    def _make_drawable(self) -> None:
        self.drawable = Drawable(**self.spec.drawable, buffer=self.buffer, is_mappable=self.is_mappable)

    def acquire(self, commands: Any) -> None:
        barriers.acquire_buffer(self.context.vk, commands, self.handle, self._owner)

    def release(self, commands: Any) -> None:
        barriers.release_buffer(self.context.vk, commands, self.handle, self._owner, is_mappable=self.is_mappable)

    def start(self) -> None:
        vk = self.context.vk

        def write(commands: Any) -> None:
            vk.vkCmdFillBuffer(commands, self.handle, 0, VK.WHOLE_SIZE, 0)
            self.release(commands)

        self.context.run(write, name="first use")


def _size(spec: BufferSpec) -> int:
    """Whole words: vkCmdFillBuffer zeros no others."""
    return -(-spec.nbytes // 4) * 4


def _usage(spec: BufferSpec) -> int:
    """VkBufferUsageFlags. Copies are always possible: zeroing, read() and write() need them."""
    flags = {
        "storage": VK.BUFFER_USAGE_STORAGE_BUFFER_BIT,
        "vertex": VK.BUFFER_USAGE_VERTEX_BUFFER_BIT,
        "index": VK.BUFFER_USAGE_INDEX_BUFFER_BIT,
        "uniform": VK.BUFFER_USAGE_UNIFORM_BUFFER_BIT,
        "indirect": VK.BUFFER_USAGE_INDIRECT_BUFFER_BIT,
    }
    copies = VK.BUFFER_USAGE_TRANSFER_SRC_BIT | VK.BUFFER_USAGE_TRANSFER_DST_BIT
    return int(copies | sum(flag for name, flag in flags.items() if name in spec.usage))


def create_buffer(context: Context, spec: BufferSpec) -> VulkanBuffer:
    """A new buffer of zeros in exportable memory of its own, owned by VK_QUEUE_FAMILY_EXTERNAL.

    Raises
    ------
    UnsupportedError
        The driver cannot share the memory of such a buffer.
    ValueError
        It is larger than the driver allows.
    """
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
    buffer = VulkanBuffer(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT)
    make_exportable(buffer)
    return buffer


def open_file(context: Context, spec: BufferSpec, fd: int) -> VulkanBuffer:
    """A buffer over a sealed memfd, another driver's perhaps, which stays the caller's.

    Raises
    ------
    DescriptorError
        The fd is no such file.
    UnsupportedError
        The device is no software driver, and imports no host memory.
    """
    shared_memory.memfd_check(fd, "memory", writable=True, size=spec.nbytes)
    if not context.physical.is_software:
        return _import_file(context, spec, fd)
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
    buffer = VulkanBuffer(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT)
    with on_error(buffer.destroy):
        buffer.allocate_shared()
        buffer.cover(fd)
        buffer.bind()
        buffer.name(f"opened {spec}")
    buffer.not_exported = ("its memory is another surface's", "export that surface")
    return buffer


def _import_file(context: Context, spec: BufferSpec, fd: int) -> VulkanBuffer:
    imports.check_host_memory(context, "memory of another driver")
    buffer = imports.host_resource(partial(VulkanBuffer, context, spec))
    with on_error(buffer.destroy):
        imports.import_pages(buffer, host_memory.map_pages(fd, spec.nbytes), "opening memory of another driver")
    return buffer


def open_buffer(context: Context, spec: BufferSpec, memory: MemoryHandle) -> VulkanBuffer:
    """Another party's buffer. Takes over ``memory.fd``, and raises, as imports.open_resource() does."""
    return imports.open_resource(context, partial(VulkanBuffer, context, spec), memory)
