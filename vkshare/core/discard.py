"""Rule K21: on a surface made with unowned="discard", without owning it, writes vanish and reads give zeros."""

from __future__ import annotations

from typing import Any

from vkshare import _native
from vkshare.core.commands import CommandList
from vkshare.core.surface import Surface
from vkshare.errors import NotOwnerError
from vkshare.util.library_calls import check, ffi, lib, pointer


def without_unowned(commands: Any) -> Any:
    """Return a variant of the list: commands that write to unowned surfaces are dropped, and reads of them give zeros.

    Raw command buffers stay as they are. The copies of read() and write(), which have no variant,
    raise NotOwnerError.
    """
    if not isinstance(commands, _native.CommandList):
        return commands
    if not isinstance(commands, CommandList):
        raise NotOwnerError("this handle does not own the surface that the copy is for")
    variant, uses = commands.device.record(), tuple(commands._surfaces)
    keep = [each._may_submit or not each._discards for each in uses]
    sources = [each if kept else _zeros(each) for each, kept in zip(uses, keep, strict=True)]
    operands = [(pointer("vks_surface *", each), each._open_image().drawable._pointer) for each in sources]
    recording = pointer("vks_recording *", variant)
    of = pointer("vks_recording *", commands)
    check(lib.vks_recording_append(recording, of, len(uses), keep, operands), "CommandList")
    n_uses = ffi.new("size_t *")
    used = lib.vks_recording_uses(recording, n_uses)
    known = {operand[0]: each for operand, each in zip(operands, sources, strict=True)}
    variant._surfaces.extend(known[used[i].surface] for i in range(n_uses[0]))
    return variant


def _zeros(surface: Surface) -> Surface:
    """Return a private, always owned surface of zeros, of the same size and format. Closed with `surface`."""
    with surface.device._lock:
        if surface._zeros is None:
            spec = surface.spec
            zeros = surface.device.create_surface(
                spec.width, spec.height, spec.format, tiling=spec.tiling, usage=spec.usage
            )
            zeros.acquire(0, 0)
            surface._zeros = zeros
        return surface._zeros
