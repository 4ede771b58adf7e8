"""The Backend interface over shared memory and the C rasteriser."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from vkshare import _native
from vkshare.backends.base import (
    LARGEST_MEMORY,
    Adapter,
    AdoptedImageInfo,
    BufferSpec,
    ImageSpec,
    Memory,
    MemoryHandle,
    Stage,
)
from vkshare.backends.cpu import memory as _memory
from vkshare.errors import UnsupportedError
from vkshare.util import arguments


class CpuBackend:
    """One device's CPU backend. Holds nothing of its own: images are their owners'."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    def native_handles(self) -> dict[str, Any] | None:
        return None

    def engine_handles(self) -> dict[str, Any]:
        raise UnsupportedError("Device.handles", "the CPU backend has no Vulkan handles", 'open(backend="vulkan")')

    def create_image(self, spec: ImageSpec, *, is_tight: bool = False) -> _memory.CpuMemory[ImageSpec]:
        _check_tiling(spec, 'use tiling="linear" or "auto"')
        return _memory.create(spec, is_tight=is_tight)

    def open_image(self, spec: ImageSpec, memory: MemoryHandle) -> _memory.CpuMemory[ImageSpec]:
        return _memory.open_memory(spec, memory)

    def create_buffer(self, spec: BufferSpec) -> _memory.CpuMemory[BufferSpec]:
        # Its pages are allocated at once, and no process survives an allocation of more than there is.
        largest = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        arguments.integer("nbytes", spec.nbytes, 1, min(largest, LARGEST_MEMORY))
        return _memory.create(spec)

    def open_buffer(self, spec: BufferSpec, memory: MemoryHandle) -> _memory.CpuMemory[BufferSpec]:
        return _memory.open_memory(spec, memory)

    def open_file(self, spec: BufferSpec, fd: int) -> _memory.CpuMemory[BufferSpec]:
        return _memory.open_file(spec, fd)

    def import_memory(self, spec: ImageSpec, memory: MemoryHandle) -> _memory.CpuMemory[ImageSpec]:
        _check_tiling(spec, 'use tiling="linear"')
        return _memory.import_memory(spec, memory)

    def adopt_image(self, spec: ImageSpec, info: AdoptedImageInfo) -> NoReturn:
        raise UnsupportedError(
            "adopt_image()", "the CPU backend has no VkImages", "use import_memory() or share_array()"
        )

    def share_array(self, spec: ImageSpec, stride: int, memory: memoryview) -> _memory.CpuMemory[ImageSpec]:
        return _memory.share_array(spec, stride, memory)

    def compile(self, commands: _native.Recording, missing: tuple[int, int] | None) -> None:
        commands.device._set_recorder(None, self.adapter.capabilities.subpixel_bits)

    def refuse_feature(self, spec: ImageSpec, feature: int, *, is_blit: bool) -> NoReturn:
        raise AssertionError("the rasteriser has every feature")

    def stage(self, nbytes: int, memory: Memory, *, upload: bool) -> Stage:
        raise UnsupportedError("a stage on the CPU backend", "the CPU sees every image itself")

    def close(self) -> None:
        pass


def _check_tiling(spec: ImageSpec, hint: str) -> None:
    if spec.tiling != "linear":
        raise UnsupportedError(f"tiling={spec.tiling!r} on the CPU backend", "its rows lie in order", hint)
