"""Rule K21: on a surface made with unowned="discard", without owning it, writes vanish and reads give zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkshare import _native
from vkshare.core.commands import CommandList
from vkshare.errors import NotOwnerError

if TYPE_CHECKING:
    from vkshare.core.surface import Surface


def without_unowned(commands: Any) -> Any:
    """Return a variant of the list: commands that write to unowned surfaces are dropped, and reads of them give zeros.

    Raw command buffers stay as they are. The copies of read() and write(), which have no variant, raise NotOwnerError.
    """
    if not isinstance(commands, _native.CommandList):
        return commands
    if not isinstance(commands, CommandList):
        raise NotOwnerError("this handle does not own the surface that the copy is for")
    variant = commands.device.record()
    uses = tuple((not _is_discarded(each), _zeros(each) if _is_discarded(each) else each) for each in commands._used())
    return variant._append(commands, uses)


def _is_discarded(surface: Surface) -> bool:
    return surface.discards and not surface._may_submit


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
