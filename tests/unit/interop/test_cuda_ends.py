"""What CUDA has taken over, and what becomes of it when something fails or ends. CUDA's driver is faked: no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from support.c_client import compiled
from support.fake_driver import CAPTURING, FAILED, HERE, FakeDriver

from vkshare import _native, formats
from vkshare.backends.base import BufferSpec, MemoryHandle
from vkshare.errors import ClosedError, DeviceMismatchError, InvalidCallError, UnsupportedError
from vkshare.interop.cuda import CUDASurface, driver, memory, sharing, streams, tensors
from vkshare.interop.cuda.driver import GPU, CUDAError
from vkshare.interop.cuda.memory import ImportedMemory
from vkshare.interop.cuda.view import CUDAView

pytest_plugins = ["support.fake_driver"]
pytestmark = pytest.mark.no_driver


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("imported")
    yield made
    with suppress(OSError):
        os.close(made)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def imported(fd: int, tiling: str = "linear") -> ImportedMemory:
    spec: Any = SimpleNamespace(width=8, height=8, format=formats.get("rgba8unorm"), tiling=tiling, usage={"render"})
    given: Any = SimpleNamespace(fd=fd, size=4096, offset=0, stride=32, dedicated=True)
    return ImportedMemory(HERE, spec, given, MagicMock())


# ---- fds ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "I11")
def test_an_fd_that_cuda_took_is_not_closed_a_second_time(cuda: FakeDriver, fd: int) -> None:
    cuda.codes["cuExternalMemoryGetMappedBuffer"] = 1
    with pytest.raises(CUDAError, match="cuExternalMemoryGetMappedBuffer"):
        imported(fd)
    assert is_open(fd), "it was CUDA's from the import on, and may be another file by now"
    assert cuda.freed() == ["cuDestroyExternalMemory"]


@pytest.mark.rule("I3")
def test_an_fd_that_cuda_refused_is_closed(cuda: FakeDriver, fd: int) -> None:
    cuda.codes["cuImportExternalMemory"] = 1
    with pytest.raises(CUDAError, match="cuImportExternalMemory"):
        imported(fd)
    assert not is_open(fd)
    assert cuda.freed() == []


@pytest.mark.rule("I3", "I10")
def test_a_semaphore_that_no_timeline_came_of_is_destroyed_and_its_fd_left_to_cuda(
    cuda: FakeDriver, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_old = UnsupportedError("CUDA", "CUDA's driver has no cuStreamGetCtx; install a newer driver")
    monkeypatch.setattr(memory, "CudaTimeline", MagicMock(side_effect=too_old))
    with pytest.raises(UnsupportedError, match="cuStreamGetCtx; install a newer driver"):
        memory.import_timeline(HERE, fd)
    assert is_open(fd)
    assert cuda.freed() == ["cuDestroyExternalSemaphore"]


@pytest.mark.rule("E5", "I3")
def test_a_buffer_is_mapped_with_exactly_its_bytes_and_is_an_array_of_one_dimension(
    cuda: FakeDriver, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = SimpleNamespace()
    monkeypatch.setattr(FakeDriver, "CUDA_EXTERNAL_MEMORY_BUFFER_DESC", lambda _: mapped, raising=False)
    given = MemoryHandle("opaque_fd", fd, 8192, 0, 0, False, bytes(16), bytes(16))
    made = ImportedMemory(HERE, BufferSpec(5001, frozenset({"copy"})), given, MagicMock())
    assert (mapped.offset, mapped.size) == (0, 5001)
    assert "cuExternalMemoryGetMappedMipmappedArray" not in cuda.calls
    view = CUDAView(made, 1, True)
    assert (view.shape, view.strides, view.dtype, view.pointer) == ((5001,), (1,), np.dtype(np.uint8), 0x10)
    assert view.__cuda_array_interface__["shape"] == (5001,)
    assert "dltensor" in repr(view.__dlpack__(stream=-1))
    with pytest.raises(UnsupportedError, match="of a buffer"):
        view.format  # noqa: B018
    del view, made
    assert cuda.freed() == ["cuMemFree", "cuDestroyExternalMemory"]


@pytest.mark.rule("E5")
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4)])
def test_a_capsule_of_fewer_dimensions_is_the_array_that_numpy_has(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    lengths: Any = (*shape, 1, 1)[:3]
    steps: Any = (*array.strides, 0, 0)[:3]

    class Exporter:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> object:
            return _native.dlpack(array, array.ctypes.data, 1, 0, len(shape), 1, 8, lengths, steps, None)

    seen = np.from_dlpack(Exporter())  # type: ignore[arg-type]
    assert seen.shape == shape
    assert (seen == array).all()
    assert np.shares_memory(seen, array)


# ---- freeing -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I11")
def test_what_was_made_of_the_memory_goes_before_it(cuda: FakeDriver, fd: int) -> None:
    made = imported(fd, "optimal")
    assert made.planes[0].object("texture")
    assert made.planes[0].object("surface") == made.planes[0].object("surface")
    assert cuda.calls.count("cuSurfObjectCreate") == 1
    del made
    assert "cuCtxSynchronize" in cuda.calls, "a kernel may use it still"
    assert cuda.freed() == [
        "cuTexObjectDestroy",
        "cuSurfObjectDestroy",
        "cuMipmappedArrayDestroy",
        "cuDestroyExternalMemory",
    ]
    cuda.codes["cuMipmappedArrayGetLevel"] = 1
    with pytest.raises(CUDAError):
        imported(os.dup(fd), "optimal")
    assert cuda.freed() == ["cuMipmappedArrayDestroy", "cuDestroyExternalMemory"]


@pytest.mark.rule("I11")
def test_what_ends_while_a_stream_is_captured_is_freed_later(cuda: FakeDriver, fd: int) -> None:
    made = imported(fd)
    cuda.codes["cuCtxSynchronize"] = CAPTURING
    timeline: Any = MagicMock(detach=lambda: 0x20)
    memory.destroy_timeline(HERE, timeline)
    del made
    assert cuda.freed() == []
    cuda.codes.clear()
    memory.free_what_is_left()
    assert sorted(cuda.freed()) == ["cuDestroyExternalMemory", "cuDestroyExternalSemaphore", "cuMemFree"]
    memory.free_what_is_left()
    assert cuda.freed() == []


@pytest.mark.rule("I11")
def test_in_a_context_that_died_nothing_is_freed_and_nothing_raised(cuda: FakeDriver, fd: int) -> None:
    made = imported(fd)
    cuda.codes["cuCtxSynchronize"] = 700  # CUDA_ERROR_ILLEGAL_ADDRESS
    del made
    cuda.codes.clear()
    memory.free_what_is_left()
    assert cuda.freed() == []


@pytest.mark.rule("I5")
def test_a_forked_child_is_told_so_before_anything_is_asked_of_cuda(
    cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_initialised_in", [1])  # as in a child: another process called cuInit()
    driver._uuids.cache_clear()
    device: Any = SimpleNamespace(backend="vulkan", capabilities=SimpleNamespace(device_uuid=bytes(16)))
    with pytest.raises(InvalidCallError, match="spawn or forkserver"):
        driver.gpu_of(device)
    assert cuda.calls == []


# ---- a turn ------------------------------------------------------------------------------------------------------


class Turn:
    """A CUDASurface over nothing: `done` is what was asked of the surface and of the timeline."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.signals: Any = lambda: 0
        self.shared = shared = CUDASurface.__new__(CUDASurface)
        shared._gpu, shared._pid, shared._lock = HERE, os.getpid(), MagicMock()
        shared._accesses = shared._joined = 0
        shared._surface = MagicMock(
            _external_begin=lambda *_: 4,
            _external_signal_value=lambda: 5,
            _external_end=lambda value: self.done.append(value),
            _external_lost=lambda: self.done.append("lost"),
            release=lambda key: self.done.append(f"released by {key}"),
        )
        shared._memory = MagicMock()
        shared._timeline = MagicMock(wait=lambda *_: self.signals(), signal=self._signal, detach=self._detach, given=0)

    def _signal(self, value: int, stream: int) -> Any:
        timeline: Any = self.shared._timeline
        before, timeline.given = timeline.given, value  # an interrupt comes after CUDA was asked
        if code := self.signals():
            timeline.given = before
        return code

    def _detach(self) -> int:
        self.done.append("detached")
        return 0x20

    def view(self) -> CUDAView:
        assert self.shared._memory is not None
        return CUDAView(self.shared._memory, 1, True)


@pytest.fixture
def turn(cuda: FakeDriver) -> Iterator[Turn]:
    made = Turn()
    yield made
    made.shared._timeline = None  # closed


@pytest.mark.rule("I3")
def test_a_turn_that_cannot_begin_is_not_left_open(turn: Turn) -> None:
    turn.signals = lambda: CAPTURING
    with pytest.raises(InvalidCallError, match="being captured"):
        turn.shared.within().__enter__()
    turn.signals = MagicMock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        turn.shared.within().__enter__()
    assert turn.done == [0, 0]


@pytest.mark.rule("I3")
def test_a_turn_that_cannot_end_is_not_handed_on(turn: Turn) -> None:
    turn.signals = lambda: 1
    with pytest.raises(InvalidCallError, match=r"cannot be waited for.*synchronize the stream"):
        turn.shared._finish(turn.view())
    assert turn.done == [0]
    assert turn.shared.statistics().accesses == 0


@pytest.mark.rule("I3", "K9")
def test_a_kernel_that_failed_ends_the_block_at_once_and_gives_the_surface_up(turn: Turn, cuda: FakeDriver) -> None:
    block = turn.shared.access(3, 4, stream=1)
    block.__enter__()
    turn.signals = lambda: FAILED
    with pytest.raises(
        CUDAError, match=r"cuSignalExternalSemaphoresAsync .*\(700\).*CUDA cannot be used in this process any more"
    ):
        block.__exit__(None, None, None)
    assert turn.done == ["lost", "released by 3"], "its chain is broken: the release abandons it"


@pytest.mark.rule("I3", "K9")
def test_in_a_turn_that_the_handle_has_the_owner_gives_up_what_a_failed_kernel_left(
    turn: Turn, cuda: FakeDriver
) -> None:
    block = turn.shared.within(stream=1)
    block.__enter__()
    turn.signals = lambda: FAILED
    with pytest.raises(CUDAError, match="cannot be used in this process"):
        block.__exit__(None, None, None)
    assert turn.done == ["lost"]


@pytest.mark.rule("I3", "K9")
def test_a_block_that_finds_cuda_dead_gives_up_what_the_blocks_before_promised(turn: Turn, cuda: FakeDriver) -> None:
    turn.signals = lambda: FAILED
    with pytest.raises(CUDAError, match="cuWaitExternalSemaphoresAsync"):
        turn.shared.access(3, 4, stream=1).__enter__()
    assert turn.done == [0, "lost", "released by 3"]


@pytest.mark.rule("I3", "I11", "K9")
def test_close_gives_up_what_cuda_promised_and_died_of(turn: Turn, cuda: FakeDriver) -> None:
    cuda.codes["cuCtxSynchronize"] = FAILED
    turn.shared.close()
    assert turn.done == ["detached", "lost"]


@pytest.mark.rule("I3")
def test_what_cuda_goes_on_after_is_no_end() -> None:
    fatal = [code for code in range(1000) if CUDAError(code, "cuX").is_fatal]
    assert fatal == [214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719]
    assert "cannot be used in this process" not in str(CUDAError(1, "cuX"))


@pytest.mark.rule("I3")
def test_ctrl_c_just_after_the_signal_leaves_the_surface_in_order(turn: Turn) -> None:
    turn.signals = MagicMock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        turn.shared._finish(turn.view())
    assert turn.done == [5], "what the stream signals must not be promised again"


@pytest.mark.rule("I3", "I11")
def test_close_takes_the_semaphore_from_other_threads_before_it_waits(turn: Turn, cuda: FakeDriver) -> None:
    turn.signals = lambda: turn.shared.close() or 1  # another thread was faster
    with pytest.raises(ClosedError):
        turn.shared.within().__enter__()
    assert turn.done == ["detached", 0]
    assert cuda.freed() == ["cuDestroyExternalSemaphore"]


@pytest.mark.rule("I3")
def test_every_stream_that_took_the_view_is_joined_once(turn: Turn, cuda: FakeDriver) -> None:
    view = turn.view()
    view._others += [0x30, 0x40, 0x30]
    turn.shared._finish(view)
    assert cuda.calls.count("cuStreamWaitEvent") == 2
    assert (turn.done, turn.shared.statistics().joined_streams) == ([5], 2)


# ---- streams, and CUDA's part in C -------------------------------------------------------------------------------


@pytest.mark.rule("I3")
def test_the_legacy_stream_beside_a_capture_is_refused_with_what_to_do(cuda: FakeDriver) -> None:
    with pytest.raises(InvalidCallError, match="give a non-blocking stream"):
        streams.checked(906, "cuWaitExternalSemaphoresAsync", 1, HERE, "surface")


@pytest.mark.rule("I3", "I5")
def test_a_stream_of_another_gpu_or_context_is_refused_and_both_are_named(
    cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "gpu", lambda index: GPU(index, f"Fake GPU {index}", bytes(16), 0x1000 + index))
    cuda.gives["cuCtxGetDevice"] = 1
    with pytest.raises(DeviceMismatchError, match=r"surface is on Fake GPU .*stream 0x50 is on Fake GPU 1"):
        streams.checked(201, "cuWaitExternalSemaphoresAsync", 0x50, HERE, "surface")
    cuda.gives["cuCtxGetDevice"] = HERE.index
    with pytest.raises(InvalidCallError, match="another context than the primary one of Fake GPU"):
        streams.checked(201, "cuWaitExternalSemaphoresAsync", 0x50, HERE, "surface")
    assert cuda.calls.count("cuCtxPushCurrent") == cuda.calls.count("cuCtxPopCurrent") == 2


@pytest.mark.rule("I4")
def test_one_row_is_in_one_piece_whatever_its_stride() -> None:
    reported = {"version": 3, "shape": (1, 8, 4), "typestr": "|u1", "data": (0x1000, False), "strides": (0, 4, 1)}
    assert tensors.described(SimpleNamespace(__cuda_array_interface__=reported)).rows.pitch == 32


@pytest.mark.rule("I4")
def test_memory_that_cuda_does_not_know_is_refused_with_what_is_allowed(
    cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_ordinal", lambda pointer: (1, -1))
    array: Any = SimpleNamespace(pointer=0x1234)
    with pytest.raises(ValueError, match=r"0x1234, is not CUDA's .*allowed is an array on Fake GPU"):
        sharing._check_gpu(array, HERE)


@pytest.mark.rule("I3")
def test_a_stream_of_numba_is_its_handle() -> None:
    kind = type("Stream", (), {"__module__": "numba.cuda.cudadrv.driver", "__int__": lambda self: 0x50})
    assert streams.handle(kind()) == 0x50


_CUDA = r"""
#include <stddef.h>
#include <unistd.h>
static volatile int is_open, has_come;
void let_go(void) { is_open = 1; }
int came(void) { return has_come; }
int cuCtxGetCurrent(void **out) { *out = (void *)7; return 0; }
int cuCtxPopCurrent_v2(void **out) { (void)out; return 0; }
int cuCtxPushCurrent_v2(void *in) { (void)in; return 0; }
int cuStreamGetCtx(void *stream, void **out) { (void)stream; *out = (void *)7; return 0; }
int cuStreamIsCapturing(void *stream, int *out) { (void)stream; *out = 0; return 0; }
int cuWaitExternalSemaphoresAsync(void *const *s, const void *p, unsigned n, void *stream)
{
    (void)s; (void)p; (void)n; (void)stream;
    return 0;
}
int cuSignalExternalSemaphoresAsync(void *const *s, const void *p, unsigned n, void *stream)
{
    (void)p; (void)n; (void)stream;
    has_come = 1;
    while (!is_open)
        usleep(1000);
    return *s == (void *)5 ? 0 : 999;
}
"""

_FULL_STREAM = """
import ctypes, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from vkshare.interop.cuda.timeline import CudaTimeline
cuda = ctypes.CDLL(sys.argv[1])  # dlopen() finds it by its name from now on
timeline = CudaTimeline(5, 7)
with ThreadPoolExecutor(2) as pool:
    signalled = pool.submit(timeline.signal, 1, 1)
    while not cuda.came():
        time.sleep(0.001)
    detached = pool.submit(timeline.detach)
    time.sleep(0.05)
    assert not signalled.done() and not detached.done()
    cuda.let_go()
    assert signalled.result() == 0
    assert detached.result() == 5
assert timeline.signal(2, 1) == 1 and timeline.detach() == 0
"""


@pytest.mark.rule("I3", "I11")
def test_a_full_stream_blocks_no_other_thread_and_the_semaphore_outlives_the_call(tmp_path: Path) -> None:
    library = compiled(tmp_path, _CUDA, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    done = subprocess.run(
        [sys.executable, "-c", _FULL_STREAM, str(library)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
