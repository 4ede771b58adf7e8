"""Whether a timeline semaphore can leave one device and be waited for on another."""

from __future__ import annotations

from vkshare.backends.vulkan.api import VK, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.objects import Objects
from vkshare.backends.vulkan.semaphores import OPAQUE_FD, check

_SECOND = 1_000_000_000  # ns


def crosses(ours: Context, theirs: Context) -> bool:
    """Exports a timeline as an opaque fd, imports it on the other device, signals here and waits there.

    Raises
    ------
    UnsupportedError
        The driver says beforehand that it can't.
    """
    kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE)
    both = VK.EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT | VK.EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT
    check("timeline", ours, both, "fences are bridged", kind)
    export = new("VkExportSemaphoreCreateInfo", handleTypes=OPAQUE_FD)
    objects = Objects(ours), Objects(theirs)
    try:
        mine, other = _timeline(objects[0], export), _timeline(objects[1], None)
        info = new("VkSemaphoreGetFdInfoKHR", semaphore=mine, handleType=OPAQUE_FD)
        fd = ours.vk.make("vkGetSemaphoreFdKHR", ours.device, info)
        theirs.vk.vkImportSemaphoreFdKHR(
            theirs.device, new("VkImportSemaphoreFdInfoKHR", semaphore=other, handleType=OPAQUE_FD, fd=fd)
        )  # owns the fd now
        ours.vk.vkSignalSemaphore(ours.device, new("VkSemaphoreSignalInfo", semaphore=mine, value=7))
        wait = new("VkSemaphoreWaitInfo", pSemaphores=[other], pValues=[7])
        reached = theirs.vk.vkWaitSemaphores(theirs.device, wait, _SECOND) == VK.SUCCESS
        return bool(reached and theirs.vk.make("vkGetSemaphoreCounterValue", theirs.device, other) == 7)
    finally:
        for each in objects:
            each.destroy()


def _timeline(objects: Objects, export: object) -> object:
    kind = new("VkSemaphoreTypeCreateInfo", pNext=export, semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE)
    return objects.make("vkCreateSemaphore", new("VkSemaphoreCreateInfo", pNext=kind))
