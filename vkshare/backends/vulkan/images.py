"""Images of a surface: making them in memory of their own, exporting and importing that memory.

Everything about a VkImage follows from its ImageSpec and the driver alone, so that both sides of a
hand-over come to the same one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from vkshare.backends.base import ImageSpec, MemoryHandle, tight_rows_refused
from vkshare.backends.vulkan import barriers, drawables, sealed, support
from vkshare.backends.vulkan.api import VK, Struct, address, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.memory import DeviceMemory, mappable_flags
from vkshare.backends.vulkan.objects import Objects
from vkshare.errors import ClosedError, UnsupportedError, VulkanError
from vkshare.util import fd_ops, shared_memory
from vkshare.util.closing import on_error


class VulkanImage:
    """A VkImage, its memory, its view and its ownership command buffers. Image of backends/base.py."""

    is_presentable = False  # a swapchain's is: PresentableImage

    def __init__(self, context: Context, spec: ImageSpec, handle_type: int, features: int) -> None:
        self.spec = spec
        self.stride = 0
        self.image = 0
        self.image_view = 0
        self.ownership_commands: tuple[int, ...] = ()  # acquire and release, for each queue
        self.is_mappable = False
        self.context = context
        self.handle: Any = None  # VkImage
        self.view: Any = None  # VkImageView, None where the usage needs none
        self.raw_view: Any = None  # of a -srgb image: its codes as they are stored; else the view itself
        self.drawable: Any = None  # the Drawable, once it is bound
        self.needs: Any = None  # VkMemoryRequirements
        self.is_dedicated = False
        self._memory: DeviceMemory | None = None
        self._host_memory: mmap.mmap | None = None  # a surface of the CPU backend
        self._file = -1  # what export() duplicates; -1: the driver is asked for an fd
        self._pages_at = 0  # file offset of the memory in it
        self._offset = 0  # bytes from the start of the memory to row 0
        self._objects = Objects(context, self._forget)
        with on_error(self.destroy):
            self.is_dedicated = support.check(context.physical, spec, handle_type, features)
            self._create(handle_type)

    @property
    def is_host_import(self) -> bool:
        """Whether the memory is a mapping of ours that the driver imported: a surface of the CPU backend."""
        return self._host_memory is not None

    @property
    def memory_handle(self) -> int:
        """The VkDeviceMemory."""
        assert self._memory is not None
        return address(self._memory.handle)

    def pixels(self) -> memoryview | None:
        """The mapped memory from row 0, writable, `stride` bytes a row; None where the CPU cannot see it."""
        if not self.is_mappable:
            return None
        if self._host_memory is not None:
            return memoryview(self._host_memory)
        assert self._memory is not None
        return self._memory.map()[self._offset :]

    def export(self) -> MemoryHandle:
        """A new opaque fd of the memory, CLOEXEC; the caller's to close."""
        if self._host_memory is not None:
            raise UnsupportedError(
                "export of a surface of the CPU backend through Vulkan",
                "its memory is not Vulkan's",
                "pass its own descriptor on",
            )
        assert self._memory is not None
        physical = self.context.physical
        return MemoryHandle(
            kind="opaque_fd",
            fd=fd_ops.duplicate(self._file) if self._file >= 0 else self._driver_fd(),
            size=self._memory.size,
            offset=0,
            stride=self.stride,
            dedicated=self.is_dedicated,
            device_uuid=physical.device_uuid,
            driver_uuid=physical.driver_uuid,
        )

    def _driver_fd(self) -> int:
        """A new fd of the driver's own memory; of a software driver's, no other process may have it."""
        assert self._memory is not None
        info = new(
            "VkMemoryGetFdInfoKHR", memory=self._memory.handle, handleType=VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
        )
        try:
            fd = int(self.context.vk.make("vkGetMemoryFdKHR", self.context.device, info))
        except VulkanError:
            _check_memfd()
            raise
        if fd < 0:  # lavapipe calls that a success
            fd_ops.check_room()  # for more than the one that was missing: another thread may have closed one since
            physical = self.context.physical
            raise UnsupportedError(
                "export of a surface", f"{physical.name} ({physical.driver}) gives no fd of its memory"
            )
        os.set_inheritable(fd, False)  # lavapipe's come without CLOEXEC
        return fd

    def pinned(self) -> AbstractContextManager[None]:
        """While commands are recorded for it: its surface, which the recorder holds, keeps it alive."""
        return contextlib.nullcontext()

    def check_open(self) -> None:
        """ClosedError after destroy(). Called before commands on the image are recorded. Caller holds context.lock."""
        if self.handle is None:
            raise ClosedError("a surface that the commands use is closed")

    def destroy(self) -> None:
        """Frees everything now: nothing runs on it, and no array looks at it. Idempotent."""
        if self.drawable is not None:
            self.drawable.close()
        self._objects.destroy()

    def _forget(self) -> None:
        self.handle = self.view = self.raw_view = self._memory = self._host_memory = None
        self.image = self.image_view = 0
        self.ownership_commands = ()
        self.is_mappable = False
        self._file = -1

    # ---- how it is made, in this order ----

    def _create(self, handle_type: int) -> None:
        vk, device, spec = self.context.vk, self.context.device, self.spec
        external = new("VkExternalMemoryImageCreateInfo", handleTypes=handle_type)
        info = new(
            "VkImageCreateInfo",
            pNext=external,
            imageType=VK.IMAGE_TYPE_2D,
            extent={"width": spec.width, "height": spec.height, "depth": 1},
            mipLevels=1,
            arrayLayers=1,
            samples=VK.SAMPLE_COUNT_1_BIT,
            **support.fields(spec),
            **self._sharing(),
            initialLayout=VK.IMAGE_LAYOUT_UNDEFINED,
        )
        self.handle = self._objects.make("vkCreateImage", info)
        self.image = address(self.handle)
        dedicated = new("VkMemoryDedicatedRequirements")
        requirements = new("VkMemoryRequirements2", pNext=dedicated)
        vk.vkGetImageMemoryRequirements2(device, new("VkImageMemoryRequirementsInfo2", image=self.handle), requirements)
        self.needs = requirements.memoryRequirements
        self._requirements = requirements  # owns what `needs` looks at
        self.is_dedicated |= bool(dedicated.requiresDedicatedAllocation or dedicated.prefersDedicatedAllocation)
        # Else NVIDIA clears small linear images by marks that CUDA does not know: where it wrote
        # afterwards, Vulkan saw the clear's colour still (driver 580, an H200).
        self.is_dedicated |= spec.in_device_memory
        if spec.tiling == "linear":
            subresource = ffi.new("VkImageSubresource *", {"aspectMask": VK.IMAGE_ASPECT_COLOR_BIT})
            layout = vk.make("vkGetImageSubresourceLayout", device, self.handle, subresource)
            self.stride, self._offset = int(layout.rowPitch), int(layout.offset)

    @property
    def aspect(self) -> int:
        """The VkImageAspectFlags: colour, or depth."""
        return support.aspect(self.spec.format)

    @property
    def _whole(self) -> Any:
        return barriers.whole_image(self.aspect)

    @property
    def _owner(self) -> int:
        """The queue family that barriers name: none where several share the image."""
        physical, family = self.context.physical, self.context.queue_family
        return family if physical.transfer_family is None else VK.QUEUE_FAMILY_IGNORED

    def _sharing(self) -> dict[str, Any]:
        """Where the driver has a family that only copies, every device's images are shared with it, an engine's too.

        Both sides of a hand-over must make the same image, and one without a second queue may be
        among them.
        """
        physical = self.context.physical
        if physical.transfer_family is None:
            return {"sharingMode": VK.SHARING_MODE_EXCLUSIVE}
        users = {physical.graphics_family, physical.transfer_family, self.context.queue_family}
        families = sorted(family for family in users if family is not None)
        return {"sharingMode": VK.SHARING_MODE_CONCURRENT, "pQueueFamilyIndices": families}

    @property
    def _is_for_host(self) -> bool:
        return self.spec.tiling == "linear" and not self.spec.in_device_memory

    def memory_type(self) -> int:
        """The memory type.

        A function of the spec and the driver, for an import must choose as the export did (VUID
        01742).
        """
        wanted = mappable_flags() if self._is_for_host else [VK.MEMORY_PROPERTY_DEVICE_LOCAL_BIT]
        return self.context.physical.memory_type(self.needs.memoryTypeBits, wanted)

    def allocate(self, extra: Struct, *, size: int, memory_type: int) -> None:
        """Takes memory, with `extra` (an export or import structure) chained."""
        chain = extra
        if self.is_dedicated:
            chain = new("VkMemoryDedicatedAllocateInfo", pNext=extra, image=self.handle)
        info = new("VkMemoryAllocateInfo", pNext=chain, allocationSize=size, memoryTypeIndex=memory_type)
        self._memory = DeviceMemory(self._objects, info)
        self.is_mappable = self._is_for_host and self.context.physical.is_mappable(memory_type)

    def allocate_shared(self) -> None:
        """Takes memory that can be exported."""
        handle_types = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
        export = new("VkExportMemoryAllocateInfo", handleTypes=handle_types)
        try:
            self.allocate(export, size=self.needs.size, memory_type=self.memory_type())
        except VulkanError:
            if self.context.physical.is_software:
                _check_memfd()
            raise

    def share_pages(self, fd: int = -1) -> None:
        """Puts pages of a sealed memfd in the place of a software driver's own (sealed.py).

        They are another party's where an `fd` is given, which stays the caller's, else new ones.
        """
        assert self._memory is not None
        physical = self.context.physical
        if not physical.is_mappable(self.memory_type()):
            raise UnsupportedError("image memory", f"{physical.name} ({physical.driver}) does not let the CPU see it")
        own = self._driver_fd()
        try:
            if fd >= 0:
                self._pages_at = sealed.adopt(own, self._memory.address, fd)
                self.keep_file(fd_ops.duplicate(fd))
            else:
                made, self._pages_at = sealed.make(own, self._memory.address)
                self.keep_file(made)
        finally:
            os.close(own)

    def import_elsewhere(self, importer: Callable[[MemoryHandle], None]) -> None:
        """Has another API of this process import the memory: `importer` takes over the handle's fd, unless it raises.

        An API of a software driver maps the driver's file, which no peer can write, and gets the
        pages afterwards. Calls must not overlap: the new mapping is found by its file.
        """
        memory = self.export()
        kept, is_software = memory.fd, self.context.physical.is_software
        try:
            if is_software:
                kept = self._driver_fd()
            fd = fd_ops.duplicate(kept)
            with on_error(lambda: fd_ops.close_unless_driver_did(fd, kept)):
                importer(dataclasses.replace(memory, fd=fd))
            if is_software:
                shared_memory.memory_replace(kept, memory.fd, 0, self._pages_at)
        finally:
            fd_ops.close_all({kept, memory.fd})

    def keep_file(self, fd: int) -> None:
        """Takes over the fd that others open the memory by: export() hands it on."""
        self._objects.close_with(fd)
        self._file = fd

    def bind(self, host_memory: mmap.mmap | None = None) -> None:
        """Binds the memory and makes the view and the command buffers.

        `host_memory` is the mapping that was imported, if one was.
        """
        assert self._memory is not None
        vk, device = self.context.vk, self.context.device
        self._host_memory = host_memory
        vk.vkBindImageMemory2(device, 1, new("VkBindImageMemoryInfo", image=self.handle, memory=self._memory.handle))
        if self.spec.usage & {"render", "sample", "storage"}:
            self.view = self.raw_view = self._make_view(self.spec.format.vk_format)
            self.image_view = address(self.view)
            raw = support.raw_format(self.spec.format)
            if raw is not None:
                self.raw_view = self._make_view(raw)
        self._record_ownership()
        self.drawable = drawables.drawable(
            self.context, self.spec, self.image, self.view, self.raw_view, is_mappable=self.is_mappable
        )

    def _make_view(self, vk_format: int) -> Any:
        form = {"viewType": VK.IMAGE_VIEW_TYPE_2D, "format": vk_format, "subresourceRange": self._whole[0]}
        return self._objects.make("vkCreateImageView", new("VkImageViewCreateInfo", image=self.handle, **form))

    def _record_ownership(self) -> None:
        self.ownership_commands = tuple(
            address(self._objects.record(write, name=name, family=family))
            for family in self.context.queue_families
            for name, write in (("acquire", self.acquire), ("release", self.release))
        )

    def acquire(self, commands: Any) -> None:
        """Records that the image is taken from VK_QUEUE_FAMILY_EXTERNAL."""
        barriers.acquire(self.context.vk, commands, self.handle, self.aspect, self._owner)

    def release(self, commands: Any) -> None:
        """Records that it is given back."""
        owner, is_mappable = self._owner, self.is_mappable
        barriers.release(self.context.vk, commands, self.handle, self.aspect, owner, is_mappable=is_mappable)

    def start(self) -> None:
        """Zeros, and the hand-over to VK_QUEUE_FAMILY_EXTERNAL: the state that every new surface is in. Blocks."""
        context = self.context

        def write(commands: Any) -> None:
            vk, general = context.vk, VK.IMAGE_LAYOUT_GENERAL
            barriers.first_use(vk, commands, self.handle, self.aspect)
            if self.spec.format.is_depth:
                near = ffi.new("VkClearDepthStencilValue *")
                vk.vkCmdClearDepthStencilImage(commands, self.handle, general, near, 1, self._whole)
            else:
                zero = ffi.new("VkClearColorValue *")
                vk.vkCmdClearColorImage(commands, self.handle, general, zero, 1, self._whole)
            self.release(commands)

        context.run(write, name="first use")

    def name(self, name: str) -> None:
        """For the validation layer and frame debuggers."""
        self.context.name(VK.OBJECT_TYPE_IMAGE, self.handle, name)


def _check_memfd() -> None:
    """OSError, UnsupportedError: this process can make no memfd now, for which drivers have other words."""
    os.close(shared_memory.memfd_create("vkshare:trial", 1))


def create_image(context: Context, spec: ImageSpec, tight_at: int | None = None) -> VulkanImage:
    """A new image of zeros in exportable memory of its own, owned by VK_QUEUE_FAMILY_EXTERNAL.

    `tight_at` is the driver's row alignment where rows without padding are wanted.

    Raises
    ------
    UnsupportedError
        The driver cannot make such an image, or not export it; the text names format, tiling and usage.
    ValueError
        It is larger than the driver allows.
    """
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
    image = VulkanImage(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT)
    with on_error(image.destroy):
        if tight_at is not None and image.stride != spec.width * spec.format.bytes_per_pixel:
            raise tight_rows_refused(spec, image.stride, tight_at, context.physical.name)
        image.allocate_shared()
        if context.physical.is_software:
            image.share_pages()
        image.bind()
        image.name(f"{spec.width}x{spec.height} {spec.format.name} {spec.tiling}")
    image.start()  # if this is interrupted, it may still run: the image goes with the context
    return image
