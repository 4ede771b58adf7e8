"""Opening another party's image.

All of a descriptor is checked before the driver sees any of it (rules X15 to X18), and a software
driver never sees the memory's file (sealed.py).
"""

from __future__ import annotations

import errno
import mmap
import os
from contextlib import suppress
from uuid import UUID

from vkshare.backends import host_memory
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.backends.vulkan.api import VK, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import VulkanImage
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError, VulkanError
from vkshare.util import fd_ops
from vkshare.util.closing import on_error


def open_image(context: Context, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
    """The image of another handle, device or process. Takes over ``memory.fd``, whatever happens (rule X18).

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
        return openers[memory.kind](context, spec, memory)
    except ValueError as error:  # its size
        raise DescriptorError(f"the surface cannot be one of this device: {error}") from None
    finally:
        # The driver got a duplicate, so this one is ours to close whatever happened.
        with suppress(OSError):  # it was not even open
            os.close(memory.fd)


def _open_opaque(context: Context, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
    check_uuids(context, memory)
    is_software = context.physical.is_software
    needed = VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT if is_software else VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT
    image = VulkanImage(context, spec, VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, needed)
    with on_error(image.destroy):
        _check_declared(image, memory)
        if is_software:
            image.allocate_shared()
            image.share_pages(memory.fd)
        else:
            import_fd(image, memory)
        image.bind()
        image.name(f"opened {spec.width}x{spec.height} {spec.format.name} {spec.tiling}")
    return image


def import_fd(image: VulkanImage, memory: MemoryHandle) -> None:
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
        image.allocate(info, size=memory.size, memory_type=image.memory_type())
    except BaseException as error:
        fd_ops.close_unless_driver_did(duplicate, memory.fd)
        if isinstance(error, VulkanError):
            raise DescriptorError(f"the driver refused the memory: {error}") from error
        raise
    image.keep_file(fd_ops.duplicate(memory.fd))


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


def _check_declared(image: VulkanImage, memory: MemoryHandle) -> None:
    """Rule X16: the declaration must be exactly what this driver would export.

    A driver may accept an import that is too small (lavapipe does).
    """
    declared = {"size": memory.size, "offset": memory.offset, "stride": memory.stride, "dedicated": memory.dedicated}
    computed = {"size": image.needs.size, "offset": 0, "stride": image.stride, "dedicated": image.is_dedicated}
    wrong = [f"{name} is {it}, must be {computed[name]}" for name, it in declared.items() if it != computed[name]]
    if wrong:
        spec = image.spec
        raise DescriptorError(
            f"the descriptor of a {spec.width}x{spec.height} {spec.format.name} {spec.tiling} surface does not fit "
            f"this driver: {'; '.join(wrong)}"
        )


def _open_host(context: Context, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
    """A surface of the CPU backend: its pages are mapped here and handed to the driver as they are."""
    if "VK_EXT_external_memory_host" not in context.extensions:
        raise UnsupportedError(
            "opening a surface of the CPU backend",
            f"{context.physical.name} imports no host memory",
            "copy it through read() and write()",
        )
    pages = host_memory.open_pages(spec, memory)
    image = host_image(context, spec)
    with on_error(image.destroy):
        _check_layout(context, image, memory)
        import_pages(image, pages, "opening a surface of the CPU backend")
    return image


def host_image(context: Context, spec: ImageSpec) -> VulkanImage:
    """An image for import_pages()."""
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
    return VulkanImage(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)


def host_size(image: VulkanImage) -> int:
    """The bytes that an image in host memory takes: whole units of what the driver imports."""
    alignment = image.context.physical.host_pointer_alignment
    return int(-(-image.needs.size // alignment) * alignment)


def import_pages(image: VulkanImage, pages: mmap.mmap | memoryview, what: str) -> None:
    """Binds the image to host memory, which it keeps alive: at least host_size() bytes, as the driver aligns them.

    UnsupportedError names `what` cannot be done.
    """
    context, spec = image.context, image.spec
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
    pointer = ffi.cast("void *", ffi.cast("uintptr_t", ffi.from_buffer(pages)))
    allowed = new("VkMemoryHostPointerPropertiesEXT")
    context.vk.vkGetMemoryHostPointerPropertiesEXT(context.device, handle_type, pointer, allowed)
    bits = allowed.memoryTypeBits & image.needs.memoryTypeBits
    if not bits:
        raise UnsupportedError(what, f"{context.physical.name} has no memory type for its images in host memory")
    info = new("VkImportMemoryHostPointerInfoEXT", handleType=handle_type, pHostPointer=pointer)
    image.is_dedicated = False
    image.allocate(info, size=host_size(image), memory_type=context.physical.memory_type(bits, []))
    image.bind(pages)
    image.name(f"opened host {spec.width}x{spec.height} {spec.format.name}")


def _check_layout(context: Context, image: VulkanImage, memory: MemoryHandle) -> None:
    spec = image.spec
    hint = "copy it through read() and write()"
    what = f"opening a {spec.width}x{spec.height} {spec.format.name} surface of the CPU backend"
    if image.stride != memory.stride:
        raise UnsupportedError(
            what, f"its rows are {memory.stride} bytes apart and {context.physical.name} wants {image.stride}", hint
        )
    if host_size(image) > memory.size:
        raise UnsupportedError(
            what, f"{context.physical.name} needs {image.needs.size} bytes and it has {memory.size}", hint
        )
