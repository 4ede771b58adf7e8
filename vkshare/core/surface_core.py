"""The calls of a surface that no frame makes, through cffi. vkshare._native.Surface has the others."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkshare import _native, formats
from vkshare.core.pending_acquire import PendingAcquire
from vkshare.util.library_calls import (
    NotInitialised,
    borrow_fd,
    cell_capsule,
    check,
    ffi,
    finish,
    lib,
    make,
    own_fds,
    pointer,
    take_fd,
    take_fds,
    u64,
    wait,
)

_LARGEST = 2**31 - 1


class SurfaceCore(_native.Surface):
    """One handle of a keyed mutex: the base of Surface, which makes image and memory first."""

    _pointer: Any = NotInitialised()

    def __init__(
        self,
        device: _native.Device,
        *,
        width: int,
        height: int,
        format: int,
        color: dict[str, int] | None = None,
        pixels: Any = None,
        stride: int = 0,
        page_fd: int | None = None,
        semaphore_fd: int | None = None,
        discard_unowned: bool = False,
        presentable: bool = False,
        alias_of: SurfaceCore | None = None,
    ) -> None:
        """Takes over the fds; without `page_fd` the surface has a new page, and with `alias_of` that one's.

        A buffer has format 0 and width + (height << 32) bytes. `pixels` is a writable
        object over the memory of the CPU backend, kept until the last use has run.
        """
        fds = own_fds(page_fd, semaphore_fd) if page_fd is not None or semaphore_fd not in (None, -1) else None
        sides = (0, 2**32 - 1) if format == 0 else (1, _LARGEST)
        info = ffi.new(
            "vks_surface_info *",
            {
                "width": u64("width", width, *sides),
                "height": u64("height", height, *sides),
                "format": u64("format", format, 0, _LARGEST),
                "color": color or {},
                "stride": u64("stride", stride),
                "discard_unowned": discard_unowned,
                "is_presentable": presentable,
            },
        )
        memory = None if pixels is None else _rows(pixels, info)
        owner, kind = pointer("vks_device *", device), "surface" if format else "buffer"
        if alias_of is not None and alias_of.device is not device:
            raise ValueError("alias_of is a surface of another device: export it, and open the descriptor")
        if alias_of is not None:
            cell = make("vks_surface", f"Device.open_{kind}", lib.vks_surface_alias, alias_of._pointer, info)
        elif fds is not None and fds[0] >= 0:
            cell = make("vks_surface", f"Device.open_{kind}", lib.open_surface, owner, info, fds)
        else:
            cell = make("vks_surface", f"Device.create_{kind}", lib.vks_surface_create, owner, info)
        super().__init__(device, cell_capsule("vks_surface", cell), memory)
        self._pointer = pointer("vks_surface *", self)

    @property
    def generation(self) -> int:
        """Grows with each recover()."""
        return int(lib.vks_surface_generation(self._pointer))

    def recover(self, timeout: float | None = None) -> None:
        """Takes ownership after AbandonedError, and starts a new generation (rule K27).

        Parameters
        ----------
        timeout
            Seconds to wait for work of living parties on the surface; None: without limit.

        Raises
        ------
        InvalidCallError
            The surface is not abandoned, because another handle has recovered it; acquire() it again.
        TimeoutError
            The work has not ended.
        """
        # No try with the deadline 0: each failed attempt abandons the surface again, visibly to
        # every party.
        status = finish(lib.vks_surface_recover, self._pointer, _native.deadline(timeout))
        check(status, "Surface.recover", timeout)

    def _acquire_start(self, key: int) -> PendingAcquire | None:
        """Start an acquire that waits without a thread; None: the surface was acquired at once."""
        cell = make("vks_work", "Surface.acquire_async", lib.vks_surface_acquire_gpu, self._pointer, u64("key", key))
        return PendingAcquire(self, cell) if cell[0] else None

    def acquire_fd(self, key: int = 0) -> int:
        """Returns an fd that is readable while ``acquire(key, timeout=0)`` would not raise AcquireTimeout.

        For other event loops: use it only to poll. The surface owns it. It is the same for each
        call with the key, and closed when the surface object ends, or by close_acquire_fd(). While
        this handle owns the surface it is not readable. A close, a loss of the device and the death
        of an owner make it readable, and acquire() raises the error.

        If another handle acquires first, the fd stays readable until the next acquire() of this one
        raises AcquireTimeout.

        Parameters
        ----------
        key
            The key that the owner's release leaves.

        Returns
        -------
        int
            The file descriptor.

        Raises
        ------
        InvalidCallError
            The surface is of a queue or a swapchain, which controls its ownership.
        OSError
            Too many file descriptors are open.
        """
        get = partial(lib.vks_surface_acquire_fd, self._pointer, u64("key", key))
        return borrow_fd(get, "Surface.acquire_fd")

    def close_acquire_fd(self, key: int = 0) -> None:
        """Closes the fd of acquire_fd(key) before the surface ends, for programs whose keys grow.

        Remove the fd from the event loop first. Without effect if there is none.

        Parameters
        ----------
        key
            As for acquire_fd().
        """
        lib.vks_surface_close_acquire_fd(self._pointer, u64("key", key))

    def _next_key(self) -> int:
        """The key after the last one used."""
        surface = self._pointer
        if lib.vks_device_state(pointer("vks_device *", self.device)) == lib.VKS_FORKED:
            check(lib.VKS_FORKED, "Surface.mutex")
        if self.is_closed:
            check(lib.VKS_CLOSED, "KeyedMutex.next_key")
        return int(lib.vks_surface_next_key(surface))

    def _set_commands(self, acquire: int, release: int, transfer_acquire: int = 0, transfer_release: int = 0) -> None:
        """VkCommandBuffers, set once."""
        surface = self._pointer
        lib.vks_surface_set_commands(surface, acquire, release)
        lib.vks_surface_set_transfer_commands(surface, transfer_acquire, transfer_release)

    def _set_initial_commands(self, commands: int) -> None:
        """A VkCommandBuffer that comes before the first use of a new surface's image."""
        lib.vks_surface_set_initial_commands(self._pointer, commands)

    def _join(self, network: int, index: int) -> None:
        """Make it a surface of queues, which alone acquire and release it."""
        check(lib.vks_surface_join(self._pointer, network, index), "Surface._join")

    def _finish_releases(self, timeout: float) -> None:
        """Submit work that announced releases depend on."""
        surface = pointer("vks_surface *", self)  # Ctrl-C may have left no self._pointer
        lib.vks_surface_finish_releases(surface, _native.deadline(timeout))

    # ---- crossing to others -----------------------------------------------------------------------------------------

    def _export(self) -> tuple[int, int]:
        """The fds of the page and of the semaphore, or -1; the caller's to close."""
        return take_fds(partial(finish, lib.vks_surface_export, self._pointer), "Surface.export")

    def _page(self) -> int:
        """An fd of the shared page, the caller's to close."""
        return take_fd(partial(lib.vks_surface_page, self._pointer), "Surface.mutex")

    def _sync(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(VkSemaphore, value) to wait for, and to signal."""
        surface, points = self._pointer, ffi.new("vks_semaphore_point[2]")
        status = finish(lib.vks_surface_sync, surface, lib.VKS_FOREVER, points, points + 1)
        check(status, "Surface.sync")
        first, second = ((int(point.semaphore), int(point.value)) for point in points)
        return first, second

    def _external_begin(self, after_cpu: bool, timeout: float | None = None) -> int:
        """Begin the turn of another API; return the value that it must wait for."""
        surface, value, begin = self._pointer, ffi.new("uint64_t *"), lib.vks_surface_external_begin
        after = bool(after_cpu)
        check(wait(lambda deadline: begin(surface, after, deadline, value), timeout), "Surface", timeout)
        return int(value[0])

    def _external_signal_value(self) -> int:
        """Return the value that the other API must signal."""
        value = ffi.new("uint64_t *")
        check(lib.vks_surface_external_signal_value(self._pointer, value), "Surface._external_signal_value")
        return int(value[0])

    def _external_end(self, value: int) -> None:
        """Report that the other API has submitted the signal; 0: nothing."""
        check(lib.vks_surface_external_end(self._pointer, u64("value", value)), "Surface._external_end")

    def _release_to_external(self, semaphore: int) -> None:
        """Release the image to another API, and signal a binary VkSemaphore."""
        released = lib.vks_surface_release_to_external
        check(finish(released, self._pointer, lib.VKS_FOREVER, semaphore), "Surface._release_to_external")

    def _acquire_from_external(self, semaphore: int) -> None:
        """Wait for a binary VkSemaphore on the GPU (0: none), and take the image."""
        status = finish(lib.vks_surface_acquire_from_external, self._pointer, semaphore)
        check(status, "Surface._acquire_from_external")

    def _external_lost(self) -> None:
        """The other API's context is lost: its signals never come."""
        check(lib.vks_surface_external_lost(self._pointer), "Surface._external_lost")


def _rows(pixels: Any, info: Any) -> Any:
    """Return the memory of the rows that `info` describes, as an object that keeps its buffer, and enter it there."""
    try:
        memory = ffi.from_buffer(pixels, require_writable=True)
    except (BufferError, TypeError, ValueError):
        kind = type(pixels).__name__
        raise TypeError(f"pixels must be a writable, contiguous buffer or None, not {kind} ({pixels!r})") from None
    info.pixels, info.size = memory, len(memory)
    nbytes = info.width | info.height << 32
    if not info.format and nbytes > info.size:
        raise ValueError(f"pixels holds {info.size} bytes, too few for a buffer of {nbytes}")
    if not info.format:
        return memory
    form = formats.from_code(info.format)
    row = info.width * form.bytes_per_pixel
    needed = max((info.height - 1) * info.stride + row, form.nbytes(info.width, info.height))
    if not row <= info.stride or needed > info.size:
        raise ValueError(
            f"pixels holds {info.size} bytes, too few for height {info.height} rows of width {info.width} in format "
            f"{info.format}, stride {info.stride} bytes apart"
        )
    return memory
