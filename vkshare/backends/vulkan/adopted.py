"""Images that an engine made on this VkDevice (rule E2): used as any other, and never destroyed here."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from vkshare.backends.base import AdoptedImageInfo, ImageSpec
from vkshare.backends.vulkan import barriers, support
from vkshare.backends.vulkan.api import VK, address, handle
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import VulkanImage
from vkshare.errors import UnsupportedError
from vkshare.util import fd_ops, shared_memory
from vkshare.util.closing import on_error

_log = logging.getLogger("vkshare.device")


@dataclass(frozen=True, slots=True)
class _EngineMemory:
    """The part of DeviceMemory that an export needs."""

    handle: Any


class AdoptedImage(VulkanImage):
    """An engine's VkImage. View, command buffers and fds are ours."""

    def __init__(self, context: Context, spec: ImageSpec, info: AdoptedImageInfo) -> None:
        self._given = handle("VkImage", info.image)
        self._old_layout = getattr(VK, f"IMAGE_LAYOUT_{info.layout.upper()}")
        self._at_end: Iterator[None] = iter(())
        self._is_shared = bool(info.memory)
        super().__init__(context, spec, 0, 0)
        with on_error(self.destroy):
            if info.memory:
                self._share(handle("VkDeviceMemory", info.memory))
            else:
                self.not_exported = (
                    "vkshare does not have its memory",
                    "pass memory=, the image's VkDeviceMemory made with VkExportMemoryAllocateInfo, to adopt_image()",
                )
            self._finish()
            self.initial_commands = address(self._objects.record(self._leave_old_layout, name="first acquire"))

    def at_end(self, call: Callable[[], object]) -> None:
        """Has `call` called by destroy()."""
        self._at_end = map(_call, (call,))

    def _begin(self, handle_type: int, features: int) -> None:
        support.check(self.context.physical, self.spec, handle_type, features)
        self.handle, self.image = self._given, address(self._given)
        self._measure()

    def _make_raw_view(self) -> Any:
        """A -srgb image may lack VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT, so its codes are not seen as they are stored."""
        return None if self.spec.format.is_srgb else self.view

    @property
    def queue_families(self) -> list[int]:
        """The image is exclusive to the engine's queue."""
        return [self.context.queue_family]

    @property
    def _owner(self) -> int:
        return self.context.queue_family

    def acquire(self, commands: Any) -> None:
        if self._is_shared:
            super().acquire(commands)
        else:
            barriers.everything(self.context.vk, commands)

    def release(self, commands: Any) -> None:
        if self._is_shared:
            super().release(commands)
        else:
            barriers.everything(self.context.vk, commands)

    def _leave_old_layout(self, commands: Any) -> None:
        barriers.leave_layout(self.context.vk, commands, self.handle, self.aspect, self._old_layout)

    def destroy(self) -> None:
        """Destroys what is ours, and notifies the engine, once."""
        super().destroy()
        next(self._at_end, None)
        shared_memory.memory_drop_unmapped()

    # ---- memory that can be exported ----

    def _share(self, memory: Any) -> None:
        """Has exports hand on the memory: on a software driver with pages of a sealed memfd in it (rule X26)."""
        context = self.context
        self._memory = _EngineMemory(memory)  # type: ignore[assignment]
        own = self._driver_fd()
        try:
            handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
            twin = VulkanImage(context, self.spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT)
            with closing(_Destroyed(twin)):
                self._check_twin(twin)
                if context.physical.is_software:
                    self._replace_pages(own, twin)
                else:
                    self.keep_file(fd_ops.duplicate(own))
        finally:
            os.close(own)

    def _check_twin(self, twin: VulkanImage) -> None:
        """Others open the memory as an image like the twin."""
        self.is_dedicated = twin.is_dedicated
        ours, wanted = (self.needs.size, self.stride), (twin.needs.size, twin.stride)
        if ours != wanted:
            raise UnsupportedError(
                f"sharing the memory of a {self.spec.width}x{self.spec.height} {self.spec.format.name} image",
                f"it takes {ours[0]} bytes with a stride of {ours[1]}, and as others would open it, {wanted[0]} with a "
                f"stride of {wanted[1]}",
                "make it with VkExternalMemoryImageCreateInfo and the usage flags of vks_surface_body (vkshare_ipc.h), "
                "or leave memory out",
            )

    def _replace_pages(self, own: int, twin: VulkanImage) -> None:
        """Puts the twin's sealed pages in the place of the driver's own, with the same contents.

        The engine's earlier work on the queue has ended by then, and the engine starts none meanwhile.
        """
        pages, self._pages_at = shared_memory.memory_find_shared(own)
        if pages >= 0:
            self.keep_file(pages)
            return
        twin.allocate_shared()
        twin.share_pages()
        pages, self._pages_at = twin.take_file()
        self.keep_file(pages)
        self.context.run(_nothing, name="adopted")
        shared_memory.memory_share(own, pages, self._pages_at)


class _Destroyed:
    """An image with close()."""

    def __init__(self, image: VulkanImage) -> None:
        self.close = image.destroy


def _call(call: Callable[[], object]) -> None:
    """An engine's error ends neither the device nor the objects that are destroyed after this one."""
    try:
        call()
    except Exception:
        _log.exception("on_close of an adopted image failed")


def _nothing(commands: Any) -> None:
    """Records no command: a batch that comes after all that the queue has."""
