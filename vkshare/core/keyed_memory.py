"""The common part of surfaces and buffers: a handle of shared memory and of the keyed mutex over it."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from vkshare.backends.base import Memory, Spec
from vkshare.core import event_loop, pixels
from vkshare.core.access import Access
from vkshare.core.closable import Closable
from vkshare.core.deletion_queue import MappedMemory, SharedImage
from vkshare.core.keyed_mutex import KeyedMutex
from vkshare.core.surface_core import SurfaceCore
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.util import closing, fd_ops
from vkshare.util.closing import destructor, on_error

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.device import Device
    from vkshare.core.view import KeyedView
    from vkshare.ipc.descriptors import MemoryDescriptor

ViewOf = TypeVar("ViewOf", bound="KeyedView")
MemoryOf = TypeVar("MemoryOf", bound=Memory)


class KeyedMemory(Closable, SurfaceCore, Generic[MemoryOf, ViewOf]):
    """The base of Surface and Buffer. Thread-safe; ownership belongs to the handle, never to a thread (rule K19)."""

    _kind: ClassVar[str]  # "surface" | "buffer"
    _view: ClassVar[Any]  # the class of its views
    _zeros: KeyedMemory[Any, Any] | None
    _spec: Spec

    def __init__(
        self,
        device: Device,
        shared_image: SharedImage[MemoryOf],
        extent: dict[str, Any],
        *,
        page: int | None = None,
        semaphore: int = -1,
        discard: bool = False,
        presentable: bool = False,
        alias_of: KeyedMemory[Any, Any] | None = None,
    ) -> None:
        """`extent`: width, height, format and color, as SurfaceCore has them."""
        memory = shared_image.thing
        self._shared_image = shared_image
        self._image: MemoryOf | None = memory
        self._stride = memory.stride
        self._mapped = memory.pixels()
        self._mapped_memory: MappedMemory | None = None
        self._zeros = None
        self._discards = discard
        self._is_frame = False  # of a swapchain
        self._kept_by: weakref.ref[Any] | None = None  # the Swapchain, or network of queues, that owns it
        self._ending = threading.RLock()  # held by the thread in close()
        super().__init__(
            device,
            **extent,
            pixels=self._mapped if device.backend == "cpu" else None,
            stride=memory.stride,
            page_fd=page,
            semaphore_fd=semaphore,
            discard_unowned=discard,
            presentable=presentable,
            alias_of=alias_of,
        )
        self._set_commands(*memory.ownership_commands)
        if alias_of is None and memory.initial_commands:
            self._set_initial_commands(memory.initial_commands)
        memory.drawable.give_to(self)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays of read() and write()."""
        raise NotImplementedError

    @property
    def _strides(self) -> tuple[int, ...] | None:
        """Bytes, as NumPy has them; None for optimal tiling, which has none."""
        raise NotImplementedError

    @property
    def _dtype(self) -> np.dtype[Any]:
        """NumPy type of one array element."""
        raise NotImplementedError

    def _refuse_planes(self, call: str, instead: str) -> None:
        """UnsupportedError where it has several planes."""

    @property
    def usage(self) -> frozenset[str]:
        """The uses that it was made for."""
        return self._spec.usage

    @property
    def is_host_visible(self) -> bool:
        """Whether a view of it has an array over the memory itself."""
        return self._mapped is not None

    @property
    def mutex(self) -> KeyedMutex:
        """The keyed mutex that all handles share."""
        return KeyedMutex(self)

    # ---- owning ---------------------------------------------------------------------------------------------------

    async def acquire_async(self, key: int = 0, timeout: float | None = None) -> None:
        """Acquires as acquire() does, for asyncio. Cancelled or timed out, it leaves all as it was.

        Parameters
        ----------
        key
            The key that the owner's release leaves.
        timeout
            Seconds to wait; None: without limit.
        """
        await event_loop.acquire(self, key, timeout)

    def access(
        self, acquire: int = 0, release: int = 0, timeout: float | None = None, *, writable: bool = True
    ) -> Access[ViewOf]:
        """Owns the memory inside a ``with`` block: acquires it, hands out a view, and releases it at the end.

        Parameters
        ----------
        acquire, release
            The keys to own it by, and to hand it on with. A body that raises releases with the ACQUIRE key, so that
            no other handle gets half a frame (rule K31).
        timeout
            Seconds to wait for ownership; None: without limit.
        writable
            False: the view's array is read-only.

        Returns
        -------
        Access
            A context manager, which gives the view.

        Examples
        --------
        >>> with surface.access(acquire=0, release=0) as view:
        ...     submission = device.submit(device.record().clear(view, (0, 1, 0, 1)))
        """
        return Access(self, self._view, acquire, release, timeout, writable)

    def sync(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Returns ``(waits, signals)`` for an engine's own vkQueueSubmit2, each a tuple of (VkSemaphore, value).

        Own the surface first. The engine's submission must wait for the first and signal the
        second, and be submitted before release() is called. The call waits until the release of
        the previous owner is submitted. UnsupportedError on the CPU backend, and while work of this
        owner is held.
        """
        wait, signal = self._sync()
        return tuple(p for p in (wait,) if p[0]), tuple(p for p in (signal,) if p[0])

    # ---- contents -------------------------------------------------------------------------------------------------

    def _read(self, timeout: float | None) -> np.ndarray[Any, Any]:
        with self.device._active_call():
            return pixels.read(self, timeout)

    def _write(self, array: np.ndarray[Any, Any], timeout: float | None) -> None:
        """`array` has the shape and the type of the memory."""
        with self.device._active_call():
            pixels.write(self, array, timeout)

    def _check_writable(self) -> None:
        if self.is_read_only:
            raise InvalidCallError(
                f"this {self._kind} is for reading: {self!r}; copy() it to one of your own, and write there"
            )

    def _refuse_if_queued(self, what: str) -> None:
        """Refuses surfaces of queues and swapchains, because another handle could acquire them out of order."""
        if self._kept_by is not None and not self._is_frame:
            raise InvalidCallError(f"this {self._kind} belongs to {self._kept_by()!r}: {what} the queue")

    def _exported_parts(self) -> tuple[Any, int, int]:
        """The MemoryHandle, and the fds of the page and the semaphore (-1: none), the caller's to close."""
        with self.device._active_call(), self.device._lock:  # close() frees the memory once it had this lock
            image = self._open_image()
            image.check_export()  # first, because _export() prepares the image for other devices
            page, semaphore = self._export()
            with on_error(lambda: fd_ops.close_all((page, semaphore))):
                return image.export(), page, semaphore

    def _exported(self) -> MemoryDescriptor:
        """A descriptor, also of a queue's."""
        raise NotImplementedError

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Gives up this handle; what it owns is abandoned (rule K7). Idempotent.

        The memory lives until the last handle, in whichever process, is gone, and work that was
        submitted has run.

        Raises
        ------
        InvalidCallError
            It is a swapchain's or a queue's, which closes it.
        """
        self.device._refuse_in_forked_child()
        if self._kept_by is not None and not self.is_closed:
            raise InvalidCallError(f"this {self._kind} belongs to {self._kept_by()!r}: close that")
        self._end()

    @destructor
    def __del__(self) -> None:
        if getattr(self, "_kept_by", None) is None:
            super().__del__()
        elif not self.is_closed and not self.device._is_unusable:
            self._end()  # its queue or swapchain was not closed, and has warned

    def _state(self) -> str:
        return "closed" if self.is_closed or self.device._is_unusable else "owned" if self.is_owned else "not owned"

    # ---- within the package ---------------------------------------------------------------------------------------

    def _end(self) -> None:
        device = self.device
        with self._ending:  # the next close() completes an interrupted one
            self._finish_releases(closing.patience())  # without the device's lock, which other threads need
            with device._lock:  # no export and no mapping after this
                serial = self._close()
                self._mapped = None
            if self._zeros is not None:
                self._zeros.close()
            if self._image is not None:
                device._deletion_queue.defer(
                    self._shared_image, lambda: device._completed >= serial, self._mapped_memory
                )
                self._image = self._zeros = self._mapped_memory = None
                device._deletion_queue.reap()

    @property
    def _whole(self) -> Self:
        """The owner of the mapped memory: itself; of a plane, the surface."""
        return self

    def _open_image(self) -> MemoryOf:
        self.device._check()
        image = self._image
        if image is None or self.is_closed:
            raise ClosedError(f"this {self._kind} is closed: {self!r}")
        return image

    # From the C core.
    if TYPE_CHECKING:

        def acquire(self, key: int = 0, timeout: float | None = None, *, mode: str = "cpu+gpu") -> None:
            """Owns it once its owner released it with that key.

            Parameters
            ----------
            key
                The key that the release leaves, 0 to 2**64 - 1.
            timeout
                Seconds to wait; None: without limit.
            mode
                ``"cpu+gpu"``, or ``"gpu"``: the call returns at once, and later submissions are held until the
                ownership is certain.

            Raises
            ------
            AcquireTimeout
                No release with that key came in time.
            AbandonedError
                The owner died, closed its handle or failed: recover().
            InvalidCallError
                This handle owns it already.
            """

        def release(self, key: int = 0) -> None:
            """Hands it to the next handle that acquires that key.

            GPU work may still run: the next owner's runs after it.
            """
