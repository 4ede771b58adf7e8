"""Convert a caller's stream argument to a CUstream."""

from __future__ import annotations

import operator
from typing import Any

from vkshare.errors import DeviceMismatchError, InvalidCallError
from vkshare.interop.cuda.driver import GPU, STREAM_LEGACY, bindings, call, check, gpu

_LARGEST = 2**64 - 1
_INVALID_CONTEXT, _CAPTURING, _ANOTHER_CAPTURING = 201, 900, 906
_IN_ORDER = {"surface": "hand the surface over", "fence": "wait for the fence and signal it"}


def handle(stream: Any) -> int:
    """Return the CUstream of a stream.

    None (the legacy default stream), an integer, a stream of PyTorch, CuPy, Numba or cuda-bindings,
    or anything that has ``__cuda_stream__``.

    Raises
    ------
    TypeError, ValueError
        It is none of these.
    """
    if stream is None:
        return STREAM_LEGACY
    if isinstance(stream, bool):
        raise TypeError("stream must be a stream or an integer, not bool")
    if (protocol := getattr(stream, "__cuda_stream__", None)) is not None:
        version, number = protocol() if callable(protocol) else protocol
        if version != 0:
            raise ValueError(f"__cuda_stream__ has version {version}; allowed is 0")
        stream = number
    for name in ("cuda_stream", "ptr"):  # PyTorch; CuPy
        if hasattr(stream, name):
            stream = getattr(stream, name)
    try:
        number = int(stream) if _is_handle(stream) else operator.index(stream)
    except TypeError:
        raise TypeError(
            "stream must be None, an integer, or something with __cuda_stream__ (a stream of PyTorch, CuPy ...), not "
            f"{type(stream).__name__}"
        ) from None
    if not 0 <= number <= _LARGEST:
        raise ValueError(f"stream is {number}; allowed are 0 to 2**64 - 1")
    return number or STREAM_LEGACY


def _is_handle(stream: Any) -> bool:
    """A CUstream or cudaStream_t of cuda-bindings, or a stream of Numba: int() gives the handle."""
    return type(stream).__module__.split(".")[0] in ("cuda", "numba")


def checked(code: int, function: str, stream: int, wanted: GPU, thing: str) -> None:
    """Raises what a CUresult of CudaTimeline.wait() or signal() means. `thing`: "surface" or "fence"."""
    if code == _INVALID_CONTEXT:
        _refuse_other(stream, wanted, thing)
    if code == _CAPTURING:
        raise InvalidCallError(
            f"the stream 0x{stream:x} is being captured into a graph, which would wait for the same values each time: "
            f"{_IN_ORDER[thing]} before and after the graph's launch"
        )
    if code == _ANOTHER_CAPTURING:
        raise InvalidCallError(
            f"the stream 0x{stream:x} is the legacy default one, which cannot be used while another is being captured "
            f"into a graph: give a non-blocking stream, or {_IN_ORDER[thing]} before or after the capture"
        )
    check(code, function, f"the stream 0x{stream:x}")


def _refuse_other(stream: int, wanted: GPU, thing: str) -> None:
    context = call("cuStreamGetCtx", bindings().CUstream(stream), what=f"the stream 0x{stream:x}")
    call("cuCtxPushCurrent", context)
    try:
        found = gpu(int(call("cuCtxGetDevice")))
    finally:
        call("cuCtxPopCurrent")
    if found.index != wanted.index:
        raise DeviceMismatchError(f"the {thing} is on {wanted}, and the stream 0x{stream:x} is on {found}")
    raise InvalidCallError(
        f"the stream 0x{stream:x} belongs to another context than the primary one of {wanted}: use a stream of that"
    )


def join(first: int, then: int, where: GPU) -> None:
    """Order later work in stream `then` after the work now in `first`."""
    if first == then:
        return
    driver = bindings()
    with where.current():
        event = call("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING.value)
        try:
            call("cuEventRecord", event, driver.CUstream(first))
            call("cuStreamWaitEvent", driver.CUstream(then), event, 0)
        finally:
            call("cuEventDestroy", event)  # the driver forgets it when it has come
