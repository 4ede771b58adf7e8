"""Opening another party's image.

All of a descriptor is checked before the driver sees any of it (rules X15 to X18), and a software
driver never sees the memory's file (sealed.py).
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from vkshare.backends import host_memory
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.backends.vulkan.api import VK, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.resource import Resource
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError, VulkanError
from vkshare.util import fd_ops
from vkshare.util.closing import on_error

_Resource = TypeVar("_Resource", bound=Resource)
# Makes a VulkanImage or a VulkanBuffer over memory of such a handle type, with such features.
Maker = Callable[[int, int], _Resource]


def open_resource(context: Context, make: Maker[_Resource], memory: MemoryHandle) -> _Resource:
    """The image or buffer of another handle, device or process. Takes over ``memory.fd``, whatever happens (rule X18).

    Raises
    ------
    DeviceMismatchError
        Another device or driver made it; the text names both sides.
    DescriptorError
        What the descriptor says of the memory cannot be true.
    UnsupportedError
        The driver cannot open such memory.
    """
    openers = {"opaque_fd": _open_opaque, "memfd": _open_host}
    try:
        if memory.kind not in openers:
            raise DescriptorError(f"the memory is of kind {memory.kind!r}; a Vulkan device opens {', '.join(openers)}")
        resource = openers[memory.kind](context, make, memory)
        assert isinstance(resource, Resource)
        return resource
    except ValueError as error:  # its size
        raise DescriptorError(f"it cannot be one of this device: {error}") from None
    finally:
        # The driver got a duplicate, so this one is ours to close whatever happened.
        with suppress(OSError):  # it was not even open
            os.close(memory.fd)


def _open_opaque(context: Context, make: Maker[_Resource], memory: MemoryHandle) -> _Resource:
    check_uuids(context, memory)
    is_software = context.physical.is_software
    needed = VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT if is_software else VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT
    resource = make(VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, needed)
    with on_error(resource.destroy):
        _check_declared(resource, memory)
        if is_software:
            resource.allocate_shared()
            resource.share_pages(memory.fd)
        else:
            import_fd(resource, memory)
        resource.bind()
        resource.name(f"opened {resource.spec}")
    return resource


def import_fd(resource: Resource, memory: MemoryHandle) -> None:
    """Has the driver of a GPU import the memory; the fd stays the caller's."""
    try:
        # The driver owns an fd once the import succeeds, and not before: it gets a duplicate,
        # closed here if refused.
        duplicate = fd_ops.duplicate(memory.fd)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise  # this process has no fd left, which is no fault of the descriptor's
        raise DescriptorError(f"the memory's fd {memory.fd} cannot be used: {error.strerror}") from error
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
    info = new("VkImportMemoryFdInfoKHR", handleType=handle_type, fd=duplicate)
    try:
        resource.allocate(info, size=memory.size, memory_type=resource.memory_type())
    except BaseException as error:
        fd_ops.close_unless_driver_did(duplicate, memory.fd)
        if isinstance(error, VulkanError):
            raise DescriptorError(f"the driver refused the memory: {error}") from error
        raise
    resource.keep_file(fd_ops.duplicate(memory.fd))


def check_uuids(context: Context, memory: MemoryHandle) -> None:
    """Rule X17."""
    physical = context.physical
    for what, theirs, ours in (
        ("device", memory.device_uuid, physical.device_uuid),
        ("driver", memory.driver_uuid, physical.driver_uuid),
    ):
        if theirs != ours:
            raise DeviceMismatchError(
                f"the surface was made on {what} {UUID(bytes=theirs)}, and this device, {physical.name} "
                f"({physical.driver}), has {what} {UUID(bytes=ours)}; open it on the adapter that made it"
            )


def _check_declared(resource: Resource, memory: MemoryHandle) -> None:
    """Rule X16: the declaration must be exactly what this driver would export.

    A driver may accept an import that is too small (lavapipe does).
    """
    declared = {"size": memory.size, "offset": memory.offset, "stride": memory.stride, "dedicated": memory.dedicated}
    computed = {"size": resource.needs.size, "offset": 0, "stride": resource.stride, "dedicated": resource.is_dedicated}
    wrong = [f"{name} is {it}, must be {computed[name]}" for name, it in declared.items() if it != computed[name]]
    if wrong:
        raise DescriptorError(f"the descriptor of a {resource.spec} does not fit this driver: {'; '.join(wrong)}")


def _open_host(context: Context, make: Maker[_Resource], memory: MemoryHandle) -> _Resource:
    """Memory of the CPU backend: its pages are mapped here and handed to the driver as they are."""
    check_host_memory(context, "memory of the CPU backend")
    resource = host_resource(make)
    with on_error(resource.destroy):
        pages = host_memory.open_pages(resource.spec, memory)
        _check_layout(context, resource, memory)
        import_pages(resource, pages, f"opening a {resource.kind} of the CPU backend")
    return resource


def check_host_memory(context: Context, what: str) -> None:
    """UnsupportedError unless the driver imports host memory."""
    if "VK_EXT_external_memory_host" not in context.extensions:
        raise UnsupportedError(
            f"opening {what}", f"{context.physical.name} imports no host memory", "copy it through read() and write()"
        )


def host_resource(make: Maker[_Resource]) -> _Resource:
    """A resource for import_pages()."""
    return make(VK.EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)


def host_size(resource: Resource) -> int:
    """The bytes that it takes in host memory: whole units of what the driver imports."""
    alignment = resource.context.physical.host_pointer_alignment
    return int(-(-resource.needs.size // alignment) * alignment)


def import_pages(resource: Resource, pages: mmap.mmap | memoryview, what: str) -> None:
    """Binds it to host memory, which it keeps alive: at least host_size() bytes, as the driver aligns them.

    UnsupportedError names `what` cannot be done.
    """
    context = resource.context
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
    pointer = ffi.cast("void *", ffi.cast("uintptr_t", ffi.from_buffer(pages)))
    allowed = new("VkMemoryHostPointerPropertiesEXT")
    context.vk.vkGetMemoryHostPointerPropertiesEXT(context.device, handle_type, pointer, allowed)
    bits = allowed.memoryTypeBits & resource.needs.memoryTypeBits
    if not bits:
        raise UnsupportedError(what, f"{context.physical.name} has no memory type for it in host memory")
    info = new("VkImportMemoryHostPointerInfoEXT", handleType=handle_type, pHostPointer=pointer)
    resource.is_dedicated = False
    resource.allocate(info, size=host_size(resource), memory_type=context.physical.memory_type(bits, []))
    resource.bind(pages)
    resource.name(f"opened host {resource.spec}")


def _check_layout(context: Context, resource: Resource, memory: MemoryHandle) -> None:
    hint = "copy it through read() and write()"
    what = f"opening a {resource.spec} of the CPU backend"
    if resource.stride != memory.stride:
        raise UnsupportedError(
            what, f"its rows are {memory.stride} bytes apart and {context.physical.name} wants {resource.stride}", hint
        )
    if isinstance(resource.spec, ImageSpec) and resource.planes != host_memory.planes(resource.spec, memory.stride):
        raise UnsupportedError(what, f"{context.physical.name} wants the rows of chroma elsewhere", hint)
    if host_size(resource) > memory.size:
        raise UnsupportedError(
            what, f"{context.physical.name} needs {resource.needs.size} bytes and it has {memory.size}", hint
        )
