"""Planes of surfaces in CUDA: where each one is, what is freed, and what is copied. CUDA's driver is faked: no GPU."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from support.fake_driver import HERE, FakeDriver

from vkshare import _native, formats
from vkshare.backends.base import ImageSpec, MemoryHandle, PlaneLayout
from vkshare.errors import DeviceMismatchError, InvalidCallError, UnsupportedError
from vkshare.interop.cuda import driver, sharing
from vkshare.interop.cuda.driver import GPU, CUDAError
from vkshare.interop.cuda.memory import ImportedMemory
from vkshare.interop.cuda.plane import MappedPlane
from vkshare.interop.cuda.view import CUDAView

pytest_plugins = ["support.fake_driver"]
pytestmark = pytest.mark.no_driver

WIDTH, HEIGHT, PITCH = 64, 48, 256
AT = 0x10  # what the fake driver gives for each pointer, array and handle


class Structures:
    """The structures that the driver was given, in order, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, list[Any]] = {}
        for name in (
            "CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC",
            "CUDA_EXTERNAL_MEMORY_BUFFER_DESC",
            "CUDA_ARRAY3D_DESCRIPTOR",
            "CUDA_MEMCPY2D",
        ):
            monkeypatch.setattr(FakeDriver, name, lambda _, name=name: self._make(name), raising=False)
        fixed = SimpleNamespace(CU_MEMORYTYPE_DEVICE="device", CU_MEMORYTYPE_ARRAY="array")
        monkeypatch.setattr(FakeDriver, "CUmemorytype", fixed, raising=False)
        monkeypatch.setattr(FakeDriver, "CUarray", lambda _, handle: handle, raising=False)

    def _make(self, name: str) -> Any:
        made = SimpleNamespace()
        self.made.setdefault(name, []).append(made)
        return made


@pytest.fixture
def structures(cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Structures:
    return Structures(monkeypatch)


def imported(name: str = "nv12", tiling: str = "optimal") -> ImportedMemory:
    """Memory of 64x48 pixels; planes of optimal tiling are 64 KiB apart, and rows PITCH bytes."""
    spec = ImageSpec(WIDTH, HEIGHT, formats.get(name), tiling, frozenset({"render"}))
    layouts, offset = [], 0
    for each in spec.planes():
        stride = PITCH if tiling == "linear" else 0
        layouts.append(PlaneLayout(offset, stride))
        offset += stride * each.height or 1 << 16
    surface = MagicMock()
    surface._open_image.return_value.planes = tuple(layouts)
    surface._open_image.return_value.bound_at = tuple(layout.offset for layout in layouts)
    given = MemoryHandle(
        "opaque_fd", os.memfd_create("memory"), offset, 0, layouts[0].stride, False, HERE.uuid, HERE.uuid
    )
    return ImportedMemory(HERE, spec, given, surface)


def by_interface(shape: tuple[int, ...], dtype: str = "uint8", pitch: int = 0, stream: Any = None) -> Any:
    """An array of a library that has ``__cuda_array_interface__`` alone."""
    strides = (pitch, *np.empty(shape, dtype).strides[1:]) if pitch else None
    fields = {"version": 3, "shape": shape, "typestr": np.dtype(dtype).str, "data": (0x7000, False)}
    return SimpleNamespace(__cuda_array_interface__={**fields, "strides": strides, "stream": stream})


class ByDlpack:
    """An array of a library that knows DLPack alone; with `knows_streams` False as PyAV's planes do."""

    def __init__(
        self, shape: tuple[int, int, int], kind: int = 2, index: int = 0, *, knows_streams: bool = True
    ) -> None:
        self.where = kind, index
        self.shape = shape
        self.knows_streams = knows_streams
        self.asked: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.where

    def __dlpack__(self, *, stream: Any = None) -> object:
        self.asked.append(stream)
        if stream is not None and not self.knows_streams:
            raise NotImplementedError("CUDA stream synchronization is not supported")
        height, width, channels = self.shape
        steps = (PITCH, channels, 1)
        return _native.dlpack(self, 0x8000, *self.where, 3, 1, 8, (height, width, channels), steps, None)


# ---- where planes are ---------------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("name", "planes"),
    [
        ("nv12", [(0, 64, 48, 1), (1 << 16, 32, 24, 2)]),
        ("p010", [(0, 64, 48, 1), (1 << 16, 32, 24, 2)]),
        ("i420", [(0, 64, 48, 1), (1 << 16, 32, 24, 1), (2 << 16, 32, 24, 1)]),
        ("nv16", [(0, 64, 48, 1), (1 << 16, 32, 48, 2)]),
        ("yuv444p", [(0, 64, 48, 1), (1 << 16, 64, 48, 1), (2 << 16, 64, 48, 1)]),
    ],
)
def test_each_optimal_plane_is_an_array_at_its_place_in_the_memory(
    structures: Structures, name: str, planes: list[tuple[int, int, int, int]]
) -> None:
    memory = imported(name)
    maps = structures.made["CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC"]
    found = [(m.offset, m.arrayDesc.Width, m.arrayDesc.Height, m.arrayDesc.NumChannels) for m in maps]
    assert found == planes
    view = CUDAView(memory, 1, True)
    assert [plane.shape for plane in view.planes] == [(height, width, count) for _, width, height, count in planes]
    assert [plane.format for plane in view.planes] == [each.name for each in formats.get(name).planes]
    assert {plane.array for plane in view.planes} == {AT}
    assert view.planes[1].texture_object
    luma = view.planes[0]
    assert luma.planes == (luma,)


@pytest.mark.rule("I3")
@pytest.mark.parametrize(("name", "offsets"), [("nv12", [0, 48 * PITCH]), ("i420", [0, 48 * PITCH, 72 * PITCH])])
def test_linear_planes_are_rows_at_their_place_in_the_memory(
    structures: Structures, cuda: FakeDriver, name: str, offsets: list[int]
) -> None:
    memory = imported(name, "linear")
    maps = structures.made["CUDA_EXTERNAL_MEMORY_BUFFER_DESC"]
    assert [(each.offset, each.size // PITCH) for each in maps] == list(zip(offsets, [48, 24, 24], strict=False))
    view = CUDAView(memory, 1, True)
    chroma = view.planes[1]
    channels = chroma.shape[2]
    assert chroma.__cuda_array_interface__["shape"] == (24, 32, channels)
    assert chroma.__cuda_array_interface__["strides"] == (PITCH, channels, 1)
    address, *_, shape, steps = _native.dlpack_fields(chroma.__dlpack__(stream=-1))
    assert (address, shape, steps) == (AT, (24, 32, channels), (PITCH, channels, 1))
    del chroma, view, memory
    assert cuda.freed() == ["cuMemFree"] * len(offsets) + ["cuDestroyExternalMemory"]


@pytest.mark.rule("I3", "I10")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_one_array_for_several_planes_is_refused_with_what_to_do(structures: Structures, tiling: str) -> None:
    view = CUDAView(imported(tiling=tiling), 1, True)
    assert view.format == "nv12"
    for name in ("shape", "strides", "dtype", "pointer", "array", "texture_object", "surface_object"):
        with pytest.raises(UnsupportedError, match=r"each plane has its own; use view\.planes\[0\]"):
            getattr(view, name)
    assert not hasattr(view, "__cuda_array_interface__")
    with pytest.raises(BufferError, match=r"view\.planes\[0\]"):
        view.__dlpack__()


@pytest.mark.rule("I3", "I11")
def test_the_planes_before_one_that_the_driver_refuses_are_freed(
    structures: Structures, cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([(0, AT), (1, 0)])
    monkeypatch.setattr(FakeDriver, "cuExternalMemoryGetMappedMipmappedArray", lambda *_: next(answers), raising=False)
    with pytest.raises(CUDAError, match="GetMappedMipmappedArray of 64x48 nv12"):
        imported()
    assert cuda.freed() == ["cuMipmappedArrayDestroy", "cuDestroyExternalMemory"]


# ---- copies into planes -------------------------------------------------------------------------------------------


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pointer is on the surface's GPU."""
    monkeypatch.setattr(driver, "_ordinal", lambda pointer: (0, HERE.index))


def frame() -> tuple[Any, ...]:
    """The planes of a decoded picture, their rows PITCH bytes apart, without the channels of the luma."""
    return by_interface((HEIGHT, WIDTH), pitch=PITCH), by_interface((HEIGHT // 2, WIDTH // 2, 2), pitch=PITCH)


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_a_frame_is_copied_plane_by_plane_in_the_views_stream(
    structures: Structures, cuda: FakeDriver, tiling: str
) -> None:
    view = CUDAView(imported(tiling=tiling), 0x40, True)
    view.copy_from(frame())
    luma, chroma = structures.made["CUDA_MEMCPY2D"]
    for copy, row, rows in ((luma, WIDTH, HEIGHT), (chroma, WIDTH, HEIGHT // 2)):
        assert (copy.srcMemoryType, copy.srcDevice, copy.srcPitch) == ("device", 0x7000, PITCH)
        assert (copy.WidthInBytes, copy.Height) == (row, rows)
        assert copy.dstMemoryType == ("array" if tiling == "optimal" else "device")
    if tiling == "optimal":
        assert (luma.dstArray, chroma.dstArray) == (AT, AT)
    else:
        assert (luma.dstDevice, chroma.dstDevice) == (AT, AT)
        assert (luma.dstPitch, chroma.dstPitch) == (PITCH, PITCH)
    assert cuda.calls.count("cuMemcpy2DAsync") == 2
    assert not {"cuStreamSynchronize", "cuCtxSynchronize", "cuStreamWaitEvent"} & set(cuda.calls)


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu", "structures")
def test_the_rows_of_interleaved_chroma_may_come_without_their_channels(cuda: FakeDriver) -> None:
    view = CUDAView(imported("p010"), 1, True)
    view.copy_from([by_interface((HEIGHT, WIDTH, 1), "uint16"), by_interface((HEIGHT // 2, WIDTH), "uint16")])
    assert cuda.calls.count("cuMemcpy2DAsync") == 2


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu", "structures")
def test_a_surface_of_one_plane_takes_one_array(cuda: FakeDriver) -> None:
    CUDAView(imported("rgba8unorm"), 1, True).copy_from(by_interface((HEIGHT, WIDTH, 4)))
    assert cuda.calls.count("cuMemcpy2DAsync") == 1


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu", "structures")
def test_the_copy_comes_after_the_arrays_stream_and_what_comes_later_there_after_the_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []
    monkeypatch.setattr("vkshare.interop.cuda.streams.join", lambda first, then, where: done.append((first, then)))
    monkeypatch.setattr(MappedPlane, "copy_from", lambda *_: done.append("copy"))
    luma = by_interface((HEIGHT, WIDTH), stream=0x50)
    chroma = by_interface((HEIGHT // 2, WIDTH // 2, 2), stream=0x50)
    CUDAView(imported(), 0x40, True).copy_from([luma, chroma])
    assert done == [(0x50, 0x40), "copy", "copy", (0x40, 0x50)]


@pytest.mark.rule("I3")
@pytest.mark.parametrize("knows_streams", [True, False])
def test_an_array_by_dlpack_is_made_for_the_views_stream_or_for_the_legacy_one(
    structures: Structures, cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch, *, knows_streams: bool
) -> None:
    joined: list[Any] = []
    monkeypatch.setattr("vkshare.interop.cuda.streams.join", lambda first, then, where: joined.append((first, then)))
    luma = ByDlpack((HEIGHT, WIDTH, 1), knows_streams=knows_streams)
    chroma = ByDlpack((HEIGHT // 2, WIDTH // 2, 2), knows_streams=knows_streams)
    CUDAView(imported(), 0x40, True).copy_from([luma, chroma])
    first, second = structures.made["CUDA_MEMCPY2D"]
    assert (first.srcDevice, first.srcPitch, second.srcPitch) == (0x8000, PITCH, PITCH)
    assert luma.asked == ([0x40] if knows_streams else [0x40, None])
    assert joined == ([] if knows_streams else [(driver.STREAM_LEGACY, 0x40), (0x40, driver.STREAM_LEGACY)])


@pytest.mark.rule("I3", "I5")
@pytest.mark.usefixtures("on_gpu", "structures")
@pytest.mark.parametrize(
    ("planes", "error", "reported"),
    [
        (frame()[:1], ValueError, r"copy_from\(\) is given 1 arrays; nv12 takes one for each of its 2 planes"),
        (frame()[0], ValueError, "is given one array; nv12 takes one for each"),
        (frame()[::-1], ValueError, r"plane 0 is uint8 of shape \(24, 32, 2\); this view takes .* \(48, 64, 1\)"),
        ((frame()[0], by_interface((24, 32, 1))), ValueError, r"plane 1 .*this view takes .* \(24, 32, 2\)"),
        ((by_interface((48, 64), "uint16"), frame()[1]), ValueError, "plane 0 is uint16 .*this view takes uint8"),
        ((by_interface((48, 64), pitch=32), frame()[1]), ValueError, "plane 0's rows are not in one piece"),
        ((object(), frame()[1]), TypeError, "plane 0 must be an array of CUDA's"),
        (
            (np.zeros((48, 64), np.uint8), frame()[1]),
            TypeError,
            r"plane 0 is on DLPack's device type 1; .*write_planes",
        ),
    ],
    ids=["too few", "one", "exchanged", "half a row", "words", "rows that overlap", "object", "numpy"],
)
def test_what_is_no_plane_is_named_and_nothing_is_copied(
    cuda: FakeDriver, planes: Any, error: type, reported: str
) -> None:
    with pytest.raises(error, match=reported):
        CUDAView(imported(), 1, True).copy_from(planes)
    assert "cuMemcpy2DAsync" not in cuda.calls


@pytest.mark.rule("I3", "I5")
@pytest.mark.usefixtures("structures")
def test_arrays_of_another_gpu_or_context_are_refused_and_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    view = CUDAView(imported(), 1, True)
    monkeypatch.setattr("vkshare.interop.cuda.tensors.gpu", lambda index: GPU(index, "Other GPU", bytes(16), 0x2000))
    both = r"the surface is on Fake GPU .*the plane 0 is on Other GPU .*1"
    with pytest.raises(DeviceMismatchError, match=both):
        view.copy_from([ByDlpack((HEIGHT, WIDTH, 1), index=1), frame()[1]])
    monkeypatch.setattr(driver, "_ordinal", lambda pointer: (0, 1))
    with pytest.raises(DeviceMismatchError, match=both):
        view.copy_from(frame())
    monkeypatch.setattr("vkshare.interop.cuda.tensors.context_of", lambda pointer: 0x9000)
    with pytest.raises(InvalidCallError, match=r"plane 0's memory is of the CUDA context 0x9000.*current_ctx=1"):
        view.copy_from([ByDlpack((HEIGHT, WIDTH, 1)), frame()[1]])


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu", "structures")
def test_a_read_only_view_takes_no_frame() -> None:
    with pytest.raises(InvalidCallError, match=r"read-only: use access\(writable=True\)"):
        CUDAView(imported(), 1, False).copy_from(frame())


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu", "structures")
def test_a_copy_that_fails_is_the_error_and_the_streams_are_joined_again(cuda: FakeDriver) -> None:
    cuda.codes["cuMemcpy2DAsync"] = 1
    luma, chroma = by_interface((HEIGHT, WIDTH), stream=0x50), frame()[1]
    with pytest.raises(CUDAError, match="cuMemcpy2DAsync of 64x48"):
        CUDAView(imported(), 0x40, True).copy_from([luma, chroma])
    assert cuda.calls.count("cuStreamWaitEvent") == 2


@pytest.mark.rule("I4")
def test_a_tensor_is_not_shared_as_planes(cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "gpu_of", lambda device: HERE)
    with pytest.raises(UnsupportedError, match=r"share\(\) of a tensor as nv12 .*copy_from"):
        sharing.share(MagicMock(), by_interface((HEIGHT, WIDTH)), format="nv12")


def test_the_fields_of_a_capsule_are_those_of_the_array() -> None:
    array = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)[:, 1:]
    address, kind, index, code, bits, lanes, shape, steps = _native.dlpack_fields(array.__dlpack__())
    assert (address, kind, index) == (array.ctypes.data, 1, 0)
    assert (code, bits, lanes, shape, steps) == (1, 16, 1, (2, 2, 4), (12, 4, 1))
    with pytest.raises(ValueError, match="PyCapsule"):
        _native.dlpack_fields(object())


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu")
def test_planes_are_copied_out_too(structures: Structures) -> None:
    view = CUDAView(imported(), 0x40, False)
    view.copy_to(frame())
    luma, chroma = structures.made["CUDA_MEMCPY2D"]
    assert (luma.srcArray, luma.dstDevice, luma.dstPitch) == (AT, 0x7000, PITCH)
    assert (chroma.WidthInBytes, chroma.Height) == (WIDTH, HEIGHT // 2)
    frozen = by_interface((HEIGHT, WIDTH))
    frozen.__cuda_array_interface__["data"] = (0x7000, True)
    with pytest.raises(ValueError, match="tensor is read-only"):
        view.planes[0].copy_to(frozen)


@pytest.mark.rule("I3")
@pytest.mark.usefixtures("on_gpu", "structures")
def test_a_type_that_dlpack_has_not_is_taken_by_the_array_interface(cuda: FakeDriver) -> None:
    class Word(SimpleNamespace):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, *, stream: Any = None) -> object:
            raise BufferError("no such type in DLPack")

    words = by_interface((HEIGHT, WIDTH), "uint16"), by_interface((HEIGHT // 2, WIDTH // 2, 2), "uint16")
    CUDAView(imported("p010"), 1, True).copy_from([Word(**vars(each)) for each in words])
    assert cuda.calls.count("cuMemcpy2DAsync") == 2
