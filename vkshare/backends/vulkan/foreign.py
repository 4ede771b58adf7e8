"""Memory that another API, engine or library allocated, as an image (rules E3 and E4).

The caller describes the memory, in the place of a descriptor, and everything that the driver can
compute is compared with that. An image that no importer would make again from a descriptor is not
exported.
"""

from __future__ import annotations

from functools import partial

from vkshare.backends.base import ARRAY_NOT_EXPORTED, ImageSpec, MemoryHandle
from vkshare.backends.vulkan.api import VK, ffi
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import VulkanImage
from vkshare.backends.vulkan.imports import check_uuids, host_resource, host_size, import_fd, import_pages
from vkshare.errors import DescriptorError
from vkshare.util import shared_memory
from vkshare.util.closing import on_error


def import_memory(context: Context, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
    """The image at ``memory.offset`` of memory of ``memory.size`` bytes. ``memory.fd`` stays the caller's.

    Its contents stay as they are, and it belongs to VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL. A
    stride of 0 is the driver's.

    Raises
    ------
    DeviceMismatchError
        Another device or driver made the memory.
    DescriptorError
        The memory cannot have such an image: a size, an offset or a stride, or the fd is no memory.
    UnsupportedError
        The driver has no such images in foreign memory.
    """
    check_uuids(context, memory)
    is_software = context.physical.is_software
    needed = VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT if is_software else VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT
    image = VulkanImage(context, spec, VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, needed)
    with on_error(image.destroy):
        _place(image, memory)
        shared_memory.memory_check(memory.fd, is_memfd=False, size=memory.size)
        if is_software:
            image.allocate_shared(memory.size)
            image.share_pages(memory.fd)
        else:
            import_fd(image, memory)
        image.bind()
        image.name(f"opened foreign {spec}")
    return image


def _place(image: VulkanImage, memory: MemoryHandle) -> None:
    """Takes over offset and dedication, and decides on exports."""
    needs, wanted = image.needs, image.is_dedicated
    what = f"a {image.spec.width}x{image.spec.height} {image.spec.format.name} {image.spec.tiling} image of this driver"
    if memory.stride not in (0, image.stride):
        raise DescriptorError(f"stride is {memory.stride}; {what} has {image.stride}")
    if memory.offset % needs.alignment:
        raise DescriptorError(f"offset is {memory.offset}; {what} begins at a multiple of {needs.alignment}")
    if memory.size < memory.offset + needs.size:
        raise DescriptorError(
            f"size is {memory.size}; {what} takes {needs.size} bytes from offset {memory.offset} on, so allowed is at "
            f"least {memory.offset + needs.size}"
        )
    heap = image.context.physical.heap_sizes[image.memory_type()]
    if memory.size > heap:
        raise DescriptorError(f"size is {memory.size}; {what} is in a heap of {heap} bytes, and no memory is larger")
    is_exact = (memory.size, memory.offset) == (needs.size, 0)
    if image.context.physical.is_software:  # it gets memory of its own, which is as the driver wants it
        image.is_dedicated = wanted and is_exact
    elif memory.dedicated and not is_exact:
        raise DescriptorError(
            f"size is {memory.size} and offset {memory.offset}, and dedicated memory has {needs.size} bytes from "
            "offset 0 on; allowed is dedicated=False, for memory that was not allocated for this image alone"
        )
    else:
        image.is_dedicated = memory.dedicated
    if image.must_be_dedicated and not image.is_dedicated:
        raise DescriptorError(f"dedicated is False; {what} needs dedicated memory of {needs.size} bytes")
    image.memory_offset = memory.offset
    if not is_exact or image.is_dedicated != wanted:
        image.not_exported = (
            f"its memory has {memory.size} bytes with the image at {memory.offset}, dedicated: {image.is_dedicated}; "
            f"others open {needs.size} bytes with the image at 0, dedicated: {wanted}",
            "allocate the memory like that, or copy() to a surface of create_surface()",
        )


def share_array(context: Context, spec: ImageSpec, stride: int, memory: memoryview) -> VulkanImage:
    """A linear image over an array's memory, with rows `stride` bytes apart, which it keeps alive. No copy.

    Raises
    ------
    ValueError
        The driver wants another stride, or memory that begins or ends elsewhere.
    UnsupportedError
        It has no images in host memory.
    """
    image = host_resource(partial(VulkanImage, context, spec))
    with on_error(image.destroy):
        _check_array(image, stride, memory)
        import_pages(image, memory, "share_array()")
    image.not_exported = ARRAY_NOT_EXPORTED
    return image


def _check_array(image: VulkanImage, stride: int, memory: memoryview) -> None:
    where, alignment = image.context.physical.name, image.context.physical.host_pointer_alignment
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))
    wrong = []
    if address % alignment:
        wrong.append(f"begins at 0x{address:x}, and {where} wants a multiple of {alignment}")
    if stride != image.stride and image.spec.height > 1:
        wrong.append(f"has rows {stride} bytes apart, and {where} wants {image.stride}")
    if memory.nbytes < host_size(image):
        wrong.append(f"has {memory.nbytes} bytes, and {where} wants {host_size(image)}, a multiple of {alignment}")
    if wrong:
        raise ValueError(f"array {'; it '.join(wrong)}: allocate it so, or pass copy=True")
