"""Handles on other devices, here or in peers, and waiting for what another party does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from support.peer_processes import Remote, later


def opened(surface: Any, device: Any) -> Any:
    """A handle of the surface on another device."""
    with surface.export() as descriptor:
        return device.open_surface(descriptor)


def opened_buffer(buffer: Any, device: Any) -> Any:
    """A handle of the buffer on another device."""
    with buffer.export() as descriptor:
        return device.open_buffer(descriptor)


def followed(fence: Any, device: Any) -> Any:
    """A follower of the fence on another device."""
    with fence.export() as descriptor:
        return device.open_fence(descriptor)


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Looks every millisecond."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.001)


def where(handle: Any) -> Callable[..., Any]:
    """Calls a function of tests/support in the process where the handle lives: ``where(handle)(function, *args)``."""
    return handle._peer.run if isinstance(handle, Remote) else _here


def later_where(handle: Any) -> Callable[..., Any]:
    """The same without waiting for it: gives what has result()."""
    return handle._peer.later if isinstance(handle, Remote) else later


def _here(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
