"""Deferred deletion of images and staging buffers that submitted work, or a NumPy array, may still use."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from vkshare.errors import VkshareError


class Destroyable(Protocol):
    def destroy(self) -> None: ...


T = TypeVar("T", bound=Destroyable, covariant=True)


class SharedImage(Generic[T]):
    """A reference to an image that several handles of a device share: the last destroy() destroys the image.

    Thread-safe.
    """

    __slots__ = ("_lock", "_references", "thing")

    def __init__(self, thing: T, of: SharedImage[T] | None = None) -> None:
        """Make the first reference to `thing`, or one more beside `of`, which must not be destroyed yet."""
        self.thing = thing
        self._references: set[SharedImage[T]] = set() if of is None else of._references
        self._lock: threading.RLock = threading.RLock() if of is None else of._lock
        with self._lock:
            self._references.add(self)

    def destroy(self) -> None:
        """Drop this reference. Idempotent, and thing.destroy() must be too: an interrupted call is repeated."""
        with self._lock:
            self._references.discard(self)
            if not self._references:
                self.thing.destroy()


class MappedMemory:
    """Mapped image memory, as the base object of NumPy arrays: the memory is not freed while an array refers to it.

    An array can outlive the access that it was made for. Reading the array then is a race, never a
    crash.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_keep")

    def __init__(
        self, address: int, keep: object, shape: tuple[int, ...], strides: tuple[int, ...], typestr: str
    ) -> None:
        self._keep = keep
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
        }


class DeletionQueue:
    """Destroys objects once no submitted work and no NumPy array uses them. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: a finalizer of a MappedMemory may run inside any allocation that this class makes.
        self._lock = threading.RLock()
        self._entries: list[tuple[Destroyable, Callable[[], bool], weakref.ref[MappedMemory] | None]] = []
        self._on_empty: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def defer(self, thing: Destroyable, is_done: Callable[[], bool], memory: MappedMemory | None = None) -> None:
        """Destroy `thing` at the first reap() at which is_done() is true (or raises) and `memory` was collected."""
        if memory is not None:
            weakref.finalize(memory, self.reap).atexit = False
        with self._lock:
            self._entries.append((thing, is_done, weakref.ref(memory) if memory is not None else None))

    def reap(self) -> None:
        """Destroy each object that is no longer used."""
        if not self._entries:
            return
        ready: list[Destroyable] = []
        with self._lock:
            waiting = []
            for entry in self._entries:
                thing, is_done, memory = entry
                if (memory is None or memory() is None) and _holds(is_done):
                    ready.append(thing)
                else:
                    waiting.append(entry)
            self._entries = waiting
        for thing in ready:
            thing.destroy()
        self._call_if_empty()

    def close(self, then: Callable[[], None]) -> None:
        """Destroy each object that no array uses, and call `then` once the queue is empty.

        All submitted work must have completed.
        """
        with self._lock:
            self._entries = [(thing, lambda: True, memory) for thing, _, memory in self._entries]
            self._on_empty = then
        self.reap()
        self._call_if_empty()

    def _call_if_empty(self) -> None:
        with self._lock:
            if self._entries or self._on_empty is None:
                return
            then, self._on_empty = self._on_empty, None
        then()


def _holds(is_done: Callable[[], bool]) -> bool:
    try:
        return is_done()
    except VkshareError:
        return True  # the work failed, so that none of it runs any more
