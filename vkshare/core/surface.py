"""Surfaces: images that several devices and processes share, each through a handle of its own."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.backends.base import Image, ImageSpec
from vkshare.core import event_loop, pixels
from vkshare.core.access import Access
from vkshare.core.closable import Closable
from vkshare.core.deletion_queue import MappedMemory, SharedImage
from vkshare.core.keyed_mutex import KeyedMutex
from vkshare.core.surface_core import SurfaceCore
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.util import closing, fd_ops
from vkshare.util.closing import destructor, on_error

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.device import Device


@dataclass(frozen=True, slots=True)
class SurfaceStatistics:
    """A snapshot of one handle. ``surface.mutex.statistics()`` has the state that all handles share."""

    is_owned: bool
    generation: int
    nbytes: int  # of the pixels, rows padded as they are in memory
    stride: int  # bytes from row to row; 0 for optimal tiling
    copied_bytes: int  # by the share() or share_array() that made it; 0 where the memory is the tensor's own


class Surface(Closable, SurfaceCore):
    """One handle of a shared image, and of the keyed mutex that orders its users.

    Made by ``device.create_surface()`` and ``device.open_surface()``. Thread-safe; ownership
    belongs to the handle, never to a thread (rule K19).
    """

    _unpicklable = "send surface.export(), and call device.open_surface() on the other side"

    def __init__(
        self,
        device: Device,
        shared_image: SharedImage[Image],
        *,
        page: int | None = None,
        semaphore: int = -1,
        discard: bool = False,
        presentable: bool = False,
        alias_of: Surface | None = None,
    ) -> None:
        image = shared_image.thing
        spec = image.spec
        self._shared_image = shared_image
        self._image: Image | None = image
        self._spec = spec
        self._stride = image.stride
        self._mapped = image.pixels()
        self._mapped_memory: MappedMemory | None = None
        self._zeros: Surface | None = None
        self._discards = discard
        self._is_frame = False  # of a swapchain
        self._copied = 0  # bytes, when it was made of another API's memory
        self._kept_by: weakref.ref[Any] | None = None  # the Swapchain, or network of queues, that owns it
        self._ending = threading.RLock()  # held by the thread in close()
        super().__init__(
            device,
            width=spec.width,
            height=spec.height,
            format=spec.format.code,
            pixels=self._mapped if device.backend == "cpu" else None,
            stride=image.stride,
            page_fd=page,
            semaphore_fd=semaphore,
            discard_unowned=discard,
            presentable=presentable,
            alias_of=alias_of,
        )
        self._set_commands(*image.ownership_commands)
        if alias_of is None and image.initial_commands:
            self._set_initial_commands(image.initial_commands)
        image.drawable.give_to(self)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> ImageSpec:
        """Size, format, tiling and usage."""
        return self._spec

    @property
    def width(self) -> int:
        """Pixels."""
        return self._spec.width

    @property
    def height(self) -> int:
        """Pixels."""
        return self._spec.height

    @property
    def format(self) -> str:
        """The format's name, e.g. ``"rgba8unorm"``."""
        return self._spec.format.name

    @property
    def tiling(self) -> str:
        """``"linear"`` or ``"optimal"``."""
        return self._spec.tiling

    @property
    def usage(self) -> frozenset[str]:
        """A subset of "render", "sample", "copy", "storage"."""
        return self._spec.usage

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the arrays of read() and write()."""
        return self._spec.height, self._spec.width, self._spec.format.channels

    @property
    def stride(self) -> int:
        """Bytes from row to row; 0 for optimal tiling."""
        return self._stride

    @property
    def discards(self) -> bool:
        """Whether use without owning is discarded in place of refused (rule K21)."""
        return self._discards

    @property
    def is_host_visible(self) -> bool:
        """Whether a View of it has an array over the memory itself."""
        return self._mapped is not None

    @property
    def image(self) -> int:
        """The VkImage; 0 on the CPU backend."""
        return self._open_image().image

    @property
    def image_view(self) -> int:
        """The VkImageView; 0 on the CPU backend."""
        return self._open_image().image_view

    @property
    def mutex(self) -> KeyedMutex:
        """The keyed mutex that all handles of the surface share."""
        return KeyedMutex(self)

    # ---- owning ---------------------------------------------------------------------------------------------------

    async def acquire_async(self, key: int = 0, timeout: float | None = None) -> None:
        """Acquires as acquire() does, for asyncio. Cancelled or timed out, it leaves the surface as it was.

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
    ) -> Access:
        """Owns the surface inside a ``with`` block: acquires it, hands out a view, and releases it at the end.

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
            A context manager, which gives a View.

        Examples
        --------
        >>> with surface.access(acquire=0, release=0) as view:
        ...     submission = device.submit(device.record().clear(view, (0, 1, 0, 1)))
        """
        return Access(self, acquire, release, timeout, writable)

    def sync(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Returns ``(waits, signals)`` for an engine's own vkQueueSubmit2, each a tuple of (VkSemaphore, value).

        Own the surface first. The engine's submission must wait for the first and signal the
        second, and be submitted before release() is called. The call waits until the release of
        the previous owner is submitted. UnsupportedError on the CPU backend, and while work of this
        owner is held.
        """
        wait, signal = self._sync()
        return tuple(p for p in (wait,) if p[0]), tuple(p for p in (signal,) if p[0])

    # ---- pixels ---------------------------------------------------------------------------------------------------

    def read(self, timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Returns a copy of the pixels, (H, W, C) in memory order, row 0 on top.

        It is ordered behind the work submitted so far.

        Parameters
        ----------
        timeout
            Seconds to wait for work on the surface, this device's and the last owner's. None: without limit.

        Raises
        ------
        AcquireTimeout
            The work did not end in time; nothing was copied, and the surface stays owned.
        AbandonedError
            The last owner's work will never end.
        NotOwnerError
            This handle does not own the surface (zeros if it was made with unowned="discard").

        Examples
        --------
        >>> with surface.access():
        ...     pixels = surface.read()
        >>> pixels.shape
        (48, 64, 4)
        """
        with self.device._active_call():
            return pixels.read(self, timeout)

    def write(self, array: Any, timeout: float | None = None) -> None:
        """Copies an array of shape (H, W, C) and the format's dtype into the surface, ordered like any other work.

        Parameters
        ----------
        array
            The pixels.
        timeout
            Seconds to wait for work on the surface, where the CPU writes to its memory. None: without limit. Elsewhere
            the copy is submitted, and write() does not wait.

        Raises
        ------
        ValueError, TypeError
            Another shape or dtype; nothing is converted.
        AcquireTimeout
            The work did not end in time; nothing was copied, and the surface stays owned.
        AbandonedError
            The last owner's work will never end.
        NotOwnerError
            This handle does not own the surface (no effect if it was made with unowned="discard").

        Examples
        --------
        >>> import numpy as np
        >>> with surface.access():
        ...     surface.write(np.zeros((48, 64, 4), np.uint8))
        """
        with self.device._active_call():
            pixels.write(self, array, timeout)

    def to_linear(self) -> Surface:
        """Makes a linear surface of the device with this one's contents, copied on the GPU; not owned, key 0.

        Where memory of linear images is host-visible its View has an `array`. Own this surface
        first; the copy is ordered like any other work, and the new surface's next owner comes after
        it. Its usage is this one's, less "render" and "storage" where the driver has no such linear
        images.

        Returns
        -------
        Surface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        UnsupportedError
            The driver has no linear images of this format.
        InvalidCallError
            This surface was made without usage "copy"; NotOwnerError: this handle does not own it.
        """
        self._open_image()
        device = self.device
        linear = _linear_like(device, self._spec)
        with on_error(linear.close):
            linear.acquire(0)
            device.submit(device.record().copy(self, linear))
            linear.release(0)
        return linear

    def export(self) -> SurfaceDescriptor:
        """Return a descriptor for another device's or process's ``open_surface()``. Close it, or send it, or open it.

        The first export may wait for work on the surface, which was not synchronized for other
        devices before.

        Raises
        ------
        InvalidCallError
            The surface is a queue's, which is exported as a whole.
        UnsupportedError
            The memory is another API's, and not as this driver would export it.
        TimeoutError
            A present has had the queue for ten seconds.

        Examples
        --------
        >>> with surface.export() as descriptor, device.open_surface(descriptor) as handle:
        ...     handle.shape == surface.shape
        True
        """
        self._refuse_if_queued("export")
        return self._exported()

    def _refuse_if_queued(self, what: str) -> None:
        """Refuses surfaces of queues and swapchains, because another handle could acquire them out of order."""
        if self._kept_by is not None and not self._is_frame:
            raise InvalidCallError(f"this surface belongs to {self._kept_by()!r}: {what} the queue")

    def _exported(self) -> SurfaceDescriptor:
        with self.device._active_call(), self.device._lock:  # close() frees the memory once it had this lock
            image = self._open_image()
            image.check_export()  # first, because _export() prepares the image for other devices
            page, semaphore = self._export()
            with on_error(lambda: fd_ops.close_all((page, semaphore))):
                memory = image.export()
        return SurfaceDescriptor._made(self._spec, memory, page, semaphore, name=self.device.name)

    def statistics(self) -> SurfaceStatistics:
        """Returns a snapshot of this handle."""
        row = self._stride or self.width * self._spec.format.bytes_per_pixel
        return SurfaceStatistics(self.is_owned, self.generation, row * self.height, self._stride, self._copied)

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Gives up this handle; a surface that it owns is abandoned (rule K7). Idempotent.

        The memory lives until the last handle, in whichever process, is gone, and work that was
        submitted has run.

        Raises
        ------
        InvalidCallError
            The surface is a swapchain's or a queue's, which closes it.
        """
        self.device._refuse_in_forked_child()
        if self._kept_by is not None and not self.is_closed:
            raise InvalidCallError(f"this surface belongs to {self._kept_by()!r}: close that")
        self._end()

    @destructor
    def __del__(self) -> None:
        if getattr(self, "_kept_by", None) is None:
            super().__del__()
        elif not self.is_closed and not self.device._is_unusable:
            self._end()  # its queue or swapchain was not closed, and has warned

    def __repr__(self) -> str:
        spec = self._spec
        state = "closed" if self.is_closed or self.device._is_unusable else "owned" if self.is_owned else "not owned"
        return f"<vkshare.Surface {spec.width}x{spec.height} {spec.format.name} {spec.tiling}, {state}>"

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

    def _open_image(self) -> Image:
        self.device._check()
        image = self._image
        if image is None or self.is_closed:
            raise ClosedError(f"this surface is closed: {self!r}")
        return image

    # From the C core.
    if TYPE_CHECKING:

        def acquire(self, key: int = 0, timeout: float | None = None, *, mode: str = "cpu+gpu") -> None:
            """Owns the surface once its owner released it with that key.

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
                This handle owns the surface already.
            """

        def release(self, key: int = 0) -> None:
            """Hands it to the next handle that acquires that key.

            GPU work may still run: the next owner's runs after it.
            """


def _linear_like(device: Device, spec: ImageSpec) -> Surface:
    """Make a linear surface of that size and format, with as much of the usage as the driver has."""
    wanted = spec.usage | {"copy"}
    refused: UnsupportedError | None = None
    for usage in (wanted, wanted - {"storage"}, wanted - {"storage", "render"}, {"copy"}):
        try:
            return device.create_surface(spec.width, spec.height, spec.format, tiling="linear", usage=usage)
        except UnsupportedError as error:
            refused = refused or error
    assert refused is not None
    raise refused
