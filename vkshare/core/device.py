"""Devices: a queue on one adapter, and the factory of everything that is shared."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from vkshare import _native, formats
from vkshare.backends.base import USAGES, Adapter, Capabilities
from vkshare.color import Color, of_surface
from vkshare.core import surface_factory
from vkshare.core.commands import CommandList, Submission
from vkshare.core.device_buffers import DeviceBuffers
from vkshare.core.device_fences import DeviceFences
from vkshare.core.discard import without_unowned
from vkshare.core.foreign_images import ForeignImages
from vkshare.core.surface import Surface
from vkshare.core.surface_factory import DEFAULT_USAGE
from vkshare.core.vulkan_handles import Handles, QueueLock
from vkshare.errors import ClosedError, DeviceMismatchError, UnsupportedError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.util import arguments, handles, hooks

if TYPE_CHECKING:
    from vkshare import Swapchain
    from vkshare.formats import Format

_log = logging.getLogger("vkshare.device")


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """A snapshot of a device's counters."""

    submitted: int  # batches submitted to the driver
    completed: int  # of these, how many have run
    transfers: int  # of the batches submitted, those that ran on a queue which only copies, beside graphics
    submissions: int  # calls of submit() that succeeded
    held: int  # operations that wait now for a value that no submitted work will signal yet
    held_limit: int  # the number of held operations past which submit() waits
    held_total: int  # operations that ever waited
    failed: int  # held operations that ended without running
    backpressure_waits: int  # submits that waited because held was held_limit
    copied_bytes: int  # moved by read(), write() and other copies through the CPU
    fences: int  # open
    surfaces: int  # open, with buffers
    buried: int  # memory of closed surfaces whose deletion is deferred, because work or an array may still use it


class Device(DeviceFences, DeviceBuffers, ForeignImages):
    """A rendering context: one order of work on an adapter. Two devices in one process share as two processes do.

    If the driver has a transfer-only queue family, pure copies run on a second queue of that
    family. The work still runs in the order of the calls.

    Made by :func:`vkshare.open` or :meth:`from_handles`. Every method is thread-safe.
    """

    @classmethod
    def from_handles(
        cls,
        *,
        instance: Any,
        physical_device: Any,
        device: Any,
        queue: Any,
        queue_family: int,
        api_version: int,
        enabled_extensions: Iterable[str],
        features: Iterable[str] = (),
        get_instance_proc_addr: Any = None,
        lock_queue: Any = None,
        unlock_queue: Any = None,
        name: str = "",
    ) -> Self:
        """Adopts an engine's own VkDevice and queue. vkshare never destroys them.

        Parameters
        ----------
        instance, physical_device, device, queue
            Vulkan handles: ints, cffi or ctypes pointers.
        queue_family
            The queue's family index.
        api_version
            The engine's VkApplicationInfo.apiVersion, at least 1.3.
        enabled_extensions, features
            Names of the enabled extensions and features; see :func:`vkshare.vulkan_requirements`. With the
            instance extension VK_EXT_debug_utils among them, objects made by vkshare have debug names.
        get_instance_proc_addr
            The engine's vkGetInstanceProcAddr (address); default: the loader's.
        lock_queue, unlock_queue
            Taken round every use of the queue: callables of no arguments, or addresses of C functions ``void (*)(void
            *)``. Work that was held back goes to the queue from a thread of vkshare's: without locks the engine must
            not use the queue while :meth:`statistics` reports held work. A lock given by its address must never be
            held while waiting for the GIL.
        name
            Shown by ``vkshare ps``.

        Returns
        -------
        Device
            A device on the engine's queue.

        Raises
        ------
        UnsupportedError
            An extension or feature is missing; the text names it.
        ValueError
            Only one of lock_queue and unlock_queue is given, or a handle is null.
        """
        from vkshare.backends import vulkan

        if (lock_queue is None) != (unlock_queue is None):
            raise ValueError("lock_queue and unlock_queue must be given together")
        backend = vulkan.adopt(
            instance=handles.not_null(instance, "instance"),
            physical_device=handles.not_null(physical_device, "physical_device"),
            device=handles.not_null(device, "device"),
            queue=handles.not_null(queue, "queue"),
            queue_family=arguments.integer("queue_family", queue_family, 0, 2**32 - 1),
            api_version=arguments.integer("api_version", api_version, 0, 2**32 - 1),
            enabled_extensions=tuple(enabled_extensions),
            features=tuple(features),
            get_instance_proc_addr=get_instance_proc_addr,
            lock_queue=lock_queue,
            unlock_queue=unlock_queue,
        )
        return cls._start(backend, arguments.text("name", name))

    # ---- properties ---------------------------------------------------------------------------------------------

    @property
    def adapter(self) -> Adapter:
        """The adapter of the device."""
        return self._backend.adapter

    @property
    def backend(self) -> str:
        """``"vulkan"`` or ``"cpu"``."""
        return self._backend.adapter.backend

    @property
    def capabilities(self) -> Capabilities:
        """The adapter's capabilities, each proved by a trial round trip."""
        return self._backend.adapter.capabilities

    @property
    def handles(self) -> Handles:
        """The Vulkan handles of the device, for an engine that runs on it, and the lock of its queue (rule E1).

        The handles are ints, valid until the device is closed: ``instance``, ``physical_device``,
        ``device``, ``queue``, ``queue_family``, ``api_version``, ``extensions``, ``features`` and
        ``get_instance_proc_addr``. The engine takes ``lock`` around each of its own uses of the
        queue: in a ``with`` block, by ``acquire(timeout=None)`` and ``release()``, or in C by the
        addresses ``lock_function`` and ``unlock_function``, which take ``user``. Work that vkshare
        submits meanwhile is held until the release.

        UnsupportedError: the device is on the CPU backend.
        """
        self._check()
        return Handles(**self._backend.engine_handles(), lock=QueueLock(self))

    # ---- factories ----------------------------------------------------------------------------------------------

    def create_surface(
        self,
        width: int,
        height: int,
        format: str | Format = "rgba8unorm",
        *,
        tiling: str = "auto",
        usage: Iterable[str] = DEFAULT_USAGE,
        memory: str = "auto",
        stride: str = "aligned",
        unowned: str = "raise",
        color: Color | None = None,
    ) -> Surface:
        """Makes an image that can be exported: all zeros, not owned, key 0.

        Parameters
        ----------
        width, height
            Pixels, 1 to ``capabilities.max_dimension``.
        format
            One of `vkshare.formats.FORMATS`.
        tiling
            ``"linear"`` (rows in order: the CPU can map it), ``"optimal"`` (the driver's own order), or ``"auto"``:
            linear where memory is host memory anyway (the CPU backend, software Vulkan), optimal on a GPU.
        usage
            Of ``"render"``, ``"sample"``, ``"copy"``, ``"storage"``.
        memory
            Of a linear image: ``"host"`` (the CPU maps it: View.array; a GPU of its own reaches it over the bus), or
            ``"device"`` (the GPU's own memory, as CUDA's tensors have it: fast there, and not mapped). ``"auto"`` is
            host memory. Optimal images are in device memory.
        stride
            ``"aligned"``: rows are padded as the adapter wants it (``capabilities.row_alignment``); or ``"tight"``:
            linear, and with no byte between rows (rule E7).
        unowned
            The effect of use without ownership: ``"raise"`` a NotOwnerError, or ``"discard"``: writes vanish,
            reads give zeros (rule K21).
        color
            The meaning of the codes, which goes with the surface. None: sRGB's, and of formats in planes (``"nv12"``,
            for example) BT.709's of limited range.

        Returns
        -------
        Surface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        ValueError, TypeError
            An argument is not as above.
        UnsupportedError
            The adapter cannot make such an image. Where it pads rows, the text names the widths that need none.

        Examples
        --------
        >>> with device.create_surface(64, 48, "rgba8unorm") as surface:
        ...     surface.shape
        (48, 64, 4)
        """
        self._check()
        self._reap()
        limit = self.capabilities.max_dimension
        arguments.choice("tiling", tiling, ("auto", "linear", "optimal"))
        arguments.choice("unowned", unowned, ("raise", "discard"))
        wanted = (
            arguments.integer("width", width, 1, limit),
            arguments.integer("height", height, 1, limit),
            formats.get(format),
        )
        wanted[2].check_size(*wanted[:2])
        meaning = of_surface(wanted[2], color)
        words = arguments.choices("usage", usage, USAGES)
        arguments.choice("memory", memory, ("auto", "host", "device"))
        if memory == "host" and tiling == "optimal":
            raise ValueError("memory is 'host' and tiling 'optimal'; host memory is for linear images")
        arguments.choice("stride", stride, ("aligned", "tight"))
        if stride == "tight" and tiling == "optimal":
            raise ValueError("stride is 'tight' and tiling 'optimal'; rows in order are for linear images")
        if memory == "device" and self.backend == "cpu":
            raise UnsupportedError("memory='device'", "the CPU backend has the CPU's memory", "leave it out")
        with self._active_call():
            self._check()
            is_tight = stride == "tight"
            order = "linear" if memory == "host" or is_tight else tiling
            in_device_memory = memory == "device"
            image = surface_factory.create_image(
                self, wanted, order, words, in_device_memory=in_device_memory, is_tight=is_tight, color=meaning
            )
            return surface_factory.adopt_image(self, image, discard=unowned == "discard")

    def open_surface(self, surface: SurfaceDescriptor | Surface, *, unowned: str = "raise") -> Surface:
        """Opens a handle of a surface, which takes part in its keyed mutex.

        Parameters
        ----------
        surface
            The descriptor that another device or process exported, which stays usable; or, in this process, the
            Surface itself. One of this very device is aliased: the same image, with no export, no import, no memory
            and no file descriptor of its own. It lives until the last of its handles is closed, in whichever order.
        unowned
            As in create_surface(), for this handle.

        Returns
        -------
        Surface
            The new handle, not owned.

        Raises
        ------
        DescriptorError
            The descriptor, or the page behind it, was refused, or all handles of the surface are gone (rule K20).
        DeviceMismatchError
            Its memory is of another device or driver; the text names both (rule X17).
        UnsupportedError
            This adapter cannot open such memory, or it is a swapchain's image, which cannot be shared.
        ClosedError
            The Surface is closed.

        Examples
        --------
        >>> with surface.export() as descriptor, device.open_surface(descriptor) as handle:
        ...     handle.is_owned
        False
        """
        self._check()
        self._reap()
        if not isinstance(surface, (Surface, SurfaceDescriptor)):
            raise TypeError(f"surface must be a Surface or a SurfaceDescriptor, not {type(surface).__name__}")
        arguments.choice("unowned", unowned, ("raise", "discard"))
        discard = unowned == "discard"
        if isinstance(surface, SurfaceDescriptor):
            with self._active_call():
                self._check()
                return surface_factory.open_surface(self, surface, discard=discard)
        surface._refuse_if_queued("open")
        if surface.device is not self:
            with surface.export() as descriptor:
                return self.open_surface(descriptor, unowned=unowned)
        with self._active_call(), self._lock:  # close() waits for this lock
            self._check()
            handle = surface_factory.adopt_image(self, surface._open_image(), alias_of=surface, discard=discard)
            if surface.is_read_only:
                handle._set_read_only()
            return handle

    def mirror(self, surface: SurfaceDescriptor | Surface) -> Surface:
        """Opens a handle of a surface whose memory this adapter cannot open, with an image of its own (rule G1).

        Where the adapter can open the memory, it does, as open_surface(). Else the handle has an
        image on this device: an acquire copies what other parties changed since this handle's last
        turn, and a release copies back what this turn changed (rule G2). Commands, raw command
        buffers, engines and arrays count as changes; ``access(damage=...)`` narrows them, for either
        side. Between software drivers and the CPU backend the copies are work of this device, and no
        call waits for them, where the pixels are in rows (``tiling="linear"``). Elsewhere the CPU
        copies, and both calls wait for the work on what they copy.

        Parameters
        ----------
        surface
            As of open_surface().

        Returns
        -------
        Surface
            The new handle, not owned. Its ``statistics()`` have what was copied, where it copies.

        Raises
        ------
        UnsupportedError
            This adapter has no such images.
        DeviceMismatchError
            The CPU is to copy, and no adapter of this process is the surface's.
        DescriptorError, ClosedError, TypeError
            As of open_surface().

        Examples
        --------
        >>> with vks.open(backend="cpu") as other, other.mirror(surface) as handle:
        ...     with handle.access(writable=False):
        ...         pixels = handle.read()
        """
        with contextlib.suppress(DeviceMismatchError, UnsupportedError):
            return self.open_surface(surface)
        from vkshare.core import mirror_factory  # each program imports this module, and few mirror

        with self._active_call(), contextlib.ExitStack() as stack:
            self._check()
            descriptor = stack.enter_context(surface.export()) if isinstance(surface, Surface) else surface
            return mirror_factory.create(self, descriptor)

    def create_swapchain(
        self,
        target: Any,
        *,
        image_count: int = 3,
        present_mode: str = "fifo",
        format: str | Format | None = None,
        frames_in_flight: int = 2,
        retired_limit: int = 4,
        present_fences: bool | None = None,
        capture: bool = False,
    ) -> Swapchain:
        """Makes the frames that a window, or a headless target, shows.

        Parameters
        ----------
        target
            A vkshare.Window (its resizes are handled automatically), vkshare.Headless(width, height), a window
            of the glfw package, another toolkit's vkshare.X11Window(xid) or vkshare.WaylandSurface(display, surface),
            or an engine's VkSurfaceKHR, made on the device's VkInstance: a cffi pointer of
            that type (as PyPI's ``vulkan`` has it), a ctypes.c_void_p or a ctypes.c_uint64. An int is refused,
            because a surface's handle cannot be distinguished from other numbers, on which drivers crash.
        image_count
            Wanted; the target may have more.
        present_mode
            ``"fifo"`` (each frame is shown, at the display's rate), ``"mailbox"`` (the newest frame is),
            ``"immediate"`` or ``"fifo_relaxed"``, where the target has them.
        format
            None: the best that the target shows, 8 bits a channel and not -srgb where there is a choice.
        frames_in_flight
            Frames whose GPU work may be under way when the next is acquired.
        retired_limit
            Replaced swapchains that may be alive while the presentation engine still uses them. A resize past it waits.
        present_fences
            Whether fences of VK_EXT_swapchain_maintenance1 report the end of a present. None: if the driver has
            it. False: the acquire history, which needs no extension.
        capture
            Keep a copy of each presented frame for ``Swapchain.capture()``. Headless targets need none.

        Returns
        -------
        Swapchain
            Close it before the window.

        Raises
        ------
        UnsupportedError
            The device cannot present there, or not in that mode or format; the text lists what there is.
        SurfaceLostError
            The window is gone.

        Examples
        --------
        >>> with device.create_swapchain(vks.Headless(64, 48)) as swapchain, swapchain.frame() as frame:
        ...     submission = device.submit(device.record().clear(frame.view, (0, 0, 1, 1)))
        """
        self._check()
        self._reap()
        with self._active_call():
            self._check()
            swapchain: Swapchain = hooks.create_swapchain(
                self,
                target,
                image_count=image_count,
                present_mode=present_mode,
                format=format,
                frames_in_flight=frames_in_flight,
                retired_limit=retired_limit,
                present_fences=present_fences,
                capture=capture,
            )
            return swapchain

    def record(self) -> CommandList:
        """Begins a list of commands for this device.

        Returns
        -------
        CommandList
            An empty list.

        Examples
        --------
        >>> with surface.access() as view:
        ...     submission = device.submit(device.record().clear(view, (1, 0, 0, 1)))
        """
        self._check()
        self._reap()
        return CommandList(self)

    def statistics(self) -> DeviceStatistics:
        """Returns a snapshot of the counters."""
        self._refuse_in_forked_child()
        return DeviceStatistics(**self._counters(), buried=len(self._deletion_queue))

    # ---- within the package -------------------------------------------------------------------------------------

    def _compile(self, commands: _native.Recording, missing: tuple[int, int] | None) -> None:
        """Called from C to make what it lacks to compile the list: see Backend.compile()."""
        with self._active_call(), self._compile_lock:
            self._check()
            self._backend.compile(commands, missing)

    def _refuse_surface(self, surface: Surface, feature: int, is_blit: bool) -> None:
        """Called from C when a list cannot be compiled: the surface lacks a feature, or is closed (feature 0)."""
        if not feature:
            raise ClosedError(f"a surface that the list uses is closed: {surface!r}")
        self._backend.refuse_feature(surface.spec, feature, is_blit=is_blit)

    def _submit_discarding(self, commands: tuple[Any, ...], waits: Any, signals: Any) -> Submission:
        """Called by submit() when a touched surface is not owned but was made with unowned="discard" (rule K21)."""
        return super().submit(*map(without_unowned, commands), waits=waits, signals=signals)

    # From the C core.
    if TYPE_CHECKING:

        def submit(self, *commands: Any, waits: Any = (), signals: Any = ()) -> Submission:
            """Runs command lists in order, or holds them until their waits are certain.

            A submission is held while it waits for a value that is not queued yet, so that another
            process never blocks the queue.

            Parameters
            ----------
            commands
                CommandLists, or raw VkCommandBuffers.
            waits, signals
                One item or a sequence of (fence, value). A bare Fence in `signals` is its next value; a Submission may
                stand in `waits`.

            Returns
            -------
            Submission
                It can be waited for, and awaited.

            Raises
            ------
            ValueError
                A wait would never end, because only the same submission signals that value.
            """
