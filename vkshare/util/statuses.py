"""The exceptions of the C library's vks_status: classes, texts, and the next step. C raises them too."""

from __future__ import annotations

import os
from typing import Protocol

from vkshare import errors
from vkshare._library import ffi, lib

__all__ = ["exception", "last_text", "remote_devices"]

# The class, the text if the C library gave none, and what to do next.
_TABLE: dict[int, tuple[type[Exception], str, str]] = {
    lib.VKS_TIMEOUT: (TimeoutError, "it did not happen in time", ""),
    lib.VKS_INTERRUPTED: (SystemError, "interrupted, and not called again", ""),
    lib.VKS_ABANDONED: (
        errors.AbandonedError,
        "an owner or signaller died, was closed or failed before it was done",
        "a surface's recover() makes it usable again",
    ),
    lib.VKS_NOT_OWNER: (
        errors.NotOwnerError,
        "this handle does not own the surface; write 'with surface.access(acquire=KEY, release=KEY) as view:' around "
        "the work",
        "",
    ),
    lib.VKS_ALREADY_OWNER: (errors.InvalidCallError, "this handle owns the surface already", "release(key) it first"),
    lib.VKS_NOT_ABANDONED: (
        errors.InvalidCallError,
        "the surface is not abandoned",
        "recover() is for after an AbandonedError",
    ),
    lib.VKS_CLOSED: (errors.ClosedError, "the object, or its device, was closed", ""),
    lib.VKS_DEVICE_LOST: (errors.DeviceLostError, "the device is lost", "close it and open another"),
    lib.VKS_FORKED: (
        errors.InvalidCallError,
        "the object was made before os.fork() and cannot be used in the child",
        'open a device of its own there, or start the process with multiprocessing\'s "spawn"',
    ),
    lib.VKS_READ_ONLY: (
        errors.InvalidCallError,
        "the fence was opened from a descriptor and is a read-only follower",
        "only the party that made it may signal it: share a second fence for the other direction",
    ),
    lib.VKS_BAD_VALUE: (ValueError, "the fence value is outside what is allowed", ""),
    lib.VKS_FOREIGN_DEVICE: (
        errors.DeviceMismatchError,
        "the object belongs to another device",
        "share it: export() there, then open_fence() or open_surface() here",
    ),
    lib.VKS_FULL: (
        errors.VkshareError,
        "all slots of the shared page are taken",
        "close handles that are no longer used",
    ),
    lib.VKS_BAD_PAGE: (errors.DescriptorError, "the shared page was refused", ""),
    lib.VKS_NO_MEMORY: (MemoryError, "out of memory", ""),
    lib.VKS_BAD_CALL: (errors.InvalidCallError, "the object is not in a state that allows this", ""),
    lib.VKS_SURFACE_LOST: (
        errors.SurfaceLostError,
        "the window surface is gone",
        "retarget() the swapchain, or close it",
    ),
    lib.VKS_HIDDEN: (errors.InvalidCallError, "the window has no pixels now", ""),
}


class RemoteDevice(Protocol):
    def loss(self) -> str: ...


# Remote devices that are open, which say why they are lost ("": they are not). A status does not name
# its device, so the error of a local device that is lost beside such a one has the same text.
remote_devices: set[RemoteDevice] = set()


def exception(status: int, what: str, text: str | None, code: int) -> Exception:
    """Return the exception of a status that is not VKS_OK; C calls it.

    `what` names the call, e.g. "Fence.signal"; `text` is the C library's, if it gave one; `code` is
    an errno or a VkResult.
    """
    if status == lib.VKS_OS_ERROR:
        return OSError(code, f"{what}: {text or 'system call failed'}: {os.strerror(code)}")
    if status == lib.VKS_VULKAN_ERROR:
        return errors.VulkanError(code, text or what)
    if status == lib.VKS_UNSUPPORTED:
        return errors.UnsupportedError(what, text or "this device cannot do it")
    if status not in _TABLE:
        return SystemError(f"{what}: unknown status {status} of the core")
    kind, fallback, hint = _TABLE[status]
    if status == lib.VKS_DEVICE_LOST and not text:
        why = next(filter(None, (each.loss() for each in tuple(remote_devices))), "")
        if why:
            kind, fallback = errors.RemoteDeviceLostError, f"the device is lost: {why}"
    return kind(f"{what}: {text or fallback}{'; ' if hint else ''}{hint}")


def last_text(status: int) -> tuple[str | None, int]:
    """Return the text and the code that the C library gave when this thread's last call returned `status`."""
    last = lib.vks_last_error()
    text_and_code = (
        (ffi.string(last.text).decode("utf-8", "replace"), last.code) if last.status == status else (None, 0)
    )
    lib.vks_clear_error()  # a later failure of this status without a text must not repeat this one's
    return text_and_code
