"""The common part of CUDA's surfaces and fences: an imported timeline semaphore on one GPU, and its destruction."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from vkshare.errors import ClosedError, VkshareError
from vkshare.interop.cuda import streams
from vkshare.interop.cuda.driver import GPU
from vkshare.interop.cuda.memory import destroy_timeline
from vkshare.util.closing import Closing

if TYPE_CHECKING:
    from vkshare.core.buffer import Buffer
    from vkshare.core.device import Device
    from vkshare.core.fence import Fence
    from vkshare.core.surface import Surface
    from vkshare.interop.cuda.timeline import CudaTimeline


class Opened(Closing):
    """The base of CUDASurface and CUDAFence."""

    _thing: ClassVar[str]  # "surface" or "fence", for errors

    def __init__(self, gpu: GPU, timeline: CudaTimeline) -> None:
        self._gpu = gpu
        self._timeline: CudaTimeline | None = timeline
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def _party(self) -> Surface | Buffer | Fence:
        """The Surface, Buffer or Fence that was opened."""
        return getattr(self, f"_{self._thing}")  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        """The device of the surface or fence."""
        return self._party.device

    @property
    def gpu(self) -> GPU:
        """The GPU: its index is CUDA's, as in ``torch.device("cuda", index)``."""
        return self._gpu

    @property
    def is_closed(self) -> bool:
        return self._timeline is None

    def close(self) -> None:
        """Waits until CUDA's work so far has run; the surface or fence stays open. Idempotent."""
        with self._lock:
            timeline, self._timeline = self._timeline, None
        if timeline is None or self._pid != os.getpid():  # in a forked child it is all the parent's
            return
        if not destroy_timeline(self._gpu, timeline):
            self._lose()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        thing, kind = self._thing, type(self).__name__
        opens = "open" if thing == "surface" else f"open_{thing}"
        raise TypeError(
            f"a {kind} cannot be pickled: send {thing}.export(), open that on a device of the other process, and call "
            f"vkshare.interop.cuda.{opens}() there"
        )

    # ---- within the package ---------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._open_timeline()

    def _open_timeline(self) -> CudaTimeline:
        timeline = self._timeline
        if timeline is None:
            raise ClosedError(f"this {type(self).__name__} is closed: {self!r}")
        return timeline

    def _give_wait(self, timeline: CudaTimeline, value: int, stream: int) -> None:
        """The stream waits for the value (0: it is only checked). Raises what the CUresult means."""
        self._check(timeline.wait(value, stream), "cuWaitExternalSemaphoresAsync", stream)

    def _give_signal(self, timeline: CudaTimeline, value: int, stream: int) -> None:
        self._check(timeline.signal(value, stream), "cuSignalExternalSemaphoresAsync", stream)

    def _check(self, code: int, function: str, stream: int) -> None:
        if code:
            self._open_timeline()  # closed meanwhile: then there is no semaphore any more
            streams.checked(code, function, stream, self._gpu, self._thing)

    def _lose(self) -> None:
        """Fail the pending external values, because a kernel's error has ended CUDA in this process."""
        with contextlib.suppress(VkshareError):  # e.g. closed: then nothing waits
            self._party._external_lost()
