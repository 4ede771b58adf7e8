"""A timeline semaphore that CUDA imported (native/interop/cuda_timeline.h)."""

from __future__ import annotations

from vkshare.util.library_calls import LibraryObject, lib


class CudaTimeline(LibraryObject):
    """A CUexternalSemaphore of the type timeline, of a CUcontext."""

    def __init__(self, semaphore: int, context: int) -> None:
        """UnsupportedError: CUDA's driver is not there, or too old."""
        self._make("vks_cuda_timeline", "CUDA", lib.vks_cuda_timeline_create, semaphore, context)

    def wait(self, value: int, stream: int) -> int:
        """Have the stream's work from now on wait for the value; 0 checks the stream only. Returns a CUresult."""
        return int(lib.vks_cuda_timeline_wait(self._pointer, value, stream))

    def signal(self, value: int, stream: int) -> int:
        """Have the stream signal the value after its work so far. Returns a CUresult."""
        return int(lib.vks_cuda_timeline_signal(self._pointer, value, stream))

    @property
    def given(self) -> int:
        """The last value that a stream was given to signal."""
        return int(lib.vks_cuda_timeline_given(self._pointer))

    def detach(self) -> int:
        """Return the CUexternalSemaphore, which no call uses any more, for its destruction; 0: it was detached."""
        return int(lib.vks_cuda_timeline_detach(self._pointer))
