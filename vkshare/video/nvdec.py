"""Frames that NVIDIA's decoder leaves on the GPU: copied there, into a surface's planes."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError, VkshareError
from vkshare.video.decoder import load_av

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface

# FFmpeg takes the context that is current. It refuses the primary one by the option for that, which PyAV sets, where
# vkshare or PyTorch has it already: it would have it with other flags.
_OPTIONS = {"primary_ctx": "0", "current_ctx": "1"}
_KEPT = 3  # frames whose copies may still run: the decoder uses a frame's memory again once it is dropped


class Acceleration:
    """NVDEC on a GPU, for PyAV."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu

    def open(self, *arguments: Any, **options: Any) -> Any:
        """Call av.open() so that the frames stay in CUDA's primary context of the GPU."""
        av = load_av()
        from av.codec.hwaccel import HWAccel

        # The frames are in the context that is current; the number is what PyAV says of them by DLPack.
        hardware = HWAccel("cuda", str(self._gpu.index), options=dict(_OPTIONS), is_hw_owned=True)
        with self._gpu.current():
            return av.open(*arguments, hwaccel=hardware, **options)


def acceleration(device: Device, wanted: bool | None) -> Acceleration | None:
    """Return NVDEC on the device's GPU; None: frames are decoded by the CPU.

    Parameters
    ----------
    device
        The device that gets the surfaces.
    wanted
        True: nothing else will do. None: where it is there. False: not at all.

    Raises
    ------
    UnsupportedError
        It is wanted, and not there.
    """
    if wanted is False:
        return None
    try:
        return _acceleration(device)
    except VkshareError as error:
        if wanted:
            raise UnsupportedError("hardware=True", str(error), "use hardware=False, or None") from error
        return None


def _acceleration(device: Device) -> Acceleration:
    if device.backend != "vulkan":
        raise UnsupportedError("NVDEC", f"{device.adapter.name} is no GPU")
    from vkshare.interop.cuda.driver import gpu_of

    gpu = gpu_of(device, "video")
    load_av()
    from av.codec import hwaccel

    if "cuda" not in [str(each) for each in hwaccel.hwdevices_available()]:
        raise UnsupportedError("NVDEC", "this PyAV is built without CUDA")
    return Acceleration(gpu)


def is_on_gpu(frame: Any) -> bool:
    """Whether a frame's memory is CUDA's."""
    return bool(frame.format.name == "cuda")


class Copier:
    """Copies frames into surfaces, in CUDA's legacy default stream: the decoder's work on them is there, too."""

    def __init__(self) -> None:
        self._opened: dict[int, Any] = {}  # CUDASurface by the surface's id
        self._copies: deque[tuple[Any, Any]] = deque()  # a frame, and the event after its copy

    def copy(self, frame: Any, surface: Surface) -> None:
        """Copy each plane on the GPU. The surface's next owner comes behind the copies; the CPU does not wait."""
        from vkshare.interop import cuda
        from vkshare.interop.cuda.driver import STREAM_LEGACY, bindings, call

        opened = self._opened.get(id(surface))
        if opened is None:
            opened = self._opened[id(surface)] = cuda.open(surface)
        while len(self._copies) >= _KEPT:
            self._forget_one()
        with opened.within() as view:
            view.copy_from(frame.planes)
            with opened.gpu.current():
                event = call("cuEventCreate", bindings().CUevent_flags.CU_EVENT_DISABLE_TIMING.value)
                call("cuEventRecord", event, bindings().CUstream(STREAM_LEGACY))
        self._copies.append((frame, functools.partial(_wait, opened.gpu, event)))

    def _forget_one(self) -> None:
        _, wait = self._copies[0]
        wait()
        self._copies.popleft()

    def close(self) -> None:
        """Waits for the copies."""
        with contextlib.suppress(VkshareError):  # CUDA has died: nothing runs any more
            while self._copies:
                self._forget_one()
        self._copies.clear()
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()


def _wait(gpu: Any, event: Any) -> None:
    from vkshare.interop.cuda.driver import call

    with gpu.current():
        call("cuEventSynchronize", event)
        call("cuEventDestroy", event)
