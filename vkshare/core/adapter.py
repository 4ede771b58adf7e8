"""Adapters of this machine, and the choice of one by name, UUID or environment."""

from __future__ import annotations

import os
import uuid as _uuid
from typing import Any

from vkshare.backends.base import Adapter, Capabilities
from vkshare.errors import UnsupportedError
from vkshare.util import arguments

__all__ = ["BACKENDS", "Adapter", "Capabilities", "adapters", "choose", "skipped", "vulkan_requirements"]

BACKENDS = ("auto", "vulkan", "cpu")


def adapters(backend: str = "auto") -> list[Adapter]:
    """Return every adapter of this machine, the best first: discrete GPU, integrated GPU, software Vulkan, CPU.

    Parameters
    ----------
    backend
        ``"vulkan"`` or ``"cpu"`` for the adapters of one backend only.

    Returns
    -------
    list of Adapter
        At least the CPU backend's, unless `backend` is ``"vulkan"``.

    Raises
    ------
    OSError
        This process has no file descriptors or no memory left for a trial: here, or where `capabilities` are asked
        for. The next call tries again.

    Examples
    --------
    >>> for adapter in vks.adapters("cpu"):
    ...     print(adapter.name, adapter.kind)
    vkshare CPU cpu
    """
    arguments.choice("backend", backend, BACKENDS)
    found: list[Adapter] = []
    if backend != "cpu":
        from vkshare.backends import vulkan

        found += vulkan.adapters()
    if backend != "vulkan":
        from vkshare.backends import cpu

        found += cpu.adapters()
    return sorted(found, key=lambda a: -a.rank)


def skipped() -> list[tuple[str, str]]:
    """Return (name, reason) of each unusable adapter, and of a missing Vulkan loader."""
    from vkshare.backends import vulkan

    return vulkan.skipped()


def vulkan_requirements() -> Any:
    """Return the extensions and features that an engine should enable on a VkDevice for Device.from_handles().

    Returns
    -------
    An object with ``api_version``, ``instance_extensions``, ``device_extensions`` and ``features``.
    """
    from vkshare.backends import vulkan

    return vulkan.requirements()


def choose(adapter: Any = None, backend: str = "auto", *, validation: bool = False) -> Adapter:
    """Return the adapter that the arguments of open() select.

    Where `validation` is wanted, the CPU backend is chosen only if the caller or the environment
    names it.

    Raises
    ------
    ValueError, TypeError
        `adapter` or `backend` is not of the allowed kinds, or names nothing; the text lists what there is.
    UnsupportedError
        The backend has no adapter on this machine; the text says why.
    """
    arguments.choice("backend", backend, BACKENDS)
    if isinstance(adapter, Adapter):
        if backend not in ("auto", adapter.backend):
            raise ValueError(f"backend is {backend!r}, but the adapter {adapter.name!r} is of {adapter.backend!r}")
        return adapter
    source = "adapter"
    if backend == "auto" and adapter is None:
        # The environment applies only to arguments that are None.
        name = os.environ.get("VKSHARE_BACKEND") or "auto"
        backend = arguments.choice("VKSHARE_BACKEND", name, BACKENDS)
    if adapter is None and os.environ.get("VKSHARE_ADAPTER"):
        adapter, source = os.environ["VKSHARE_ADAPTER"], "VKSHARE_ADAPTER"
    if adapter is not None:
        return _match(source, _wish(source, adapter), adapters(backend))
    found = adapters(backend)
    if not found:
        raise UnsupportedError(f"backend={backend!r}", _why_none(), "open with backend='cpu', or run vkshare doctor")
    if backend == "auto":
        check_validated(found[0], validation)
    return found[0]


def check_validated(chosen: Adapter, validation: bool | None = None) -> None:
    """For an adapter that neither the caller nor the environment names. `validation` is as of open().

    UnsupportedError: it is the CPU backend's, where validation is wanted.
    """
    if validation is None:
        validation = os.environ.get("VKSHARE_VALIDATION", "") not in ("", "0")
    if validation and chosen.backend == "cpu":
        hint = "install a driver and the layer, or do without: unset VKSHARE_VALIDATION, or open(backend='cpu')"
        why = f"the validation layer checks Vulkan, and there is no Vulkan adapter ({_why_none()})"
        raise UnsupportedError("validation", why, hint)


def is_named(adapter: Any, uuid: bytes) -> bool:
    """Return whether an argument of open() is that UUID."""
    try:
        return _wish("adapter", adapter) == uuid
    except (TypeError, ValueError):
        return False  # as choose() will say


def _wish(source: str, adapter: Any) -> bytes | str:
    """A UUID's 16 bytes, or part of a name; "cpu" is an exact name for the CPU backend's adapter."""
    if isinstance(adapter, _uuid.UUID):
        return adapter.bytes
    if isinstance(adapter, (bytes, bytearray)):
        if len(adapter) != 16:
            raise ValueError(f"{source} is {len(adapter)} bytes; a UUID has 16")
        return bytes(adapter)
    if isinstance(adapter, str):
        try:
            return _uuid.UUID(adapter).bytes
        except ValueError:
            return adapter
    if type(adapter).__module__.split(".")[0] == "torch" and type(adapter).__name__ == "device":
        return _torch_uuid(adapter)
    raise TypeError(f"{source} must be an Adapter, a UUID, part of a name, or a torch.device, not {adapter!r}")


def _torch_uuid(device: Any) -> bytes:
    if device.type == "cpu":
        from vkshare.backends import cpu

        return cpu.adapters()[0].uuid
    if device.type != "cuda":
        raise ValueError(f"adapter is torch.device({str(device)!r}); allowed are those of type cuda and cpu")
    import torch  # type: ignore[import-not-found, unused-ignore]

    index = torch.cuda.current_device() if device.index is None else device.index
    found = torch.cuda.get_device_properties(index).uuid  # CUDA and Vulkan report one device UUID
    return _uuid.UUID(str(found).removeprefix("GPU-")).bytes


def _match(source: str, wanted: bytes | str, found: list[Adapter]) -> Adapter:
    for adapter in found:  # the best comes first
        if isinstance(wanted, bytes):
            if adapter.uuid == wanted:
                return adapter
        elif wanted.casefold() in adapter.name.casefold():
            return adapter
    wanted_text = _uuid.UUID(bytes=wanted) if isinstance(wanted, bytes) else repr(wanted)
    there = ", ".join(f"{a.name!r} ({_uuid.UUID(bytes=a.uuid)})" for a in found) or f"none: {_why_none()}"
    raise ValueError(f"{source} is {wanted_text}; there are {there}")


def _why_none() -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in skipped()) or "no Vulkan driver was found"


# ---- fork: a GPU driver does not survive it (rule X11) ----------------------------------------------------------

_gpu_opened_by: int | None = None  # the process that opened a hardware GPU first


def note_opened(adapter: Adapter) -> None:
    """Records that this process has a GPU driver loaded and running."""
    global _gpu_opened_by
    if adapter.kind == "gpu" and _gpu_opened_by is None:
        _gpu_opened_by = os.getpid()


def refuse_after_gpu_fork() -> None:
    """UnsupportedError in a child of a process that had opened a hardware GPU before the fork."""
    if _gpu_opened_by is not None and _gpu_opened_by != os.getpid():
        raise UnsupportedError(
            "vkshare.open() in this process",
            f"it was forked from process {_gpu_opened_by}, which had opened a GPU; GPU drivers do not survive a fork",
            'start it with multiprocessing.get_context("spawn") or "forkserver"',
        )
