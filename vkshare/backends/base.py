"""The one interface that both backends keep: what a Device needs of the thing below it.

A backend object belongs to one Device. It makes images, compiles command lists for the C core, and
makes staging buffers. It knows nothing of ownership, fences or order: that is the C core's
(vkshare._native).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from vkshare.color import SRGB, Color
from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    from vkshare._native import Recording
    from vkshare.backends.drawing import Drawable
    from vkshare.formats import Format

# By the numbers of native/vkshare_ipc.h:
USAGES = ("render", "sample", "copy", "storage")  # bit 0, 1, 2, 3; native/record/record.h has them too
TILINGS = (("linear", False), ("optimal", False), ("linear", True))  # tiling, in_device_memory
BUFFER_USAGES = ("copy", "storage", "vertex", "index", "uniform", "indirect")  # bit 0 to 5
_BUFFER_TILING = 3
LARGEST_MEMORY = 1 << 48  # bytes that a descriptor may name: native/surface/message.h
_USE_BYTES = 16  # native/record/record.h


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities that a trial round trip proved (rule X22); extension lists are not trusted."""

    tilings: frozenset[str]  # of "linear", "optimal": can be created, exported and opened again
    surface_memory: frozenset[str]  # "opaque_fd", "memfd", "host_pointer" (the last: may be opened, from a CPU surface)
    export_timelines: bool  # timeline semaphores cross processes natively; else fences are bridged
    host_visible: bool  # linear surfaces can be mapped: View.array
    row_alignment: int  # bytes: rows of a linear surface whose length is a multiple have no padding; 0: unknown
    max_dimension: int
    max_timeline_difference: int  # 0: unknown
    subpixel_bits: int
    device_uuid: bytes  # 16 bytes
    driver_uuid: bytes  # 16 bytes
    formats: frozenset[str]  # names of formats that can be created with every usage
    reasons: dict[str, str] = field(default_factory=dict, hash=False, compare=False)  # capability -> why it is missing


@dataclass(frozen=True, slots=True)
class Adapter:
    """Something that can run a device: a Vulkan physical device, or the CPU backend."""

    name: str
    kind: str  # "gpu" | "software" | "cpu" | "remote"
    backend: str  # "vulkan" | "cpu" | "remote"
    uuid: bytes
    driver: str  # name and version
    capabilities: Capabilities
    rank: int = 0  # higher is better: discrete GPU 40, integrated 30, software Vulkan 20, CPU 10
    index: int = 0  # of the physical device in its instance's list
    host: str = ""  # the socket of the host through which a remote one is reached


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """Properties that the exporter and the importer of an image must agree on exactly."""

    width: int
    height: int
    format: Format
    tiling: str  # "linear" | "optimal": "auto" is resolved before
    usage: frozenset[str]  # of "render", "sample", "copy", "storage"
    in_device_memory: bool = False  # linear rows in the GPU's own memory, which the CPU does not map
    color: Color = SRGB

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels, rows without padding."""
        return self.format.nbytes(self.width, self.height)

    def planes(self) -> list[ImageSpec]:
        """Return the properties of each plane as an image of its own; of one plane, these."""
        if not self.format.is_planar:
            return [self]
        sizes = [self.format.plane_size(index, self.width, self.height) for index in range(len(self.format.planes))]
        return [
            ImageSpec(*size, form, self.tiling, self.usage, self.in_device_memory)
            for size, form in zip(sizes, self.format.planes, strict=True)
        ]

    @property
    def body(self) -> dict[str, Any]:
        """The fields of vks_surface_body that follow from these."""
        return {**self.drawable, "tiling": TILINGS.index((self.tiling, self.in_device_memory))}

    @property
    def drawable(self) -> dict[str, Any]:
        """The fields of vks_drawable_info that follow from these."""
        usage = sum(1 << USAGES.index(word) for word in self.usage)
        size = {"width": self.width, "height": self.height}
        return {**size, "format": self.format.code, "usage": usage, "color": self.color.codes}

    def __str__(self) -> str:
        return f"{self.width}x{self.height} {self.format.name} {self.tiling} surface"


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """Properties that the exporter and the importer of a buffer must agree on exactly."""

    nbytes: int
    usage: frozenset[str]  # of BUFFER_USAGES

    @property
    def body(self) -> dict[str, int]:
        """The fields of vks_surface_body that follow from these."""
        usage = sum(1 << BUFFER_USAGES.index(word) for word in self.usage)
        return {
            "width": self.nbytes & 0xFFFFFFFF,
            "height": self.nbytes >> 32,
            "format": 0,
            "tiling": _BUFFER_TILING,
            "usage": usage,
        }

    @property
    def drawable(self) -> dict[str, int]:
        """The fields of vks_drawable_info that follow from these."""
        return {"size": self.nbytes, "usage": _USE_BYTES if "copy" in self.usage else 0}

    def __str__(self) -> str:
        return f"buffer of {self.nbytes} bytes"


Spec = ImageSpec | BufferSpec


class PlaneLayout(NamedTuple):
    """Where a plane's rows are, in bytes."""

    offset: int  # of its first row, from the image's first
    stride: int  # from row to row


@dataclass(frozen=True, slots=True)
class MemoryHandle:
    """The exported memory of an image or a buffer, as a descriptor carries it. This object's owner owns the fd."""

    kind: str  # "opaque_fd" | "memfd"
    fd: int
    size: int
    offset: int
    stride: int  # bytes from row to row; 0 for optimal tiling
    dedicated: bool
    device_uuid: bytes
    driver_uuid: bytes


def layouts(*, is_depth: bool) -> tuple[str, ...]:
    """Return the layouts of an engine's image between two uses: VkImageLayout in lower case, without its prefix."""
    return (
        "general",
        "undefined",
        "preinitialized",
        "depth_stencil_attachment_optimal" if is_depth else "color_attachment_optimal",
        "shader_read_only_optimal",
        "transfer_src_optimal",
        "transfer_dst_optimal",
    )


@dataclass(frozen=True, slots=True)
class AdoptedImageInfo:
    """An engine's description of its own image."""

    image: int  # VkImage
    layout: str  # one of layouts()
    memory: int  # VkDeviceMemory that can be exported; 0: none


class Memory(Protocol):
    """The common part of images and buffers. Not thread-safe; the Surface or Buffer that holds it is its owner."""

    stride: int  # bytes from row to row; 0 for optimal tiling, and of a buffer
    ownership_commands: tuple[int, ...]  # VkCommandBuffers, acquire and release, a pair by queue; 0 on the CPU backend
    initial_commands: int  # VkCommandBuffer before the first use, of an image that the queue owns already; 0: none
    drawable: Drawable  # the same, for the commands that use it; closed before the image is destroyed

    def pixels(self) -> memoryview | None:
        """The mapped memory from row 0, stride bytes a row, writable; None where the CPU cannot see it."""

    def check_export(self) -> None:
        """UnsupportedError where export() would be one."""

    def export(self) -> MemoryHandle: ...

    def destroy(self) -> None:
        """Frees everything now: the caller has seen to it that nothing runs on it. Idempotent."""


# Why an image over an array is not exported, and what to do.
ARRAY_NOT_EXPORTED = (
    "its memory is an array's, for which there is no fd",
    "pass copy=True to share_array(), which makes a surface of its own",
)


class Image(Memory, Protocol):
    """An image and its memory."""

    spec: ImageSpec
    image: int  # VkImage, 0 on the CPU backend
    image_view: int  # VkImageView, 0 on the CPU backend

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """Where the rows of each plane are; strides are 0 where memory has none."""


class BufferMemory(Memory, Protocol):
    """A buffer and its memory."""

    spec: BufferSpec
    buffer: int  # VkBuffer, 0 on the CPU backend


class AdoptedImage(Image, Protocol):
    """An engine's own image."""

    def at_end(self, call: Callable[[], object]) -> None:
        """Has `call` called once, when the image is used no more. Its errors are logged."""


def has_tight_rows(spec: ImageSpec, planes: Iterable[PlaneLayout]) -> bool:
    """Return whether no plane has bytes between its rows."""
    return all(
        own.stride == each.width * each.format.bytes_per_pixel for own, each in zip(planes, spec.planes(), strict=True)
    )


def tight_rows_refused(spec: ImageSpec, stride: int, row_alignment: int, where: str) -> UnsupportedError:
    """Return the error for rows of `stride` bytes where rows without padding are wanted."""
    pixel = spec.format.bytes_per_pixel
    narrow = spec.format.chroma[0] if len(spec.format.planes) == 3 else 1  # rows of chroma have fewer bytes
    step = row_alignment // math.gcd(row_alignment, pixel) * narrow
    nearest = -(-spec.width // step) * step if step else 0
    return UnsupportedError(
        f'a {spec.width}x{spec.height} {spec.format.name} surface with stride="tight"',
        f"a row is {spec.width * pixel} bytes, and on {where} rows are {stride} bytes apart",
        f"widths that are multiples of {step} need no padding, such as {nearest}" if step else "",
    )


class Stage(Protocol):
    """Host memory of tightly packed rows and the command buffer that copies it to or from one image or buffer."""

    data: memoryview
    command_buffer: int  # VkCommandBuffer: memory -> data, or data -> memory when made with upload=True
    transfer_buffer: int  # the same for the transfer queue; 0 where there is none
    relayed: bytes  # in place of command buffers: the request of a device with a relay; b"": none

    def destroy(self) -> None: ...


_Temporary = TypeVar("_Temporary", bound=Memory | Stage)


@contextlib.contextmanager
def temporary(thing: _Temporary) -> Iterator[_Temporary]:
    """Destroys an image or a stage at the end of the block."""
    try:
        yield thing
    finally:
        thing.destroy()


class Backend(Protocol):
    adapter: Adapter

    def native_handles(self) -> dict[str, Any] | None:
        """The `vulkan` argument of DeviceCore; None for the CPU backend."""

    def engine_handles(self) -> dict[str, Any]:
        """The fields of core.vulkan_handles.Handles, without the lock. UnsupportedError on the CPU backend."""

    def create_image(self, spec: ImageSpec, *, is_tight: bool = False) -> Image:
        """Makes an image of zeros. `is_tight`: its rows have no padding, or it is an UnsupportedError."""

    def open_image(self, spec: ImageSpec, memory: MemoryHandle) -> Image:
        """Takes over memory.fd, also on failure. DeviceMismatchError, DescriptorError, UnsupportedError."""

    def import_memory(self, spec: ImageSpec, memory: MemoryHandle) -> Image:
        """Makes an image in memory that another API allocated. memory.fd stays the caller's. Errors as open_image().

        UUIDs are those of the adapter, where the caller names none; a stride of 0 is the adapter's.
        """

    def adopt_image(self, spec: ImageSpec, info: AdoptedImageInfo) -> AdoptedImage:
        """Makes an Image of an engine's own. UnsupportedError, also on the CPU backend."""

    def share_array(self, spec: ImageSpec, stride: int, memory: memoryview) -> Image:
        """Makes a linear image over an array's memory, which it keeps alive. ValueError, UnsupportedError."""

    def create_buffer(self, spec: BufferSpec) -> BufferMemory:
        """Makes a buffer of zeros. ValueError: it is larger than the driver allows. UnsupportedError."""

    def open_buffer(self, spec: BufferSpec, memory: MemoryHandle) -> BufferMemory:
        """As open_image()."""

    def open_file(self, spec: BufferSpec, fd: int) -> BufferMemory:
        """Makes a buffer over a sealed memfd, another driver's perhaps, which stays the caller's.

        DescriptorError, UnsupportedError.
        """

    def compile(self, commands: Recording, missing: tuple[int, int] | None) -> None:
        """Makes what C lacks to compile the list: the device's Recorder (None), or a pipeline.

        `missing` is the pipeline's number and the code of the target's format. Called from any
        thread, one at a time (the Device locks).
        """

    def refuse_feature(self, spec: ImageSpec, feature: int, *, is_blit: bool) -> None:
        """UnsupportedError: the driver lacks a vks_feature for such an image."""

    def stage(self, nbytes: int, memory: Memory, *, upload: bool) -> Stage:
        """Host memory beside an image or a buffer that the CPU cannot see: how read() and write() work there."""

    def close(self) -> None:
        """After _native.Device._shutdown(): destroys what is left."""
