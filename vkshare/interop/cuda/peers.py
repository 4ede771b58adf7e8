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
    from collections.abc import Iterable, Iterator

    from vkshare.core.surface import Surface
    from vkshare.interop.cuda.plane import MappedPlane

    _Calls = list[tuple[GPU, list[tuple[Any, ...]]]]

_ALREADY_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
_KEPT = 16  # boxes whose calls are kept
_BAND = 64 << 20  # bytes at most that cross at a time: each band costs the CPU more than an overlap of 4K saves the GPU


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
    """One of the two surfaces in CUDA, with two streams, events and a buffer of its GPU."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        self._shared = CUDASurface(surface)
        self.gpu: GPU = self._shared._gpu
        self.stream = self.link = 0  # of its own work, and of copies to the other GPU
        self.buffer = 0  # a CUdeviceptr, of the size of all pixels
        self._events: list[Any] = []

    def start(self, peer: GPU) -> None:
        """Make what the copies need, and let the GPU reach its peer."""
        driver = bindings()
        nbytes = sum(each.width * each.height * each.format.bytes_per_pixel for each in self.surface.spec.planes())
        with self.gpu.current():
            self.stream = int(call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
            self.link = int(call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
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

    def event(self, index: int) -> Any:
        """One of the events for the order between streams."""
        while index >= len(self._events):
            with self.gpu.current():
                self._events.append(call("cuEventCreate", bindings().CUevent_flags.CU_EVENT_DISABLE_TIMING.value))
        return self._events[index]

    def close(self) -> None:
        """Wait for the work in the streams, and free everything."""
        self._shared.close()
        driver = bindings()
        ends = [("cuStreamDestroy", driver.CUstream(each)) for each in (self.stream, self.link) if each]
        ends += [("cuEventDestroy", each) for each in self._events]
        ends += [("cuMemFree", self.buffer)] if self.buffer else []
        self.stream = self.link = self.buffer = 0
        self._events = []
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
        self._calls: dict[tuple[bool, Box], _Calls] = {}  # by the direction and the box

    def _copy(self, source: End, target: End, box: Box) -> Box:
        if source.surface.spec.format.is_planar:  # boxes are in pixels of luma
            box = Box(0, 0, source.surface.width, source.surface.height)
        with source.turn() as read, target.turn() as written:
            kind = source is self._own, box
            if kind not in self._calls:
                if len(self._calls) >= _KEPT:
                    self._calls.clear()
                self._calls[kind] = _calls(source, target, zip(read, written, strict=True), box)
            calls = self._calls[kind]
            for gpu, each in calls:
                with gpu.current():
                    for arguments in each:
                        call(*arguments)
        return box


def _calls(source: End, target: End, planes: Iterable[tuple[MappedPlane, MappedPlane]], box: Box) -> _Calls:
    """The driver's calls for a copy, by the GPU whose context is current. They are the same in each turn."""
    driver = bindings()
    contexts = [driver.CUcontext(each.gpu.context) for each in (target, source)]
    out, link, into = (driver.CUstream(each) for each in (source.stream, source.link, target.stream))
    sends: list[tuple[Any, ...]] = []
    takes: list[tuple[Any, ...]] = []
    at = 0
    for read, written in planes:
        whole = Box(0, 0, read.shape[1], read.shape[0]) if source.surface.spec.format.is_planar else box
        pitch = whole.width * read.shape[2] * read.dtype.itemsize
        for band in _bands(whole, max(1, _BAND // pitch)):
            nbytes = pitch * band.height
            across = target.buffer + at, contexts[0], source.buffer + at, contexts[1], nbytes
            packed, crossed = source.event(len(takes)), source.event(len(takes) + 1)
            sends += [
                read.copying(True, source.buffer + at, pitch, source.stream, band),
                ("cuEventRecord", packed, out),
                ("cuStreamWaitEvent", link, packed, 0),
                ("cuMemcpyPeerAsync", *across, link),
                ("cuEventRecord", crossed, link),
            ]
            takes += [
                ("cuStreamWaitEvent", into, crossed, 0),
                written.copying(False, target.buffer + at, pitch, target.stream, band),
            ]
            at += nbytes
    taken = target.event(0)
    takes.append(("cuEventRecord", taken, into))
    behind = [("cuStreamWaitEvent", out, taken, 0)]  # the buffers, too, are free for the next copy
    return [(source.gpu, sends), (target.gpu, takes), (source.gpu, behind)]


def _bands(box: Box, rows: int) -> Iterator[Box]:
    """The box in parts of some rows each."""
    for y in range(0, box.height, rows):
        yield Box(box.x, box.y + y, box.width, min(rows, box.height - y))


def _can_access(first: GPU, second: GPU) -> bool:
    devices = [call("cuDeviceGet", each.index) for each in (first, second)]
    return bool(call("cuDeviceCanAccessPeer", *devices))
