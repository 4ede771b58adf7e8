"""Copies from and to buffers, for CommandList.copy(): arguments, and the call of the C core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from vkshare.core.buffer import Buffer
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.core.surface import Surface
from vkshare.core.view import KeyedView
from vkshare.errors import ClosedError, DeviceMismatchError, InvalidCallError
from vkshare.util import arguments
from vkshare.util.library_calls import check, ffi, lib, pointer, u64

if TYPE_CHECKING:
    from vkshare.core.commands import CommandList

    List = TypeVar("List", bound=CommandList)
    Rect = Sequence[int] | None

_NO_RECT = (0, 0, 0, 0)


def rect_of(source: Any, target: Any, source_rect: Rect, target_rect: Rect, at: Sequence[int]) -> tuple[int, ...]:
    """The rectangle of the surface, if one side is a surface.

    Raises
    ------
    ValueError, TypeError
        A rectangle, or `at`, is of no use for such a copy.
    """
    if tuple(at) != (0, 0):
        raise ValueError(f"at is {tuple(at)}; it is for copies between surfaces: use target_rect")
    sides = {"source_rect": (source, source_rect), "target_rect": (target, target_rect)}
    found = _NO_RECT
    for name, (side, rect) in sides.items():
        thing = _opened(side)
        if isinstance(thing, Surface):
            found = (0, 0, *thing.shape[1::-1]) if rect is None else arguments.rect(name, rect)
        elif rect is not None:
            raise ValueError(f"{name} is {rect!r}, and the {name[:6]} is a buffer: use {name[:6]}_offset")
    return found


def append(
    commands: List,
    source: Any,
    target: Any,
    rect: tuple[int, ...],
    source_offset: int,
    target_offset: int,
    nbytes: int | None,
    stride: int | None,
) -> List:
    """Append the copy to the list.

    Raises
    ------
    ValueError, TypeError, DeviceMismatchError, ClosedError, InvalidCallError
        As the methods of CommandList.
    """
    if commands.is_closed:
        raise ClosedError("this CommandList was closed; record another with device.record()")
    pair = _operand(commands, "source", source), _operand(commands, "target", target)
    pair[1]._check_writable()
    at = u64("source_offset", source_offset), u64("target_offset", target_offset)
    if rect is not _NO_RECT and nbytes is not None:
        raise ValueError(f"nbytes is {nbytes}; it is for copies between buffers: use the surface's rectangle")
    if rect is _NO_RECT and stride is not None:
        raise ValueError(f"stride is {stride}; it is for copies between a buffer and a surface")
    size = u64("nbytes", nbytes) if nbytes is not None else _rest(pair[0], at[0])
    if stride is not None:
        u64("stride", stride, 1)
    recording = pointer("vks_recording *", commands)
    operands = [(pointer("vks_surface *", each), each._open_image().drawable._pointer) for each in pair]
    copy = ffi.new("vks_bytes_copy *", (rect, *at, size, stride or 0))
    status = lib.vks_recording_copy_bytes(recording, *operands, copy)
    if status == lib.VKS_BAD_VALUE:
        raise ValueError(_text())
    check(status, "CommandList.copy")
    _keep(commands, pair, operands)
    commands._reset()
    return commands


def _opened(side: Any) -> Any:
    return side._open() if isinstance(side, KeyedView) else side


def _operand(commands: CommandList, name: str, side: Any) -> KeyedMemory[Any, Any]:
    thing = _opened(side)
    if not isinstance(thing, (Surface, Buffer)):
        raise TypeError(f"{name} must be a Surface, a Buffer or a view of one, not {type(side).__name__}")
    if thing.device is not commands.device:
        raise DeviceMismatchError(
            f"{name} belongs to {thing.device!r}, the commands to {commands.device!r}: open it here with "
            f"device.open_{thing._kind}({thing._kind}.export())"
        )
    if thing.is_closed:
        raise ClosedError(f"{name} is closed: {thing!r}")
    if "copy" not in thing.usage:
        raise InvalidCallError(
            f"{name} was created with usage {sorted(thing.usage)}; this command needs 'copy': "
            f"create_{thing._kind}(..., usage=(..., 'copy'))"
        )
    return thing


def _rest(source: KeyedMemory[Any, Any], offset: int) -> int:
    """Bytes of a buffer from the offset on."""
    return max(source.nbytes - offset, 0) if isinstance(source, Buffer) else 0


def _keep(commands: CommandList, pair: tuple[Any, Any], operands: list[tuple[Any, Any]]) -> None:
    """Enter the handles that are new to the list, in the order of its uses."""
    n_uses = ffi.new("size_t *")
    used = lib.vks_recording_uses(pointer("vks_recording *", commands), n_uses)
    known = {operand[0]: each for operand, each in zip(operands, pair, strict=True)}
    kept = commands._surfaces
    kept.extend(known[used[i].surface] for i in range(len(kept), n_uses[0]))


def _text() -> str:
    text: bytes = ffi.string(lib.vks_last_error().text)
    lib.vks_clear_error()
    return text.decode()
