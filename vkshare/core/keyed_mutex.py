"""A surface's keyed mutex: snapshots of its state, and keys in strict order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.util import pages

if TYPE_CHECKING:
    from vkshare.core.keyed_memory import KeyedMemory

# By the two state bits of the page's word. The protocol never writes the last one.
STATES = ("free", "owned", "abandoned", "invalid")


@dataclass(frozen=True, slots=True)
class Waiter:
    """A handle that waits to own the surface."""

    pid: int
    name: str  # of its device
    key: int
    since: float  # seconds, CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class KeyedMutexStatistics:
    """A snapshot of a surface's shared page, as `vkshare ps` shows it."""

    state: str  # "free" | "owned" | "abandoned" | "invalid" (another process overwrote the shared page)
    key: int  # of the last release; 0 on a fresh surface
    owner_pid: int  # 0 unless owned
    owner_name: str
    generation: int  # grows with every recover()
    value: int  # the value that the last release announced; grows with every hand-over
    completed: int  # the value up to which that work has run
    handles: int  # open, over all processes
    waiters: tuple[Waiter, ...]


class KeyedMutex:
    """`surface.mutex`: the shared lock of one surface or buffer. Thread-safe. Rules K (docs/spec/keyed-mutex.md)."""

    __slots__ = ("_surface",)

    def __init__(self, surface: KeyedMemory[Any, Any]) -> None:
        self._surface = surface

    def next_key(self) -> int:
        """Returns the next of successive keys, the previous plus 1, for strict order (rule K30)."""
        return self._surface._next_key()

    def statistics(self) -> KeyedMutexStatistics:
        """Return the state of the shared page, which may have changed when the call returns."""
        self._surface._open_image()  # ClosedError that names the surface
        page = self._surface._page()
        try:
            return statistics_of(pages.page_inspect(page))
        finally:
            os.close(page)

    def __repr__(self) -> str:
        if self._surface.is_closed:
            return "<vkshare.KeyedMutex closed>"
        state = self.statistics()
        owner = f" by process {state.owner_pid}" if state.owner_pid else ""
        return f"<vkshare.KeyedMutex {state.state}{owner}, key {state.key}, {len(state.waiters)} waiting>"


def statistics_of(page: dict[str, Any]) -> KeyedMutexStatistics:
    """Convert the result of page_inspect() of a keyed-mutex page."""
    slots = page["slots"]
    owned = page["state"] == 1
    names = {slot["slot"]: slot["name"] for slot in slots}
    return KeyedMutexStatistics(
        state=STATES[page["state"]],
        key=page["key"],
        owner_pid=page["owner_pid"] if owned else 0,
        owner_name=names.get(page["owner_slot"], "") if owned else "",
        generation=page["generation"],
        value=page["value"],
        completed=page["completed"],
        handles=len(slots),
        waiters=tuple(
            Waiter(slot["pid"], slot["name"], slot["waiting_key"], slot["waiting_since"] / 1e9)
            for slot in slots
            if slot["waiting"]
        ),
    )
