"""Images and staging buffers whose owner is gone but which work, or a NumPy array, may still touch."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from vkshare.errors import VkshareError


class Destroyable(Protocol):
    def destroy(self) -> None: ...


T = TypeVar("T", bound=Destroyable, covariant=True)


class Part(Generic[T]):
    """One handle's part in an image that several handles of a device have: the last one's end destroys the image.

    Thread-safe.
    """

    __slots__ = ("_lock", "_parts", "thing")

    def __init__(self, thing: T, of: Part[T] | None = None) -> None:
        """The first part of `thing`, or one more beside `of`, which is not destroyed yet."""
        self.thing = thing
        self._parts: set[Part[T]] = set() if of is None else of._parts
        self._lock: threading.RLock = threading.RLock() if of is None else of._lock
        with self._lock:
            self._parts.add(self)

    def destroy(self) -> None:
        """Idempotent, as the thing's own must be: an interrupted end is repeated."""
        with self._lock:
            self._parts.discard(self)
            if not self._parts:
                self.thing.destroy()


class Lease:
    """What a NumPy array over an image's memory holds on to: while it lives, the memory is not freed.

    Arrays can be kept beyond the access that they were made for. Reading one then is a race, never a crash.
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


class Graveyard:
    """Buries what may not be destroyed yet, and destroys it once it may. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: a finalizer of a Lease may run inside any allocation that this class makes.
        self._lock = threading.RLock()
        self._dead: list[tuple[Destroyable, Callable[[], bool], weakref.ref[Lease] | None]] = []
        self._on_empty: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._dead)

    def bury(self, thing: Destroyable, is_done: Callable[[], bool], lease: Lease | None = None) -> None:
        """Destroys `thing` at the first reap() when is_done() is true (or raises) and `lease` is gone."""
        if lease is not None:
            weakref.finalize(lease, self.reap).atexit = False
        with self._lock:
            self._dead.append((thing, is_done, weakref.ref(lease) if lease is not None else None))

    def reap(self) -> None:
        """Destroys what may go."""
        if not self._dead:
            return
        ready: list[Destroyable] = []
        with self._lock:
            waiting = []
            for entry in self._dead:
                thing, is_done, lease = entry
                if (lease is None or lease() is None) and _holds(is_done):
                    ready.append(thing)
                else:
                    waiting.append(entry)
            self._dead = waiting
        for thing in ready:
            thing.destroy()
        self._settle()

    def close(self, then: Callable[[], None]) -> None:
        """All work has ended: destroys everything that no array holds, and calls `then` once nothing is left."""
        with self._lock:
            self._dead = [(thing, _always, lease) for thing, _, lease in self._dead]
            self._on_empty = then
        self.reap()
        self._settle()

    def _settle(self) -> None:
        with self._lock:
            if self._dead or self._on_empty is None:
                return
            then, self._on_empty = self._on_empty, None
        then()


def _always() -> bool:
    return True


def _holds(is_done: Callable[[], bool]) -> bool:
    try:
        return is_done()
    except VkshareError:
        return True  # it failed: nothing of it runs any more
