"""The CPU backend: surfaces in sealed memfds, drawn by the C rasteriser."""

from __future__ import annotations

from vkshare.backends.base import Adapter
from vkshare.backends.cpu.backend import CpuBackend
from vkshare.backends.cpu.probe import adapter


def adapters() -> list[Adapter]:
    """The one adapter of this backend."""
    return [adapter()]


def open(chosen: Adapter, name: str) -> CpuBackend:
    """A backend object for one device."""
    return CpuBackend(chosen)
