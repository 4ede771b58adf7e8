"""Devices: a queue on one adapter, and the factory of everything that is shared."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from vkshare import _native, formats
from vkshare.backends.base import Adapter, Backend, Capabilities, Image, ImageSpec
from vkshare.core import adapter as _adapter
from vkshare.core.commands import CommandList, Submission
from vkshare.core.deletion_queue import DeletionQueue, SharedImage
from vkshare.core.discard import without_unowned
from vkshare.core.fence import Fence
from vkshare.core.surface import Surface
from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.ipc.descriptors import USAGES, FenceDescriptor, SurfaceDescriptor
from vkshare.util import arguments, handles, hooks
from vkshare.util.closing import destructor, warn_and_close

if TYPE_CHECKING:
    import asyncio

    from vkshare import Swapchain
    from vkshare.core.event_loop import LoopEventQueue
    from vkshare.core.queue import SurfaceQueue
    from vkshare.formats import Format

_log = logging.getLogger("vkshare.device")

# Storage is left out: not every driver has it for -srgb and packed formats.
DEFAULT_USAGE = ("render", "sample", "copy")


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
    surfaces: int  # open
    buried: int  # images of closed surfaces whose deletion is deferred, because work or an array may still use them


class Device(_native.Device):
    """A rendering context: one order of work on an adapter. Two devices in one process share as two processes do.

    If the driver has a transfer-only queue family, pure copies run on a second queue of that family. The work
    still runs in the order of the calls.

    Made by :func:`vkshare.open` or :meth:`from_handles`. Every method is thread-safe. ``submit``, ``wait_idle``,
    ``is_closed`` and ``is_lost`` come from the C core:

    submit(*commands, waits=(), signals=()) -> Submission
        Runs CommandLists or raw VkCommandBuffers in order. `waits`, `signals`: one item or a sequence of (fence,
        value); a bare Fence in signals is its next value; a Submission may stand in waits. A submission is
        held while it waits for a value that is not queued yet, so that another process never blocks the queue.
        ValueError: a wait that would never end, because only the same submission signals that value.
    wait_idle(timeout=None)
        Waits until everything submitted before, held work too, has run. TimeoutError.
    """

    def __init__(self, backend: Backend, *, name: str = "", held_limit: int = 0, raster_threads: int = 0) -> None:
        self._backend = backend
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._compile_lock = threading.Lock()
        self._active_calls: dict[int, threading.RLock] = {}  # by thread, see _active_call()
        self._closing = threading.RLock()  # held by the thread in _tear_down()
        self._is_torn_down = False
        self._last: list[Surface] = []
        self._deletion_queue = DeletionQueue()
        self._surfaces: weakref.WeakSet[Surface] = weakref.WeakSet()
        self._swapchains: weakref.WeakSet[Swapchain] = weakref.WeakSet()
        self._queues: weakref.WeakSet[SurfaceQueue] = weakref.WeakSet()
        self._compiled: weakref.WeakSet[_native.CommandList] = weakref.WeakSet()
        self._event_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopEventQueue] = (
            weakref.WeakKeyDictionary()
        )
        super().__init__(
            name=name, held_limit=held_limit, raster_threads=raster_threads, vulkan=backend.native_handles()
        )
        if backend.adapter.backend == "vulkan":
            # The first use of a new image runs on this queue, under the locks of this device.
            device = weakref.ref(self)
            backend.submit_once = (  # type: ignore[attr-defined, unused-ignore]
                lambda command_buffer: _run(device(), command_buffer)
            )

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

        Raises
        ------
        UnsupportedError
            An extension or feature is missing; the text names it.
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
    def _is_unusable(self) -> bool:
        """Whether the device is closed, or inherited through a fork: no call of it works in this process."""
        return self.is_closed or self._pid != os.getpid()

    # ---- factories ----------------------------------------------------------------------------------------------

    def create_fence(self, initial: int = 0) -> Fence:
        """A fence whose value is `initial`; this device and the host signal it."""
        return Fence(self, initial)

    def open_fence(self, descriptor: FenceDescriptor) -> Fence:
        """A read-only follower of another device's or process's fence.

        Raises
        ------
        DescriptorError
            The descriptor, or the page behind it, was refused.
        """
        self._check()
        _expect("descriptor", descriptor, FenceDescriptor)
        page, semaphore = descriptor._open_fds()
        return Fence._open(self, page, self._usable_semaphore(semaphore, *descriptor.uuids))

    def adopt_fence(self, vk_semaphore: Any) -> Fence:
        """Wraps an engine's own timeline semaphore (VkSemaphore), which is never destroyed by vkshare."""
        self._check()
        if self.backend != "vulkan":
            raise UnsupportedError("adopt_fence()", "the CPU backend has no VkSemaphores", "use create_fence()")
        return Fence._adopt(self, handles.not_null(vk_semaphore, "vk_semaphore"))

    def create_surface(
        self,
        width: int,
        height: int,
        format: str | Format = "rgba8unorm",
        *,
        tiling: str = "auto",
        usage: Iterable[str] = DEFAULT_USAGE,
        memory: str = "auto",
        unowned: str = "raise",
    ) -> Surface:
        """A new image that can be exported: all zeros, not owned, key 0.

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
        unowned
            The effect of use without ownership: ``"raise"`` a NotOwnerError, or ``"discard"``: writes vanish,
            reads give zeros (rule K21).

        Raises
        ------
        ValueError, TypeError
            An argument is not as above.
        UnsupportedError
            The adapter cannot make such an image.
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
        words = arguments.choices("usage", usage, USAGES)
        arguments.choice("memory", memory, ("auto", "host", "device"))
        if memory == "host" and tiling == "optimal":
            raise ValueError("memory is 'host' and tiling 'optimal'; host memory is for linear images")
        if memory == "device" and self.backend == "cpu":
            raise UnsupportedError("memory='device'", "the CPU backend has the CPU's memory", "leave it out")
        with self._active_call():
            self._check()
            image = self._create_image(wanted, "linear" if memory == "host" else tiling, words, memory == "device")
            return self._adopt_image(image, discard=unowned == "discard")

    def open_surface(self, surface: SurfaceDescriptor | Surface, *, unowned: str = "raise") -> Surface:
        """A new handle of a surface, which takes part in its keyed mutex.

        Parameters
        ----------
        surface
            The descriptor that another device or process exported, which stays usable; or, in this process, the
            Surface itself. One of this very device is aliased: the same image, with no export, no import, no memory
            and no file descriptor of its own. It lives until the last of its handles is closed, in whichever order.
        unowned
            As in create_surface(), for this handle.

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
                return self._open_surface(surface, discard=discard)
        surface._refuse_if_queued("open")
        if surface.device is not self:
            with surface.export() as descriptor:
                return self.open_surface(descriptor, unowned=unowned)
        with self._active_call(), self._lock:  # close() waits for this lock
            self._check()
            return self._adopt_image(surface._open_image(), alias_of=surface, discard=discard)

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
        """The frames that a window, or a headless target, shows.

        Parameters
        ----------
        target
            A vkshare.Window (its resizes are handled automatically), vkshare.Headless(width, height), a window
            of the glfw package, or an engine's VkSurfaceKHR, made on the device's VkInstance: a cffi pointer of
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

        Raises
        ------
        UnsupportedError
            The device cannot present there, or not in that mode or format; the text lists what there is.
        SurfaceLostError
            The window is gone.
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
        """An empty list of commands for this device."""
        self._check()
        self._reap()
        return CommandList(self)

    def statistics(self) -> DeviceStatistics:
        """A snapshot of the counters."""
        self._refuse_in_forked_child()
        return DeviceStatistics(**self._counters(), buried=len(self._deletion_queue))

    # ---- closing ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancels held work, abandons owned surfaces, waits for submitted work, frees all. Idempotent.

        Surfaces and fences of the device are closed with it. Takes about a second at most, unless the driver hangs:
        then objects that the driver may still use are leaked after some ten seconds. Interrupted (Ctrl-C), or
        called by a signal handler or finalizer in the middle of another call of this thread on the device, it
        leaves memory for the next close() to free.

        Raises
        ------
        TimeoutError
            A call of another thread has not returned from the driver for ten seconds (a present to a window system
            that is silent), or a swapchain's frames have not run. Nothing that they use is destroyed; close() again
            goes on from there.
        """
        self._refuse_in_forked_child()
        if self._is_torn_down:
            return
        with self._lock:  # it guards _surfaces
            # Held submissions may have the last references: objects that _shutdown() releases must live until closed.
            self._last = list(self._surfaces)
            swapchains = list(self._swapchains)
        if not self._in_active_call():
            for swapchain in swapchains:  # first: they wait for presents, on a queue that runs
                swapchain.close()
        if not self._shutdown():
            _log.error("%r: the driver does not finish the submitted work; the objects that it uses are leaked", self)
            self._is_torn_down = True
        elif not self._in_active_call():
            self._tear_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @destructor
    def __del__(self) -> None:
        try:
            lost = not self._is_unusable
            unfinished = self._pid == os.getpid() and not self._is_torn_down
        except Exception:
            return  # __init__ had failed before
        if lost:
            warn_and_close(self)
        elif unfinished:
            self.close()

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        state = " closed" if self.is_closed else " lost" if self.is_lost else ""
        return f"<vkshare.Device{name} on {self.adapter.name!r} ({self.backend}){state}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a Device cannot be pickled: open() one in the other process, and send surface.export() or fence.export()"
        )

    # ---- within the package -------------------------------------------------------------------------------------

    @classmethod
    def _start(cls, backend: Backend, name: str, **options: int) -> Self:
        """Make a device of a backend that was just opened. Closes the backend on an error."""
        try:
            device = cls(backend, name=name, **options)
        except BaseException:
            backend.close()
            raise
        _adapter.note_opened(backend.adapter)
        _log.info("opened %r", device)
        return device

    def _refuse_in_forked_child(self) -> None:
        """Refuses, in a forked child, calls that the C core allows on a closed device (rule X11)."""
        if self._pid != os.getpid():
            raise InvalidCallError(
                f"this Device was opened by process {self._pid}, before os.fork(): use and close it there; open "
                'another here, or start processes with multiprocessing.get_context("spawn")'
            )

    def _active_call(self) -> threading.RLock:
        """Return the calling thread's lock, to hold during each use of the backend: ``with
        device._active_call(): ...``.

        close() cancels all waits, makes _check() raise, and then takes every thread's lock to wait for active calls.
        Locks, not a counter: Ctrl-C between an increment and its `try` would leave the counter too high.
        """
        self._check()
        me = threading.get_ident()
        lock = self._active_calls.get(me)
        return lock if lock is not None else self._active_calls.setdefault(me, threading.RLock())

    def _in_active_call(self) -> bool:
        """Whether this thread is in a call for which _tear_down() would wait."""
        mine = self._active_calls.get(threading.get_ident())
        return _is_owned(self._lock) or (mine is not None and _is_owned(mine))

    def _tear_down(self) -> None:
        """The second half of close(). Every step can be repeated: the next close() completes an interrupted one."""
        mine = self._active_calls.setdefault(threading.get_ident(), threading.RLock())
        with self._closing, mine:
            if self._is_torn_down:
                return
            for lock in list(self._active_calls.values()):
                with lock:
                    pass  # that thread's call has returned
            for swapchain in list(self._swapchains):
                swapchain.close()
            for queue in list(self._queues):
                queue.close()
            for surface in list(self._surfaces):
                surface._end()
            for commands in list(self._compiled):
                commands._reset()
            self._reap(all=True)
            for event_queue in list(self._event_queues.values()):
                event_queue.close_soon()
            self._event_queues.clear()
            self._deletion_queue.close(then=self._backend.close)
            self._last = []
            self._is_torn_down = True

    def _reap(self, all: bool = False) -> int:
        retired = super()._reap(all)
        self._deletion_queue.reap()
        return retired

    def _create_image(
        self, wanted: tuple[int, int, Format], tiling: str, usage: frozenset[str], in_device_memory: bool = False
    ) -> Image:
        """Resolves "auto": linear where the CPU can use it and the driver can make it."""
        can = self.capabilities
        if not can.tilings:
            why = "; ".join(dict.fromkeys(can.reasons[each] for each in ("linear", "optimal") if each in can.reasons))
            raise UnsupportedError(f"a surface on {self.adapter.name}", why, "`vkshare doctor` says what is missing")
        if tiling == "auto" and (self.adapter.kind == "gpu" or "linear" not in can.tilings or not can.host_visible):
            tiling = "optimal"
        if tiling == "auto" and "optimal" not in can.tilings:
            tiling = "linear"
        if tiling == "auto":
            with contextlib.suppress(UnsupportedError):
                return self._backend.create_image(ImageSpec(*wanted, "linear", usage, in_device_memory))
            tiling = "optimal"
        return self._backend.create_image(ImageSpec(*wanted, tiling, usage, in_device_memory and tiling == "linear"))

    def _linear_like(self, spec: ImageSpec) -> Surface:
        """A new linear surface of that size and format, with as much of the usage as the driver has."""
        wanted = spec.usage | {"copy"}
        try:
            return self._linear(spec, wanted)
        except UnsupportedError as error:
            for fewer in (wanted - {"storage"}, wanted - {"storage", "render"}, frozenset({"copy"})):
                with contextlib.suppress(UnsupportedError):
                    return self._linear(spec, fewer)
            raise error

    def _linear(self, spec: ImageSpec, usage: frozenset[str]) -> Surface:
        return self.create_surface(spec.width, spec.height, spec.format, tiling="linear", usage=usage)

    def _open_surface(self, descriptor: SurfaceDescriptor, *, discard: bool) -> Surface:
        memory_fd, page, semaphore = descriptor._open_fds()
        memory = descriptor._memory(memory_fd)
        semaphore = self._usable_semaphore(semaphore, memory.device_uuid, memory.driver_uuid)
        try:
            image = self._backend.open_image(descriptor.spec, memory)
        except BaseException:
            os.close(page)
            if semaphore >= 0:
                os.close(semaphore)
            raise
        return self._adopt_image(image, page=page, semaphore=semaphore, discard=discard)

    def _adopt_image(
        self,
        image: Image,
        *,
        page: int | None = None,
        semaphore: int = -1,
        discard: bool,
        alias_of: Surface | None = None,
    ) -> Surface:
        """Make a Surface of an image.

        Takes ownership of the image (but not of an alias's) and the fds, also on an error.
        """
        shared_image = SharedImage(image, None if alias_of is None else alias_of._shared_image)
        try:
            surface = Surface(self, shared_image, page=page, semaphore=semaphore, discard=discard, alias_of=alias_of)
        except BaseException:
            shared_image.destroy()
            raise
        with self._lock:
            self._surfaces.add(surface)
        return surface

    def _usable_semaphore(self, semaphore: int, device_uuid: bytes, driver_uuid: bytes) -> int:
        """The semaphore's fd if this device can import it.

        Else closes the fd and returns -1: the page alone synchronizes.
        """
        here = self.capabilities
        same = (device_uuid, driver_uuid) == (here.device_uuid, here.driver_uuid)
        if semaphore >= 0 and not (same and here.export_timelines):
            os.close(semaphore)
            return -1
        return semaphore

    def _compile(self, commands: _native.Recording, missing: tuple[int, int] | None) -> None:
        """Called from C to make what it lacks to compile the list: see Backend.compile()."""
        with self._active_call(), self._compile_lock:
            self._check()
            self._backend.compile(commands, missing)

    def _refuse_feature(self, surface: Surface, feature: int, is_blit: bool) -> None:
        """Called from C when a list cannot be compiled: raises the reason."""
        self._backend.refuse_feature(surface.spec, feature, is_blit=is_blit)

    def _submit_discarding(self, commands: tuple[Any, ...], waits: Any, signals: Any) -> Submission:
        """Called by submit() when a touched surface is not owned but was made with unowned="discard" (rule K21)."""
        return super().submit(*map(without_unowned, commands), waits=waits, signals=signals)


def _run(device: Device | None, command_buffer: int) -> None:
    if device is not None:
        # Not a raw command buffer: vkshare assumes that those use every surface that the device
        # owns. This one uses none,
        # and must not wait for held work.
        commands = _native.CommandList(device)
        commands._set_vulkan(command_buffer, (), lambda: None)
        device.submit(commands).wait()


def _is_owned(lock: threading.RLock) -> bool:
    """Whether this thread holds the lock, as threading.Condition tests it."""
    return bool(lock._is_owned())  # type: ignore[attr-defined, unused-ignore]


def _expect(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
