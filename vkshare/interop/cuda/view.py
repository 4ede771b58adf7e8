"""The block in which CUDA works on a surface or a buffer, and what it sees of it there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from vkshare import _native
from vkshare.backends.base import BufferSpec
from vkshare.errors import InvalidCallError, UnsupportedAttributeError, UnsupportedBufferError, UnsupportedError
from vkshare.interop.block import Block
from vkshare.interop.cuda import streams, tensors
from vkshare.interop.cuda.driver import CUDAError
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.interop.cuda.memory import ImportedMemory
    from vkshare.interop.cuda.plane import MappedPlane
    from vkshare.interop.cuda.surface import CUDASurface
    from vkshare.interop.cuda.tensors import Tensor

_DL_CUDA = 2  # kDLCUDA
_DL_CODES = {"u": 1, "f": 2}  # kDLUInt, kDLFloat, by the kind of NumPy's type
_CAN_SAY_READ_ONLY = (1, 0)  # DLPack's version


class CUDABlock(Block["CUDAView"]):
    """The context manager of ``CUDASurface.access()`` and ``within()``, in which CUDA may use the surface."""

    __slots__ = ("_stream", "_writable")
    _log = logging.getLogger("vkshare.cuda")
    _ends = (CUDAError,)

    def __init__(
        self, shared: CUDASurface, stream: int, writable: bool, keys: tuple[int, int] | None, timeout: float | None
    ) -> None:
        super().__init__(shared, keys, timeout)
        self._stream = stream
        self._writable = writable

    def _begin(self) -> CUDAView:
        return self._shared._begin(self._stream, self._timeout, self._writable)  # type: ignore[no-any-return]


class CUDAView:
    """A surface or a buffer in CUDA, made by ``with shared.access() as view:``.

    After the block it refuses every use. Buffers and linear surfaces have ``__cuda_array_interface__``, DLPack
    and `pointer`; optimal ones `array`, `texture_object` and `surface_object`. Arrays and tensors
    taken from it keep the memory alive beyond the block, but what they show may be changed by the
    next owner: copy what is kept.
    """

    __slots__ = ("__weakref__", "_memory", "_others", "_stream", "_writable")

    def __init__(self, memory: ImportedMemory, stream: int, writable: bool) -> None:
        self._memory: ImportedMemory | None = memory
        self._stream = stream
        self._writable = writable
        self._others: list[int] = []  # streams that took it by DLPack

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def planes(self) -> tuple[CUDAPlaneView, ...]:
        """A view of each plane, luma first, for as long as this one; memory of another format has one plane."""
        return tuple(CUDAPlaneView(self, index) for index in range(len(self._open().planes)))

    @property
    def shape(self) -> tuple[int, ...]:
        """(height, width, channels), or (nbytes,) of a buffer."""
        return self._plane("shape").shape

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Bytes, as NumPy has them; None for optimal tiling, which has none."""
        return self._plane("strides").strides

    @property
    def dtype(self) -> Any:
        """NumPy type of one array element."""
        return self._plane("dtype").dtype

    @property
    def format(self) -> str:
        """The format's name. UnsupportedError: a buffer has none."""
        spec = self._open().spec
        if isinstance(spec, BufferSpec):
            raise UnsupportedError("view.format of a buffer", "it has no pixels", "use view.dtype")
        return spec.format.name

    @property
    def stream(self) -> int:
        """The CUstream of the access: work in other streams is in order with the surface where they are joined."""
        self._open()
        return self._stream

    @property
    def writable(self) -> bool:
        """Whether arrays may be written."""
        return self._writable

    # ---- copies ---------------------------------------------------------------------------------------------------

    def copy_from(self, tensor: Any) -> None:
        """Copies a tensor into the memory, on the GPU and in the access's stream: of either tiling.

        The CPU waits for no work. The copy comes after the work that made the tensor, where its
        library says which that is.

        Parameters
        ----------
        tensor
            An array of a library that has DLPack or ``__cuda_array_interface__``, of the view's shape and
            type, each row in one piece; rows may have padding. (H, W * C) will do for (H, W, C). For a
            surface in planes, one for each, luma first: a decoder's frame, such as PyAV's ``frame.planes``.
            It may be freed or changed by later work of the stream, or of the stream that the array names;
            a decoder's frame is dropped once the copy has run.

        Raises
        ------
        TypeError, ValueError
            It is no array of CUDA's, or has another shape or type; or it is not one for each plane.
        DeviceMismatchError
            It is on another GPU.
        InvalidCallError
            The view is over or read-only; or the array's memory is of another CUDA context than the primary one.
        CUDAError
            The driver refused.
        """
        planes = self._mapped()
        if not self._writable:
            raise InvalidCallError("this CUDAView is read-only: use access(writable=True)")
        given = self._fitting("copy_from()", tensor, planes)
        with tensors.in_order(given, self._stream, planes[0].gpu):
            for plane, each in zip(planes, given, strict=True):
                plane.copy_from(each.pointer, each.rows.pitch, self._stream)

    def copy_to(self, tensor: Any) -> None:
        """Copies the memory into a tensor, on the GPU and in the access's stream: of either tiling.

        Parameters
        ----------
        tensor
            As of copy_from(). It may be used by later work of the stream, or of the stream that the array names.

        Raises
        ------
        TypeError, ValueError
            As of copy_from(); or it is read-only.
        DeviceMismatchError, InvalidCallError
            As of copy_from(), but for views that are read-only.
        CUDAError
            The driver refused.
        """
        planes = self._mapped()
        given = self._fitting("copy_to()", tensor, planes)
        if any(each.is_read_only for each in given):
            raise ValueError("tensor is read-only; allowed is an array that may be written")
        with tensors.in_order(given, self._stream, planes[0].gpu):
            for plane, each in zip(planes, given, strict=True):
                plane.copy_to(each.pointer, each.rows.pitch, self._stream)

    def _fitting(self, call: str, given: Any, planes: tuple[MappedPlane, ...]) -> list[Tensor]:
        """The tensors of the planes' shapes and types."""
        if len(planes) == 1:
            arrays, names = (given,), ["tensor"]
        else:
            arrays, names = self._one_for_each(call, given, len(planes)), [f"plane {i}" for i in range(len(planes))]
        found = [
            tensors.for_copy(array, name, planes[0].gpu, self._stream)
            for array, name in zip(arrays, names, strict=True)
        ]
        for tensor, plane, name in zip(found, planes, names, strict=True):
            _check_fits(tensor, plane, name)
        return found

    def _one_for_each(self, call: str, given: Any, count: int) -> tuple[Any, ...]:
        is_one = any(hasattr(given, name) for name in ("__dlpack__", "__cuda_array_interface__"))
        found = () if is_one else tuple(given)
        if len(found) != count:
            what = "one array" if is_one else f"{len(found)} arrays"
            raise ValueError(f"{call} is given {what}; {self.format} takes one for each of its {count} planes")
        return found

    # ---- linear surfaces ------------------------------------------------------------------------------------------

    @property
    def pointer(self) -> int:
        """The CUdeviceptr of row 0, or of the bytes. Rows are ``strides[0]`` apart. UnsupportedError: optimal."""
        plane = self._plane("pointer")
        if not plane.pointer:
            raise _optimal("view.pointer", UnsupportedError)
        return plane.pointer

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        plane = self._plane("__cuda_array_interface__", UnsupportedAttributeError)
        if not plane.pointer:
            raise _optimal("__cuda_array_interface__", UnsupportedAttributeError)
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (plane.pointer, not self._writable),
            "strides": self.strides,
            "stream": self._stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        plane = self._plane("__dlpack__()", UnsupportedBufferError)
        if not plane.pointer:
            raise _optimal("DLPack", UnsupportedBufferError)
        return _DL_CUDA, plane.gpu.index

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the memory itself; see the array API standard.

        Work of `stream`, the consumer's (None: the legacy default one; -1: the caller sees to it),
        comes after what the access waits for; at the end of the block the surface is handed on
        behind that stream's work too.

        Raises
        ------
        UnsupportedError
            A BufferError, too: optimal tiling; another device or a copy is asked for; or the view is read-only and
            `max_version` is below (1, 0), which cannot say so.
        TypeError
            `max_version` or `dl_device` is neither None nor a pair of integers; or `stream` is no stream.
        """
        memory = self._open()
        here = self.__dlpack_device__()
        device, version = arguments.pair("dl_device", dl_device), arguments.pair("max_version", max_version)
        if device not in (None, here):
            raise UnsupportedBufferError(f"DLPack on device {device}", f"the memory is on {here}", "copy it there")
        if copy:
            raise UnsupportedBufferError("DLPack with copy=True", "vkshare has no memory of CUDA's", "copy the tensor")
        versioned = version is not None and version >= _CAN_SAY_READ_ONLY
        if not (self._writable or versioned):
            raise UnsupportedBufferError(
                "DLPack of a read-only view",
                "the consumer's DLPack is older than 1.0 and has no read-only flag",
                "use access(writable=True)",
            )
        if stream != -1:
            consumer = streams.handle(stream)
            if consumer != self._stream:
                streams.join(self._stream, consumer, memory.gpu)
                self._others.append(consumer)
        dtype, strides = self.dtype, self.strides
        assert strides is not None
        step: Any = tuple(stride // dtype.itemsize for stride in strides)
        shape: Any = (*self.shape, 1, 1)[:3]
        read_only = not self._writable if versioned else None
        bits = 8 * dtype.itemsize
        kind = len(step), _DL_CODES[dtype.kind], bits
        step = (*step, 0, 0)[:3]
        return _native.dlpack(memory, self.pointer, *here, *kind, shape, step, read_only)

    # ---- optimal surfaces -----------------------------------------------------------------------------------------

    @property
    def array(self) -> int:
        """The CUarray, made with CUDA_ARRAY3D_SURFACE_LDST. UnsupportedError: linear tiling."""
        return self._of_array().array

    @property
    def texture_object(self) -> int:
        """A CUtexObject over `array`: texels as they are stored, point-sampled, clamped. Valid until the last view."""
        return self._of_array().object("texture")

    @property
    def surface_object(self) -> int:
        """A CUsurfObject over `array`."""
        return self._of_array().object("surface")

    # ---- within the package ---------------------------------------------------------------------------------------

    def _of_array(self) -> MappedPlane:
        plane = self._plane("array")
        if not plane.array:
            raise UnsupportedError(
                "view.array", "a linear surface is a buffer", "use view.pointer, __cuda_array_interface__ or DLPack"
            )
        return plane

    def _mapped(self) -> tuple[MappedPlane, ...]:
        """The planes that the view is of."""
        return self._open().planes

    def _plane(self, name: str, kind: type[UnsupportedError] = UnsupportedError) -> MappedPlane:
        """The memory's one plane."""
        memory = self._open()
        if len(memory.planes) > 1:
            what = f"view.{name} of a {memory.spec}"
            raise kind(what, "each plane has its own", f"use view.planes[0].{name}, and those of the others")
        return memory.planes[0]

    def _open(self) -> ImportedMemory:
        if self._memory is None:
            raise InvalidCallError(
                "this CUDAView is over: it is valid inside `with shared.access(acquire=..., release=...) as view:` only"
            )
        return self._memory

    def __repr__(self) -> str:
        if self._memory is None:
            return "<vkshare.interop.cuda.CUDAView over>"
        return f"<vkshare.interop.cuda.CUDAView of a {self._memory.spec} on {self._memory.gpu}>"


class CUDAPlaneView(CUDAView):
    """A plane of a surface in CUDA, made by ``view.planes``; used as the view of a surface of one plane.

    It is valid for as long as the view that gave it.
    """

    __slots__ = ("_index", "_view")

    def __init__(self, view: CUDAView, index: int) -> None:
        super().__init__(view._open(), view._stream, view._writable)
        self._view, self._index = view, index
        self._others = view._others

    @property
    def planes(self) -> tuple[CUDAPlaneView, ...]:
        """The plane itself."""
        return (self,)

    @property
    def format(self) -> str:
        """The plane's format, e.g. ``"rg8unorm"``."""
        spec = self._plane("format").spec
        assert not isinstance(spec, BufferSpec)  # only surfaces have planes
        return spec.format.name

    def _open(self) -> ImportedMemory:
        return self._view._open()

    def _mapped(self) -> tuple[MappedPlane, ...]:
        return (self._open().planes[self._index],)

    def _plane(self, name: str, kind: type[UnsupportedError] = UnsupportedError) -> MappedPlane:
        return self._mapped()[0]

    def __repr__(self) -> str:
        return f"<vkshare.interop.cuda.CUDAPlaneView {self._index} of {self._view!r}>"


def _check_fits(tensor: Tensor, plane: MappedPlane, name: str) -> None:
    """ValueError unless the array has the plane's type, and its shape or that of its rows."""
    rows, shape = tensor.rows, plane.shape
    given = rows.height, rows.width, rows.channels
    flat = (shape[0], shape[1] * shape[2], 1) if len(shape) == 3 else shape
    if given not in (shape, flat) or rows.dtype != plane.dtype.name:
        raise ValueError(f"{name} is {rows.dtype} of shape {given}; this view takes {plane.dtype} of shape {shape}")


def _optimal(what: str, kind: type[UnsupportedError]) -> UnsupportedError:
    return kind(
        f"{what} of an optimal surface",
        "its pixels lie as only the GPU knows",
        'use view.array, texture_object or surface_object, or create_surface(..., tiling="linear")',
    )
