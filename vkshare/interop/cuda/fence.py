"""A fence that CUDA's streams wait for and signal."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from typing import Any

from vkshare.core.fence import Fence
from vkshare.errors import UnsupportedError, VkshareError
from vkshare.interop.cuda import streams
from vkshare.interop.cuda.driver import gpu_of, is_fatal
from vkshare.interop.cuda.memory import free_what_is_left, import_timeline
from vkshare.interop.cuda.opened import Opened
from vkshare.interop.cuda.timeline import CudaTimeline
from vkshare.util import arguments


@dataclass(frozen=True, slots=True)
class CUDAFenceStatistics:
    """A snapshot."""

    waits: int  # that a stream was given; none is needed for what is reached
    signals: int  # that a stream was given


def open_fence(fence: Fence) -> CUDAFence:
    """Opens a fence in CUDA: its own timeline semaphore, which streams wait for and signal.

    Parameters
    ----------
    fence
        A vkshare.Fence of a Vulkan device on an NVIDIA GPU: one that it made, or a follower of
        another process's or device's, which can be waited for only. It stays the caller's.

    Returns
    -------
    CUDAFence
        Close it, or use it in a ``with`` block.

    Raises
    ------
    UnsupportedError
        There is no CUDA here, or the fence has no semaphore that CUDA can import: the CPU
        backend's, an adopted one.
    DeviceMismatchError
        CUDA has not the fence's GPU; the text names both.
    ClosedError
        The fence, or its device, is closed.
    InvalidCallError
        CUDA was used in the process that this one was forked from.
    CUDAError
        The driver refused.
    """
    arguments.instance("fence", fence, Fence, "vkshare.Fence")
    return CUDAFence(fence)


class CUDAFence(Opened):
    """A fence in CUDA. Made by vkshare.interop.cuda.open_fence(). Thread-safe.

    Its rules are the fence's (rules X1 to X24), and a stream's wait or signal has the effect of a
    submission's. Closing the fence, or its device, waits for the signals that streams were given.
    """

    _thing = "fence"

    def __init__(self, fence: Fence) -> None:
        fence.device._check()
        self._fence = fence
        self._waits = self._signals = 0
        self._signalling = threading.Lock()  # values are queued one at a time
        gpu = gpu_of(fence.device, self._thing)
        free_what_is_left()
        with fence.export() as descriptor:
            page, semaphore = descriptor._open_fds()
        os.close(page)
        if semaphore < 0:
            raise UnsupportedError(f"{fence!r} in CUDA", f"{fence.device.adapter.name} shares no timeline semaphores")
        super().__init__(gpu, import_timeline(gpu, semaphore))

    @property
    def fence(self) -> Fence:
        """The fence that it stands for."""
        return self._fence

    def wait(self, value: int, stream: Any = None, timeout: float | None = None) -> None:
        """Makes the stream's work from here on wait for the value; the GPU waits, not the CPU.

        The CPU waits only until the value is certain to come: its signal is with a driver, or was
        reached. A stream is never given a wait for a value that is not queued, or that only a held
        submission will signal.

        Parameters
        ----------
        value
            0 to 2**64 - 2.
        stream
            As in CUDASurface.access(). None: the legacy default stream.
        timeout
            Seconds to wait until it is certain; 0: only test; None: without limit.

        Raises
        ------
        TimeoutError
            The value was not queued in that time; the stream does not wait for it.
        AbandonedError, ClosedError, DeviceLostError
            As Fence.wait(): the value can never be reached.
        DeviceMismatchError
            The stream is of another GPU.
        InvalidCallError
            The stream is being captured into a graph.
        CUDAError
            The driver refused.
        """
        number, timeline = self._checked(stream)
        value = self._fence._external_wait(value, timeout)
        if not value:
            return
        self._wait_or_lose(timeline, value, number)
        self._waits += 1

    def signal(self, value: int, stream: Any = None) -> None:
        """Signal the value once the stream's work so far, and every value queued before, has completed.

        Returns at once. From then on the value is queued (``Fence.queued_value``): submissions that
        wait for it go to the driver, here and in other processes, and wait on the GPU. Should CUDA
        die with the work under way, waits for the value end in AbandonedError as soon as this
        process finds out, by its next call of this object or its end.

        Parameters
        ----------
        value
            Above ``Fence.queued_value``, up to 2**64 - 2.
        stream
            As in CUDASurface.access(). None: the legacy default stream.

        Raises
        ------
        ValueError
            The value is not above the queued value, or too far above the fence's value (rule X1).
        InvalidCallError
            The fence is a follower; a held submission signals it first; the stream is being captured into a graph.
        DeviceMismatchError
            The stream is of another GPU.
        AbandonedError, ClosedError, DeviceLostError
            The fence has ended.
        CUDAError
            The driver refused; no value is queued.
        """
        value = arguments.integer("value", value)
        number, timeline = self._checked(stream)
        with self._signalling:
            before = self._promise(value)
            try:
                if before:
                    self._give_wait(timeline, before, number)
                self._give_signal(timeline, value, number)
            except BaseException as error:
                with contextlib.suppress(VkshareError):  # Ctrl-C is heard after a call too
                    self._fence._external_end(value if timeline.given == value else 0)
                if is_fatal(error):
                    self._lose()
                raise
            self._fence._external_end(value)
            self._signals += 1

    def statistics(self) -> CUDAFenceStatistics:
        """Returns a snapshot of the counters."""
        return CUDAFenceStatistics(self._waits, self._signals)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else str(self._gpu)
        return f"<vkshare.interop.cuda.CUDAFence of {self._fence!r}, {state}>"

    def _checked(self, stream: Any) -> tuple[int, CudaTimeline]:
        """The stream, which can be given waits and signals, and the timeline."""
        number, timeline = streams.handle(stream), self._open_timeline()
        self._fence.device._check()  # in a forked child, before CUDA is asked
        self._wait_or_lose(timeline, 0, number)
        return number, timeline

    def _wait_or_lose(self, timeline: CudaTimeline, value: int, stream: int) -> None:
        """The stream waits for the value (0: it is only checked). Pending values fail if CUDA is at an end."""
        try:
            self._give_wait(timeline, value, stream)
        except VkshareError as error:
            if is_fatal(error):
                self._lose()
            raise

    def _promise(self, value: int) -> int:
        """Return the value for which the stream must wait first, or 0."""
        try:
            return self._fence._external_begin(value)
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C is handled after the call: the value is queued
                with contextlib.suppress(VkshareError):
                    self._fence._external_end(0)
            raise
