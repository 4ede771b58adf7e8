"""The common part of images and buffers: memory of their own, which is exported, imported or mapped."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from vkshare.backends.base import MemoryHandle, PlaneLayout, Spec
from vkshare.backends.vulkan import barriers, sealed
from vkshare.backends.vulkan.api import VK, Struct, address, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.memory import DeviceMemory, mappable_flags
from vkshare.backends.vulkan.objects import Objects
from vkshare.errors import ClosedError, UnsupportedError, VulkanError
from vkshare.util import fd_ops, shared_memory
from vkshare.util.closing import on_error


class Resource:
    """A VkImage or VkBuffer, its memory and its ownership command buffers. Memory of backends/base.py.

    A subclass makes the handle. Everything about it follows from its spec and the driver alone, so
    that both sides of a hand-over come to the same one.
    """

    kind: ClassVar[str]  # "surface" | "buffer", for errors
    _handle_field: ClassVar[str]  # of VkMemoryDedicatedAllocateInfo
    is_presentable = False  # a swapchain's is: PresentableImage

    def __init__(self, context: Context, spec: Spec, handle_type: int, features: int) -> None:
        """`features`: the VkExternalMemoryFeatureFlags that memory of `handle_type` must have."""
        self.spec = spec
        self.stride = 0
        self.ownership_commands: tuple[int, ...] = ()  # acquire and release, for each queue
        self.is_mappable = False
        self.context = context
        self.handle: Any = None  # VkImage, VkBuffer
        self.drawable: Any = None  # the Drawable, once it is bound
        self.needs: Any = None  # VkMemoryRequirements
        self.is_dedicated = False
        self.must_be_dedicated = False
        self.memory_offset = 0  # bytes from the start of the memory to what is bound there
        self.initial_commands = 0  # VkCommandBuffer in the place of the first acquire: AdoptedImage
        self.not_exported = ("", "")  # why export() is refused, and what to do; "": it is not
        self._memory: DeviceMemory | None = None
        self._host_memory: mmap.mmap | memoryview | None = None  # of the CPU backend, or an array's
        self._file = -1  # what export() duplicates; -1: the driver is asked for an fd
        self._pages_at = 0  # file offset of the memory in it
        self._offset = 0  # bytes from memory_offset to row 0
        self._objects = Objects(context, self._forget)
        with on_error(self.destroy):
            self._begin(handle_type, features)

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """Where the rows of each plane are; a buffer has none."""
        return ()

    def _begin(self, handle_type: int, features: int) -> None:
        """Make the handle, and fill in what follows from it."""
        self.must_be_dedicated = self._check_support(handle_type, features)
        self._create(handle_type)

    # ---- of a subclass ----

    def _check_support(self, handle_type: int, features: int) -> bool:
        """Return whether the memory must be dedicated. UnsupportedError, ValueError."""
        raise NotImplementedError

    def _create(self, handle_type: int) -> None:
        """Make the handle, and read its requirements."""
        raise NotImplementedError

    @property
    def _is_for_host(self) -> bool:
        """Whether the CPU is to map the memory."""
        raise NotImplementedError

    def _bind_memory(self) -> None:
        """Bind the memory at memory_offset."""
        raise NotImplementedError

    def _make_drawable(self) -> None:
        """Make what needs memory that is bound: views and the drawable."""
        raise NotImplementedError

    def acquire(self, commands: Any) -> None:
        """Records that it is taken from VK_QUEUE_FAMILY_EXTERNAL."""
        raise NotImplementedError

    def release(self, commands: Any) -> None:
        """Records that it is given back."""
        raise NotImplementedError

    def start(self) -> None:
        """Zeros, and the hand-over to VK_QUEUE_FAMILY_EXTERNAL: the state in which it begins. Blocks."""
        raise NotImplementedError

    # ---- its memory ----

    @property
    def is_host_import(self) -> bool:
        """Whether the memory is a mapping of ours that the driver imported: of the CPU backend."""
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
        return self._memory.map()[self.memory_offset + self._offset :]

    def check_export(self) -> None:
        """UnsupportedError where export() would be one."""
        if self.not_exported[0]:
            raise UnsupportedError(f"export of a {self.kind} in foreign memory", *self.not_exported)
        if self._host_memory is not None:
            raise UnsupportedError(
                f"export of a {self.kind} of the CPU backend through Vulkan",
                "its memory is not Vulkan's",
                "pass its own descriptor on",
            )

    def export(self) -> MemoryHandle:
        """A new opaque fd of the memory, CLOEXEC; the caller's to close."""
        self.check_export()
        physical = self.context.physical
        return MemoryHandle(
            kind="opaque_fd",
            fd=fd_ops.duplicate(self._file) if self._file >= 0 else self._driver_fd(),
            size=self.needs.size,
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
                f"export of a {self.kind}", f"{physical.name} ({physical.driver}) gives no fd of its memory"
            )
        os.set_inheritable(fd, False)  # lavapipe's come without CLOEXEC
        return fd

    def pinned(self) -> AbstractContextManager[None]:
        """While commands are recorded for it: its handle, which the recorder holds, keeps it alive."""
        return contextlib.nullcontext()

    def check_open(self) -> None:
        """ClosedError after destroy(). Called before commands on it are recorded. Caller holds context.lock."""
        if self.handle is None:
            raise ClosedError(f"a {self.kind} that the commands use is closed")

    def destroy(self) -> None:
        """Frees everything now: nothing runs on it, and no array looks at it. Idempotent."""
        if self.drawable is not None:
            self.drawable.close()
        self._objects.destroy()

    def _forget(self) -> None:
        self.handle = self._memory = self._host_memory = None
        self.ownership_commands = ()
        self.is_mappable = False
        self._file = -1

    # ---- how it is made, in this order ----

    def _read_requirements(self, get: str, info: Struct) -> None:
        dedicated = new("VkMemoryDedicatedRequirements")
        requirements = new("VkMemoryRequirements2", pNext=dedicated)
        getattr(self.context.vk, get)(self.context.device, info, requirements)
        self.needs = requirements.memoryRequirements
        self._requirements = requirements  # owns what `needs` looks at
        self.must_be_dedicated |= bool(dedicated.requiresDedicatedAllocation)
        self.is_dedicated = self.must_be_dedicated or bool(dedicated.prefersDedicatedAllocation)

    @property
    def _owner(self) -> int:
        """The queue family that barriers name: none where several share the image."""
        physical, family = self.context.physical, self.context.queue_family
        return family if physical.transfer_family is None else VK.QUEUE_FAMILY_IGNORED

    def _sharing(self) -> dict[str, Any]:
        """Where the driver has a family that only copies, every device's memory is shared with it, an engine's too.

        Both sides of a hand-over must make the same one, and a device without a second queue may be
        among them.
        """
        physical = self.context.physical
        if physical.transfer_family is None:
            return {"sharingMode": VK.SHARING_MODE_EXCLUSIVE}
        users = {physical.graphics_family, physical.transfer_family, self.context.queue_family}
        families = sorted(family for family in users if family is not None)
        return {"sharingMode": VK.SHARING_MODE_CONCURRENT, "pQueueFamilyIndices": families}

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
            chain = new("VkMemoryDedicatedAllocateInfo", pNext=extra, **{self._handle_field: self.handle})
        info = new("VkMemoryAllocateInfo", pNext=chain, allocationSize=size, memoryTypeIndex=memory_type)
        self._memory = DeviceMemory(self._objects, info)
        self.is_mappable = self._is_for_host and self.context.physical.is_mappable(memory_type)

    def allocate_shared(self, size: int = 0) -> None:
        """Takes memory that can be exported; of `size` bytes where that is given, else as many as it needs."""
        handle_types = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
        export = new("VkExportMemoryAllocateInfo", handleTypes=handle_types)
        try:
            self.allocate(export, size=size or self.needs.size, memory_type=self.memory_type())
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
            raise UnsupportedError(
                f"memory of a {self.kind}", f"{physical.name} ({physical.driver}) does not let the CPU see it"
            )
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

    def take_file(self) -> tuple[int, int]:
        """A duplicate of the file that others open the memory by, the caller's, and where in it the memory begins."""
        return fd_ops.duplicate(self._file), self._pages_at

    def cover(self, fd: int) -> None:
        """Puts a whole sealed memfd, another driver's perhaps, in the place of a software driver's pages.

        The fd stays the caller's.
        """
        assert self._memory is not None
        own = self._driver_fd()
        try:
            shared_memory.memory_cover(own, fd, self._memory.address)
        finally:
            os.close(own)

    def keep_file(self, fd: int) -> None:
        """Takes over the fd that others open the memory by: export() hands it on."""
        self._objects.close_with(fd)
        self._file = fd

    @property
    def queue_families(self) -> list[int]:
        """Families of the queues that may use it, the graphics family first."""
        return self.context.queue_families

    def bind(self, host_memory: mmap.mmap | memoryview | None = None) -> None:
        """Binds the memory and makes the views, the ownership commands and the drawable.

        `host_memory` is the mapping that was imported, if one was.
        """
        self._host_memory = host_memory
        self._bind_memory()
        self._finish()

    def _finish(self) -> None:
        """Make what is used of what is bound."""
        self._make_drawable()
        self.ownership_commands = tuple(
            address(self._objects.record(write, name=name, family=family))
            for family in self.queue_families
            for name, write in (("acquire", self._write_acquire), ("release", self.release))
        )

    def _write_acquire(self, commands: Any) -> None:
        """The command buffer of an acquire."""
        context = self.context
        with barriers.inside(context.vk, commands, needs_more=context.physical.skips_outer_barriers):
            self.acquire(commands)

    def name(self, name: str) -> None:
        """For the validation layer and frame debuggers."""
        kinds = {"surface": VK.OBJECT_TYPE_IMAGE, "buffer": VK.OBJECT_TYPE_BUFFER}
        self.context.name(kinds[self.kind], self.handle, name)


def make_exportable(resource: Resource) -> None:
    """Gives a new resource exportable memory of zeros, owned by VK_QUEUE_FAMILY_EXTERNAL.

    An error destroys it.
    """
    with on_error(resource.destroy):
        resource.allocate_shared()
        if resource.context.physical.is_software:
            resource.share_pages()
        resource.bind()
        resource.name(str(resource.spec))
    resource.start()  # if this is interrupted, it may still run: the memory goes with the context


def _check_memfd() -> None:
    """OSError, UnsupportedError: this process can make no memfd now, for which drivers have other words."""
    os.close(shared_memory.memfd_create("vkshare:trial", 1))
