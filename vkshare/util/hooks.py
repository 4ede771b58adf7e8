"""Calls of the core that shelves above it answer. vkshare/__init__.py sets them, so that no import points up.

Each answers one public method, which a program may call before it has imported the shelf above.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes some ms to import, and `import vkshare` loads this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

create_swapchain: Callable[..., Any]  # Device.create_swapchain(): makes a vkshare.Swapchain
# vkshare.open() of a program that `vkshare remote` has started: the socket of the host, the device's name and options.
open_remote: Callable[..., Any]
# Device.mirror(): the surfaces of two GPUs, the second one the mirror; returns None where the GPUs cannot copy.
peer_bridge: Callable[[Any, Any], Any]
remote_window: Callable[[], type]  # the class of such a program's windows
