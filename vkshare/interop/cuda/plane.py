"""A plane of imported memory in CUDA: a buffer, or an array with its texture and surface objects."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from vkshare.backends.base import BufferSpec, Spec
from vkshare.core.mirror_state import Box
from vkshare.errors import UnsupportedError
from vkshare.interop.cuda.driver import GPU, CUDAError, bindings, call

_SURFACE_LDST, _DEPTH_TEXTURE, _COLOR_ATTACHMENT = 0x02, 0x10, 0x20  # CUDA_ARRAY3D_...

# CUarray_format by the type of a channel. bgra8unorm is four bytes like any other; the channels of
# rgb10a2unorm are none of these.
_CHANNELS = {
    "uint8": "CU_AD_FORMAT_UNSIGNED_INT8",
    "uint16": "CU_AD_FORMAT_UNSIGNED_INT16",
    "uint32": "CU_AD_FORMAT_UNSIGNED_INT32",
    "float16": "CU_AD_FORMAT_HALF",
    "float32": "CU_AD_FORMAT_FLOAT",
}


class MappedPlane:
    """One plane of imported memory; memory of another format is one plane. Lives no longer than its memory."""

    def __init__(self, gpu: GPU, spec: Spec, offset: int, stride: int) -> None:
        """`offset`: bytes into the imported memory; `stride`: bytes from row to row, 0 for optimal tiling."""
        self.gpu = gpu
        self.spec = spec
        self.offset, self.stride = offset, stride
        self.shape, self.strides, self.dtype = _layout(spec, stride)  # strides: None of an array
        self.pointer = self.array = 0
        self._levels: Any = None  # CUmipmappedArray
        self._objects: dict[str, int] = {}  # texture and surface objects, by kind
        self._making = threading.Lock()  # of these
        if not isinstance(spec, BufferSpec) and self.strides is None and spec.format.name == "rgb10a2unorm":
            raise UnsupportedError(
                f"a cudaArray of an optimal {spec.format.name} surface",
                "CUDA has no arrays of that format",
                'use create_surface(..., tiling="linear")',
            )

    def map(self, memory: Any, what: str) -> None:
        """Map the plane, of a CUexternalMemory. The GPU's context is current."""
        if self.strides is None:
            self._map_array(memory, what)
        else:
            self._map_buffer(memory, what)

    def _map_buffer(self, memory: Any, what: str) -> None:
        described = bindings().CUDA_EXTERNAL_MEMORY_BUFFER_DESC()
        described.offset = self.offset
        described.size = self.spec.nbytes if isinstance(self.spec, BufferSpec) else self.stride * self.spec.height
        self.pointer = int(call("cuExternalMemoryGetMappedBuffer", memory, described, what=what))

    def _map_array(self, memory: Any, what: str) -> None:
        spec = self.spec
        assert not isinstance(spec, BufferSpec)
        driver = bindings()
        described = driver.CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC()
        described.offset = self.offset
        described.numLevels = 1
        shape = driver.CUDA_ARRAY3D_DESCRIPTOR()
        shape.Width, shape.Height, shape.Depth = spec.width, spec.height, 0
        shape.Format = getattr(driver.CUarray_format, _CHANNELS[spec.format.dtype])
        shape.NumChannels = spec.format.channels
        shape.Flags = _SURFACE_LDST | (_COLOR_ATTACHMENT if "render" in spec.usage else 0)
        if spec.format.is_depth:
            shape.Flags = _DEPTH_TEXTURE  # a kernel samples it; surface objects are for colours
        described.arrayDesc = shape
        try:
            self._levels = call("cuExternalMemoryGetMappedMipmappedArray", memory, described, what=what)
        except CUDAError as error:
            if not spec.format.is_depth:
                raise
            why, hint = f"the driver answers {error}", "read() it, or draw the depth into an r32float surface"
            raise UnsupportedError(f"a cudaArray of {what}", why, hint) from error
        self.array = int(call("cuMipmappedArrayGetLevel", self._levels, 0, what=what))

    def object(self, kind: str) -> int:
        """The CUtexObject ("texture") or CUsurfObject ("surface") of the array; made once."""
        with self._making:
            if kind not in self._objects:
                self._objects[kind] = self._make(kind)
            return self._objects[kind]

    def _make(self, kind: str) -> int:
        spec = self.spec
        assert not isinstance(spec, BufferSpec)
        if kind == "surface" and spec.format.is_depth:
            what = f"a surface object of format {spec.format}"
            raise UnsupportedError(what, "CUDA has none of depth", "sample it: view.texture_object")
        driver = bindings()
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        resource.res.array.hArray = driver.CUarray(self.array)
        with self.gpu.current():
            if kind == "surface":
                return int(call("cuSurfObjectCreate", resource))
            return int(call("cuTexObjectCreate", resource, self._texture(), None))

    def _texture(self) -> Any:
        """Texels as they are stored, unnormalised coordinates, clamped: what a kernel that computes wants."""
        driver = bindings()
        texture = driver.CUDA_TEXTURE_DESC()
        clamp = driver.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP
        texture.addressMode = [clamp, clamp, clamp]
        texture.filterMode = driver.CUfilter_mode.CU_TR_FILTER_MODE_POINT
        texture.flags = driver.CU_TRSF_READ_AS_INTEGER if self.dtype.kind == "u" else 0
        return texture

    def ends(self) -> list[tuple[str, Any]]:
        """The calls that end the mapping."""
        names = {"surface": "cuSurfObjectDestroy", "texture": "cuTexObjectDestroy"}
        made = [(names[kind], each) for kind, each in self._objects.items()]
        if self._levels is not None:
            made.append(("cuMipmappedArrayDestroy", self._levels))
        if self.pointer:
            made.append(("cuMemFree", self.pointer))
        return made

    def copy_from(self, pointer: int, pitch: int, stream: int, box: Box | None = None) -> None:
        """Copy memory of the device, of the box's size, into the plane: in the stream, on the GPU.

        Parameters
        ----------
        pointer
            A CUdeviceptr to row 0.
        pitch
            Bytes from row to row.
        stream
            The CUstream.
        box
            The pixels of the plane; None: all.
        """
        self._copy(self.copying(False, pointer, pitch, stream, box))

    def copy_to(self, pointer: int, pitch: int, stream: int, box: Box | None = None) -> None:
        """Copy the plane into memory of the device: as copy_from()."""
        self._copy(self.copying(True, pointer, pitch, stream, box))

    def _copy(self, arguments: tuple[Any, ...]) -> None:
        width = arguments[1].WidthInBytes // (self.shape[2] * self.dtype.itemsize)
        with self.gpu.current():
            call(*arguments, what=f"{width}x{arguments[1].Height}")

    def copying(self, out: bool, pointer: int, pitch: int, stream: int, box: Box | None) -> tuple[Any, ...]:
        """Return a call of the driver with its arguments: copy_to() if `out`, else copy_from()."""
        theirs, ours = ("dst", "src") if out else ("src", "dst")
        driver, (rows, columns, channels) = bindings(), self.shape
        box = box or Box(0, 0, columns, rows)
        pixel = channels * self.dtype.itemsize
        on_device = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        sides = {f"{theirs}MemoryType": on_device, f"{theirs}Device": pointer, f"{theirs}Pitch": pitch}
        sides |= {f"{ours}XInBytes": box.x * pixel, f"{ours}Y": box.y}
        if self.array:
            sides |= {f"{ours}MemoryType": driver.CUmemorytype.CU_MEMORYTYPE_ARRAY}
            sides |= {f"{ours}Array": driver.CUarray(self.array)}
        else:
            sides |= {f"{ours}MemoryType": on_device, f"{ours}Device": self.pointer, f"{ours}Pitch": self.stride}
        copy = driver.CUDA_MEMCPY2D()
        for name, value in sides.items():
            setattr(copy, name, value)
        copy.WidthInBytes, copy.Height = box.width * pixel, box.height
        return "cuMemcpy2DAsync", copy, driver.CUstream(stream)


def _layout(spec: Spec, stride: int) -> tuple[tuple[int, ...], tuple[int, ...] | None, np.dtype[Any]]:
    """Shape, strides and type of the array over the memory."""
    if isinstance(spec, BufferSpec):
        return (spec.nbytes,), (1,), np.dtype(np.uint8)
    pixel = spec.format
    strides = stride, pixel.bytes_per_pixel, pixel.bytes_per_pixel // pixel.channels
    return (spec.height, spec.width, pixel.channels), strides if spec.tiling == "linear" else None, pixel.numpy_dtype
