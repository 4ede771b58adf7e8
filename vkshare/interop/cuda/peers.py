"""Copies between surfaces of two GPUs, by their copy engines: the way of a mirror (rule G2).

Follows the CUDA driver API, "Peer Context Memory Access" and cuMemcpy3DPeerAsync().
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
    """One of the two surfaces in CUDA, with a stream and an event of its GPU."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        self._shared = CUDASurface(surface)
        self.gpu: GPU = self._shared._gpu
        self.stream = 0
        self._event: Any = None

    def start(self, peer: GPU) -> None:
        """Make stream and event, and let the GPU reach its peer."""
        driver = bindings()
        with self.gpu.current():
            self.stream = int(call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
            self._event = call("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING.value)
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

    def wait_for(self, other: End) -> None:
        """Order later work of this stream behind the work now in the other's."""
        driver = bindings()
        with other.gpu.current():
            call("cuEventRecord", other._event, driver.CUstream(other.stream))
        with self.gpu.current():
            call("cuStreamWaitEvent", driver.CUstream(self.stream), other._event, 0)

    def close(self) -> None:
        """Wait for the work in the stream, and free everything."""
        self._shared.close()
        with contextlib.suppress(CUDAError), self.gpu.current():  # the context may have failed
            stream, self.stream = self.stream, 0
            if stream:
                call("cuStreamDestroy", bindings().CUstream(stream))
            event, self._event = self._event, None
            if event is not None:
                call("cuEventDestroy", event)


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
        with source.turn() as read, target.turn() as written:
            target.wait_for(source)
            for each in zip(read, written, boxes, strict=True):
                _copy_plane(*each, target.stream)
            source.wait_for(target)
        return box


def _copy_plane(source: MappedPlane, target: MappedPlane, box: Box, stream: int) -> None:
    driver = bindings()
    pixel = source.shape[2] * source.dtype.itemsize
    copy = driver.CUDA_MEMCPY3D_PEER()
    for name, plane in (("src", source), ("dst", target)):
        side: dict[str, Any] = {"Context": driver.CUcontext(plane.gpu.context), "XInBytes": box.x * pixel, "Y": box.y}
        if plane.array:
            side |= {"MemoryType": driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, "Array": driver.CUarray(plane.array)}
        else:
            side |= {"MemoryType": driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, "Device": plane.pointer}
            side |= {"Pitch": plane.stride, "Height": plane.shape[0]}
        for field, value in side.items():
            setattr(copy, name + field, value)
    copy.WidthInBytes, copy.Height, copy.Depth = box.width * pixel, box.height, 1
    with target.gpu.current():
        call("cuMemcpy3DPeerAsync", copy, driver.CUstream(stream), what=f"{box.width}x{box.height}")


def _can_access(first: GPU, second: GPU) -> bool:
    devices = [call("cuDeviceGet", each.index) for each in (first, second)]
    return bool(call("cuDeviceCanAccessPeer", *devices))
