"""A surface or a buffer as a party of CUDA: its memory, and its turns."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from vkshare.core.buffer import Buffer
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, InvalidCallError, VkshareError
from vkshare.interop.cuda import streams
from vkshare.interop.cuda.driver import CUDAError, gpu_of, is_fatal
from vkshare.interop.cuda.memory import ImportedMemory, import_memory
from vkshare.interop.cuda.opened import Opened
from vkshare.interop.cuda.timeline import CudaTimeline
from vkshare.interop.cuda.view import CUDABlock, CUDAView
from vkshare.util import arguments


@dataclass(frozen=True, slots=True)
class CUDAStatistics:
    """A snapshot."""

    accesses: int  # that ended by handing the surface on
    copied_bytes: int  # always 0: CUDA works in the surface's own memory
    joined_streams: int  # that took a view by DLPack, beside the stream of the access, and were waited for


def open(surface: Surface | Buffer) -> CUDASurface:
    """Opens a surface or a buffer in CUDA: the memory itself. Nothing is copied.

    It takes its turns through this handle: where CUDA is to wait for another thread of the process,
    give it a handle of its own, ``device.open_surface(surface)``. A queue's surface may be opened
    too, and is used with ``within()``.

    Parameters
    ----------
    surface
        A vkshare.Surface or a vkshare.Buffer on a Vulkan device of an NVIDIA GPU. It need not be owned, and
        stays the caller's.

    Returns
    -------
    CUDASurface
        Close it, or use it in a ``with`` block.

    Raises
    ------
    UnsupportedError
        There is no CUDA here, or it cannot import such a surface; the CPU backend's never can be.
    DeviceMismatchError
        CUDA has not the surface's GPU; the text names both.
    ClosedError
        The surface, or its device, is closed.
    InvalidCallError
        CUDA was used in the process that this one was forked from.
    CUDAError
        The driver refused.
    """
    if not isinstance(surface, Buffer):
        arguments.instance("surface", surface, Surface, "vkshare.Surface or vkshare.Buffer")
    return CUDASurface(surface)


class CUDASurface(Opened):
    """A surface or a buffer in CUDA. Made by vkshare.interop.cuda.open(). Thread-safe; one access at a time.

    Closing the surface, or its device, leaves the memory valid; there are no more turns then.
    """

    _thing = "surface"

    def __init__(self, surface: Surface | Buffer) -> None:
        surface.device._check()
        self._surface = surface
        self._accesses = self._joined = 0
        gpu = gpu_of(surface.device, surface._kind)
        self._memory: ImportedMemory | None
        self._memory, timeline = import_memory(gpu, surface)
        super().__init__(gpu, timeline)

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def surface(self) -> Any:
        """The handle through which it takes its turns: the Surface, or the Buffer."""
        return self._surface

    # ---- its turns ------------------------------------------------------------------------------------------------

    def access(
        self,
        acquire: int = 0,
        release: int = 0,
        timeout: float | None = None,
        *,
        stream: Any = None,
        writable: bool = True,
    ) -> CUDABlock:
        """Owns the surface for CUDA inside ``with shared.access(acquire=1, stream=stream) as view:``.

        The CPU waits until the surface was released with that key, and for no work: the stream's
        work from here on waits on the GPU for what the owners before have submitted, and at the end
        of the block the next owner's waits for what the stream has by then. Streams that take the
        view by DLPack (PyTorch's current one) are joined. Vulkan's commands on this handle are
        refused meanwhile.

        Parameters
        ----------
        acquire, release
            The keys to own it by, and to hand it on with. A body that raises releases with the
            ACQUIRE key (rule K31).
        timeout
            Seconds to wait for ownership; None: without limit.
        stream
            A stream of PyTorch, CuPy or Numba, anything with ``__cuda_stream__``, or a CUstream as
            an integer. None: the legacy default stream, which is PyTorch's and CuPy's default.
        writable
            False: arrays are read-only, where their library knows that.

        Returns
        -------
        CUDABlock
            A context manager, which gives a CUDAView. The errors below are raised when the block is
            entered, unless an entry says otherwise.

        Raises
        ------
        AcquireTimeout, AbandonedError, ClosedError
            As Surface.acquire().
        DeviceMismatchError
            The stream is of another GPU.
        InvalidCallError
            The handle owns the surface already; the stream is being captured into a graph. At the
            end of the block: CUDA's work cannot be waited for, so the surface is not handed on.
        CUDAError
            The driver refused, or a kernel has failed, at either end of the block.
        ValueError, TypeError
            At once: a key, the timeout or the stream is not as above.
        """
        keys = arguments.keys(acquire, release)
        return CUDABlock(self, streams.handle(stream), bool(writable), keys, arguments.timeout(timeout))

    def within(self, *, stream: Any = None, writable: bool = True) -> CUDABlock:
        """Begins CUDA's block in a turn of the handle: ``with shared.within(stream=stream) as view:``.

        For a queue's surfaces, and wherever ``surface.acquire()`` was called. CUDA's work comes
        after the commands that were submitted to the surface in this turn, and before those that
        are submitted after the block.

        Parameters
        ----------
        stream, writable
            As of access().

        Returns
        -------
        CUDABlock
            A context manager, which gives a CUDAView. The errors below are raised when the block is
            entered, unless an entry says otherwise.

        Raises
        ------
        NotOwnerError
            The handle does not own the surface.
        ClosedError, DeviceMismatchError, InvalidCallError, CUDAError, ValueError, TypeError
            As access().
        """
        return CUDABlock(self, streams.handle(stream), bool(writable), None, None)

    def statistics(self) -> CUDAStatistics:
        """Returns a snapshot of the counters."""
        return CUDAStatistics(self._accesses, 0, self._joined)

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Waits until CUDA's work so far has run, and lets go of the memory; the surface stays open. Idempotent.

        Tensors and arrays that are alive keep the memory; what is in it is the next owner's.
        """
        super().close()
        self._memory = None  # if this is the last reference, it waits for the GPU

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else str(self._gpu)
        return f"<vkshare.interop.cuda.CUDASurface of a {self._surface._spec}, {state}>"

    # ---- within the package ---------------------------------------------------------------------------------------

    def _open_parts(self) -> tuple[ImportedMemory, CudaTimeline]:
        memory, timeline = self._memory, self._open_timeline()
        if memory is None:
            raise ClosedError(f"this CUDASurface is closed: {self!r}")
        return memory, timeline

    def _begin(self, stream: int, timeout: float | None, writable: bool) -> CUDAView:
        """The handle owns the surface: CUDA's part of the turn begins."""
        memory, timeline = self._open_parts()
        surface = self._surface
        # CUDA's streams see the CPU's writes to mapped memory only after work of Vulkan's queue
        # (seen on an H200).
        value = self._begin_external(surface.is_host_visible, timeout)
        try:
            self._give_wait(timeline, value, stream)
        except BaseException as error:
            with contextlib.suppress(VkshareError):  # e.g. closed meanwhile
                surface._external_end(0)
            if is_fatal(error):
                self._lose()  # the values that earlier blocks announced
            raise
        return CUDAView(memory, stream, writable and not self._surface.is_read_only)

    def _finish(self, view: CUDAView) -> None:
        """End CUDA's access: the next owner's work is ordered after it."""
        view._memory = None
        stream, value, timeline = view._stream, 0, None
        try:
            _, timeline = self._open_parts()
            self._join(view)
            value = self._surface._external_signal_value()
            self._give_signal(timeline, value, stream)
        except BaseException as error:
            if is_fatal(error):  # the work of this block is lost, too: the next owner gets AbandonedError
                self._lose()
                raise
            given = timeline is not None and timeline.given == value
            with contextlib.suppress(VkshareError):  # Ctrl-C is heard after a call too
                self._surface._external_end(value if given else 0)
            if isinstance(error, CUDAError | ClosedError):
                raise InvalidCallError(
                    f"CUDA's work on {self._surface!r} cannot be waited for ({error}), so it is not handed on: "
                    "synchronize the stream, and then surface.release(key); or close the surface"
                ) from error
            raise
        try:
            self._surface._external_end(value)
        except BaseException:  # Ctrl-C may be heard before the call, and after it
            with contextlib.suppress(VkshareError):
                self._surface._external_end(value)
            raise
        self._accesses += 1

    def _begin_external(self, after_cpu: bool, timeout: float | None) -> int:
        try:
            return self._surface._external_begin(after_cpu, timeout)
        except KeyboardInterrupt:  # heard after the call: this turn has begun
            with contextlib.suppress(VkshareError):
                self._surface._external_end(0)
            raise

    def _join(self, view: CUDAView) -> None:
        """The view's stream waits for the others that took it."""
        for other in set(view._others):
            streams.join(other, view._stream, self._gpu)
            self._joined += 1
