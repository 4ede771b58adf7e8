"""vkshare.open(): chooses the adapter, from the arguments or the environment, and opens a Device."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from vkshare.backends.base import Adapter, Backend
from vkshare.core import adapter as _adapter
from vkshare.core.device import Device
from vkshare.util import arguments, hooks, trace

__all__ = ["open", "patience"]

_patience: ContextVar[float | None] = ContextVar("vkshare.patience", default=None)  # seconds that open() waits


def open(
    adapter: Any = None,
    *,
    backend: str = "auto",
    validation: bool | None = None,
    name: str = "",
    held_limit: int = 0,
    raster_threads: int = 0,
) -> Device:
    """Opens a device.

    Parameters
    ----------
    adapter
        An Adapter, a UUID (``uuid.UUID``, 16 bytes, or its text), part of an adapter's name, or a torch.device. None:
        the one that the environment variable VKSHARE_ADAPTER names, else the best: discrete GPU, integrated
        GPU, software Vulkan, CPU. In a program that `vkshare remote` has started, that is the viewer's.
    backend
        ``"vulkan"``, ``"cpu"``, or ``"auto"``: the one that VKSHARE_BACKEND names, else any.
    validation
        Whether to load the Vulkan validation layer; None: VKSHARE_VALIDATION=1 says yes. It checks nothing on the CPU
        backend, which is then taken only where `adapter`, `backend` or the environment names it.
    name
        Shown by ``vkshare ps`` and in debug names.
    held_limit
        Held submissions past which submit() waits; 0: 1024.
    raster_threads
        CPU backend: threads that draw; 0: one a core.

    Returns
    -------
    Device
        Close it, or use it in a ``with`` block.

    Raises
    ------
    ValueError, TypeError
        No such adapter or backend; the text lists what there is.
    UnsupportedError
        Nothing here can run it, the validation layer is wanted and missing, or this process was forked from one that
        had opened a GPU (rule X11).

    Examples
    --------
    >>> with vks.open(backend="cpu", name="example") as cpu:
    ...     print(cpu.backend)
    cpu
    """
    arguments.text("name", name)
    arguments.integer("held_limit", held_limit, 0, 2**20)
    arguments.integer("raster_threads", raster_threads, 0, 1024)
    if (host := _host(adapter, backend)) is not None:
        device: Device = hooks.open_remote(host, name, _patience.get(), held_limit=held_limit)
        return device
    _adapter.refuse_after_gpu_fork()
    trace.tell_names()
    if validation is None:
        validation = os.environ.get("VKSHARE_VALIDATION", "") not in ("", "0")
    chosen = _adapter.choose(adapter, backend, validation=bool(validation))
    below: Backend
    if chosen.backend == "vulkan":
        from vkshare.backends import vulkan

        below = vulkan.open(chosen, bool(validation), name)
    else:
        from vkshare.backends import cpu

        below = cpu.open(chosen, name)
    return Device._start(below, name, held_limit=held_limit, raster_threads=raster_threads)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """In the block, open() waits so long for a viewer at most, and raises TimeoutError then."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)


def _host(adapter: Any, backend: str) -> str | None:
    """Return the socket of the host that draws for this program (`vkshare remote`); None: it draws here.

    An adapter or a backend that the call or the environment names is one of this machine, unless it
    is the host's.
    """
    if isinstance(adapter, Adapter):
        return adapter.host or None
    path = os.environ.get("VKSHARE_REMOTE")
    chosen = os.environ.get("VKSHARE_BACKEND") or "auto" if backend == "auto" else backend
    if not path or chosen != "auto":
        return None
    named = adapter if adapter is not None else os.environ.get("VKSHARE_ADAPTER")
    return path if not named or _adapter.is_named(named, host_uuid(path)) else None


def host_uuid(path: str | os.PathLike[str]) -> bytes:
    """Return the UUID of the adapter that a host has, by the path of its socket."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"vkshare-host:{os.fspath(path)}").bytes
