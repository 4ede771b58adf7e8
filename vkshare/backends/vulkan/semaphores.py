"""Binary semaphores that another API of the same GPU opens (VK_KHR_external_semaphore_fd)."""

from __future__ import annotations

import os

from vkshare.backends.vulkan.api import VK, Struct, address, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.objects import Objects
from vkshare.errors import UnsupportedError

OPAQUE_FD = VK.EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT


def check(kind: str, context: Context, needed: int, hint: str, pNext: Struct | None = None) -> None:
    """UnsupportedError unless the device can share semaphores of that kind as opaque fds.

    `needed` are VkExternalSemaphoreFeatureFlags, `pNext` the structure that says which kind.
    """
    physical, what = context.physical, f"export of {kind} semaphores"
    if "VK_KHR_external_semaphore_fd" not in context.extensions:
        raise UnsupportedError(what, f"{physical.name} has no VK_KHR_external_semaphore_fd", hint)
    answer = new("VkExternalSemaphoreProperties")
    asked = new("VkPhysicalDeviceExternalSemaphoreInfo", pNext=pNext, handleType=OPAQUE_FD)
    physical.vk.vkGetPhysicalDeviceExternalSemaphoreProperties(physical.handle, asked, answer)
    if answer.externalSemaphoreFeatures & needed != needed:
        raise UnsupportedError(what, f"{physical.name} ({physical.driver}) exports none as opaque fd", hint)


class SharedSemaphore:
    """A binary VkSemaphore whose payload leaves as an opaque fd. The driver owns it until destroy().

    UnsupportedError: the device cannot export one.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        check("binary", context, VK.EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT, "the CPU waits")
        export = new("VkExportSemaphoreCreateInfo", handleTypes=OPAQUE_FD)
        info = new("VkSemaphoreCreateInfo", pNext=export)
        self._objects = Objects(context)
        self._handle = self._objects.make("vkCreateSemaphore", info)

    @property
    def handle(self) -> int:
        """The VkSemaphore."""
        return address(self._handle)

    def export(self) -> int:
        """A new opaque fd of it, CLOEXEC; the caller's to close or to give away."""
        info = new("VkSemaphoreGetFdInfoKHR", semaphore=self._handle, handleType=OPAQUE_FD)
        fd = int(self._context.vk.make("vkGetSemaphoreFdKHR", self._context.device, info))
        os.set_inheritable(fd, False)
        return fd

    def destroy(self) -> None:
        """Nothing waits for it or signals it any more. Idempotent."""
        self._objects.destroy()
