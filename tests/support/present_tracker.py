"""The pure state machine of native/present/tracker.h, through cffi: no Vulkan, no clock."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from vkshare.errors import InvalidCallError
from vkshare.util.library_calls import LibraryObject, check, ffi, lib

POLICIES = {"acquires": lib.VKS_PRESENTS_BY_ACQUIRES, "fences": lib.VKS_PRESENTS_BY_FENCES}
COUNTS = ("presents", "semaphores", "fences", "retired", "quarantined", "moved")


class PresentTracker(LibraryObject):
    """A tracker. Handles are ints above 0, times ns; fence_deadline None: never.

    Decisions are (kind, handle), such as ("recycle_semaphore", 1); what is waited for is (kind, value), such as
    ("serial", 7).
    """

    def __init__(self, policy: str = "acquires", fence_deadline: int | None = None) -> None:
        deadline = 2**64 - 1 if fence_deadline is None else number("fence_deadline", fence_deadline)
        if not isinstance(policy, str):
            raise TypeError(f"policy must be a str, not {type(policy).__name__}")
        if policy not in POLICIES:
            raise ValueError(f"policy is {policy!r}, allowed are 'acquires' and 'fences'")
        self._collecting = False
        self._make("vks_tracker", "PresentTracker", lib.vks_tracker_create, POLICIES[policy], deadline)

    @property
    def _live(self) -> Any:
        pointer = self._pointer
        if self._collecting:
            raise InvalidCallError("the PresentTracker is in collect(): call it when that has returned")
        return pointer

    def swapchain(self, handle: int, image_count: int, shared: bool = False, last_use: int = 0) -> None:
        """It becomes current (0: none), and the previous one, last used by the submission `last_use`, is retired."""
        handle, last_use = number("handle", handle), number("last_use", last_use)
        images = number("image_count", image_count, 2**32 - 1)
        check(lib.vks_tracker_swapchain(self._live, handle, images, bool(shared), last_use), "PresentTracker.swapchain")

    def waited(self, image: int, serial: int) -> None:
        """The submission waited for the latest acquire of the image."""
        image, serial = number("image", image, 2**32 - 1), number("serial", serial)
        check(lib.vks_tracker_waited(self._live, image, serial), "PresentTracker.waited")

    def presented(self, image: int, semaphores: Sequence[int], fence: int = 0, now: int = 0) -> None:
        """The image was presented, after the semaphores."""
        image, fence, now = number("image", image, 2**32 - 1), number("fence", fence), number("now", now)
        handles = [number("semaphore", semaphore) for semaphore in semaphores]
        if len(handles) > lib.VKS_FRAME_SEMAPHORES:
            raise ValueError(f"semaphores has {len(handles)} items, allowed are {lib.VKS_FRAME_SEMAPHORES}")
        status = lib.vks_tracker_presented(self._live, image, handles, len(handles), fence, now)
        check(status, "PresentTracker.presented")

    def semaphore(self, handle: int, serial: int, discarded: bool = False) -> None:
        """The submission `serial` was the last to use the semaphore."""
        handle, serial = number("handle", handle), number("serial", serial)
        check(lib.vks_tracker_semaphore(self._live, handle, serial, bool(discarded)), "PresentTracker.semaphore")

    def collect(
        self, completed: int, now: int = 0, is_signalled: Callable[[int], object] | None = None
    ) -> list[tuple[str, int]]:
        """Return the decisions. An exception of is_signalled() comes out, and the next call returns the decisions."""
        completed, now = number("completed", completed), number("now", now)
        if is_signalled is not None and not callable(is_signalled):
            raise TypeError(f"is_signalled must be a callable or None, not {type(is_signalled).__name__}")
        pointer, failures, probe = self._live, [], ffi.NULL

        def ask(user: Any, fence: int) -> bool:
            try:
                return not failures and bool(is_signalled and is_signalled(fence))
            except Exception as error:
                failures.append(error)
                return False

        if is_signalled is not None:
            probe = ffi.callback("bool(void *, uint64_t)", ask)
        self._collecting = True
        try:
            status = lib.vks_tracker_collect(pointer, completed, now, probe, ffi.NULL)
        finally:
            self._collecting = False
        if failures:
            raise failures[0]
        check(status, "PresentTracker.collect")
        return self._decisions()

    def close(self) -> tuple[int, list[tuple[str, int]]]:
        """Return the number of presents without proof, and decisions for everything that is left."""
        return lib.vks_tracker_close(self._live), self._decisions()

    def wanted(self) -> tuple[str, int]:
        """Return what the oldest retired swapchain waits for."""
        return wanted(lib.vks_tracker_wanted(self._live))

    def unproven(self) -> tuple[str, int]:
        """Return what the current swapchain's presents wait for."""
        return wanted(lib.vks_tracker_unproven(self._live))

    def statistics(self) -> dict[str, int]:
        """Return the numbers of what is tracked."""
        out = ffi.new("vks_tracker_statistics *")
        lib.vks_tracker_get_statistics(self._live, out)
        return {name: getattr(out, name) for name in COUNTS}

    def _decisions(self) -> list[tuple[str, int]]:
        decision, found = ffi.new("vks_decision *"), []
        while lib.vks_tracker_next(self._live, decision):
            found.append((name("vks_decision_kind", decision.kind), decision.handle))
        return found


def number(what: str, value: int, most: int = 2**64 - 1) -> int:
    """Return `value` as an int in [0, most]."""
    found = operator.index(value)
    if not 0 <= found <= most:
        raise ValueError(f"{what} is {found}, allowed is 0 to {most}")
    return found


def name(enumeration: str, value: int) -> str:
    """Return the name of an enumerator, such as VKS_DESTROY_FENCE, without its prefix."""
    words: str = ffi.typeof(enumeration).elements[value]
    return words.removeprefix("VKS_").removeprefix("WANTS_").lower()


def wanted(found: Any) -> tuple[str, int]:
    return name("vks_wanted_kind", found.kind), found.value
