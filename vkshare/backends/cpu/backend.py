"""The Backend interface over shared memory and the C rasteriser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkshare import _native
from vkshare.backends import vertex_layout
from vkshare.backends.base import (
    Adapter,
    Blit,
    Clear,
    Composite,
    Copy,
    DrawTriangles,
    FillRect,
    Image,
    ImageSpec,
    MemoryHandle,
    Operation,
    Stage,
)
from vkshare.backends.cpu import memory as _memory
from vkshare.errors import UnsupportedError


class CpuBackend:
    """One device's CPU backend. Holds nothing of its own: images are their owners'."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    def native_handles(self) -> dict[str, Any] | None:
        return None

    def create_image(self, spec: ImageSpec) -> _memory.CpuImage:
        if spec.tiling != "linear":
            raise UnsupportedError(
                f"tiling={spec.tiling!r} on the CPU backend", "its rows lie in order", 'use tiling="linear" or "auto"'
            )
        return _memory.create(spec)

    def open_image(self, spec: ImageSpec, memory: MemoryHandle) -> _memory.CpuImage:
        return _memory.open_memory(spec, memory)

    def compile(self, commands: _native.CommandList, operations: Sequence[Operation]) -> None:
        _Compiler(self.adapter.capabilities.subpixel_bits).compile(commands, operations)

    def stage(self, nbytes: int, image: Image, *, upload: bool) -> Stage:
        raise UnsupportedError("a stage on the CPU backend", "the CPU sees every image itself")

    def close(self) -> None:
        pass


class _Compiler:
    """Turns operations into a Program; each surface becomes one slot."""

    def __init__(self, subpixel_bits: int) -> None:
        self._subpixel_bits = subpixel_bits
        self._program = _native.Program()
        self._slots: dict[Any, int] = {}  # surface -> slot
        self._written: set[Any] = set()

    def compile(self, commands: _native.CommandList, operations: Sequence[Operation]) -> None:
        for operation in operations:
            self._record(operation)
        uses = [(surface, surface in self._written) for surface in self._slots]
        commands._set_program(self._program, uses, range(len(uses)))

    def _slot(self, surface: Any) -> int:
        slot = self._slots.get(surface)
        if slot is None:
            spec = surface.spec
            slot = self._slots[surface] = self._program.image(spec.width, spec.height, spec.format.code)
        return slot

    def _record(self, operation: Operation) -> None:
        program, target = self._program, self._slot(operation.target)
        self._written.add(operation.target)
        match operation:
            case Clear(_, colour):
                program.clear(target, colour)
            case FillRect(_, rect, colour):
                program.fill_rect(target, *rect, colour)
            case Copy(source, _, rect, at):
                program.copy(self._slot(source), *rect, target, *at)
            case Blit(source, _, source_rect, target_rect, linear):
                program.blit(self._slot(source), source_rect, target, target_rect, linear)
            case Composite(source, _, at, opacity, is_straight):
                program.composite(self._slot(source), target, *at, opacity, is_straight)
            case DrawTriangles(_, vertices, count, texture, linear):
                rows = np.frombuffer(vertices, np.float32).reshape(count, vertex_layout.FLOATS)
                slot = -1 if texture is None else self._slot(texture)
                coordinates = -1 if texture is None else 8
                program.draw_triangles(target, rows, 4, coordinates, slot, linear, self._subpixel_bits)
