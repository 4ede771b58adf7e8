"""CUDA's driver, through cuda-bindings: its calls, its GPUs, and their primary contexts."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.errors import DeviceMismatchError, InvalidCallError, UnsupportedError, VkshareError

if TYPE_CHECKING:
    from vkshare.core.device import Device

STREAM_LEGACY = 1  # CU_STREAM_LEGACY
CAPTURE_ERRORS = range(900, 909)  # CUDA_ERROR_STREAM_CAPTURE_..., CUDA_ERROR_CAPTURED_EVENT
# After these "the process must be terminated and relaunched" (CUDA driver API, 6.1, CUresult): an
# uncorrectable error of memory or NVLink, a context that is gone, and what a kernel did. Every
# later call returns the same.
_FATAL = frozenset({214, 220, 226, 700, 702, 709, 710, *range(714, 720)})


class CUDAError(VkshareError):
    """A call of CUDA's driver failed.

    Parameters
    ----------
    result
        The CUresult.
    call
        The function that returned it, with what it was for where that helps.
    name
        The CUresult's name, e.g. ``"CUDA_ERROR_INVALID_VALUE"``.
    """

    def __init__(self, result: int, call: str, name: str = "") -> None:
        super().__init__(result, call, name)
        self.result = int(result)
        self.call = str(call)
        self.name = str(name)

    @property
    def is_fatal(self) -> bool:
        """Whether CUDA is at an end in this process: nothing runs of what it was given."""
        return self.result in _FATAL

    def __str__(self) -> str:
        text = f"{self.call}: {self.name or 'CUresult'} ({self.result})"
        return f"{text}; CUDA cannot be used in this process any more: start a new one" if self.is_fatal else text


def is_fatal(error: BaseException) -> bool:
    """Whether it says that CUDA is at an end in this process."""
    return isinstance(error, CUDAError) and error.is_fatal


_CONTEXT, _DEVICE_ORDINAL = 1, 9  # CU_POINTER_ATTRIBUTE_...

_initialised_in: list[int] = []  # the process that called cuInit()


@functools.cache
def bindings() -> Any:
    """cuda.bindings.driver, initialised. UnsupportedError: cuda-bindings, CUDA's driver or a GPU is missing."""
    what = "CUDA"
    try:
        from cuda.bindings import driver
    except ImportError as error:
        if (error.name or "").split(".")[0] != "cuda":
            raise UnsupportedError(what, f"cuda-bindings cannot be loaded: {error}") from None
        raise UnsupportedError(
            what,
            "cuda-bindings is not installed",
            "pip install 'vkshare[cuda]', of the CUDA version that the driver has",
        ) from None
    try:
        code = int(driver.cuInit(0)[0])
    except RuntimeError as error:  # the library is not there, or lacks an entry
        raise UnsupportedError(what, f"CUDA's driver cannot be loaded: {str(error).splitlines()[0]}") from None
    if code:
        why = {
            100: "there is no GPU that CUDA can use",
            3: "CUDA was used before a fork() (start this process by spawn or forkserver), or there is no working GPU "
            "driver",
        }
        raise UnsupportedError(what, why.get(code, f"there is CUresult {code} of cuInit"))
    _initialised_in.append(os.getpid())
    return driver


def call(function: str, *arguments: Any, what: str = "") -> Any:
    """Calls a function of the driver; what it gives beside the CUresult: nothing, one thing, or a tuple.

    Raises
    ------
    CUDAError
        It failed; `what` says what it was for.
    """
    code, *results = getattr(bindings(), function)(*arguments)
    check(int(code), function, what)
    return results[0] if len(results) == 1 else tuple(results) or None


def check(code: int, function: str, what: str = "") -> None:
    """CUDAError unless `code` is CUDA_SUCCESS."""
    if code:
        raise CUDAError(code, f"{function} of {what}" if what else function, name_of(code))


def name_of(code: int) -> str:
    """The CUresult's name."""
    driver = bindings()
    with contextlib.suppress(ValueError):
        return str(driver.CUresult(code).name)
    return ""


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU as CUDA sees it, and its primary context, which PyTorch, CuPy and JAX use too."""

    index: int
    name: str
    uuid: bytes
    context: int  # CUcontext

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Inside, the primary context is current in this thread."""
        call("cuCtxPushCurrent", bindings().CUcontext(self.context))
        try:
            yield
        finally:
            call("cuCtxPopCurrent")

    def __str__(self) -> str:
        return f"{self.name} (CUDA device {self.index}, {uuid.UUID(bytes=self.uuid)})"


@functools.cache
def _uuids() -> tuple[tuple[str, bytes], ...]:
    """Name and UUID of each GPU, in CUDA's order."""
    found = []
    for index in range(call("cuDeviceGetCount")):
        device = call("cuDeviceGet", index)
        name = call("cuDeviceGetName", 256, device)
        found.append(
            (bytes(name).split(b"\0")[0].decode(errors="replace"), bytes(call("cuDeviceGetUuid", device).bytes))
        )
    return tuple(found)


@functools.cache
def gpu(index: int) -> GPU:
    """The GPU of that index. Its primary context is kept for as long as the process lives, as PyTorch does."""
    refuse_after_fork()
    name, identity = _uuids()[index]
    context = call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", index), what=name)
    return GPU(index, name, identity, int(context))


_ON_THE_CPU = {  # why, and what to do
    "surface": ("its memory is the CPU's", "create it on a Vulkan device of the GPU, or copy view.array"),
    "buffer": ("its memory is the CPU's", "create it on a Vulkan device of the GPU, or copy view.array"),
    "fence": (
        "it is a page of the CPU's memory",
        "create it on a Vulkan device of the GPU, or let the CPU wait() for it and signal() it",
    ),
}


def gpu_of(device: Device, thing: str = "surface") -> GPU:
    """The GPU that the device is on. `thing` is what is opened of it: "surface", "buffer" or "fence".

    Raises
    ------
    UnsupportedError
        There is no CUDA here, or the device is of the CPU backend.
    DeviceMismatchError
        CUDA has no such GPU; the text names both sides.
    """
    if device.backend != "vulkan":
        raise UnsupportedError(f"a {thing} of the CPU backend in CUDA", *_ON_THE_CPU[thing])
    wanted = device.capabilities.device_uuid
    refuse_after_fork()
    known = _uuids()
    for index, (_, identity) in enumerate(known):
        if identity == wanted:
            return gpu(index)
    there = ", ".join(f"{name} ({uuid.UUID(bytes=identity)})" for name, identity in known) or "no GPU"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hint = f"; CUDA_VISIBLE_DEVICES is {visible!r}" if visible is not None else ""
    raise DeviceMismatchError(
        f"the device is on {device.adapter.name} ({uuid.UUID(bytes=wanted)}), and CUDA has {there}{hint}: open the "
        "device on the GPU that CUDA uses, e.g. vks.open(torch.device('cuda'))"
    )


def device_of(pointer: int, what: str) -> int:
    """The index of the GPU whose memory a CUdeviceptr is. CUDAError: it belongs to no GPU."""
    code, index = _ordinal(pointer)
    check(code, "cuPointerGetAttribute", what)
    return index


def context_of(pointer: int) -> int:
    """The CUcontext that a CUdeviceptr was allocated in; 0: it belongs to none, or the driver does not say."""
    code, context = _attribute(pointer, _CONTEXT, ctypes.c_void_p())
    return 0 if code else int(context.value or 0)


def _ordinal(pointer: int) -> tuple[int, int]:
    """The CUresult, and the index. cuda-bindings 13.3 says 0 for the memory of every GPU (two H200s); CUDA does not."""
    code, index = _attribute(pointer, _DEVICE_ORDINAL, ctypes.c_int(-1))
    return code, int(index.value)


def _attribute(pointer: int, name: int, out: Any) -> tuple[int, Any]:
    """The CUresult of cuPointerGetAttribute, and `out`, which has the attribute."""
    library = ctypes.CDLL("libcuda.so.1")  # which cuInit() has loaded
    return int(library.cuPointerGetAttribute(ctypes.byref(out), name, ctypes.c_uint64(pointer))), out


def refuse_after_fork() -> None:
    """InvalidCallError in a child that was forked from a process which had used CUDA: it does not work there."""
    bindings()
    if os.getpid() != _initialised_in[0]:
        raise InvalidCallError(
            "CUDA was used in the process that this one was forked from, and does not work here: start this one with "
            "multiprocessing's spawn or forkserver"
        )
