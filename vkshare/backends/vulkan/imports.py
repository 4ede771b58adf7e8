"""Opening another party's image.

What comes in is a stranger's word: all of it is checked before the driver sees it (rules X15 to X18).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from contextlib import suppress
from uuid import UUID

from vkshare import _fds
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.backends.vulkan.api import VK, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import VulkanImage
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError, VulkanError

_F_GET_SEALS = getattr(fcntl, "F_GET_SEALS", 1034)
_SEALS = getattr(fcntl, "F_SEAL_SHRINK", 2) | getattr(fcntl, "F_SEAL_GROW", 4)


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
    finally:
        # The driver got a duplicate, so this one is ours to close whatever happened.
        with suppress(OSError):  # it was not even open
            os.close(memory.fd)


def _open_opaque(context: Context, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
    _check_uuids(context, memory)
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
    image = VulkanImage(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)
    try:
        _check_declared(image, memory)
        _check_file(context, memory)
        # The driver owns an fd once the import succeeds, and not before: it gets a duplicate, closed here if refused.
        duplicate = fcntl.fcntl(memory.fd, fcntl.F_DUPFD_CLOEXEC, 0)
        info = new("VkImportMemoryFdInfoKHR", handleType=handle_type, fd=duplicate)
        try:
            image.allocate(info, size=memory.size, memory_type=image.memory_type())
        except BaseException as error:
            _fds.close_unless_driver_did(duplicate, memory.fd)
            if isinstance(error, VulkanError):
                raise DescriptorError(f"the driver refused the memory: {error}") from error
            raise
        image.keep_imported(memory.fd)
        image.bind()
        image.name(f"opened {spec.width}x{spec.height} {spec.format.name} {spec.tiling}")
    except BaseException:
        image.destroy()
        raise
    return image


def _check_uuids(context: Context, memory: MemoryHandle) -> None:
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
    wrong = [
        f"{name} is {declared[name]}, must be {computed[name]}" for name in declared if declared[name] != computed[name]
    ]
    if wrong:
        spec = image.spec
        raise DescriptorError(
            f"the descriptor of a {spec.width}x{spec.height} {spec.format.name} {spec.tiling} surface does not fit "
            f"this driver: {'; '.join(wrong)}"
        )


def _check_file(context: Context, memory: MemoryHandle) -> None:
    """Software drivers map what they are given.

    A file that is too small, or can shrink, would be a SIGBUS later. (SwiftShader seals none of its own.)
    """
    try:
        info = os.fstat(memory.fd)
    except OSError as error:
        raise DescriptorError(f"the memory's fd {memory.fd} is not open: {error.strerror}") from error
    if context.physical.kind != "software":
        return
    if not stat.S_ISREG(info.st_mode):
        raise DescriptorError(f"the memory's fd is no memory file (mode {info.st_mode:#o})")
    if context.physical.seals_memory:
        _check_sealed(memory.fd)
    if info.st_size < memory.size:
        raise DescriptorError(f"the memory's file has {info.st_size} bytes and the surface needs {memory.size}")


def _check_sealed(fd: int) -> None:
    try:
        seals = fcntl.fcntl(fd, _F_GET_SEALS)
    except OSError as error:
        raise DescriptorError(f"the memory's fd is no memfd: {error.strerror}") from error
    if seals & _SEALS != _SEALS:
        raise DescriptorError(
            f"the memory's file has seals {seals:#x}; it must be sealed against shrinking and growing ({_SEALS:#x})"
        )


def _open_host(context: Context, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
    """A surface of the CPU backend: its pages are mapped here and handed to the driver as they are."""
    alignment = context.physical.host_pointer_alignment
    if "VK_EXT_external_memory_host" not in context.extensions:
        raise UnsupportedError(
            "opening a surface of the CPU backend",
            f"{context.physical.name} imports no host memory",
            "copy it through read() and write()",
        )
    _check_sealed(memory.fd)
    file_size = os.fstat(memory.fd).st_size
    if memory.offset or memory.size > file_size or memory.stride * spec.height > memory.size or memory.size <= 0:
        raise DescriptorError(
            f"the descriptor says {memory.size} bytes from {memory.offset}, {spec.height} rows of {memory.stride}; its "
            f"file has {file_size} bytes"
        )
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
    image = VulkanImage(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)
    try:
        _check_layout(context, image, memory, -(-file_size // mmap.PAGESIZE) * mmap.PAGESIZE)
        pages = mmap.mmap(memory.fd, 0)
        pointer = ffi.cast("void *", ffi.cast("uintptr_t", ffi.from_buffer(pages)))
        size = -(-image.needs.size // alignment) * alignment
        allowed = new("VkMemoryHostPointerPropertiesEXT")
        context.vk.vkGetMemoryHostPointerPropertiesEXT(context.device, handle_type, pointer, allowed)
        bits = allowed.memoryTypeBits & image.needs.memoryTypeBits
        if not bits:
            raise UnsupportedError(
                "opening a surface of the CPU backend",
                f"{context.physical.name} has no memory type for its images in host memory",
            )
        info = new("VkImportMemoryHostPointerInfoEXT", handleType=handle_type, pHostPointer=pointer)
        image.is_dedicated = False
        image.allocate(info, size=size, memory_type=context.physical.memory_type(bits, []))
        image.bind(pages)
        image.name(f"opened host {spec.width}x{spec.height} {spec.format.name}")
    except BaseException:
        image.destroy()
        raise
    return image


def _check_layout(context: Context, image: VulkanImage, memory: MemoryHandle, mapped: int) -> None:
    spec, alignment = image.spec, context.physical.host_pointer_alignment
    hint = "copy it through read() and write()"
    what = f"opening a {spec.width}x{spec.height} {spec.format.name} surface of the CPU backend"
    if spec.tiling != "linear":
        raise DescriptorError(f"the descriptor says tiling {spec.tiling!r}; surfaces of the CPU backend are linear")
    if image.stride != memory.stride:
        raise UnsupportedError(
            what, f"its rows are {memory.stride} bytes apart and {context.physical.name} wants {image.stride}", hint
        )
    if -(-image.needs.size // alignment) * alignment > mapped:
        raise UnsupportedError(
            what, f"{context.physical.name} needs {image.needs.size} bytes and it has {mapped}", hint
        )
