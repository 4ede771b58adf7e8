"""vkshare: pictures shared between renderers, APIs and processes without copies, on Vulkan and on the CPU.

The public names load on first use (PEP 562), so that importing vkshare needs neither Vulkan nor NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that has it.
_HOME = {
    "Adapter": "vkshare.adapter",
    "Capabilities": "vkshare.adapter",
    "adapters": "vkshare.adapter",
    "vulkan_requirements": "vkshare.adapter",
    "Device": "vkshare.device",
    "open": "vkshare.opening",
    "CommandList": "vkshare.commands",
    "Submission": "vkshare.commands",
    "Fence": "vkshare.fence",
    "Surface": "vkshare.surface",
    "View": "vkshare.view",
    "Swapchain": "vkshare.present.swapchain",
    "Frame": "vkshare.present.frame",
    "Headless": "vkshare.present.targets",
    "KeyedMutex": "vkshare.keyed_mutex",
    "SurfaceQueue": "vkshare.surface_queue",
    "Producer": "vkshare.surface_queue",
    "Consumer": "vkshare.surface_queue",
    "pipe": "vkshare.pipes",
    "open_receiver": "vkshare.pipes",
    "Sender": "vkshare.pipes",
    "Receiver": "vkshare.pipes",
    "SurfaceDescriptor": "vkshare.descriptors",
    "FenceDescriptor": "vkshare.descriptors",
    "QueueDescriptor": "vkshare.queue_descriptor",
    "Format": "vkshare.formats",
    "Window": "vkshare.present.window",
    "VkshareError": "vkshare.errors",
    "VulkanError": "vkshare.errors",
    "DeviceLostError": "vkshare.errors",
    "SurfaceLostError": "vkshare.errors",
    "UnsupportedError": "vkshare.errors",
    "InvalidCallError": "vkshare.errors",
    "NotOwnerError": "vkshare.errors",
    "AcquireTimeout": "vkshare.errors",
    "AbandonedError": "vkshare.errors",
    "StillDrawingError": "vkshare.errors",
    "ClosedError": "vkshare.errors",
    "DeviceMismatchError": "vkshare.errors",
    "DescriptorError": "vkshare.errors",
    "RemoteLostError": "vkshare.errors",
    "get_include": "vkshare._library",
}
_MODULES = ("compositor", "errors", "formats", "interop", "server", "testing", "vsync")

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"vkshare.{name}")
    elif name == "_native":
        value = _core()
    else:
        raise AttributeError(f"module 'vkshare' has no attribute {name!r}")
    globals()[name] = value
    return value


def _core() -> Any:
    """Load the C core; ImportError says why it is missing, which "cannot import name" does not."""
    try:
        return importlib.import_module("vkshare._native")
    except ModuleNotFoundError as error:
        if error.name != "vkshare._native":
            raise
        from vkshare import _unbuilt

        raise _unbuilt.error() from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})


if TYPE_CHECKING:
    from vkshare import compositor as compositor
    from vkshare import errors as errors
    from vkshare import formats as formats
    from vkshare import interop as interop
    from vkshare import server as server
    from vkshare import testing as testing
    from vkshare import vsync as vsync
    from vkshare._library import get_include as get_include
    from vkshare.adapter import Adapter as Adapter
    from vkshare.adapter import Capabilities as Capabilities
    from vkshare.adapter import adapters as adapters
    from vkshare.adapter import vulkan_requirements as vulkan_requirements
    from vkshare.commands import CommandList as CommandList
    from vkshare.commands import Submission as Submission
    from vkshare.descriptors import FenceDescriptor as FenceDescriptor
    from vkshare.descriptors import SurfaceDescriptor as SurfaceDescriptor
    from vkshare.device import Device as Device
    from vkshare.errors import AbandonedError as AbandonedError
    from vkshare.errors import AcquireTimeout as AcquireTimeout
    from vkshare.errors import ClosedError as ClosedError
    from vkshare.errors import DescriptorError as DescriptorError
    from vkshare.errors import DeviceLostError as DeviceLostError
    from vkshare.errors import DeviceMismatchError as DeviceMismatchError
    from vkshare.errors import InvalidCallError as InvalidCallError
    from vkshare.errors import NotOwnerError as NotOwnerError
    from vkshare.errors import RemoteLostError as RemoteLostError
    from vkshare.errors import StillDrawingError as StillDrawingError
    from vkshare.errors import SurfaceLostError as SurfaceLostError
    from vkshare.errors import UnsupportedError as UnsupportedError
    from vkshare.errors import VkshareError as VkshareError
    from vkshare.errors import VulkanError as VulkanError
    from vkshare.fence import Fence as Fence
    from vkshare.formats import Format as Format
    from vkshare.keyed_mutex import KeyedMutex as KeyedMutex
    from vkshare.opening import open as open
    from vkshare.pipes import Receiver as Receiver
    from vkshare.pipes import Sender as Sender
    from vkshare.pipes import open_receiver as open_receiver
    from vkshare.pipes import pipe as pipe
    from vkshare.present.frame import Frame as Frame
    from vkshare.present.swapchain import Swapchain as Swapchain
    from vkshare.present.targets import Headless as Headless
    from vkshare.present.window import Window as Window
    from vkshare.queue_descriptor import QueueDescriptor as QueueDescriptor
    from vkshare.surface import Surface as Surface
    from vkshare.surface_queue import Consumer as Consumer
    from vkshare.surface_queue import Producer as Producer
    from vkshare.surface_queue import SurfaceQueue as SurfaceQueue
    from vkshare.view import View as View
