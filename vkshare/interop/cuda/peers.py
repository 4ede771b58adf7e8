"""Copies between surfaces of two GPUs, by their copy engines: the way of a mirror (rule G2).

The link between two GPUs takes memory that CUDA has allocated at ten times the rate of memory that it has imported
from Vulkan. So pixels cross in buffers of CUDA's: packed on one GPU, copied to the other, unpacked there.

Follows the CUDA driver API, "Peer Context Memory Access", cuMemcpy2DAsync() and cuMemcpyPeerAsync().
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from vkshare.core.mirror_bridge import Bridge
from vkshare.core.mirror_state import Box
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.interop.cuda.driver import GPU, CUDAError, bindings, call, gpu_of
from vkshare.interop.cuda.surface import CUDASurface
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vkshare.core.surface import Surface
    from vkshare.interop.cuda.plane import MappedPlane

_ALREADY_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
_BAND = 8 << 20  # bytes at most that cross at a time, while those before are unpacked and those behind are packed


def bridge(other: Surface, own: Surface) -> PeerBridge | None:
    """Return the bridge between two surfaces of different GPUs; None: CUDA does not copy between them."""
    if "cpu" in (other.device.backend, own.device.backend):
        return None
    try:
        first, second = gpu_of(other.device), gpu_of(own.device)
        if first.index == second.index or not (_can_access(first, second) and _can_access(second, first)):
            return None
        return PeerBridge(other, own)
    except (UnsupportedError, DeviceMismatchError, CUDAError):  # no CUDA, or no such memory in it
        return None


class End:
    """One of the two surfaces in CUDA, with two streams, an event and a buffer of its GPU."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        self._shared = CUDASurface(surface)
        self.gpu: GPU = self._shared._gpu
        self.stream = self.link = 0  # of its own work, and of copies to the other GPU
        self.buffer = 0  # a CUdeviceptr, of the size of all pixels
        self._event: Any = None

    def start(self, peer: GPU) -> None:
        """Make what the copies need, and let the GPU reach its peer."""
        driver = bindings()
        nbytes = sum(each.width * each.height * each.format.bytes_per_pixel for each in self.surface.spec.planes())
        with self.gpu.current():
            self.stream = int(call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
            self.link = int(call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
            self._event = call("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING.value)
            self.buffer = int(call("cuMemAlloc", nbytes, what=f"{nbytes} bytes"))
            try:
                call("cuCtxEnablePeerAccess", driver.CUcontext(peer.context), 0)
            except CUDAError as error:
                if error.result != _ALREADY_ENABLED:
                    raise

    @contextlib.contextmanager
    def turn(self) -> Iterator[tuple[MappedPlane, ...]]:
        """Inside, the stream has the surface's planes: behind the work before, and before the work that follows."""
        view = self._shared._begin(self.stream, None, True)
        try:
            yield view._mapped()
        finally:
            self._shared._finish(view)

    def send(self, other: End, offset: int, nbytes: int) -> None:
        """Copy a part of the buffer to the other's: behind the work in this stream, and before later work in its."""
        driver = bindings()
        link, ends = driver.CUstream(self.link), []
        for each in (other, self):
            ends += [each.buffer + offset, driver.CUcontext(each.gpu.context)]
        with self.gpu.current():
            call("cuEventRecord", self._event, driver.CUstream(self.stream))
            call("cuStreamWaitEvent", link, self._event, 0)
            call("cuMemcpyPeerAsync", *ends, nbytes, link, what=f"{nbytes} bytes")
            call("cuEventRecord", self._event, link)
        with other.gpu.current():
            call("cuStreamWaitEvent", driver.CUstream(other.stream), self._event, 0)

    def wait_for(self, other: End) -> None:
        """Order later work of this stream behind the work now in the other's."""
        driver = bindings()
        with other.gpu.current():
            call("cuEventRecord", other._event, driver.CUstream(other.stream))
        with self.gpu.current():
            call("cuStreamWaitEvent", driver.CUstream(self.stream), other._event, 0)

    def close(self) -> None:
        """Wait for the work in the streams, and free everything."""
        self._shared.close()
        driver = bindings()
        ends = [("cuStreamDestroy", driver.CUstream(each)) for each in (self.stream, self.link) if each]
        ends += [("cuEventDestroy", self._event)] if self._event is not None else []
        ends += [("cuMemFree", self.buffer)] if self.buffer else []
        self.stream = self.link = self.buffer = 0
        self._event = None
        with contextlib.suppress(CUDAError), self.gpu.current():  # the context may have failed
            for end in ends:
                call(*end)


class PeerBridge(Bridge[End]):
    """The GPUs copy, each behind its own surface's work: no CPU waits."""

    path = "peer"

    def __init__(self, other: Surface, own: Surface) -> None:
        with contextlib.ExitStack() as made:
            self._other, self._own = End(other), End(own)
            for end, peer in ((self._other, self._own), (self._own, self._other)):
                made.enter_context(on_error(end.close))
                end.start(peer.gpu)
            made.pop_all()

    def _copy(self, source: End, target: End, box: Box) -> Box:
        planes = source.surface.spec.planes()
        if len(planes) > 1:  # boxes are in pixels of luma
            box = Box(0, 0, source.surface.width, source.surface.height)
        boxes = [Box(0, 0, each.width, each.height) for each in planes] if len(planes) > 1 else [box]
        at = 0
        with source.turn() as read, target.turn() as written:
            for ours, theirs, whole in zip(read, written, boxes, strict=True):
                pitch = whole.width * ours.shape[2] * ours.dtype.itemsize
                for band in _bands(whole, max(1, _BAND // pitch)):
                    ours.copy_to(source.buffer + at, pitch, source.stream, band)
                    source.send(target, at, pitch * band.height)
                    theirs.copy_from(target.buffer + at, pitch, target.stream, band)
                    at += pitch * band.height
            source.wait_for(target)  # the buffers, too, are free for the next copy
        return box


def _bands(box: Box, rows: int) -> Iterator[Box]:
    """The box in parts of some rows each."""
    for y in range(0, box.height, rows):
        yield Box(box.x, box.y + y, box.width, min(rows, box.height - y))


def _can_access(first: GPU, second: GPU) -> bool:
    devices = [call("cuDeviceGet", each.index) for each in (first, second)]
    return bool(call("cuDeviceCanAccessPeer", *devices))
