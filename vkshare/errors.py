"""Every error that vkshare raises of its own, one hierarchy below VkshareError.

Wrong arguments are a plain ValueError or TypeError. Each class here pickles: it can cross a process
boundary whole.
"""

from __future__ import annotations

# VkResult, Vulkan 1.3 "Return Codes" and the extensions that vkshare uses.
_RESULT_NAMES = {
    0: "VK_SUCCESS",
    1: "VK_NOT_READY",
    2: "VK_TIMEOUT",
    3: "VK_EVENT_SET",
    4: "VK_EVENT_RESET",
    5: "VK_INCOMPLETE",
    -1: "VK_ERROR_OUT_OF_HOST_MEMORY",
    -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    -3: "VK_ERROR_INITIALIZATION_FAILED",
    -4: "VK_ERROR_DEVICE_LOST",
    -5: "VK_ERROR_MEMORY_MAP_FAILED",
    -6: "VK_ERROR_LAYER_NOT_PRESENT",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT",
    -8: "VK_ERROR_FEATURE_NOT_PRESENT",
    -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
    -10: "VK_ERROR_TOO_MANY_OBJECTS",
    -11: "VK_ERROR_FORMAT_NOT_SUPPORTED",
    -12: "VK_ERROR_FRAGMENTED_POOL",
    -13: "VK_ERROR_UNKNOWN",
    -1000069000: "VK_ERROR_OUT_OF_POOL_MEMORY",
    -1000072003: "VK_ERROR_INVALID_EXTERNAL_HANDLE",
    -1000161000: "VK_ERROR_FRAGMENTATION",
    -1000257000: "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
    -1000000000: "VK_ERROR_SURFACE_LOST_KHR",
    -1000000001: "VK_ERROR_NATIVE_WINDOW_IN_USE_KHR",
    1000001003: "VK_SUBOPTIMAL_KHR",
    -1000001004: "VK_ERROR_OUT_OF_DATE_KHR",
    -1000003001: "VK_ERROR_INCOMPATIBLE_DISPLAY_KHR",
    -1000011001: "VK_ERROR_VALIDATION_FAILED_EXT",
    -1000174001: "VK_ERROR_NOT_PERMITTED_KHR",
}


class VkshareError(Exception):
    """Base of all errors of vkshare."""


class VulkanError(VkshareError):
    """A Vulkan call failed.

    Parameters
    ----------
    result
        The VkResult.
    call
        The function that returned it, e.g. ``"vkAllocateMemory"``, with what it was for where that helps.
    """

    def __init__(self, result: int, call: str) -> None:
        super().__init__(result, call)
        self.result = int(result)
        self.call = str(call)

    @property
    def result_name(self) -> str:
        """The VkResult's name, e.g. ``"VK_ERROR_DEVICE_LOST"``."""
        return _RESULT_NAMES.get(self.result, "unknown VkResult")

    def __str__(self) -> str:
        return f"{self.call}: {self.result_name} ({self.result})"


class _TellsInWords(VulkanError):
    """A VulkanError that may also be raised with one sentence in place of (result, call)."""

    _result = -13

    def __init__(self, result: int | str | None = None, call: str | None = None) -> None:
        self._message = result if isinstance(result, str) else None
        if isinstance(result, str) or result is None:
            result = self._result
        super().__init__(result, call or "")
        if self._message is not None and call is None:
            self.args = (self._message,)

    def __str__(self) -> str:
        return self._message or super().__str__()


class DeviceLostError(_TellsInWords):
    """The device is lost: nothing submitted to it will run any more. Close it and open another."""

    _result = -4


class SurfaceLostError(_TellsInWords):
    """The window surface behind a swapchain is gone."""

    _result = -1000000000


class UnsupportedError(VkshareError):
    """The machine, driver or device cannot do it.

    Parameters
    ----------
    capability
        What was asked for.
    why
        Why it is not there.
    hint
        What to do instead, where that is known.
    """

    def __init__(self, capability: str, why: str, hint: str = "") -> None:
        super().__init__(capability, why, hint)
        self.capability = capability
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.capability} is not supported: {self.why}"
        return f"{text}; {self.hint}" if self.hint else text


class UnsupportedAttributeError(UnsupportedError, AttributeError):
    """An UnsupportedError for protocols that are looked up with hasattr(): to them the attribute is absent."""


class UnsupportedBufferError(UnsupportedError, BufferError):
    """An UnsupportedError for the buffer protocol and DLPack, whose callers expect a BufferError."""


class InvalidCallError(VkshareError):
    """The object is not in a state that allows this call."""


class NotOwnerError(InvalidCallError):
    """The surface is not owned by this handle: acquire it first, best through ``surface.access()``."""


class AcquireTimeout(VkshareError, TimeoutError):
    """The surface was not released with that key, or work on it did not end, in time; nothing changed."""


class AbandonedError(VkshareError):
    """The owner of a surface, or the signaller of a fence, died, was closed or failed before it was done."""


class StillDrawingError(VkshareError):
    """The frame is still being drawn, and the call's arguments forbid it to wait."""


class ClosedError(VkshareError):
    """The object, or the device that it belongs to, was closed."""


class DeviceMismatchError(VkshareError):
    """The object belongs to another device, or was made by a driver that this one cannot share memory with."""


class DescriptorError(VkshareError):
    """A descriptor, or a shared page behind it, was refused: forged, truncated, of another version, or out of date."""


class RemoteLostError(VkshareError):
    """The connection to the other machine is gone."""


class RemoteDeviceLostError(RemoteLostError, DeviceLostError):
    """A remote device is lost, because the connection to the machine that it draws on is gone."""


class VideoError(VkshareError):
    """A video file is damaged, or none.

    Parameters
    ----------
    path
        The file.
    position
        Seconds after its first frame, of the newest one that was read; None: before the first one.
    why
        What is wrong.
    """

    def __init__(self, path: str, position: float | None, why: str) -> None:
        super().__init__(path, position, why)
        self.path = path
        self.position = position
        self.why = why

    def __str__(self) -> str:
        where = "" if self.position is None else f", after {self.position:.3f} s"
        return f"{self.path}{where}: {self.why}"
