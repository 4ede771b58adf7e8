"""Submissions in Python: their text and their events, and the reasons for which the core refused one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from vkshare import _native
from vkshare.errors import DeviceMismatchError
from vkshare.util import statuses
from vkshare.util.event_queue import EventQueue, pointer_of
from vkshare.util.library_calls import check, lib, pointer, u64

if TYPE_CHECKING:
    from vkshare.core.device import Device


def wait(submission: _native.Submission) -> Generator[Any, None, None]:
    """Return the iterator of an ``await``."""
    from vkshare.core.event_loop import wait_submission

    return wait_submission(submission).__await__()


def notify(submission: _native.Submission, event_queue: EventQueue, token: int) -> None:
    """Put the token into the event queue once the submission has run or failed."""
    device, core = pointer("vks_device *", submission.device), pointer("vks_submission *", submission)
    status = lib.vks_submission_notify(device, core, pointer_of(event_queue), u64("token", token))
    check(status, "Submission._notify")


def text(submission: _native.Submission) -> str:
    """Return the repr()."""
    try:
        state = "done" if submission.is_done() else "held" if submission.is_held else "submitted"
    except Exception:
        state = "failed"
    device: Any = submission.device
    return f"<Submission {submission.serial} of {device.name!r}: {state}>"


def refused(device: Device, status: int, call: tuple[Any, ...]) -> _native.Submission:
    """Discard the use of unowned surfaces, or raise the exception of `status`.

    C calls it with the arguments of the call: (waits, signals, *commands).
    """
    reason = statuses.last_text(status)
    waits, signals, *commands = call
    if status == lib.VKS_NOT_OWNER and _only_discards(commands):
        return device._submit_discarding(tuple(commands), waits, signals)
    what = "Device.submit"
    if lib.vks_device_state(pointer("vks_device *", device)) == lib.VKS_OK:
        for name in _at_fault(device, status, waits, signals, commands):
            what = f"{what}: {name}"
            break
    raise statuses.exception(status, what, *reason)


def _only_discards(commands: list[Any]) -> bool:
    """Whether there are surfaces that `commands` may not use, and unowned use of all of these is discarded (K21)."""
    lists = [each for each in commands if isinstance(each, _native.CommandList) and each._is_compiled]
    unowned = [surface for each in lists for surface in each._surfaces if not surface._may_submit]
    return len(lists) == len(commands) and bool(unowned) and all(map(_discards, unowned))


def _discards(surface: _native.Surface) -> bool:
    return bool(lib.vks_surface_discards(pointer("vks_surface *", surface)))


def _at_fault(device: Device, status: int, waits: Any, signals: Any, commands: list[Any]) -> Iterator[str]:
    """Yield the names of arguments for which the core returns `status`."""
    for index, each in enumerate(commands):
        if not isinstance(each, _native.CommandList):
            break  # the rest is raw
        if status == lib.VKS_FOREIGN_DEVICE and each.device is not device:
            raise DeviceMismatchError(
                f"Device.submit: commands[{index}] is of {each.device!r}; record them with this device's record(), on "
                "surfaces opened here by open_surface(surface.export())"
            )
        for surface in each._surfaces if each._is_compiled else ():
            unowned = status == lib.VKS_NOT_OWNER and not (surface._may_submit or _discards(surface))
            closed = status == lib.VKS_CLOSED and lib.vks_surface_is_closed(pointer("vks_surface *", surface))
            if unowned or closed:
                yield f"commands[{index}] uses {surface!r}"
    for name, items in (("waits", waits), ("signals", signals)):
        for place, fence in _fences(items):
            core = pointer("vks_fence *", fence)
            if (
                (status == lib.VKS_CLOSED and lib.vks_fence_is_closed(core))
                or (status == lib.VKS_FOREIGN_DEVICE and fence.device is not device)
                or (status == lib.VKS_READ_ONLY and name == "signals" and lib.vks_fence_is_follower(core))
            ):
                yield f"{name}{place}, {fence!r}"


def _fences(items: Any) -> Iterator[tuple[str, _native.Fence]]:
    """Yield each fence with its place: "" for a single item, else its index in brackets."""
    is_sequence = isinstance(items, tuple) and not _is_pair(items)
    for index, item in enumerate(items if is_sequence else (items,)):
        fence = item[0] if isinstance(item, tuple) else item
        if isinstance(fence, _native.Fence):
            yield (f"[{index}]" if is_sequence else ""), fence


def _is_pair(items: tuple[Any, ...]) -> bool:
    """Whether it is (fence, value), as submit() reads it."""
    parts = _native.Fence, _native.Submission, tuple
    return len(items) == 2 and isinstance(items[0], _native.Fence) and not isinstance(items[1], parts)
