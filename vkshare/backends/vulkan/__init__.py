"""The Vulkan backend.

Importing it loads nothing: libvulkan comes in with the first call, and its absence is a reason, not
an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    from vkshare.backends.base import Adapter
    from vkshare.backends.vulkan.device import VulkanBackend
    from vkshare.backends.vulkan.required import Requirements

_LOADER = "libvulkan.so.1"
_HINT = "install libvulkan1 and a driver (mesa-vulkan-drivers has one for the CPU)"


def adapters() -> list[Adapter]:
    """The Vulkan physical devices that can run a device.

    None where there is no Vulkan. Their capabilities are tried when touched.
    """
    if _why_not() is not None:
        return []
    from vkshare.backends.vulkan import adapter as module

    return list(module.adapters())


def skipped() -> list[tuple[str, str]]:
    """(name, reason) of each physical device that cannot be used, and of Vulkan itself where it is not there."""
    reason = _why_not()
    if reason is not None:
        return [("Vulkan", reason)]
    from vkshare.backends.vulkan import adapter as module

    return module.skipped()


def open(adapter: Adapter, validation: bool | None = None, name: str = "") -> VulkanBackend:
    """A device of its own on that adapter.

    Raises
    ------
    UnsupportedError
        No Vulkan, or no validation layer where validation is wanted (None: as VKSHARE_VALIDATION says).
    VulkanError
        The driver refused.
    """
    _require()
    from vkshare.backends.vulkan.device import open_device

    return open_device(adapter, validation, name)


def adopt(**handles: Any) -> VulkanBackend:
    """An engine's own device.

    The arguments of ``Device.from_handles``. UnsupportedError names what it was made without.
    """
    _require()
    from vkshare.backends.vulkan.adoption import adopt_device

    return adopt_device(**handles)


def requirements() -> Requirements:
    """Return the extensions and features that ``Device.from_handles`` needs. Works without Vulkan."""
    from vkshare.backends.vulkan.required import Requirements

    return Requirements()


def add_message_sink(sink: Callable[[str, str, str], None]) -> Callable[[], None]:
    """Has `sink(severity, message_id_name, text)` called for each validation message; returns what takes it away again.

    It is called on a thread of its own, soon after the message: flush_messages() before looking.
    """
    _require()
    from vkshare.backends.vulkan.messages import add_message_sink as add

    return add(sink)


def flush_messages() -> None:
    """Returns when all that the validation layer has said so far reached the sinks and the log."""
    if _why_not() is None:
        from vkshare.backends.vulkan.messages import flush_messages as flush

        flush()


def validation_layer_version() -> str | None:
    """Return the version of the installed Khronos validation layer, e.g. ``"1.3.239"``, or None."""
    if _why_not() is not None:
        return None
    from vkshare.backends.vulkan.instance import validation_layer_version as version

    return version()


_reason: list[str | None] = []  # once known


def _why_not() -> str | None:
    if not _reason:
        try:
            import vulkan  # noqa: F401
        except ImportError as error:
            _reason.append(f"the Python package vulkan is not installed ({error})")
        except OSError:  # not ImportError: that is how the package says it
            _reason.append(f"no Vulkan loader: {_why_no_loader()}")
        else:
            _reason.append(None)
    return _reason[0]


def _why_no_loader() -> str:
    """The error of the system, which the package does not pass on."""
    try:
        ctypes.CDLL(_LOADER)
    except OSError as error:
        return f"{error}".removesuffix(": No such file or directory")
    return f"the package vulkan did not find {_LOADER}"


def _require() -> None:
    reason = _why_not()
    if reason is not None:
        raise UnsupportedError("Vulkan", reason, _HINT)
