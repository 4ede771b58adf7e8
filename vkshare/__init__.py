"""vkshare: pictures shared between renderers, APIs and processes without copies, on Vulkan and on the CPU.

The public names load on first use (PEP 562), so that importing vkshare needs neither Vulkan nor
NumPy. They are listed in __init__.pyi.
"""

from __future__ import annotations

import importlib

from vkshare.util import hooks, lazy_names

__version__ = "0.1.0"

_public = lazy_names.read(__name__, __file__)

__all__ = ["__version__", *_public.objects]


def _create_swapchain(*arguments: object, **options: object) -> object:
    return _public.load("Swapchain")(*arguments, **options)  # type: ignore[operator]


def _open_remote(*arguments: object, **options: object) -> object:
    return importlib.import_module("vkshare.remote.device").open_device(*arguments, **options)


def _remote_window() -> type:
    found: type = importlib.import_module("vkshare.remote.window").RemoteWindow
    return found


def _peer_bridge(other: object, own: object) -> object:
    return importlib.import_module("vkshare.interop.cuda.peers").bridge(other, own)


hooks.create_swapchain = _create_swapchain
hooks.open_remote = _open_remote
hooks.peer_bridge = _peer_bridge
hooks.remote_window = _remote_window


def __getattr__(name: str) -> object:
    if name == "_native":
        from vkshare.util import unbuilt

        return unbuilt.load()
    return _public.load(name)


__dir__ = _public.names
